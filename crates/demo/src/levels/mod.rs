//! A server's load rises and falls; the SMT level is fixed, or controlled by `sidelane control`.
//!
//! Critical work alone, no batch: what is compared are the mean responses of each plateau of the load
//! under each level and under control, with the kernel's default scheduler (the level is set through
//! sysfs) and with Sidelane's (through its cap).

mod driver;
mod plan;
mod report;
mod results;

pub use plan::{Level, LevelsPlan, Plateau, Setup};
pub use report::render;
pub use results::{Cell, Document, Row};

use crate::experiment;
use serde::{Deserialize, Serialize};

/// What the measuring part tells.
pub type Message = experiment::Message<Run>;

/// One run through all plateaus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Scheduler and level.
    pub setup: Setup,
    /// From 0.
    pub repetition: u32,
    /// In their order.
    pub plateaus: Vec<PlateauRun>,
}

/// A plateau of a run, its beginning left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlateauRun {
    /// Requests.
    pub requests: u64,
    /// Mean latency from the intended moment, ns.
    pub mean_ns: f64,
    /// Its 99th percentile, ns.
    pub p99_ns: u64,
    /// The level at its end.
    pub level: usize,
    /// Times that the level changed during it, its beginning included.
    pub changes: u32,
}
