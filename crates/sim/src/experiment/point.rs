//! A point of the sweeps, and how it is written.

use super::model::Prediction;
use crate::run::Outcome;
use std::collections::BTreeMap;

/// A point of the sweeps, and what came out there.
#[derive(Debug, Clone)]
pub struct Point {
    /// Values of the sweeps, by their names.
    pub at: BTreeMap<String, toml::Value>,
    /// By configuration.
    pub outcomes: Vec<Outcome>,
    /// By case, of an experiment on the model.
    pub(super) predictions: Vec<Prediction>,
}

/// `load 0.4, thread_perf [1, 0.6]`.
pub(super) fn place(at: &BTreeMap<String, toml::Value>) -> String {
    let part = |(name, value): (&String, &toml::Value)| format!("{name} {}", short(value));
    at.iter().map(part).collect::<Vec<_>>().join(", ")
}

fn short(value: &toml::Value) -> String {
    value.to_string().replace(", ", ",")
}
