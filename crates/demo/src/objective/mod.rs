//! A service-level objective: how well a server's tail keeps it, and what batch gets meanwhile.
//!
//! An operator writes `p99 < 20 ms`; the scheduler lets batch stay beside critical work as far as that
//! allows. Objectives are multiples of the server's 99th percentile alone on this machine. At the end the
//! load doubles for a while, under one of them.

mod driver;
mod plan;
mod report;
mod results;
mod sampler;
mod svg;

pub use plan::ObjectivePlan;
pub use report::render;
pub use results::{Document, Row};
pub use svg::draw;

use crate::experiment;
use serde::{Deserialize, Serialize};
use sidelane_smt::latency::Summary;
use std::fmt;

/// What batch may do.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setup {
    /// There is none.
    Alone,
    /// It leaves when a request comes.
    BorrowIdle,
    /// It may stay while the 99th percentile is below this multiple of the one alone.
    Objective(f64),
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setup::Alone => f.pad("alone"),
            Setup::BorrowIdle => f.pad("borrow-idle"),
            Setup::Objective(factor) => f.pad(&format!("slo {factor} x alone")),
        }
    }
}

/// What the measuring part tells.
pub type Message = experiment::Message<Finding>;

/// What it finds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// The 99th percentile alone from which the objectives are made, ns.
    Alone(u64),
    /// A run.
    Run(Run),
    /// The load steps up and down.
    Steps(Steps),
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Which.
    pub setup: Setup,
    /// From 0.
    pub repetition: u32,
    /// The objective in whose turn it was measured, as a multiple; none: the server was alone.
    pub turn: Option<f64>,
    /// Speed of a core just before the repetition, units of work a second.
    pub units_per_core_s: f64,
    /// Of the requests, from the intended moment.
    pub latency: Summary,
    /// Input that batch compressed, bytes a second.
    pub batch_bytes_per_s: f64,
}

/// What happened while the load stepped up and down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Steps {
    /// The objective, ns.
    pub objective_ns: u64,
    /// When each load begins, ms from the start, and its share of all cores.
    pub loads: Vec<(u64, f64)>,
    /// Requests: intended moment, ns from the start, and latency, ns.
    pub requests: Vec<(u64, u64)>,
    /// How things stood, every half second.
    pub samples: Vec<Sample>,
}

/// How things stood.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// ms from the start.
    pub at_ms: u64,
    /// Input that batch has compressed, bytes.
    pub batch_bytes: u64,
    /// The budget that the scheduler gives batch, ms; none: it does not say.
    pub budget_ms: Option<f64>,
}
