//! Experiments: scenarios with what is varied and what was published about them.
//!
//! `experiments/README.md` describes the files; they are part of the program.

mod claims;
mod compare;
mod delta;
mod figures;
mod histogram;
mod html;
mod judge;
mod model;
mod read;
mod report;

pub use claims::{Claim, Comparison, Expectation, Limit, Origin, Reach, Role};
pub use compare::{Change, Saved, SavedFinding, SavedReport, Slack, changes_text};
pub use delta::{Delta, DeltaRow};
pub use html::page;
pub use judge::{Finding, Verdict};
pub use model::levels_chart;
pub use report::{Report, Tally, tallies};

use crate::run::Outcome;
use crate::scenario::Mistake;
use crate::sweep::{At, Swept};
use histogram::Histogram;
use model::{ModelCase, Prediction};
use std::collections::BTreeMap;

const NS_PER_S: f64 = 1e9;

include!(concat!(env!("OUT_DIR"), "/experiments.rs"));

/// An experiment.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// Name of its file, without the ending.
    pub name: String,
    /// What is reproduced.
    pub title: String,
    /// Where the published values stand.
    pub source: String,
    /// What follows from what, and what cannot be reproduced.
    pub notes: Vec<String>,
    /// What is claimed, in the order of the file: numbers first.
    pub claims: Vec<Claim>,
    /// What is simulated, or asked of the model.
    pub about: String,
    /// What the results rest on that nobody measured or published.
    pub assumptions: Vec<String>,
    subject: Subject,
    /// Of sweeps over an assumption: the value that the experiment itself assumes.
    sensitivity: At,
    /// By metric: how far up its axis goes in pictures.
    draw_to: BTreeMap<String, f64>,
    histogram: Option<Histogram>,
    /// Tables as the source prints them.
    deltas: Vec<delta::Described>,
}

/// What the claims are compared with.
#[derive(Debug, Clone)]
enum Subject {
    /// Simulations.
    Simulated(Box<Swept>),
    /// What the queueing model predicts.
    Modelled(Vec<ModelCase>),
}

/// A point of the sweeps, and what came out there.
#[derive(Debug, Clone)]
pub struct Point {
    /// Values of the sweeps, by their names.
    pub at: At,
    /// By configuration.
    pub outcomes: Vec<Outcome>,
    /// By case, of an experiment on the model.
    predictions: Vec<Prediction>,
}

/// The first word of an experiment's name.
fn family(name: &str) -> &str {
    name.split('-').next().unwrap_or(name)
}

/// `load 0.4, thread_perf [1, 0.6]`.
fn place(at: &BTreeMap<String, toml::Value>) -> String {
    let part = |(name, value): (&String, &toml::Value)| format!("{name} {}", short(value));
    at.iter().map(part).collect::<Vec<_>>().join(", ")
}

fn short(value: &toml::Value) -> String {
    value.to_string().replace(", ", ",")
}

/// Why an experiment could not be run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ExperimentError {
    /// Its file has a mistake.
    #[error(transparent)]
    Scenario(#[from] Mistake),
    /// Its file has a mistake in what makes it an experiment.
    #[error("{file}: {message}")]
    Claims {
        /// The file.
        file: String,
        /// What is wrong, with the place as far as it is known.
        message: String,
    },
    /// The model refuses the machine.
    #[error("{file}: {error}")]
    Model {
        /// The file.
        file: String,
        /// The error.
        error: sidelane_model::Error,
    },
    /// The simulation ended in an error.
    #[error("{file}: {error}")]
    Simulation {
        /// The file.
        file: String,
        /// The error.
        error: crate::Error,
    },
}

impl Experiment {
    /// The experiments that are part of the program, by name.
    ///
    /// # Errors
    /// If one of their files has a mistake.
    pub fn all() -> Result<Vec<Experiment>, ExperimentError> {
        let read = |(name, text): &(&str, &str)| Experiment::parse(text, name);
        EXPERIMENTS.iter().map(read).collect()
    }

    /// What a list says of it, in lines of at most 100 columns: its name, what is simulated, title and source.
    pub fn entry(&self) -> String {
        let first = format!("{:<28} {:>8.0} s  ", self.name, self.simulated_s());
        let indent = " ".repeat(first.chars().count());
        let options = textwrap::Options::new(100).subsequent_indent(&indent);
        let title = textwrap::fill(&self.title, options.clone().initial_indent(&first));
        let source = textwrap::fill(&self.source, options.initial_indent(&indent));
        format!("{title}\n{source}\n")
    }

    /// The source it is of: the first word of its name.
    pub fn family(&self) -> &str {
        family(&self.name)
    }

    /// Seconds that are simulated, all runs together; none where the model is asked.
    pub fn simulated_s(&self) -> f64 {
        let Subject::Simulated(simulated) = &self.subject else {
            return 0.0;
        };
        let run = simulated.scenario().run;
        self.runs() as f64 * (run.length_ns + run.warmup_ns) as f64 / NS_PER_S
    }

    /// How many simulations it takes; none where the model is asked.
    pub fn runs(&self) -> u64 {
        let Subject::Simulated(simulated) = &self.subject else {
            return 0;
        };
        let scenario = simulated.scenario();
        let replications = u64::from(scenario.run.replications);
        simulated.points() * replications * scenario.configurations.len() as u64
    }
}
