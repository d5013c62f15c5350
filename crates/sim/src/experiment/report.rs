//! Running an experiment, and what came out of it as text.

use super::claims::{Claim, Expectation, Limit};
use super::delta::Delta;
use super::histogram::Histogram;
use super::judge::{Finding, Verdict, judge};
use super::model::ModelCase;
use super::{Experiment, ExperimentError, NS_PER_S, Point, Subject, place};
use crate::Scenario;
use crate::results::Replication;
use crate::run::{outcomes, replicate_all};
use crate::sweep::{self, At};
use serde::Serialize;
use sidelane_smt::report::digits;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What came out of an experiment.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Name of the experiment.
    pub name: String,
    /// What is reproduced.
    pub title: String,
    /// Where the published values stand.
    pub source: String,
    /// What is simulated, or asked of the model.
    pub about: String,
    /// What follows from what, and what cannot be reproduced.
    pub notes: Vec<String>,
    /// What the results rest on that nobody measured or published.
    pub assumptions: Vec<String>,
    /// Start of all random numbers; none where the model is asked.
    pub seed: Option<u64>,
    /// Replications at each point.
    pub replications: Option<u32>,
    /// Tables as the source prints them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deltas: Vec<Delta>,
    /// Claim by claim.
    pub findings: Vec<Finding>,
    /// Names of the sweeps.
    pub sweeps: Vec<String>,
    /// All points, in the order of the sweeps, the last sweep fastest.
    #[serde(skip)]
    pub points: Vec<Point>,
    #[serde(skip)]
    pub(super) draw_to: BTreeMap<String, f64>,
    #[serde(skip)]
    pub(super) histogram: Option<Histogram>,
}

impl Experiment {
    /// Runs everything; `progress` is told of each simulation that has ended.
    ///
    /// # Errors
    /// If a value of a sweep makes no scenario, or a simulation ends in an error.
    pub fn run(&self, progress: &(dyn Fn() + Sync)) -> Result<Report, ExperimentError> {
        let scenarios = self.scenarios()?;
        let simulated: Vec<&Scenario> = scenarios.iter().map(|(_, scenario)| scenario).collect();
        self.report(&scenarios, &mut replicate_all(&simulated, progress))
    }

    /// Runs several, all simulations in one queue.
    ///
    /// # Errors
    /// As [`Experiment::run`].
    pub fn run_all(
        experiments: &[Experiment],
        progress: &(dyn Fn() + Sync),
    ) -> Result<Vec<Report>, ExperimentError> {
        let scenarios = experiments.iter().map(Experiment::scenarios);
        let scenarios = scenarios.collect::<Result<Vec<_>, _>>()?;
        let simulated = scenarios.iter().flatten().map(|(_, scenario)| scenario);
        let mut results = replicate_all(&simulated.collect::<Vec<_>>(), progress);
        let mut each = experiments.iter().zip(&scenarios);
        each.try_fold(Vec::new(), |mut reports, (experiment, scenarios)| {
            reports.push(experiment.report(scenarios, &mut results)?);
            Ok(reports)
        })
    }

    /// The points of the sweeps, and what is simulated there; none where the model is asked.
    fn scenarios(&self) -> Result<Vec<(At, Scenario)>, ExperimentError> {
        let Subject::Simulated(simulated) = &self.subject else {
            return Ok(Vec::new());
        };
        let scenario = |point| {
            let at = simulated.at(point);
            let scenario = simulated.scenario_at(&at, &sweep::alone)?;
            Ok((at, scenario))
        };
        (0..simulated.points()).map(scenario).collect()
    }

    /// What came out, where the next of `results` are those of `scenarios`.
    fn report(
        &self,
        scenarios: &[(At, Scenario)],
        results: &mut impl Iterator<Item = crate::Result<Replication>>,
    ) -> Result<Report, ExperimentError> {
        let points = match &self.subject {
            Subject::Simulated(_) => self.points(scenarios, results)?,
            Subject::Modelled(cases) => vec![self.predict(cases)?],
        };
        let (run, sweeps) = match &self.subject {
            Subject::Simulated(simulated) => (Some(simulated.scenario().run), simulated.sweeps()),
            Subject::Modelled(_) => (None, &[][..]),
        };
        let judged = self.claims.iter();
        let judged = judged.flat_map(|claim| judge(claim, &points, &self.sensitivity));
        let mut findings: Vec<Finding> = judged.collect();
        findings.sort_by_key(|finding| points.iter().position(|point| point.at == finding.at));
        Ok(Report {
            name: self.name.clone(),
            title: self.title.clone(),
            source: self.source.clone(),
            about: self.about.clone(),
            notes: self.notes.clone(),
            assumptions: self.assumptions.clone(),
            seed: run.map(|run| run.seed),
            replications: run.map(|run| run.replications),
            deltas: (self.deltas.iter())
                .filter_map(|delta| delta.table(&points))
                .collect(),
            findings,
            sweeps: sweeps.iter().map(|sweep| sweep.name.clone()).collect(),
            points,
            draw_to: self.draw_to.clone(),
            histogram: self.histogram.clone(),
        })
    }

    fn points(
        &self,
        scenarios: &[(At, Scenario)],
        results: &mut impl Iterator<Item = crate::Result<Replication>>,
    ) -> Result<Vec<Point>, ExperimentError> {
        let point = |(at, scenario): &(At, Scenario)| {
            let outcomes = outcomes(scenario, results);
            let outcomes = outcomes.map_err(|error| ExperimentError::Simulation {
                file: format!("{}.toml", self.name),
                error,
            })?;
            Ok(Point {
                at: at.clone(),
                outcomes,
                predictions: Vec::new(),
            })
        };
        scenarios.iter().map(point).collect()
    }

    fn predict(&self, cases: &[ModelCase]) -> Result<Point, ExperimentError> {
        let predictions = cases.iter().map(ModelCase::predict);
        let predictions = predictions.collect::<Result<Vec<_>, _>>();
        Ok(Point {
            at: BTreeMap::new(),
            outcomes: Vec::new(),
            predictions: predictions.map_err(|error| ExperimentError::Model {
                file: format!("{}.toml", self.name),
                error,
            })?,
        })
    }

    /// The same with one replication and a share of the time.
    ///
    /// # Errors
    /// Never, unless the file has a mistake.
    pub fn shortened(&self, share: f64) -> Result<Experiment, ExperimentError> {
        let mut short = self.clone();
        let Subject::Simulated(simulated) = &mut short.subject else {
            return Ok(short);
        };
        let run = simulated.scenario().run;
        let seconds = |ns: u64| (ns as f64 / NS_PER_S * share).to_string();
        let shorter = [
            ("run.replications", "1".to_owned()),
            ("run.seconds", seconds(run.length_ns)),
            ("run.warmup_seconds", seconds(run.warmup_ns)),
        ];
        for (key, value) in shorter {
            let set = simulated.set(key, &value, &sweep::alone);
            set.map_err(|message| ExperimentError::Claims {
                file: format!("{}.toml", self.name),
                message,
            })?;
        }
        Ok(short)
    }
}

impl Claim {
    /// `p99_ms server: borrow-idle ÷ alone`.
    pub(super) fn subject(&self) -> String {
        use super::Comparison::{Difference, Increase, Ratio, Reduction};
        let workload = self
            .workload
            .as_ref()
            .map_or(String::new(), |name| format!(" {name}"));
        let own = &self.configuration;
        let compared = match (&self.relative_to, self.compare) {
            (None, _) => own.clone(),
            (Some(other), Ratio) => format!("{own} ÷ {other}"),
            (Some(other), Difference) => format!("{own} − {other}"),
            (Some(other), Increase) => format!("{own} ÷ {other} − 1"),
            (Some(other), Reduction) => format!("1 − {own} ÷ {other}"),
        };
        let most = match (&self.greatest_over, &self.mean_over) {
            (Some(_), _) => "max ",
            (None, Some(_)) => "mean ",
            (None, None) => "",
        };
        let what = match &self.reaches {
            Some(reach) => format!("{} at {} {}", reach.over, self.what, digits(reach.at_least)),
            None => self.what.clone(),
        };
        format!("{most}{what}{workload}: {compared}")
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

    /// The claim and the point it is about: `p99_ms server: borrow-idle, < 100, load 0.4`.
    pub(super) fn id(&self, at: &BTreeMap<String, toml::Value>) -> String {
        let mut id = format!("{}, {}", self.subject(), self.published());
        if !at.is_empty() {
            let _ = write!(id, ", {}", place(at));
        }
        id
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
            textwrap::fill(&self.what_was_done(), wrapped())
        );
        for delta in &self.deltas {
            delta.write_text(&mut out);
        }
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
            if let Some(cause) = finding.cause() {
                let text = format!("    cause: {cause}");
                let _ = writeln!(out, "{}", textwrap::fill(&text, wrapped()));
            }
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

    /// What the values are of.
    pub(super) fn what_was_done(&self) -> String {
        let about = &self.about;
        match (self.replications, self.seed) {
            (Some(replications), Some(seed)) => format!(
                "Simulated: {about}; {replications} replications, seed {seed}, ± half of the 95 % interval"
            ),
            _ => format!("From the queueing model: {about}"),
        }
    }
}

/// How often each verdict was given on what a source published, or on all of that.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Tally {
    /// The first word of the experiments' names.
    pub source: String,
    /// Predictions that were published, not put in and not derived from the same value.
    pub predictions: usize,
    /// Of these: numbers that agree.
    pub agree: usize,
    /// Trends that hold.
    pub trend_holds: usize,
    /// Numbers that differ, with a change to the same side of none as published.
    pub same_direction: usize,
    /// Numbers that differ otherwise.
    pub differ: usize,
    /// Trends that fail.
    pub trend_fails: usize,
    /// The interval reaches across the limit.
    pub unclear: usize,
    /// The metric has no meaning there.
    pub no_value: usize,
    /// Of those that differ or fail: with a cause that a run shows.
    pub with_cause: usize,
}

/// A tally for each source, and one for all of them.
pub fn tallies(reports: &[Report]) -> Vec<Tally> {
    let mut tallies: Vec<Tally> = Vec::new();
    for report in reports {
        let source = super::family(&report.name);
        if tallies.last().is_none_or(|tally| tally.source != source) {
            tallies.push(Tally::of(source, reports));
        }
    }
    tallies.push(Tally::of("all", reports));
    tallies
}

impl Tally {
    /// Names of the columns.
    pub(super) const COLUMNS: [&str; 10] = [
        "published",
        "agree",
        "trend holds",
        "same direction",
        "differ",
        "trend fails",
        "unclear",
        "no value",
        "cause shown",
        "unknown",
    ];

    fn of(source: &str, reports: &[Report]) -> Tally {
        let mut tally = Tally {
            source: source.to_owned(),
            ..Tally::default()
        };
        let meant = |report: &&Report| source == "all" || super::family(&report.name) == source;
        for finding in reports.iter().filter(meant).flat_map(|it| &it.findings) {
            if finding.is_prediction() {
                tally.count(finding);
            }
        }
        tally
    }

    fn count(&mut self, finding: &Finding) {
        self.predictions += 1;
        match finding.verdict {
            Verdict::Agrees => self.agree += 1,
            Verdict::TrendHolds => self.trend_holds += 1,
            Verdict::SameDirection => self.same_direction += 1,
            Verdict::Differs => self.differ += 1,
            Verdict::TrendFails => self.trend_fails += 1,
            Verdict::Unclear => self.unclear += 1,
            Verdict::NoValue => self.no_value += 1,
            Verdict::Consistent | Verdict::Inconsistent | Verdict::Input | Verdict::InputMissed => {
            }
        }
        let against = finding.verdict.is_against();
        self.with_cause += usize::from(against && finding.claim.cause.is_some());
    }

    pub(super) fn cells(&self) -> [usize; 10] {
        let against = self.same_direction + self.differ + self.trend_fails;
        [
            self.predictions,
            self.agree,
            self.trend_holds,
            self.same_direction,
            self.differ,
            self.trend_fails,
            self.unclear,
            self.no_value,
            self.with_cause,
            against - self.with_cause,
        ]
    }

    /// Tallies as a table.
    pub fn text(tallies: &[Tally]) -> String {
        let mut out = format!("{:<10}", "source");
        for column in Tally::COLUMNS {
            let _ = write!(out, " {column}");
        }
        out.push('\n');
        for tally in tallies {
            let _ = write!(out, "{:<10}", tally.source);
            for (cell, column) in tally.cells().into_iter().zip(Tally::COLUMNS) {
                let _ = write!(out, " {cell:>width$}", width = column.len());
            }
            out.push('\n');
        }
        out
    }
}
