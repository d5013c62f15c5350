//! What a collector has counted since it began, and what lies between two of its readings.
//!
//! Times are nanoseconds of `CLOCK_MONOTONIC`, which stands still while the machine is suspended.

mod cgroups;
mod delta;

pub use cgroups::{Charge, Limit, by_path};
pub use delta::{cgroups_between, delta};

use crate::histogram::LogHistogram;
use serde::{Deserialize, Serialize};

/// Totals since a collector began.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// When the totals began: names the collector's run.
    pub begun_ns: u64,
    /// When this was read.
    pub taken_ns: u64,
    /// The same by the wall clock, ms since 1970; others set that clock.
    pub wall_ms: i64,
    /// How long the machine was suspended since boot.
    pub suspended_ns: u64,
    /// By what work is counted.
    pub rates: Rates,
    /// By core number; the set is the same in all readings of a run.
    pub cores: Vec<CoreTotals>,
    /// Tasks that ran, ascending by [`TaskTotals::key`]. Of those that ended, only the latest.
    pub tasks: Vec<TaskTotals>,
    /// Cgroups whose tasks ran, ascending by id; with the time of ended tasks. One that was removed is in the
    /// first reading after that and in no later one.
    pub cgroups: Vec<CgroupTotals>,
    /// What limits the figures.
    pub notes: Notes,
    /// What cgroups may use, where they are limited.
    pub limits: Vec<Limit>,
}

/// Work rates, as threadPerf, and where they come from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Where from.
    pub source: RateSource,
    /// `[n - 1]`: speed of a lane when n lanes of its core run. For the core with most lanes; a core
    /// with fewer uses the beginning.
    pub thread_perf: Vec<f64>,
}

impl Rates {
    /// Them, and where they come from, in words.
    pub fn sentence(&self) -> String {
        let speeds = self.thread_perf.iter().map(|speed| format!("{speed:.3}"));
        let source = match self.source {
            RateSource::Counters => "measured by instructions meanwhile",
            RateSource::Calibrated => "of a calibration",
            RateSource::Given => "as given",
            RateSource::Assumed => {
                "assumed: capacity, productivity, MT utilisation and MT1 times are estimates; \
                 'sidelane calibrate' measures it"
            }
        };
        let speeds: Vec<String> = speeds.collect();
        format!("threadPerf {} is {source}", speeds.join(", "))
    }
}

/// Where rates come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RateSource {
    /// Instructions that were counted meanwhile.
    Counters,
    /// threadPerf of a calibration of this machine.
    Calibrated,
    /// threadPerf that somebody gave.
    Given,
    /// threadPerf that nobody measured: density and times are right, capacity, productivity and
    /// MT1-equivalent time are estimates.
    #[default]
    Assumed,
}

/// A core.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreTotals {
    /// Its number.
    pub core: u32,
    /// Time that was watched.
    pub elapsed_ns: u64,
    /// Time during which exactly n lanes ran, `[n - 1]`.
    pub by_density_ns: Vec<u64>,
    /// Its lanes.
    pub lanes: Vec<LaneTotals>,
    /// Time that its lanes idled because batch, which waited, had to stay away from critical work; summed
    /// over lanes. None where no scheduler of ours tells.
    pub forced_idle_ns: Option<u64>,
}

/// A lane.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneTotals {
    /// Its CPU number.
    pub cpu: u32,
    /// Whether it is online.
    pub online: bool,
    /// Time during which it ran a task.
    pub busy_ns: u64,
    /// Instructions that it executed, where the machine counts them.
    pub instructions: Option<u64>,
}

/// The scheduler's class of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Somebody waits for it.
    Critical,
    /// Anything else.
    Normal,
    /// It may wait.
    Batch,
}

impl Class {
    /// In one word.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Critical => "critical",
            Class::Normal => "normal",
            Class::Batch => "batch",
        }
    }
}

/// What a lane does at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LaneState {
    /// It runs a task of this class.
    Runs(Class),
    /// It runs nothing.
    Idle,
    /// It is between two tasks, or nothing tells.
    Unknown,
}

/// What a task, or all tasks of a cgroup, used and waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Time it ran on a lane.
    pub raw_ns: u64,
    /// MT1-equivalent time: what it would have taken alone on its core, by [`Rates`].
    pub mt1_ns: u64,
    /// Prorated core time: time on lanes ÷ lanes of the core that were busy meanwhile. None in a recording, which does not
    /// keep it.
    #[serde(skip)]
    pub prorated_ns: Option<u64>,
    /// Time it could have run and did not.
    pub waiting_ns: u64,
    /// Times it began to run.
    pub runs: u64,
    /// How long its jobs took, from wake-up to sleep, ns.
    pub jobs: LogHistogram,
    /// Of `raw_ns` of batch, the time beside critical work on its core. None where no scheduler of ours
    /// tells classes.
    pub borrowed_ns: Option<u64>,
    /// Of critical work, its part of [`CoreTotals::forced_idle_ns`]. None as there.
    pub forced_idle_ns: Option<u64>,
}

/// A task: a thread, as the kernel schedules it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskTotals {
    /// Thread id.
    pub pid: u32,
    /// Process id.
    pub tgid: u32,
    /// When it began, ns since boot: tells it from a later one with the same id.
    pub start_ns: u64,
    /// Its name, at most 15 bytes.
    pub comm: String,
    /// Its cgroup's id.
    pub cgroup: u64,
    /// Its class, if a scheduler of ours is attached.
    pub class: Option<Class>,
    /// Whether it has ended.
    pub ended: bool,
    /// What it used.
    pub usage: Usage,
}

/// A cgroup, without those below it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupTotals {
    /// Its id; 0: those for which there was no room, and what ran on in removed ones.
    pub id: u64,
    /// Its path from the root, if it is known.
    pub path: Option<String>,
    /// What its tasks used, ended ones included.
    pub usage: Usage,
}

/// What limits the figures. Counts since the collector began, or within an interval.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notes {
    /// Times the set of online lanes was another than at the reading before.
    pub hotplug: u64,
    /// Switches on lanes that were not there when the collector began: only raw times are counted.
    pub unknown_lanes: u64,
    /// Changes that could not be counted: too many lanes at once, no memory.
    pub lost: u64,
    /// Totals that were read while they changed, or went back: they count an interval later.
    pub inconsistent: u64,
    /// Tasks that ended and are counted only in their cgroups.
    pub unlisted_tasks: u64,
    /// Switches of tasks whose cgroups are counted together, as id 0: there were too many.
    pub unlisted_cgroups: u64,
    /// Anything else; each a sentence.
    pub messages: Vec<String>,
}

/// What lies between two readings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// When it begins.
    pub from_ns: u64,
    /// When it ends.
    pub to_ns: u64,
    /// Its end by the wall clock, ms since 1970.
    pub wall_ms: i64,
    /// How far the wall clock went otherwise than the monotonic one, suspension apart: it was set.
    pub clock_set_ms: i64,
    /// How long the machine was suspended meanwhile; not part of the interval.
    pub suspended_ns: u64,
    /// By what work is counted.
    pub rates: Rates,
    /// All cores.
    pub cores: Vec<CoreTotals>,
    /// Tasks that ran, waited or ended, ascending by key.
    pub tasks: Vec<TaskTotals>,
    /// Cgroups whose tasks ran or waited, ascending by id.
    pub cgroups: Vec<CgroupTotals>,
    /// What limits the figures.
    pub notes: Notes,
    /// What cgroups may use, where they are limited, ascending by path. The last field: recordings of
    /// version 2 end before it.
    pub limits: Vec<Limit>,
}

/// Why there is nothing between two readings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeltaError {
    /// They are of different runs of a collector, or of different machines.
    #[error("the readings are of different collectors: their totals began at different times")]
    OtherRun,
    /// The later one is earlier.
    #[error("the second reading was taken before the first")]
    Backwards,
    /// A total of a core became less.
    #[error("core {core}: its {what} went back")]
    CoreBackwards {
        /// The core's number.
        core: u32,
        /// Which total.
        what: &'static str,
    },
    /// Cores came or went within a run.
    #[error("the readings have different cores")]
    OtherCores,
}
