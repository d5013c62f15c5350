//! I/O-bound work beside computation, both of the normal class: a redis-server that answers one command
//! at a time and compressors, or virtual CPUs that wait for a device or play ping-pong and others that
//! multiply matrices.
//!
//! What vSMT-IO (Jia et al., USENIX ATC 2020) does for virtual CPUs: a lane is held while its
//! I/O-bound task sleeps for a moment, and computation has the other lanes of the core.

mod account;
mod clients;
mod driver;
mod halt_polling;
mod pauses;
mod plan;
mod report;
mod results;
mod sides;

pub use account::LaneUse;
pub use pauses::Pauses;
pub use plan::{IoPlan, Work};
pub use report::render;
pub use results::{Document, Row};

use crate::experiment;
use serde::{Deserialize, Serialize};
use sidelane_smt::latency::Summary;
use std::fmt;

/// Who schedules, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setup {
    /// The kernel's default scheduler; virtual CPUs that halt are not polled for.
    Default,
    /// The kernel's default scheduler, and its halt polling.
    Polling,
    /// Sidelane as it is without settings.
    Sidelane,
    /// With slices of 3 ms, like the kernel's default scheduler.
    ShortSlice,
    /// With retention.
    Retain,
    /// With retention and pairing.
    Pair,
    /// The same as in the source: lanes are held from other I/O-bound work, too, and as long as Algorithm 1 has it.
    Exclusive,
}

impl Setup {
    /// What the scheduler is told, the shortest hold and the speeds of lanes included; none: it is the kernel's own.
    pub(super) fn settings(self, hold_min_ms: Option<f64>, thread_perf: &[f64]) -> Option<String> {
        let min = hold_min_ms.map_or(String::new(), |ms| format!("retention.min_ms = {ms}\n"));
        let speeds = match thread_perf {
            [] => String::new(),
            speeds => format!("thread_perf = {speeds:?}\n"),
        };
        let settings = match self {
            Setup::Default | Setup::Polling => None,
            Setup::Sidelane => Some(String::new()),
            Setup::ShortSlice => Some("slice_ms = 3\n".into()),
            Setup::Retain => Some(format!("retain = true\n{min}")),
            Setup::Pair => Some(format!("retain = true\npair = true\n{min}")),
            Setup::Exclusive => Some(format!(
                "retain = true\npair = true\nretention.exclusive = true\n\
                 retention.switches_ms = 100\n{min}"
            )),
        };
        settings.map(|settings| speeds + &settings)
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Setup::Default => "default",
            Setup::Polling => "polling",
            Setup::Sidelane => "sidelane",
            Setup::ShortSlice => "short-slice",
            Setup::Retain => "retain",
            Setup::Pair => "pair",
            Setup::Exclusive => "exclusive",
        })
    }
}

/// What the measuring part tells.
pub type Message = experiment::Message<Run>;

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Which.
    pub setup: Setup,
    /// From 0.
    pub repetition: u32,
    /// Commands that were answered, or round trips of all players, 1/s.
    pub round_trips_per_s: f64,
    /// Of a command, from sending it to having the whole reply; none of players.
    pub latency: Option<Summary>,
    /// Input compressed, bytes a second, or multiplications a second.
    pub computed_per_s: f64,
    /// The same of one process that has a core to itself, just before.
    pub core_computed_per_s: f64,
    /// Context switches of the whole machine, those to the idle task too, 1/s.
    pub switches_per_s: f64,
    /// Context switches by which a computing process lost its lane, 1/s.
    pub computing_switches_per_s: f64,
    /// Where the lanes' time went.
    pub lanes: LaneUse,
    /// What a pause costs on this machine, measured before the first run; none: no core has two lanes.
    pub pauses: Option<Pauses>,
}
