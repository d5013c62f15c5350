//! What is told of the scheduler: whether one is attached, what it counted, what became of objectives and pools.
//!
//! Counters are sums of increments from this program's start on, over all attachments. What an attachment counted between the last
//! look and its end is read from its maps, which stay as long as they are held here; so is why it ended.

use sidelane_kernel::pools::PoolState;
use sidelane_kernel::{Error, attached};
use sidelane_policy::intf::counters;
use sidelane_sched::ExitReason;
use sidelane_sched::stats::{InForce, ObjectiveState, Reader, Whose};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// The sched_ext scheduler that is attached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attached {
    /// Its name; none: there is none.
    pub name: Option<String>,
    /// How many were attached since boot; 0 where the kernel does not tell.
    pub seq: u64,
}

/// A reading of Sidelane's scheduler; totals are since it was attached.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Its counters.
    pub counters: counters,
    /// Objectives that have had a window.
    pub objectives: Vec<ObjectiveState>,
    /// Its pools.
    pub pools: Vec<PoolState>,
}

/// Where readings come from: the kernel, or a test.
pub trait Source {
    /// Which scheduler is attached.
    fn attached(&self) -> Attached;
    /// Finds what Sidelane's scheduler, which is attached, counts.
    ///
    /// # Errors
    /// It cannot be read.
    fn open(&self) -> Result<Box<dyn Attachment>, Error>;
}

/// One attachment of Sidelane's scheduler. It can be read also after it has ended.
pub trait Attachment {
    /// A number that no other attachment has.
    fn id(&self) -> u32;
    /// When it began, if that is known.
    fn began(&self) -> Option<SystemTime>;
    /// What it counted.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&self) -> Result<Reading, Error>;
    /// Its settings, while it is attached.
    ///
    /// # Errors
    /// They cannot be read.
    fn in_force(&self) -> Result<InForce, Error>;
    /// Why it ended, if it has.
    fn exit_reason(&self) -> Option<ExitReason>;
}

/// The kernel's own account.
pub struct Kernel;

impl Source for Kernel {
    fn attached(&self) -> Attached {
        Attached {
            name: attached::name(),
            seq: attached::enable_seq(),
        }
    }

    fn open(&self) -> Result<Box<dyn Attachment>, Error> {
        Ok(Box::new(Reader::open()?))
    }
}

impl Attachment for Reader {
    fn id(&self) -> u32 {
        Reader::id(self)
    }

    fn began(&self) -> Option<SystemTime> {
        self.loaded()
    }

    fn read(&self) -> Result<Reading, Error> {
        Ok(Reading {
            counters: self.last()?,
            objectives: self.objectives()?,
            pools: self.pools()?,
        })
    }

    fn in_force(&self) -> Result<InForce, Error> {
        Reader::in_force(self)
    }

    fn exit_reason(&self) -> Option<ExitReason> {
        Reader::exit_reason(self)
    }
}

/// How an attachment ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// In good order.
    Stopped,
    /// Because lanes came or went: its loader attaches it again.
    Restarted,
    /// By the kernel: a task waited for too long, an error, SysRq-S.
    Ejected,
    /// Nobody knows.
    Unknown,
}

impl Exit {
    /// All of them.
    pub const ALL: [Exit; 4] = [Exit::Stopped, Exit::Restarted, Exit::Ejected, Exit::Unknown];

    /// As a label's value.
    pub fn name(self) -> &'static str {
        match self {
            Exit::Stopped => "stopped",
            Exit::Restarted => "restarted",
            Exit::Ejected => "ejected",
            Exit::Unknown => "unknown",
        }
    }

    fn of(reason: Option<&ExitReason>) -> Exit {
        match reason {
            None => Exit::Unknown,
            Some(reason) if !reason.is_graceful() => Exit::Ejected,
            Some(reason) if reason.asks_for_restart() => Exit::Restarted,
            Some(_) => Exit::Stopped,
        }
    }
}

/// The end of an attachment.
#[derive(Clone, Debug)]
pub struct LastExit {
    /// How it ended.
    pub how: Exit,
    /// The kernel's short reason, possibly empty.
    pub reason: String,
    /// When that was seen.
    pub at: SystemTime,
}

/// A total that only ascends, of a count that may begin anew.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum {
    total: u64,
    last: u64,
}

impl Sum {
    /// The total.
    pub fn total(self) -> u64 {
        self.total
    }

    /// Takes what is counted now; `from_now`: what was counted before is not for this total.
    fn take(&mut self, now: u64, from_now: bool) {
        let gained = match now.checked_sub(self.last) {
            Some(gained) => gained,
            None => now, // it began anew
        };
        self.total += if from_now { 0 } else { gained };
        self.last = now;
    }
}

/// Totals of an objective.
#[derive(Clone, Copy, Debug, Default)]
pub struct ObjectiveSums {
    /// Windows.
    pub windows: Sum,
    /// Those whose tail was beyond the objective.
    pub missed: Sum,
}

/// Totals of a pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct PoolSums {
    /// Time on lanes, ns.
    pub raw_ns: Sum,
    /// MT1-equivalent time of that, ns.
    pub mt1_ns: Sum,
    /// Periods.
    pub periods: Sum,
    /// Those in which a task was held.
    pub throttled_periods: Sum,
    /// Time in which any was held, ns.
    pub throttled_ns: Sum,
}

/// Sums over all attachments.
#[derive(Debug, Default)]
pub struct Sums {
    /// The scheduler's counters.
    pub counters: counters,
    last: counters,
    /// By what has the objective; of labels those that there were at the last reading.
    pub objectives: BTreeMap<Whose, ObjectiveSums>,
    /// By cgroup: pools that there were at the last reading.
    pub pools: BTreeMap<String, PoolSums>,
}

impl Sums {
    fn take(&mut self, now: &Reading, from_now: bool) {
        let gained = now.counters.since(&self.last);
        if !from_now {
            self.counters = self.counters.plus(&gained);
        }
        self.last = now.counters;
        // labels of cgroups come and go: one that is gone is forgotten, a rule is not
        let mut before = std::mem::take(&mut self.objectives);
        for objective in &now.objectives {
            let mut sums = before.remove(&objective.of).unwrap_or_default();
            sums.windows.take(objective.windows, from_now);
            sums.missed.take(objective.missed, from_now);
            self.objectives.insert(objective.of.clone(), sums);
        }
        before.retain(|of, _| matches!(of, Whose::Rule(_)));
        self.objectives.append(&mut before);
        // pools of containers come and go: one that is gone is forgotten
        let mut before = std::mem::take(&mut self.pools);
        for pool in &now.pools {
            let mut sums = before.remove(&pool.cgroup).unwrap_or_default();
            sums.raw_ns.take(pool.raw_ns, from_now);
            sums.mt1_ns.take(pool.mt1_ns, from_now);
            sums.periods.take(pool.periods, from_now);
            (sums.throttled_periods).take(pool.throttled_periods, from_now);
            sums.throttled_ns.take(pool.throttled_ns, from_now);
            self.pools.insert(pool.cgroup.clone(), sums);
        }
    }

    /// The next reading is of another attachment, which counts from 0.
    fn next_attachment(&mut self) {
        self.last = counters::default();
        for sums in self.objectives.values_mut() {
            (sums.windows.last, sums.missed.last) = (0, 0);
        }
        for sums in self.pools.values_mut() {
            let all = [
                &mut sums.raw_ns,
                &mut sums.mt1_ns,
                &mut sums.periods,
                &mut sums.throttled_periods,
                &mut sums.throttled_ns,
            ];
            all.into_iter().for_each(|sum| sum.last = 0);
        }
    }
}

/// What can be told of Sidelane's scheduler while it is attached.
#[derive(Clone, Debug)]
pub struct Now {
    /// When it was attached, if that is known.
    pub began: Option<SystemTime>,
    /// Its settings.
    pub in_force: InForce,
    /// Objectives and pools, as they are.
    pub reading: Reading,
}

struct Current {
    attachment: Box<dyn Attachment>,
    began: Option<SystemTime>,
}

/// The scheduler from look to look.
pub struct Scheduler<S> {
    source: S,
    pub(crate) seen: Attached,
    current: Option<Current>,
    /// Nothing was looked at before.
    first: bool,
    pub(crate) now: Option<Now>,
    pub(crate) sums: Sums,
    pub(crate) attaches: u64,
    pub(crate) exits: BTreeMap<Exit, u64>,
    pub(crate) last_exit: Option<LastExit>,
    told: Option<String>,
}

impl<S: Source> Scheduler<S> {
    /// Counts from now on.
    pub fn new(source: S) -> Scheduler<S> {
        Scheduler {
            source,
            seen: Attached::default(),
            current: None,
            first: true,
            now: None,
            sums: Sums::default(),
            attaches: 0,
            exits: BTreeMap::new(),
            last_exit: None,
            told: None,
        }
    }

    /// Looks if another scheduler is attached than at the last look. Much less work than [`Scheduler::look`]: to be called often, so
    /// that none is missed that is gone soon.
    pub fn watch(&mut self, tell: &mut dyn FnMut(&str)) {
        if self.first || self.source.attached() != self.seen {
            self.look(tell);
        }
    }

    /// Reads all. `tell` hears once what cannot be read.
    pub fn look(&mut self, tell: &mut dyn FnMut(&str)) {
        let seen = self.source.attached();
        let ours = seen.name.as_deref().is_some_and(attached::is_ours);
        let same = seen.seq == self.seen.seq && self.current.is_some();
        let followed = match (ours, same) {
            (false, _) => {
                self.end();
                Ok(())
            }
            (true, true) => Ok(()),
            (true, false) => self.follow(),
        };
        self.seen = seen;
        self.now = None;
        let read = followed.and_then(|()| self.read());
        self.first = false;
        let problem = read.err().map(|error| error.to_string());
        if let Some(problem) = &problem
            && self.told.as_ref() != Some(problem)
        {
            tell(&format!(
                "nothing is told of the scheduler but that it is attached: {problem}"
            ));
        }
        self.told = problem.or(self.told.take());
    }

    /// Finds the scheduler that is attached now.
    fn follow(&mut self) -> Result<(), Error> {
        let attachment = match self.source.open() {
            Ok(attachment) => attachment,
            Err(error) => {
                self.end();
                return Err(error);
            }
        };
        let current = self.current.as_ref();
        // it may have been found while it was being attached, before the kernel counted it
        if current.is_some_and(|current| current.attachment.id() == attachment.id()) {
            return Ok(());
        }
        self.end();
        self.attaches += u64::from(!self.first);
        self.current = Some(Current {
            began: attachment.began(),
            attachment,
        });
        Ok(())
    }

    /// The scheduler that was attached is no more.
    fn end(&mut self) {
        let Some(ended) = self.current.take() else {
            return;
        };
        if let Ok(last) = ended.attachment.read() {
            self.sums.take(&last, false);
        }
        self.sums.next_attachment();
        let reason = ended.attachment.exit_reason();
        let how = Exit::of(reason.as_ref());
        *self.exits.entry(how).or_default() += 1;
        self.last_exit = Some(LastExit {
            how,
            reason: reason.map_or(String::new(), |reason| reason.reason),
            at: SystemTime::now(),
        });
    }

    fn read(&mut self) -> Result<(), Error> {
        let Some(current) = &self.current else {
            return Ok(());
        };
        let reading = current.attachment.read()?;
        let in_force = current.attachment.in_force()?;
        self.sums.take(&reading, self.first);
        self.now = Some(Now {
            began: current.began,
            in_force,
            reading,
        });
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use sidelane_policy::{Borrow, Budget, Charge, Polarization, Scope};
    use sidelane_sched::stats::Adopted;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// A kernel, and what its scheduler has counted.
    #[derive(Clone)]
    pub(crate) struct Machine(Rc<RefCell<State>>);

    struct State {
        attached: Attached,
        id: u32,
        refuses: bool,
        reading: Reading,
        exit: Option<ExitReason>,
    }

    /// An attachment, whose maps nobody else changes any more once another has begun.
    struct Maps {
        id: u32,
        machine: Machine,
        last: RefCell<Option<Reading>>,
    }

    impl Source for Machine {
        fn attached(&self) -> Attached {
            self.0.borrow().attached.clone()
        }

        fn open(&self) -> Result<Box<dyn Attachment>, Error> {
            let state = self.0.borrow();
            match state.refuses {
                true => Err(Error::Running("its maps have another layout".to_owned())),
                false => Ok(Box::new(Maps {
                    id: state.id,
                    machine: self.clone(),
                    last: RefCell::new(None),
                })),
            }
        }
    }

    impl Attachment for Maps {
        fn id(&self) -> u32 {
            self.id
        }

        fn began(&self) -> Option<SystemTime> {
            Some(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1000))
        }

        fn read(&self) -> Result<Reading, Error> {
            let state = self.machine.0.borrow();
            if state.id == self.id {
                *self.last.borrow_mut() = Some(state.reading.clone());
            }
            Ok(self.last.borrow().clone().unwrap())
        }

        fn in_force(&self) -> Result<InForce, Error> {
            Ok(InForce {
                scope: Scope::Batch,
                smt_level: 2,
                budget: Budget::limited(Borrow::Fixed, 5_000_000),
                polarization: Polarization::Vertical,
                cores_awake: Some(3),
                threads: Some(Adopted {
                    adopted: 7,
                    lent: 1,
                }),
            })
        }

        fn exit_reason(&self) -> Option<ExitReason> {
            self.machine.0.borrow().exit.clone()
        }
    }

    const OURS: &str = "sidelane_0.1.0";

    impl Machine {
        /// With Sidelane's scheduler, which has counted a little.
        pub(crate) fn new() -> Machine {
            let pool = PoolState {
                cgroup: "/tenants/\"a\"".to_owned(),
                charge: Charge::Mt1,
                capacity_cores: Some(1.5),
                period_ms: 100.0,
                raw_ns: 0,
                mt1_ns: 0,
                periods: 0,
                throttled_periods: 0,
                throttled_ns: 0,
                overdrawn_ms: 0.0,
            };
            let objective = ObjectiveState {
                of: Whose::Rule(0),
                budget_ms: 5.0,
                tail_ms: 18.0,
                windows: 0,
                missed: 0,
            };
            let machine = Machine(Rc::new(RefCell::new(State {
                attached: Attached::default(),
                id: 0,
                refuses: false,
                reading: Reading {
                    counters: counters::default(),
                    objectives: vec![objective],
                    pools: vec![pool],
                },
                exit: None,
            })));
            machine.attach(OURS);
            machine.count(10);
            machine
        }

        fn attach(&self, name: &str) {
            let mut state = self.0.borrow_mut();
            state.attached.name = Some(name.to_owned());
            state.attached.seq += 1;
            (state.id, state.exit) = (state.id + 1, None);
            state.reading.counters = counters::default();
            let State { reading, .. } = &mut *state;
            (reading.objectives[0].windows, reading.pools[0].raw_ns) = (0, 0);
        }

        /// Another scheduler takes its place.
        pub(crate) fn replace(&self, name: &str) {
            self.detach(64);
            self.attach(name);
        }

        fn detach(&self, kind: i32) {
            let mut state = self.0.borrow_mut();
            state.attached.name = None;
            state.exit = Some(ExitReason {
                kind,
                code: 0,
                reason: "runnable task stall".to_owned(),
                message: String::new(),
                dump: String::new(),
            });
        }

        fn count(&self, more: u64) {
            let mut state = self.0.borrow_mut();
            state.reading.counters.evictions += more;
            state.reading.objectives[0].windows += more;
            state.reading.pools[0].raw_ns += more * 1_000_000_000;
        }

        /// A scheduler of which everything is told.
        pub(crate) fn ejected_and_attached_again(&self) -> Scheduler<Machine> {
            let mut scheduler = self.scheduler();
            self.detach(1026);
            scheduler.look(&mut quiet);
            self.attach(OURS);
            scheduler.look(&mut quiet);
            scheduler
        }

        pub(crate) fn scheduler(&self) -> Scheduler<Machine> {
            let mut scheduler = Scheduler::new(self.clone());
            scheduler.look(&mut |text| panic!("{text}"));
            scheduler
        }
    }

    /// The value of a metric without labels, or with one of its labels' values.
    fn value<S: Source>(scheduler: &Scheduler<S>, name: &str, label: Option<&str>) -> Option<f64> {
        let families = scheduler.families();
        let family = families.into_iter().find(|family| family.name == name)?;
        let fits = |labels: &[(&str, String)]| match label {
            Some(label) => labels.iter().any(|(_, value)| value == label),
            None => labels.is_empty(),
        };
        let mut samples = family.samples.into_iter();
        let found = samples.find(|(labels, _)| fits(labels));
        found.map(|(_, value)| value)
    }

    fn quiet(text: &str) {
        panic!("{text}");
    }

    #[test]
    fn counters_go_on_over_attachments_and_are_not_told_without_one() {
        let machine = Machine::new();
        let mut scheduler = machine.scheduler();
        let told = |scheduler: &Scheduler<Machine>| {
            let evictions = value(scheduler, "scheduler_evictions", None);
            let windows = value(scheduler, "objective_windows", Some("0"));
            let raw = value(scheduler, "pool_raw", Some("/tenants/\\\"a\\\""));
            assert_eq!((evictions, evictions), (windows, raw));
            evictions
        };
        // what was counted before is not this program's to tell
        assert_eq!(told(&scheduler), Some(0.0));
        machine.count(5);
        scheduler.look(&mut quiet);
        assert_eq!(told(&scheduler), Some(5.0));
        // the last that it counts nobody looks at while it is attached
        machine.count(3);
        machine.detach(64);
        scheduler.watch(&mut quiet);
        assert_eq!(told(&scheduler), None);
        assert_eq!(value(&scheduler, "scheduler_attached", None), Some(0.0));
        let ends = ["stopped", "ejected"];
        let ends = ends.map(|how| value(&scheduler, "scheduler_exits", Some(how)));
        assert_eq!(ends, [Some(1.0), Some(0.0)]);
        machine.attach(OURS);
        machine.count(2);
        scheduler.watch(&mut quiet);
        assert_eq!(told(&scheduler), Some(10.0), "5 + 3 + 2");
        // one follows the other between two looks, and counts more
        machine.attach(OURS);
        machine.count(40);
        scheduler.look(&mut quiet);
        assert_eq!(told(&scheduler), Some(50.0));
        assert_eq!(value(&scheduler, "scheduler_attaches", None), Some(2.0));
    }

    #[test]
    fn one_that_is_seen_before_the_kernel_counts_it_is_not_counted_twice() {
        let machine = Machine::new();
        let mut scheduler = machine.scheduler();
        machine.count(4);
        machine.0.borrow_mut().attached.seq += 1;
        scheduler.watch(&mut quiet);
        assert_eq!(value(&scheduler, "scheduler_evictions", None), Some(4.0));
        assert_eq!(value(&scheduler, "scheduler_attaches", None), Some(0.0));
    }

    #[test]
    fn an_ejection_is_told_with_its_reason() {
        let machine = Machine::new();
        let mut scheduler = machine.scheduler();
        machine.detach(1026);
        scheduler.watch(&mut quiet);
        let ejected = value(&scheduler, "scheduler_exits", Some("ejected"));
        assert_eq!(ejected, Some(1.0));
        let last = "scheduler_last_exit_timestamp";
        assert!(value(&scheduler, last, Some("runnable task stall")).unwrap() > 1e9);
    }

    #[test]
    fn of_another_scheduler_its_name_is_told() {
        let machine = Machine::new();
        let mut scheduler = machine.scheduler();
        machine.replace("lavd_1.0");
        scheduler.look(&mut quiet);
        let other = value(&scheduler, "other_scheduler_attached", Some("lavd_1.0"));
        assert_eq!(other, Some(1.0));
        assert_eq!(value(&scheduler, "scheduler_attached", None), Some(0.0));
        assert_eq!(value(&scheduler, "scheduler_evictions", None), None);
    }

    #[test]
    fn what_cannot_be_read_is_said_once() {
        let machine = Machine::new();
        machine.0.borrow_mut().refuses = true;
        let mut scheduler = Scheduler::new(machine.clone());
        let mut told = Vec::new();
        for _ in 0..3 {
            scheduler.look(&mut |text| told.push(text.to_owned()));
        }
        assert!(
            told.len() == 1 && told[0].contains("another layout"),
            "{told:?}"
        );
        assert_eq!(value(&scheduler, "scheduler_attached", None), Some(1.0));
        assert_eq!(value(&scheduler, "scheduler_readable", None), Some(0.0));
        assert_eq!(value(&scheduler, "scheduler_evictions", None), None);
    }

    #[test]
    fn pools_that_come_and_go_leave_nothing_behind() {
        let mut sums = Sums::default();
        let machine = Machine::new();
        let mut reading = machine.0.borrow().reading.clone();
        let pool = reading.pools[0].clone();
        for life in 0..10_000 {
            let lives = |at| PoolState {
                cgroup: format!("/pod/{at}"),
                raw_ns: 1_000 - 100 * (at % 10),
                ..pool.clone()
            };
            reading.pools = vec![pool.clone(), lives(life), lives(life + 1)];
            reading.pools[0].raw_ns += life;
            sums.take(&reading, false);
            assert_eq!(sums.pools.len(), 3);
        }
        let kept = &sums.pools[&pool.cgroup];
        assert_eq!(kept.raw_ns.total(), pool.raw_ns + 9_999);
        // the same number of a pool that is another: it counts from its beginning
        let mut sum = Sum::default();
        [5, 7, 2, 3]
            .into_iter()
            .for_each(|now| sum.take(now, false));
        assert_eq!(sum.total(), 10);
    }
}
