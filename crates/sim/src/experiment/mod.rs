//! Experiments: scenarios with what is varied and what was published about them.
//!
//! `experiments/README.md` describes the files; they are part of the program.

mod claims;
mod delta;
mod figures;
mod histogram;
mod html;
mod judge;
mod model;
mod read;
mod report;

pub use claims::{Claim, Comparison, Expectation, Limit, Origin, Reach, Role};
pub use delta::{Delta, DeltaRow};
pub use html::page;
pub use judge::{Finding, Verdict};
pub use model::levels_chart;
pub use report::Report;

use crate::Scenario;
use crate::run::Outcome;
use crate::scenario::Mistake;
use histogram::Histogram;
use model::{ModelCase, Prediction};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml_edit::{DocumentMut, Item, Table, TableLike, Value};

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
    Simulated(Box<Simulated>),
    /// What the queueing model predicts.
    Modelled(Vec<ModelCase>),
}

/// A scenario, and what is varied in it.
#[derive(Debug, Clone)]
struct Simulated {
    /// As it stands in the file.
    scenario: Scenario,
    sweeps: Vec<Sweep>,
    /// The file, to set the keys of sweeps in.
    document: toml_edit::DocumentMut,
}

/// A point of the sweeps, and what came out there.
#[derive(Debug, Clone)]
pub struct Point {
    /// Values of the sweeps, by their names.
    pub at: BTreeMap<String, toml::Value>,
    /// By configuration.
    pub outcomes: Vec<Outcome>,
    /// By case, of an experiment on the model.
    predictions: Vec<Prediction>,
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

    /// How many simulations it takes; none where the model is asked.
    pub fn runs(&self) -> u64 {
        let Subject::Simulated(simulated) = &self.subject else {
            return 0;
        };
        let points: u64 = simulated
            .sweeps
            .iter()
            .map(|sweep| sweep.values.len() as u64)
            .product();
        let replications = u64::from(simulated.scenario.run.replications);
        points * replications * simulated.scenario.configurations.len() as u64
    }
}

/// A key of the scenario and the values it takes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    /// One word for it.
    pub name: String,
    /// Keys joined by dots; an element of an array of tables by its `name`.
    key: Keys,
    /// What may stand there.
    pub values: Vec<toml::Value>,
    /// Keys that change along with it.
    #[serde(default)]
    with: Vec<With>,
}

/// Keys that change along with a sweep.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct With {
    key: Keys,
    /// One for each value of the sweep.
    values: Vec<toml::Value>,
}

/// One key, or several that take the same value.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Keys {
    One(String),
    Several(Vec<String>),
}

impl Sweep {
    /// Puts one of the values where the keys stand, and what goes with it. False if a key does not
    /// stand there, or nothing goes with the value.
    pub fn set(&self, document: &mut DocumentMut, value: &toml::Value) -> bool {
        let index = self.values.iter().position(|other| other == value);
        let along = |with: &With| {
            let value = index.and_then(|index| with.values.get(index));
            with.values.len() == self.values.len()
                && value.is_some_and(|value| with.key.set(document, value))
        };
        self.with.iter().all(along) && self.key.set(document, value)
    }
}

impl Keys {
    /// Puts a value where the keys stand. False if one of them does not.
    fn set(&self, document: &mut DocumentMut, value: &toml::Value) -> bool {
        let text = value.to_string();
        let Ok(value) = text.parse::<Value>() else {
            return false;
        };
        let keys = match self {
            Keys::One(key) => std::slice::from_ref(key),
            Keys::Several(keys) => keys,
        };
        let mut set = |key: &String| {
            let keys: Vec<&str> = key.split('.').collect();
            let item = item_at(document.as_table_mut(), &keys);
            item.map(|item| *item = Item::Value(value.clone()))
                .is_some()
        };
        !keys.is_empty() && keys.iter().all(&mut set)
    }
}

/// The item that keys lead to.
fn item_at<'a>(table: &'a mut dyn TableLike, keys: &[&str]) -> Option<&'a mut Item> {
    let (key, rest) = keys.split_first()?;
    let item = table.get_mut(key)?;
    if rest.is_empty() {
        return Some(item);
    }
    if item.is_array_of_tables() {
        let (name, rest) = rest.split_first()?;
        let tables = item.as_array_of_tables_mut()?;
        let named = |table: &&mut Table| table.get("name").and_then(Item::as_str) == Some(name);
        return item_at(tables.iter_mut().find(named)?, rest);
    }
    item_at(item.as_table_like_mut()?, rest)
}
