//! Batch tasks become tasks of the scheduler's where it has batch alone, and get back what they had.
//!
//! The scheduler says which tasks are not what rules want them to be (`core/adopt.bpf.h`); here their policies are changed,
//! for each thread, after the [ledger](ledger) has what they had. What is done with a task is [decided](decide) anew when it is
//! its turn, by what the scheduler answers then.

mod decide;
mod ledger;
mod lent;
mod news;
mod policy;
mod restore;

pub use ledger::Adopted;
pub(crate) use ledger::{BOOT, PATH, adopted, count};
pub use news::News;
pub(crate) use policy::{numbers_are_the_scheduler_s, started};
pub(crate) use restore::threads;

use crate::Error;
use crate::bpf::{intf, zeroed};
use decide::{Action, Known, State, decide};
use ledger::{Entry, Ledger};
use lent::Loans;
use news::Tally;
use policy::{ADOPTED_NICE, EXT, Had, IDLE, Tid};
use std::path::{Path, PathBuf};

/// The scheduler: answers a question about a task, and notes what is done with it.
pub(crate) type Ask<'a> = &'a dyn Fn(&mut intf::adopt_call);

/// A task, as the scheduler answered.
#[derive(Clone, Copy)]
struct Task {
    tid: Tid,
    /// As it was answered, ns; and in the clock ticks of `/proc`.
    start_ns: u64,
    start: u64,
    state: State,
    had: Option<Had>,
    policy: u32,
    batch: bool,
}

impl Task {
    fn of(tid: Tid, ask: Ask) -> Option<Task> {
        let mut call = intf::adopt_call {
            pid: tid,
            ..zeroed()
        };
        ask(&mut call);
        (call.found > 0).then_some(Task {
            tid,
            start_ns: call.start_ns,
            start: policy::ticks(call.start_ns),
            state: State::of_native(call.adoption),
            had: Had::of_native(call.had),
            policy: call.policy,
            batch: call.batch > 0,
        })
    }

    /// Has the scheduler note a state; false: the task has ended.
    fn note(&self, state: State, had: Had, ask: Ask) -> bool {
        let mut call = intf::adopt_call {
            start_ns: self.start_ns,
            pid: self.tid,
            set: 1,
            adoption: state.native(),
            had: had.native(),
            ..zeroed()
        };
        ask(&mut call);
        call.found > 0 && call.start_ns == self.start_ns
    }
}

/// The tasks that were adopted, from one attachment to the next.
pub(crate) struct Adopter {
    path: PathBuf,
    ledger: Option<Ledger>,
    loans: Loans,
    tally: Tally,
    /// The scheduler is a new one: it knows nothing of tasks that are in the ledger.
    takes_over: bool,
    /// Nothing is adopted any more.
    ends: bool,
}

impl Adopter {
    /// With nothing adopted.
    pub fn new() -> Adopter {
        Adopter {
            path: PATH.into(),
            ledger: None,
            loans: Loans::default(),
            tally: Tally::default(),
            takes_over: false,
            ends: false,
        }
    }

    /// A scheduler of batch alone is about to be attached.
    pub fn begin(&mut self) -> Result<(), Error> {
        if numbers_are_the_scheduler_s(Path::new("/proc")).is_ok_and(|same| !same) {
            return Err(Error::PidNamespace);
        }
        (self.takes_over, self.ends) = (true, false);
        if self.ledger.is_none() {
            self.ledger = Some(Ledger::hold(&self.path)?);
        }
        Ok(())
    }

    /// From now on nothing is adopted.
    pub fn ends(&mut self) {
        self.ends = true;
    }

    /// All tasks get back what they had, for no scheduler of batch alone follows.
    pub fn end(&mut self) -> Result<Option<News>, Error> {
        self.loans = Loans::default();
        let Some(ledger) = &mut self.ledger else {
            return Ok(None);
        };
        let news = give_all_back(ledger)?; // if that fails, what they had is still known
        self.ledger = None;
        Ok(news)
    }

    /// Tasks of which a scheduler that was just attached is to be told, whether they differ from what they should be or not.
    pub fn kept(&self) -> Vec<Tid> {
        let ledger = self.ledger.as_ref().filter(|_| self.takes_over);
        ledger.map_or(Vec::new(), |ledger| ledger.tids().collect())
    }

    /// Tasks that were lent for long enough.
    pub fn due(&mut self) -> Vec<Tid> {
        self.loans.due()
    }

    /// All tasks were looked at: what there is to be told.
    pub fn looked(&mut self) -> Vec<News> {
        self.tally.take(std::mem::take(&mut self.takes_over))
    }

    /// Makes a task what it is to be. `waits`: others keep it from its lanes for too long.
    pub fn act(&mut self, tid: Tid, waits: bool, ask: Ask) {
        let Some(mut task) = Task::of(tid, ask) else {
            self.loans.forget(tid);
            return;
        };
        if self.takes_over && task.state == State::Not {
            self.take_over(&mut task, ask);
        }
        let action = decide(Known {
            state: task.state,
            policy: task.policy,
            batch: task.batch,
            waits,
            due: self.loans.is_due(tid),
        });
        let done = match action {
            Action::Nothing => Ok(()),
            Action::Adopt if self.ends => Ok(()),
            Action::Adopt => self.adopt(&task, ask),
            Action::Find => self.find(&task, ask),
            Action::Enter => self.enter(&task, task.had.unwrap_or(Had::LEAST), ask),
            Action::GiveBack => self.give_back(&task, ask),
            Action::Respect => self.respect(&task, ask),
            Action::Forget => self.let_go(&task, ask),
            Action::Lend => self.lend(&task, ask),
            Action::TakeBack => self.take_back(&task, ask),
        };
        if let Err(failure) = done
            && !failure.is_gone()
        {
            self.tally.fails(tid, failure.to_string());
        }
    }

    fn ledger(&mut self) -> Result<&mut Ledger, Failure> {
        self.ledger.as_mut().ok_or(Failure::NoLedger)
    }

    /// What was adopted under an earlier attachment still is.
    fn take_over(&self, task: &mut Task, ask: Ask) {
        let entry = (self.ledger.as_ref()).and_then(|ledger| ledger.get(task.tid, task.start));
        let Some(entry) = entry else {
            return;
        };
        if entry.is_given_back(task.policy) {
            return;
        }
        let state = match entry.lent {
            _ if entry.is_left() => State::Left,
            true => State::Lent,
            false => State::Adopted,
        };
        // rules may look at what it had, which the scheduler knows from now on
        if task.note(state, entry.had, ask)
            && let Some(again) = Task::of(task.tid, ask)
        {
            *task = again;
        }
    }

    fn adopt(&mut self, task: &Task, ask: Ask) -> Result<(), Failure> {
        if restore::is_own(task.tid) {
            return Ok(()); // a task that gives lanes to others does not wait for one
        }
        let had = policy::get(task.tid)?;
        if had.policy != task.policy {
            return Ok(()); // just now: the next look sees to it
        }
        self.put(task, had, false)?;
        if task.note(State::Adopted, had, ask) {
            match policy::set(task.tid, ADOPTED) {
                Ok(()) => self.tally.adopted += 1,
                Err(error) => {
                    task.note(State::Not, had, ask);
                    self.ledger()?.remove(task.tid)?;
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    fn put(&mut self, task: &Task, had: Had, lent: bool) -> Result<(), Failure> {
        let start = task.start;
        let entry = Entry { start, had, lent };
        Ok(self.ledger()?.put(task.tid, entry)?)
    }

    /// It is the scheduler's by its own choice, or by an ancestor's of which the scheduler does not know.
    fn find(&mut self, task: &Task, ask: Ask) -> Result<(), Failure> {
        let ledger = self.ledger()?;
        let entry = ledger.get(task.tid, task.start);
        let entry = entry.or_else(|| restore::inherited(ledger, task.tid));
        let own = Had {
            policy: EXT,
            nice: 0,
        };
        self.enter(task, entry.map_or(own, |entry| entry.had), ask)
    }

    fn enter(&mut self, task: &Task, had: Had, ask: Ask) -> Result<(), Failure> {
        let lent = task.state == State::LentBorn;
        self.put(task, had, lent)?;
        let state = match lent {
            _ if had.policy == EXT => State::Left,
            true => State::Lent,
            false => State::Adopted,
        };
        if lent {
            self.loans.lend(task.tid);
        }
        task.note(state, had, ask);
        Ok(())
    }

    fn give_back(&mut self, task: &Task, ask: Ask) -> Result<(), Failure> {
        let kept = self.ledger()?.get(task.tid, task.start);
        let had = kept.map(|entry| entry.had).or(task.had);
        let had = had.unwrap_or(Had::LEAST);
        if had.policy == EXT {
            return self.enter(task, had, ask);
        }
        let now = policy::get(task.tid)?;
        policy::set(task.tid, restore::with_its_own_nice(had, now))?;
        self.forget(task, State::Not, ask)
    }

    fn respect(&mut self, task: &Task, ask: Ask) -> Result<(), Failure> {
        self.tally.respects(task.tid);
        self.forget(task, State::Left, ask)?;
        // the next attachment leaves it alone, too
        let left = Had {
            policy: EXT,
            nice: 0,
        };
        self.put(task, left, false)
    }

    /// Its policy stays. The nice value is the scheduler's, unless it was given one meanwhile; so it is with a copy that the kernel
    /// made of a task just as that was given back.
    fn let_go(&mut self, task: &Task, ask: Ask) -> Result<(), Failure> {
        let now = policy::get(task.tid)?;
        let wanted = restore::with_its_own_nice(task.had.unwrap_or(now), now).nice;
        if wanted != now.nice {
            policy::set_nice(task.tid, wanted)?;
        }
        self.forget(task, State::Not, ask)
    }

    fn forget(&mut self, task: &Task, state: State, ask: Ask) -> Result<(), Failure> {
        // what it had stays with it: a child may be on its way
        task.note(state, task.had.unwrap_or(Had::LEAST), ask);
        self.loans.forget(task.tid);
        Ok(self.ledger()?.remove(task.tid)?)
    }

    fn lend(&mut self, task: &Task, ask: Ask) -> Result<(), Failure> {
        let had = task.had.unwrap_or(Had::LEAST);
        self.put(task, had, true)?;
        // first: a child that is born meanwhile is known to be lent, or to be the scheduler's
        task.note(State::Lent, had, ask);
        if let Err(error) = policy::set(task.tid, LENT) {
            task.note(State::Adopted, had, ask);
            self.put(task, had, false)?;
            return Err(error.into());
        }
        self.loans.lend(task.tid);
        self.tally.lent += 1;
        Ok(())
    }

    fn take_back(&mut self, task: &Task, ask: Ask) -> Result<(), Failure> {
        let had = task.had.unwrap_or(Had::LEAST);
        policy::set(task.tid, ADOPTED)?;
        task.note(State::Adopted, had, ask);
        self.put(task, had, false)?;
        self.loans.returned(task.tid);
        Ok(())
    }
}

/// What adopted tasks have.
const ADOPTED: Had = Had {
    policy: EXT,
    nice: ADOPTED_NICE,
};
/// What they have while they are lent.
const LENT: Had = Had {
    policy: IDLE,
    nice: ADOPTED_NICE,
};

/// Why nothing was done with a task.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Kernel(#[from] std::io::Error),
    #[error("{0}")]
    Ledger(#[from] Error),
    #[error("no ledger is held")]
    NoLedger,
}

impl Failure {
    /// The task has ended meanwhile.
    fn is_gone(&self) -> bool {
        matches!(self, Failure::Kernel(error) if error.raw_os_error() == Some(libc::ESRCH))
    }
}

/// All tasks of the ledger, and what they made, get back what they had.
fn give_all_back(ledger: &mut Ledger) -> Result<Option<News>, Error> {
    let restored = restore::restore(ledger);
    let why = match restored.failed {
        Some(error) => error.to_string(),
        None if restored.endless => "more and more of them come".to_owned(),
        None => {
            ledger.clear()?;
            let tasks = restored.tasks;
            return Ok((tasks > 0).then_some(News::Restored { tasks }));
        }
    };
    Err(Error::NotRestored { why })
}

/// Gives all tasks back what they had that a scheduler of batch alone left with its policy when it crashed. What was done; none: there
/// was nothing to do.
///
/// # Errors
/// Such a scheduler runs, the ledger cannot be read, or the kernel refuses to change a task.
pub fn restore() -> Result<Option<News>, Error> {
    restore_at(Path::new(PATH))
}

fn restore_at(path: &Path) -> Result<Option<News>, Error> {
    match path.exists() {
        true => give_all_back(&mut Ledger::hold(path)?),
        false => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_ledger_there_is_nothing_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/adopted");
        assert_eq!(restore_at(&path).unwrap(), None);
        assert!(!path.exists());
    }

    #[test]
    fn a_ledger_of_tasks_that_have_ended_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("adopted");
        let mut ledger = Ledger::hold(&path).unwrap();
        let entry = Entry {
            start: 0,
            had: Had::LEAST,
            lent: false,
        };
        ledger.put(std::process::id(), entry).unwrap();
        drop(ledger);
        assert!(path.exists());
        assert_eq!(restore_at(&path).unwrap(), None);
        assert!(!path.exists());
    }
}
