//! A service-level objective: how well a server's tail keeps it, and what batch gets meanwhile.
//!
//! An operator writes `p99 < 20 ms`; the scheduler lets batch stay beside critical work as far as that
//! allows. Objectives are multiples of the server's 99th percentile alone on this machine. At the end the
//! load doubles for a while, under one of them.

mod measure;
mod results;
mod svg;

pub use results::{Document, Figures, Row};
pub use svg::draw;

use crate::arguments::seconds_as_ms;
use crate::experiment::{Turn, turns};
use crate::figures;
use serde::{Deserialize, Serialize};
use sidelane_smt::latency::{Spread, Summary};
use std::fmt;
use std::path::PathBuf;

/// The load of the steps' middle, as a multiple of the others.
const STEP: f64 = 2.0;

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

/// What is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, clap::Args)]
pub struct ObjectivePlan {
    /// How often each objective is measured.
    #[arg(long, default_value_t = 10, value_name = "N")]
    repetitions: u32,
    /// Objectives in rising order, as multiples of the 99th percentile alone.
    #[arg(long, value_delimiter = ',', value_name = "X,...", default_values_t = [1.2, 1.5, 2.0])]
    factors: Vec<f64>,
    /// Offered load, as a share of all cores.
    #[arg(long, default_value_t = 0.24, value_name = "SHARE")]
    load: f64,
    /// Mean demand of a request, ms of a whole core.
    #[arg(long = "mean-ms", default_value_t = 5.0, value_name = "MS")]
    mean_demand_ms: f64,
    /// Length of a run.
    #[arg(long = "seconds", default_value = "10", value_parser = seconds_as_ms, value_name = "S")]
    run_ms: u64,
    /// Load before the first run under an objective: the scheduler has to find the budget.
    #[arg(long = "settle", default_value = "60", value_parser = seconds_as_ms, value_name = "S")]
    settle_ms: u64,
    /// Length of each of the three loads at the end; 0 leaves them out.
    #[arg(long = "step-seconds", default_value = "15", value_parser = seconds_as_ms, value_name = "S")]
    step_ms: u64,
    /// Where the drawing of the load steps goes.
    #[arg(long, default_value = "sidelane-objective.svg", value_name = "FILE")]
    svg: PathBuf,
    /// Start of all random numbers: same seed, same requests.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

/// What measuring finds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// A run.
    Run(Run),
    /// The load steps up and down.
    Steps(Steps),
}

/// A run.
pub type Run = figures::Run<Setup, Found>;

/// What is found in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
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

impl ObjectivePlan {
    /// Repetitions of the server alone before all objectives, which are made from these; the others come last.
    fn first_alone(&self) -> u32 {
        self.repetitions.div_ceil(2)
    }

    /// The runs of a turn: an objective and borrow-idle take turns at being first.
    fn runs(turn: Turn<Setup>) -> Vec<Turn<Setup>> {
        match turn.setup {
            Setup::Objective(_) => turns(
                &[Setup::BorrowIdle, turn.setup],
                turn.repetition..turn.repetition + 1,
            ),
            Setup::Alone | Setup::BorrowIdle => vec![turn],
        }
    }

    /// How many runs there are.
    fn run_count(&self) -> usize {
        (1 + 2 * self.factors.len()) * self.repetitions as usize
    }

    /// The objective under which the load steps: the middle one.
    fn step_factor(&self) -> f64 {
        let middle = self.factors.get(self.factors.len() / 2);
        middle.copied().unwrap_or(1.5)
    }
}

/// The middle one of 99th percentiles, ns; 0 if there are none.
fn median_ns(p99_ns: &[f64]) -> u64 {
    Spread::of(p99_ns).map_or(0, |spread| spread.median as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use crate::experiment::testing::{plan, plans_make_sense};

    #[test]
    fn each_setup_has_all_repetitions() {
        let plan: ObjectivePlan = plan("--repetitions 3");
        assert_eq!(plan.setups(2).len(), 5);
        assert_eq!(plan.setups(2)[2].to_string(), "slo 1.2 x alone");
        let blocks = plan.turns(2);
        let last = Turn {
            setup: Setup::Alone,
            repetition: 2,
        };
        assert_eq!((blocks.len(), blocks[11]), (12, last));
        let runs: Vec<_> = blocks.into_iter().flat_map(ObjectivePlan::runs).collect();
        assert_eq!(runs.len(), plan.run_count());
        for setup in plan.setups(2) {
            let own = runs.iter().filter(|turn| turn.setup == setup);
            let all: Vec<u32> = own.map(|turn| turn.repetition).collect();
            match setup {
                // once in each objective's turn
                Setup::BorrowIdle => assert_eq!(all, [0, 1, 2].repeat(3), "{setup}"),
                _ => assert_eq!(all, [0, 1, 2], "{setup}"),
            }
        }
        let slo = Setup::Objective(1.2);
        let setups = |repetition| {
            let runs = ObjectivePlan::runs(Turn {
                setup: slo,
                repetition,
            });
            runs.into_iter().map(|turn| turn.setup).collect::<Vec<_>>()
        };
        assert_eq!(setups(0), [Setup::BorrowIdle, slo]);
        assert_eq!(setups(1), [slo, Setup::BorrowIdle]);
        assert!((plan.step_factor() - 1.5).abs() < 1e-9);
    }

    #[test]
    fn nonsense_is_refused() {
        plans_make_sense::<ObjectivePlan>(&[
            "--factors 1",
            "--factors 2,1.5",
            "--factors 101",
            "--load 0.6",
            "--load nan",
            "--mean-ms 0",
            "--settle 6000",
            "--seconds 0",
        ]);
    }
}
