//! Reading experiment files.

use super::claims::{Claim, Expect, Expectation, Limit, Published};
use super::delta::Described as Delta;
use super::histogram::Histogram;
use super::model::{Described, ModelCase};
use super::{Experiment, ExperimentError, Subject};
use crate::sweep::{Sweep, Swept};
use serde::Deserialize;
use serde::de::IgnoredAny;
use sidelane_policy::file::Source;
use std::collections::BTreeMap;
use toml_edit::DocumentMut;

/// What makes a scenario an experiment; the rest is the scenario reader's.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    experiment: Head,
    #[serde(default)]
    model: Vec<Described>,
    histogram: Option<Histogram>,
    #[serde(default)]
    delta: Vec<Delta>,
    #[serde(default)]
    sweep: Vec<IgnoredAny>,
    #[serde(default)]
    published: Vec<Published>,
    #[serde(default)]
    expect: Vec<Expect>,
    #[serde(rename = "name")]
    _name: Option<IgnoredAny>,
    #[serde(default)]
    about: String,
    #[serde(default)]
    assumptions: Vec<String>,
    machine: Option<IgnoredAny>,
    #[serde(rename = "run")]
    _run: Option<IgnoredAny>,
    #[serde(rename = "pool")]
    _pool: Option<IgnoredAny>,
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
    #[serde(default)]
    sensitivity: BTreeMap<String, toml::Value>,
    #[serde(default)]
    draw_to: BTreeMap<String, f64>,
}

/// The scenario, without what makes it an experiment.
fn simulated(text: &str, file: &str) -> Result<Swept, ExperimentError> {
    let wrong = |error: toml_edit::TomlError| ExperimentError::Claims {
        file: file.to_owned(),
        message: error.to_string(),
    };
    let mut document: DocumentMut = text.parse().map_err(wrong)?;
    for key in ["experiment", "published", "expect", "histogram", "delta"] {
        document.remove(key);
    }
    Ok(Swept::parse(&document.to_string(), file)?)
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
        let read: File = toml::from_str(text).map_err(|error| {
            let source = Source { file: &file, text };
            let at = error.span().map_or(0, |span| span.start);
            let what = error.message().trim_end();
            source.error(
                at,
                format!("{what}; experiments/README.md describes the format"),
            )
        })?;
        let subject = match read.model.is_empty() {
            false if read.machine.is_some() || !read.sweep.is_empty() => {
                return Err(wrong(
                    "[[model]] stands beside a scenario or a sweep; make two experiments of them"
                        .into(),
                ));
            }
            false => {
                let cases = read.model.into_iter().map(Described::case);
                Subject::Modelled(cases.collect::<Result<_, _>>().map_err(wrong)?)
            }
            true => Subject::Simulated(Box::new(simulated(text, &file)?)),
        };
        let claims = read.published.into_iter().map(Claim::from);
        let experiment = Experiment {
            name: name.to_owned(),
            title: read.experiment.title,
            source: read.experiment.source,
            notes: read.experiment.notes,
            sensitivity: read.experiment.sensitivity,
            draw_to: read.experiment.draw_to,
            claims: claims
                .chain(read.expect.into_iter().map(Claim::from))
                .collect(),
            about: read.about,
            assumptions: read.assumptions,
            subject,
            histogram: read.histogram,
            deltas: read.delta,
        };
        experiment.check().map_err(wrong)?;
        Ok(experiment)
    }

    /// Do sweeps and claims refer to what exists?
    fn check(&self) -> Result<(), String> {
        if let Some(histogram) = &self.histogram {
            histogram.check()?;
            let names = self.configurations();
            let unknown = |name: &&String| !names.contains(&name.as_str());
            if let Some(name) = histogram.configurations.iter().find(unknown) {
                return Err(format!("histogram: there is no configuration {name:?}"));
            }
        }
        let about = |reason: String| format!("sensitivity: {reason}");
        self.check_at(&self.sensitivity).map_err(about)?;
        self.deltas
            .iter()
            .try_for_each(|delta| self.check_delta(delta))?;
        self.claims
            .iter()
            .try_for_each(|claim| self.check_claim(claim))
    }

    fn check_delta(&self, delta: &Delta) -> Result<(), String> {
        let about = |reason: String| format!("delta {:?}: {reason}", delta.title);
        for name in [&delta.from, &delta.to] {
            if !self.configurations().contains(&name.as_str()) {
                return Err(about(format!("there is no configuration {name:?}")));
            }
        }
        for row in &delta.rows {
            for name in row.workload.iter().chain(&row.to_workload) {
                if !self.workloads().contains(&name.as_str()) {
                    return Err(about(format!("there is no workload {name:?}")));
                }
            }
        }
        self.check_at(&delta.at).map_err(about)
    }

    /// Are these values that sweeps take?
    fn check_at(&self, at: &BTreeMap<String, toml::Value>) -> Result<(), String> {
        for (name, value) in at {
            let sweep = self.sweeps().iter().find(|sweep| sweep.name == *name);
            let sweep = sweep.ok_or_else(|| format!("there is no sweep {name:?}"))?;
            if !sweep.values.contains(value) {
                return Err(format!("sweep {name:?} does not take the value {value}"));
            }
        }
        Ok(())
    }

    /// Names of what claims can be about.
    fn configurations(&self) -> Vec<&str> {
        match &self.subject {
            Subject::Simulated(simulated) => {
                let configurations = simulated.scenario().configurations.iter();
                configurations.map(|it| it.name.as_str()).collect()
            }
            Subject::Modelled(cases) => cases.iter().map(ModelCase::name).collect(),
        }
    }

    fn workloads(&self) -> Vec<&str> {
        match &self.subject {
            Subject::Simulated(simulated) => {
                let workloads = simulated.scenario().workloads.iter();
                workloads.map(|it| it.task.name.as_str()).collect()
            }
            Subject::Modelled(_) => Vec::new(),
        }
    }

    fn sweeps(&self) -> &[Sweep] {
        match &self.subject {
            Subject::Simulated(simulated) => simulated.sweeps(),
            Subject::Modelled(_) => &[],
        }
    }

    fn check_claim(&self, claim: &Claim) -> Result<(), String> {
        let about =
            |reason: String| format!("{} of {:?}: {reason}", claim.what, claim.configuration);
        let known = |name: &String| self.configurations().contains(&name.as_str());
        for name in [Some(&claim.configuration), claim.relative_to.as_ref()]
            .into_iter()
            .flatten()
        {
            if !known(name) {
                return Err(about(format!("there is no configuration {name:?}")));
            }
        }
        for name in claim.workload.iter().chain(&claim.relative_workload) {
            if !self.workloads().contains(&name.as_str()) {
                return Err(about(format!("there is no workload {name:?}")));
            }
        }
        self.check_at(&claim.at).map_err(about)?;
        let sweep = |name: &String| {
            let mut sweeps = self.sweeps().iter();
            sweeps.any(|sweep| sweep.name == *name) && !self.sensitivity.contains_key(name)
        };
        let mut over = claim.greatest_over.iter().chain(&claim.mean_over);
        if let Some(name) = over.find(|name| !sweep(name)) {
            return Err(about(format!(
                "there is no sweep {name:?}, or one of an assumption"
            )));
        }
        if let Some(reach) = claim.reaches.as_ref().filter(|reach| !sweep(&reach.over)) {
            return Err(about(format!("there is no sweep {:?}", reach.over)));
        }
        match &claim.expectation {
            Expectation::Value { tolerance, .. } if tolerance.is_nan() || *tolerance < 0.0 => {
                Err(about("the tolerance has to be at least 0".into()))
            }
            Expectation::Trend(Limit::Rises(name) | Limit::Falls(name)) if !sweep(name) => {
                Err(about(format!("there is no sweep {name:?}")))
            }
            // a mean or a place of a sweep has no neighbour to be compared with
            Expectation::Trend(Limit::Rises(_) | Limit::Falls(_))
                if claim.mean_over.is_some() || claim.reaches.is_some() =>
            {
                Err(about(
                    "rises and falls stand beside neither mean_over nor reaches".into(),
                ))
            }
            _ => Ok(()),
        }
    }
}
