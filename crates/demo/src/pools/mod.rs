//! Two pools of the same entitlement, one of whose work shares a core: what each of them gets, with SMT on
//! and off, charged by MT1-equivalent time and by raw time.
//!
//! The live counterpart of the source's seventh table. There pools with a capacity limit lose work when SMT
//! is switched on, since they are charged for the time on a lane whatever else its core does.

mod driver;
mod plan;
mod report;
mod results;

pub use plan::PoolsPlan;
pub use report::render;
pub use results::{Document, Row};

use crate::experiment;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How pools are charged, and whether there is SMT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setup {
    /// One lane a core: both ways to charge are the same.
    SmtOff,
    /// All lanes, charged by MT1-equivalent time.
    Mt1,
    /// All lanes, charged by time on a lane.
    Raw,
}

impl Setup {
    /// All.
    pub const ALL: [Setup; 3] = [Setup::SmtOff, Setup::Mt1, Setup::Raw];

    fn has_smt(self) -> bool {
        self != Setup::SmtOff
    }

    /// As configurations write it.
    fn charge(self) -> &'static str {
        match self {
            Setup::SmtOff | Setup::Mt1 => "mt1",
            Setup::Raw => "raw",
        }
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Setup::SmtOff => "SMT off",
            Setup::Mt1 => "SMT on, MT1 time",
            Setup::Raw => "SMT on, raw time",
        })
    }
}

/// What the measuring part tells.
pub type Message = experiment::Message<Run>;

/// One run, on two cores; pools and processes have changed places several times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Charge, and SMT.
    pub setup: Setup,
    /// From 0.
    pub repetition: u32,
    /// Speed of a lane when 1, 2, ... lanes of its core work, as the scheduler was told: measured before.
    pub thread_perf: Vec<f64>,
    /// The pool with one process, alone on its core.
    pub alone: PoolRun,
    /// The pool with a process for each lane of its core.
    pub sharing: PoolRun,
}

/// What a pool got.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PoolRun {
    /// Its work, in units of what the core does whose first lane alone works: cores.
    pub work_cores: f64,
    /// Time on lanes per time: lanes.
    pub lanes: f64,
}
