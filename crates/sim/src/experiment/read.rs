//! Reading experiment files.

use super::claims::{Claim, Expect, Expectation, Limit, Published};
use super::sweep::Sweep;
use super::{Experiment, ExperimentError};
use crate::Scenario;
use serde::Deserialize;
use serde::de::IgnoredAny;
use toml_edit::DocumentMut;

/// What makes a scenario an experiment; the rest is the scenario reader's.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    experiment: Head,
    #[serde(default)]
    sweep: Vec<Sweep>,
    #[serde(default)]
    published: Vec<Published>,
    #[serde(default)]
    expect: Vec<Expect>,
    #[serde(rename = "name")]
    _name: Option<IgnoredAny>,
    #[serde(rename = "about")]
    _about: Option<IgnoredAny>,
    #[serde(rename = "assumptions")]
    _assumptions: Option<IgnoredAny>,
    #[serde(rename = "machine")]
    _machine: Option<IgnoredAny>,
    #[serde(rename = "run")]
    _run: Option<IgnoredAny>,
    #[serde(rename = "workload")]
    _workload: Option<IgnoredAny>,
    #[serde(rename = "configuration")]
    _configuration: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    title: String,
    source: String,
    #[serde(default)]
    notes: Vec<String>,
}

impl Experiment {
    /// Reads an experiment; `name` is its file's without the ending.
    ///
    /// # Errors
    /// The first mistake, with its place.
    pub fn parse(text: &str, name: &str) -> Result<Experiment, ExperimentError> {
        let file = format!("{name}.toml");
        let wrong = |message: String| ExperimentError::Claims {
            file: file.clone(),
            message,
        };
        let read: File =
            toml::from_str(text).map_err(|error| wrong(error.to_string().trim_end().to_owned()))?;
        let mut document: DocumentMut = text
            .parse()
            .map_err(|error: toml_edit::TomlError| wrong(error.to_string()))?;
        for key in ["experiment", "sweep", "published", "expect"] {
            document.remove(key);
        }
        let scenario = Scenario::parse(&document.to_string(), &file)?;
        let claims = read.published.into_iter().map(Claim::from);
        let experiment = Experiment {
            name: name.to_owned(),
            title: read.experiment.title,
            source: read.experiment.source,
            notes: read.experiment.notes,
            claims: claims
                .chain(read.expect.into_iter().map(Claim::from))
                .collect(),
            scenario,
            sweeps: read.sweep,
            document,
        };
        experiment.check().map_err(wrong)?;
        Ok(experiment)
    }

    /// Do sweeps and claims refer to what exists?
    fn check(&self) -> Result<(), String> {
        for sweep in &self.sweeps {
            let set = |value| sweep.set(&mut self.document.clone(), value);
            if sweep.values.is_empty() || !sweep.values.iter().all(set) {
                return Err(format!(
                    "sweep {:?}: give values, and a key that stands in the file",
                    sweep.name
                ));
            }
        }
        self.claims
            .iter()
            .try_for_each(|claim| self.check_claim(claim))
    }

    fn check_claim(&self, claim: &Claim) -> Result<(), String> {
        let about =
            |reason: String| format!("{} of {:?}: {reason}", claim.what, claim.configuration);
        let known = |name: &String| self.scenario.configurations.iter().any(|c| c.name == *name);
        for name in [Some(&claim.configuration), claim.relative_to.as_ref()]
            .into_iter()
            .flatten()
        {
            if !known(name) {
                return Err(about(format!("there is no configuration {name:?}")));
            }
        }
        if let Some(name) = &claim.workload
            && !self
                .scenario
                .workloads
                .iter()
                .any(|workload| workload.task.name == *name)
        {
            return Err(about(format!("there is no workload {name:?}")));
        }
        for (name, value) in &claim.at {
            let sweep = self.sweeps.iter().find(|sweep| sweep.name == *name);
            let sweep = sweep.ok_or_else(|| about(format!("there is no sweep {name:?}")))?;
            if !sweep.values.contains(value) {
                return Err(about(format!(
                    "sweep {name:?} does not take the value {value}"
                )));
            }
        }
        match &claim.expectation {
            Expectation::Value { tolerance, .. } if tolerance.is_nan() || *tolerance < 0.0 => {
                Err(about("the tolerance has to be at least 0".into()))
            }
            Expectation::Trend(Limit::Rises(name) | Limit::Falls(name))
                if !self.sweeps.iter().any(|sweep| sweep.name == *name) =>
            {
                Err(about(format!("there is no sweep {name:?}")))
            }
            _ => Ok(()),
        }
    }
}
