//! Batch that steps aside by itself on lanes of its own (`sidelane lanes`, with the kernel's default
//! scheduler) beside batch that the scheduler evicts (`sidelane run`).
//!
//! The first is the design of Elfen (Yang, Blackburn and McKinley, USENIX ATC 2016). Batch is the same
//! program everywhere, with a check of the lane signal in each basic block.

mod driver;
mod plan;
mod report;
mod results;

pub use plan::LanesPlan;
pub use report::render;
pub use results::{Document, Row};

use crate::experiment;
use serde::{Deserialize, Serialize};
use sidelane_smt::latency::Summary;
use std::fmt;

/// How batch shares the machine with critical work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setup {
    /// There is no batch; the kernel's default scheduler.
    Alone,
    /// As `SCHED_IDLE`; the kernel's default scheduler.
    Default,
    /// The same, on lanes of its own where it steps aside.
    Lanes,
    /// Sidelane's scheduler, borrow-idle.
    Sidelane,
}

impl Setup {
    /// All of them, in the order of the report.
    pub const ALL: [Setup; 4] = [Setup::Alone, Setup::Default, Setup::Lanes, Setup::Sidelane];
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Setup::Alone => "alone",
            Setup::Default => "default",
            Setup::Lanes => "lanes",
            Setup::Sidelane => "sidelane",
        })
    }
}

/// What the measuring part tells.
pub type Message = experiment::Message<Run>;

/// A run of the server, and what could be done meanwhile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Which.
    pub setup: Setup,
    /// From 0.
    pub repetition: u32,
    /// Of the requests, from the intended moment.
    pub latency: Summary,
    /// Cores that the requests needed, on the mean.
    pub critical_cores: f64,
    /// Multiplications of all batch, 1/s.
    pub batch_per_s: f64,
    /// How often batch stepped aside by itself, 1/s.
    pub naps_per_s: f64,
    /// Multiplications of one process that has a core to itself, just before, 1/s.
    pub batch_per_core_s: f64,
}
