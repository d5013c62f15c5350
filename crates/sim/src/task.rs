//! Tasks: what they are asked to be, and how far they are.

pub use sidelane_policy::Class;
use sidelane_smt::histogram::LogHistogram;
use std::fmt;

/// A task of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

impl TaskId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}", self.0)
    }
}

/// A scheduling policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Policy {
    /// `SCHED_OTHER`.
    #[default]
    Normal,
    /// `SCHED_BATCH`.
    Batch,
    /// `SCHED_IDLE`.
    Idle,
}

/// A task to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskSpec {
    /// Thread name.
    pub name: String,
    /// What the configuration's rules make of it. A scheduler without classes goes by policy and
    /// nice value alone.
    pub class: Class,
    /// Scheduling policy.
    pub policy: Policy,
    /// Nice value, -20..=19.
    pub nice: i32,
    /// The CPUs it may use; none: all.
    pub cpus: Option<Vec<u32>>,
    /// Its row in [`Interference::Kinds`](crate::Interference); 0 elsewhere.
    pub kind: usize,
    /// A thread of the kernel: always of class normal, whatever the rules say.
    pub kernel_thread: bool,
    /// Batch whose program has a runtime that steps aside: its sleeps are naps.
    pub naps: bool,
    /// Index of its pool in [`Sidelane::pools`](crate::Sidelane); none: in none. A scheduler without
    /// that pool lets it run as it likes.
    pub pool: Option<usize>,
}

impl TaskSpec {
    /// A task of a class that may run everywhere, nice 0.
    pub fn new(name: impl Into<String>, class: Class) -> TaskSpec {
        TaskSpec {
            name: name.into(),
            class,
            policy: Policy::Normal,
            nice: 0,
            cpus: None,
            kind: 0,
            kernel_thread: false,
            naps: false,
            pool: None,
        }
    }
}

/// What a program tells of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// The task works on it from now on; it began then, and has a deadline (0: none), ns.
    Begins { began_ns: u64, deadline_ns: u64 },
    /// It is done, and took so long.
    Ends { latency_ns: u64 },
}

/// Where a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It has nothing to do.
    Sleeping,
    /// It could run, and the scheduler has it.
    Waiting,
    /// It is on this lane.
    Running(u32),
    /// It is no more.
    Exited,
}

/// A task in motion.
#[derive(Debug)]
pub(crate) struct Task {
    pub spec: TaskSpec,
    /// CPUs that it may use: one bit each.
    pub allowed: Box<[u64]>,
    pub state: State,
    /// The lane it belongs to: where it runs, or where the scheduler has it.
    pub lane: u32,
    /// The lane on which it ran last, where its data are.
    pub ran_on: Option<u32>,
    /// For how long tasks had run there, and on all lanes of that core, when it left; ns.
    pub left_busy_ns: u64,
    pub left_core_ns: u64,
    /// How long it would have gone on to fill caches then, ns.
    pub owed_ns: u64,
    /// What is left of its work, ns of an unshared lane of the fastest core.
    pub work_ns: f64,
    /// It waits for a device on its lane, for as long as its work says.
    pub polling: bool,
    /// It ends as soon as it runs.
    pub exiting: bool,
    /// Timers of the workload that ring when it has a lane.
    pub awaited_by: Vec<u64>,
    /// Since when it waits, ns.
    pub since_ns: u64,
    /// What a collector counts besides the totals.
    pub collected: Collected,
    /// Totals, up to when its core was accounted last.
    pub totals: TaskTotals,
}

/// What a collector counts of a task.
#[derive(Debug, Clone, Default)]
pub(crate) struct Collected {
    /// Time on lanes × the speed there, switches included: what it takes for MT1-equivalent time, for it
    /// does not see what a lane does; ns.
    pub mt1_ns: f64,
    /// Times that the task began to run.
    pub runs: u64,
    /// When it was woken last, ns.
    pub woken_ns: u64,
    /// How long its jobs took, from wake-up to sleep, ns; empty unless they are kept.
    pub jobs: LogHistogram,
}

/// What a task got, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TaskTotals {
    /// Time on lanes.
    pub lane_ns: u64,
    /// Of that, time spent switching and migrating.
    pub overhead_ns: u64,
    /// Of it, time spent polling for a device.
    pub polled_ns: u64,
    /// Time waiting for a lane.
    pub wait_ns: u64,
    /// Work done, ns of an unshared lane of the fastest core.
    pub work_ns: f64,
    /// MT1-equivalent time: what the same work would have taken on the same cores unshared.
    pub mt1_ns: f64,
    /// Prorated core time: time on lanes ÷ lanes of the core that were busy meanwhile.
    pub prorated_ns: f64,
}

impl TaskTotals {
    pub(crate) fn plus(&self, other: &TaskTotals) -> TaskTotals {
        TaskTotals {
            lane_ns: self.lane_ns + other.lane_ns,
            overhead_ns: self.overhead_ns + other.overhead_ns,
            polled_ns: self.polled_ns + other.polled_ns,
            wait_ns: self.wait_ns + other.wait_ns,
            work_ns: self.work_ns + other.work_ns,
            mt1_ns: self.mt1_ns + other.mt1_ns,
            prorated_ns: self.prorated_ns + other.prorated_ns,
        }
    }

    /// What was added to an earlier value.
    pub(crate) fn since(&self, earlier: &TaskTotals) -> TaskTotals {
        TaskTotals {
            lane_ns: self.lane_ns - earlier.lane_ns,
            overhead_ns: self.overhead_ns - earlier.overhead_ns,
            polled_ns: self.polled_ns - earlier.polled_ns,
            wait_ns: self.wait_ns - earlier.wait_ns,
            work_ns: self.work_ns - earlier.work_ns,
            mt1_ns: self.mt1_ns - earlier.mt1_ns,
            prorated_ns: self.prorated_ns - earlier.prorated_ns,
        }
    }
}

impl Task {
    pub fn new(spec: &TaskSpec, nr_lanes: usize, lane: u32) -> Task {
        Task {
            spec: spec.clone(),
            allowed: cpu_bits(spec.cpus.as_deref(), nr_lanes),
            state: State::Sleeping,
            lane,
            ran_on: None,
            left_busy_ns: 0,
            left_core_ns: 0,
            owed_ns: 0,
            work_ns: 0.0,
            polling: false,
            exiting: false,
            awaited_by: Vec::new(),
            since_ns: 0,
            collected: Collected::default(),
            totals: TaskTotals::default(),
        }
    }

    pub fn may_use(&self, lane: u32) -> bool {
        let word = self.allowed.get(lane as usize / 64);
        word.is_some_and(|word| word >> (lane % 64) & 1 == 1)
    }
}

/// One bit for each CPU; all of them unless some are named.
pub(crate) fn cpu_bits(cpus: Option<&[u32]>, nr_lanes: usize) -> Box<[u64]> {
    let mut bits = vec![0; nr_lanes.div_ceil(64)].into_boxed_slice();
    let mut set = |cpu: u32| {
        if (cpu as usize) < nr_lanes {
            bits[cpu as usize / 64] |= 1 << (cpu % 64);
        }
    };
    match cpus {
        Some(cpus) => cpus.iter().copied().for_each(&mut set),
        None => (0..nr_lanes as u32).for_each(&mut set),
    }
    bits
}
