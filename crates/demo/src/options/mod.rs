//! Deadlines and partial results: how much load an option pricing server bears at a quality, with the
//! kernel's default scheduler and with Sidelane's.
//!
//! The live counterpart of FOF's finance server (Ren, He, Elnikety and McKinley, ICAC 2013). No batch
//! runs: what is compared is where requests run, on lanes that share a core or have one to themselves.

mod driver;
mod plan;
mod report;
mod results;

pub use driver::serve_standard_input;
pub use plan::OptionsPlan;
pub use report::render;
pub use results::{Cell, Document, Gain, Row};

use crate::experiment;
use serde::{Deserialize, Serialize};
use sidelane_options::load::Outcome;
use std::fmt;

/// Which scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setup {
    /// The kernel's default one.
    Default,
    /// Sidelane's; the server is critical.
    Sidelane,
}

impl Setup {
    /// Both.
    pub const ALL: [Setup; 2] = [Setup::Default, Setup::Sidelane];
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Setup::Default => "default",
            Setup::Sidelane => "sidelane",
        })
    }
}

/// What the measuring part tells.
pub type Message = experiment::Message<Run>;

/// One run through all loads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Scheduler.
    pub setup: Setup,
    /// From 0.
    pub repetition: u32,
    /// One for each load, in their order.
    pub outcomes: Vec<Outcome>,
}
