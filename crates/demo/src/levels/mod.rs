//! A server's load rises and falls; the SMT level is fixed, or controlled by `sidelane control`.
//!
//! Critical work alone, no batch: what is compared are the mean responses of each plateau of the load
//! under each level and under control, with the kernel's default scheduler (the level is set through
//! sysfs) and with Sidelane's (through its cap).

mod driver;
mod plan;
mod report;
mod results;

pub use driver::{measure_emulated, measure_in_guest, measure_native};
pub use plan::{Level, LevelsPlan, Plateau, Setup};
pub use report::render;
pub use results::{Cell, Document, Row};

use crate::message::MachineFacts;
use serde::{Deserialize, Serialize};

/// What the measuring part tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// First of all: the machine.
    Machine(MachineFacts),
    /// The speed of a core, before each repetition and after the last; units of work a second.
    Speed(f64),
    /// One run through all plateaus.
    Run(Run),
    /// Last of all.
    Done,
}

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
