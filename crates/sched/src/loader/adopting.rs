//! Tasks that come to a scheduler of batch alone, and leave it: what it says of them, and what is done.

use super::{Event, Scheduler};
use crate::Error;
use crate::adopt::{Adopter, threads};
use crate::bpf::{OpenBpfProgs, bytes_of, from_bytes, intf};
use crate::error::load_error;
use libbpf_rs::{Iter, ProgramInput};
use std::collections::BTreeSet;
use std::io::Read;
use std::time::{Duration, Instant};

/// Says whether the programs are loaded that see what tasks become.
pub(super) fn autoload(progs: &mut OpenBpfProgs, wanted: bool) {
    progs.sidelane_adopt_fork.set_autoload(wanted);
    progs.sidelane_adopt_exec.set_autoload(wanted);
    progs.sidelane_adopt_move.set_autoload(wanted);
    progs.sidelane_adopt_rename.set_autoload(wanted);
    progs.sidelane_adopt_look.set_autoload(wanted);
    progs.sidelane_adopt_call.set_autoload(wanted);
}

/// How often all tasks are looked at: for what has no event.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// When that is due.
#[derive(Default)]
pub(super) struct Looks {
    last: Option<Instant>,
}

impl Looks {
    /// At once.
    pub fn again(&mut self) {
        self.last = None;
    }

    fn is_due(&mut self) -> bool {
        let due = self.last.is_none_or(|at| at.elapsed() >= LOOK_AGAIN);
        if due {
            self.last = Some(Instant::now());
        }
        due
    }
}

impl Scheduler<'_> {
    /// New names of threads are told only if rules look at them.
    pub(super) fn follow_names(&mut self) {
        let looks = |rule: &intf::rule| rule.kind == intf::rule_kind_RULE_COMM;
        if !self.rules.iter().any(looks) {
            self.skel.links.sidelane_adopt_rename = None;
        }
    }

    /// Sees to tasks that are not what rules want them to be.
    pub(super) fn adopt(
        &mut self,
        adopter: &mut Adopter,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), Error> {
        if !self.config.scheduler.only_batch() {
            return Ok(());
        }
        for tid in self.told() {
            adopter.act(tid, false, &|call| self.ask(call));
        }
        if !self.looks.is_due() {
            return Ok(());
        }
        for tid in adopter.kept() {
            adopter.act(tid, false, &|call| self.ask(call));
        }
        for found in self.look()? {
            adopter.act(found.pid, found.waits > 0, &|call| self.ask(call));
        }
        for tid in adopter.due() {
            adopter.act(tid, false, &|call| self.ask(call));
        }
        adopter
            .looked()
            .into_iter()
            .for_each(|news| on_event(Event::Tasks(news)));
        Ok(())
    }

    /// The ledger gets what was born since the last look: later nobody knows from what.
    pub(super) fn adopt_no_more(&self, adopter: &mut Adopter) {
        adopter.ends();
        if !self.config.scheduler.only_batch() {
            return;
        }
        // without it ancestors tell
        for found in self.look().unwrap_or_default() {
            adopter.act(found.pid, false, &|call| self.ask(call));
        }
    }

    /// The threads that events are about, each once.
    fn told(&self) -> BTreeSet<u32> {
        let events = self
            .events
            .iter()
            .flat_map(|(_, told)| told.tasks.try_iter());
        let mut told = BTreeSet::new();
        for event in events {
            told.insert(event.pid);
            if event.all_threads > 0 {
                told.extend(threads(event.pid));
            }
        }
        told
    }

    /// Tasks of which something differs.
    fn look(&self) -> Result<Vec<intf::adopt_event>, Error> {
        const SIZE: usize = size_of::<intf::adopt_event>();
        let Some(link) = &self.skel.links.sidelane_adopt_look else {
            return Ok(Vec::new());
        };
        let mut bytes = Vec::new();
        let looked = Iter::new(link).map_err(load_error("look at tasks for"))?;
        let read = { looked }.read_to_end(&mut bytes);
        read.map_err(load_error("look at tasks for"))?;
        Ok(bytes.chunks_exact(SIZE).filter_map(from_bytes).collect())
    }

    /// Asks the scheduler about a task; without an answer there is no such task.
    fn ask(&self, call: &mut intf::adopt_call) {
        let mut bytes = bytes_of(call).to_vec();
        let input = ProgramInput {
            context_in: Some(&mut bytes),
            ..ProgramInput::default()
        };
        let done = self.skel.progs.sidelane_adopt_call.test_run(input);
        if done.is_ok()
            && let Some(answer) = from_bytes(&bytes)
        {
            *call = answer;
        }
    }
}
