//! Running an experiment, and what came out of it as text.

use super::claims::{Claim, Expectation, Limit};
use super::judge::{Finding, judge};
use super::{Experiment, ExperimentError};
use crate::Scenario;
use crate::run::{Outcome, run};
use crate::statistics::digits;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// A point of the sweeps, and what came out there.
#[derive(Debug, Clone)]
pub struct Point {
    /// Values of the sweeps, by their names.
    pub at: BTreeMap<String, toml::Value>,
    /// By configuration.
    pub outcomes: Vec<Outcome>,
}

/// What came out of an experiment.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Name of the experiment.
    pub name: String,
    /// What is reproduced.
    pub title: String,
    /// Where the published values stand.
    pub source: String,
    /// What is simulated.
    pub about: String,
    /// What follows from what, and what cannot be reproduced.
    pub notes: Vec<String>,
    /// What the results rest on that nobody measured or published.
    pub assumptions: Vec<String>,
    /// Start of all random numbers.
    pub seed: u64,
    /// Replications at each point.
    pub replications: u32,
    /// Claim by claim.
    pub findings: Vec<Finding>,
    /// Names of the sweeps.
    pub sweeps: Vec<String>,
    /// All points, in the order of the sweeps, the last sweep fastest.
    #[serde(skip)]
    pub points: Vec<Point>,
}

impl Experiment {
    /// Runs everything; `progress` is told of each simulation that has ended.
    ///
    /// # Errors
    /// If a value of a sweep makes no scenario, or a simulation ends in an error.
    pub fn run(&self, progress: &(dyn Fn() + Sync)) -> Result<Report, ExperimentError> {
        let mut points = Vec::new();
        for at in self.all_points() {
            let scenario = self.scenario_at(&at)?;
            let outcomes =
                run(&scenario, progress).map_err(|error| ExperimentError::Simulation {
                    file: format!("{}.toml", self.name),
                    error,
                })?;
            points.push(Point { at, outcomes });
        }
        let judged = self.claims.iter().flat_map(|claim| judge(claim, &points));
        let mut findings: Vec<Finding> = judged.collect();
        findings.sort_by_key(|finding| points.iter().position(|point| point.at == finding.at));
        Ok(Report {
            name: self.name.clone(),
            title: self.title.clone(),
            source: self.source.clone(),
            about: self.scenario.about.clone(),
            notes: self.notes.clone(),
            assumptions: self.scenario.assumptions.clone(),
            seed: self.scenario.run.seed,
            replications: self.scenario.run.replications,
            findings,
            sweeps: self.sweeps.iter().map(|sweep| sweep.name.clone()).collect(),
            points,
        })
    }

    /// All combinations of the values of the sweeps.
    fn all_points(&self) -> Vec<BTreeMap<String, toml::Value>> {
        let mut points = vec![BTreeMap::new()];
        for sweep in &self.sweeps {
            let with = |point: &BTreeMap<String, toml::Value>| {
                let point = point.clone();
                sweep.values.iter().map(move |value| {
                    let mut point = point.clone();
                    point.insert(sweep.name.clone(), value.clone());
                    point
                })
            };
            points = points.iter().flat_map(with).collect();
        }
        points
    }

    fn scenario_at(&self, at: &BTreeMap<String, toml::Value>) -> Result<Scenario, ExperimentError> {
        let mut document = self.document.clone();
        for sweep in &self.sweeps {
            if let Some(value) = at.get(&sweep.name) {
                sweep.set(&mut document, value);
            }
        }
        Ok(Scenario::parse(
            &document.to_string(),
            &format!("{}.toml", self.name),
        )?)
    }
}

/// `load 0.4, thread_perf [1, 0.6]`.
pub(super) fn place(at: &BTreeMap<String, toml::Value>) -> String {
    let part = |(name, value): (&String, &toml::Value)| format!("{name} {}", short(value));
    at.iter().map(part).collect::<Vec<_>>().join(", ")
}

fn short(value: &toml::Value) -> String {
    value.to_string().replace(", ", ",")
}

impl Claim {
    /// `p99_ms server: borrow-idle ÷ alone`.
    pub(super) fn subject(&self) -> String {
        use super::Comparison::{Difference, Increase, Ratio};
        let workload = self
            .workload
            .as_ref()
            .map_or(String::new(), |name| format!(" {name}"));
        let relative =
            self.relative_to
                .as_ref()
                .map_or(String::new(), |other| match self.compare {
                    Ratio => format!(" ÷ {other}"),
                    Difference => format!(" − {other}"),
                    Increase => format!(" ÷ {other} − 1"),
                });
        format!("{}{workload}: {}{relative}", self.what, self.configuration)
    }

    /// `0.9` or `< 100`.
    pub(super) fn published(&self) -> String {
        match &self.expectation {
            Expectation::Value { value, .. } => digits(*value),
            Expectation::Trend(Limit::Above(limit)) => format!("> {}", digits(*limit)),
            Expectation::Trend(Limit::Below(limit)) => format!("< {}", digits(*limit)),
            Expectation::Trend(Limit::Between([low, high])) => {
                format!("{}…{}", digits(*low), digits(*high))
            }
            Expectation::Trend(Limit::Rises(sweep)) => format!("rises with {sweep}"),
            Expectation::Trend(Limit::Falls(sweep)) => format!("falls with {sweep}"),
        }
    }
}

/// Lines of at most 100 columns, the later ones indented.
fn wrapped() -> textwrap::Options<'static> {
    textwrap::Options::new(100).subsequent_indent("  ")
}

impl Finding {
    /// `0.897 ±0.002`, or a dash.
    pub(super) fn own(&self) -> String {
        self.ours.as_ref().map_or("-".into(), |ours| ours.text(1.0))
    }
}

impl Report {
    /// A table for people, 100 columns wide with names of ordinary length.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "{}: {}\n{}", self.name, self.title, self.source);
        let _ = writeln!(
            out,
            "{}\n",
            textwrap::fill(
                &format!(
                    "simulated: {}; {} replications, seed {}, ± half of the 95 % interval",
                    self.about, self.replications, self.seed
                ),
                wrapped()
            )
        );
        let _ = writeln!(
            out,
            "{:<46} {:>15} {:>16} {:>6}  verdict",
            "", "published", "ours", "ratio"
        );
        let mut last = String::new();
        for finding in &self.findings {
            let place = place(&finding.at);
            if place != last && !place.is_empty() {
                let _ = writeln!(out, "at {place}");
            }
            last = place;
            let _ = writeln!(
                out,
                "{:<46} {:>15} {:>16} {:>6}  {}",
                format!("  {}", finding.claim.subject()),
                finding.claim.published(),
                finding.own(),
                finding
                    .ratio
                    .map_or("-".into(), |ratio| format!("{ratio:.3}")),
                finding.verdict
            );
        }
        let _ = writeln!(out);
        for (heading, sentences) in [("note", &self.notes), ("assumed", &self.assumptions)] {
            for sentence in sentences {
                let text = format!("{heading}: {sentence}");
                let _ = writeln!(out, "{}", textwrap::fill(&text, wrapped()));
            }
        }
        out
    }

    /// How often each verdict was given.
    pub fn tally(&self) -> String {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for finding in &self.findings {
            *counts.entry(finding.verdict.to_string()).or_default() += 1;
        }
        let counts = counts.iter().map(|(verdict, n)| format!("{n} × {verdict}"));
        counts.collect::<Vec<_>>().join(", ")
    }
}
