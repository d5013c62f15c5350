//! `sidelane sim` of a scenario with sweeps.

use super::write_out;
use crate::exit::BadInput;
use anyhow::anyhow;
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use sidelane_interface::{Document, Kind};
use sidelane_sim::points::{Merged, PointError, PointSummary, Shard};
use sidelane_sim::sweep::{Read, Swept};
use std::io::{BufRead, BufReader};
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// What concerns a scenario with sweeps, `[[sweep]]` (docs/sweeps.md).
#[derive(clap::Args)]
#[command(next_help_heading = "Values of the scenario, and sweeps")]
pub struct SweepArgs {
    /// Set a value of the scenario, such as machine.cores=64 or workload.server.open.rate_per_s=900.
    #[arg(long, value_name = "KEY=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,
    /// List the points of the sweeps, and simulate nothing.
    #[arg(long)]
    points: bool,
    /// Only this point, as a scenario of its own, also for pictures, traces and recordings.
    #[arg(long, value_name = "N", conflicts_with_all = ["points", "shard"])]
    point: Option<u64>,
    /// Only every Nth point, from the Ith on, I from 0.
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Put the files of shards (--format json) together, instead of simulating.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = SIMULATING)]
    pub merge: Vec<PathBuf>,
}

/// What asks for a simulation, or tells how. By name: a group of them would be lost where completions and manual pages leave
/// hidden options out.
const SIMULATING: [&str; 23] = [
    "scenario",
    "set",
    "points",
    "point",
    "shard",
    "cores",
    "like_this",
    "lanes",
    "load",
    "mean_ms",
    "batch",
    "from",
    "thread_perf",
    "show_scenario",
    "swarm",
    "swarm_seed",
    "configuration",
    "replications",
    "seconds",
    "seed",
    "svg",
    "trace",
    "record",
];

fn assignment(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=');
    let (key, value) = parts.ok_or("expected KEY=VALUE, such as machine.cores=64")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

impl SweepArgs {
    /// Sets what is to be set.
    pub fn set(&self, swept: &mut Swept, read: Read) -> anyhow::Result<()> {
        for (key, value) in &self.set {
            swept
                .set(key, value, read)
                .map_err(|reason| BadInput(format!("--set {key}: {reason}")))?;
        }
        Ok(())
    }

    /// The scenario that is one point, if one is named or there are no sweeps.
    pub fn one(&self, swept: &Swept, read: Read) -> anyhow::Result<Option<sidelane_sim::Scenario>> {
        let sweeps = !swept.sweeps().is_empty();
        let named = [
            ("--points", self.points),
            ("--shard", self.shard.is_some()),
            ("--point", self.point.is_some()),
        ];
        if let (false, Some((option, _))) = (sweeps, named.iter().find(|(_, given)| *given)) {
            let reason = "the scenario has no [[sweep]]; docs/sweeps.md";
            return Err(BadInput(format!("{option}: {reason}")).into());
        }
        match self.point {
            None if sweeps => Ok(None),
            None => Ok(Some(swept.scenario().clone())),
            Some(point) if point < swept.points() => {
                let at = swept.scenario_at(&swept.at(point), read);
                Ok(Some(at.map_err(|mistake| BadInput(mistake.to_string()))?))
            }
            Some(_) => {
                let last = swept.points() - 1;
                Err(BadInput(format!("--point: there are points 0 to {last}")).into())
            }
        }
    }

    /// Lists the points, or simulates them.
    pub fn run(&self, swept: &Swept, read: Read, format: Format) -> anyhow::Result<()> {
        let digest = swept.digest(read);
        let digest = digest.map_err(|mistake| BadInput(mistake.to_string()))?;
        let shard = self.shard.unwrap_or(Shard::ALL);
        if self.points {
            let mut points = shard.points(swept.points());
            return points.try_for_each(|point| print(&swept.point(point, digest), format));
        }
        let scenario = swept.scenario();
        let runs = scenario.configurations.len() as u64 * u64::from(scenario.run.replications);
        let bar = progress_bar(runs * shard.points(swept.points()).count() as u64);
        let mut begun = false;
        let ended = swept.run(shard, read, digest, &|| bar.inc(1), |point| {
            let written = bar.suspend(|| {
                if !begun {
                    heading(&point, format)?;
                }
                print(&point, format)
            });
            begun = true;
            written.map_err(Stop::Print)
        });
        bar.finish_and_clear();
        ended.map_err(|stop| match stop {
            Stop::Print(error) => error,
            Stop::Point(PointError::Scenario { point, mistake }) => {
                BadInput(format!("{mistake} (point {point})")).into()
            }
            Stop::Point(PointError::Simulation { point, error }) => {
                ended_early(error).context(format!("point {point}"))
            }
        })
    }
}

/// Why points end early.
enum Stop {
    Point(PointError),
    Print(anyhow::Error),
}

impl From<PointError> for Stop {
    fn from(error: PointError) -> Stop {
        Stop::Point(error)
    }
}

/// What stands above the points, of which this is the first.
fn heading(first: &PointSummary, format: Format) -> anyhow::Result<()> {
    match format {
        Format::Csv => write_out(&first.csv_heading()),
        Format::Text => write_out(&first.text_heading()),
        Format::Json => Ok(()),
    }
}

fn print(point: &PointSummary, format: Format) -> anyhow::Result<()> {
    match format {
        Format::Text => write_out(&point.text()),
        Format::Csv => write_out(&point.csv()),
        Format::Json => write_out(&Document::new(Kind::SimPoint, point).line()?),
    }
}

/// Puts the files of shards together: what one run of all points prints.
pub fn merge(files: &[PathBuf], format: Format) -> anyhow::Result<()> {
    let mut merged = Merged::new(Kind::SimPoint.schema());
    for path in files {
        let name = path.display();
        let unread = |error| super::unread(path, &error);
        let file = std::fs::File::open(path).map_err(unread)?;
        for (line, number) in BufReader::new(file).lines().zip(1..) {
            let added = merged.add(&line.map_err(unread)?);
            added.map_err(|reason| BadInput(format!("{name}:{number}: {reason}")))?;
        }
    }
    let missing = merged.missing();
    if !missing.is_empty() {
        return Err(BadInput(format!(
            "points {} are missing: simulate them, with --shard as the others",
            missing.iter().map(run_of).collect::<Vec<_>>().join(", ")
        ))
        .into());
    }
    if merged.lines().next().is_none() {
        let none = "no point in these files: --shard with --format json writes them";
        return Err(BadInput(none.to_owned()).into());
    }
    if matches!(format, Format::Json) {
        return merged
            .lines()
            .try_for_each(|line| write_out(&format!("{line}\n")));
    }
    for (number, point) in merged.points().enumerate() {
        let point = point.map_err(BadInput)?;
        if number == 0 {
            heading(&point, format)?;
        }
        print(&point, format)?;
    }
    Ok(())
}

fn run_of(points: &RangeInclusive<u64>) -> String {
    match points.start() == points.end() {
        true => points.start().to_string(),
        false => format!("{}-{}", points.start(), points.end()),
    }
}

/// How results are printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people: tables.
    Text,
    /// For programs: one JSON document.
    Json,
    /// One line a metric.
    Csv,
}

/// Why a simulation ended early.
pub fn ended_early(error: sidelane_sim::Error) -> anyhow::Error {
    match error {
        sidelane_sim::Error::BadWorkload(why) => BadInput(why).into(),
        error => anyhow!("{error}\n{}", error.steps()),
    }
}

/// A bar on standard error, where that is a terminal.
pub fn progress_bar(runs: u64) -> ProgressBar {
    let bar = ProgressBar::new(runs);
    match ProgressStyle::with_template("{wide_bar} {pos}/{len} runs, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
