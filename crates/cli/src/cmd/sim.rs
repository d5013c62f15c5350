//! `sidelane sim`: what Sidelane would do on a machine with a load.

use crate::exit::BadInput;
use anyhow::{Context, anyhow};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use sidelane_sim::show::Trace;
use sidelane_sim::{Configuration, RecordError, Scenario, Summary, swarm};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const ABOUT: &str = "\
Simulates a machine whose lanes slow each other down, under the scheduler's own source (the same
that `sidelane run` loads) and under others to compare with. The scenario says which machine, which
load and which configurations; docs/scenarios.md describes it. The same scenario and seed give the
same results on every machine.";

const EXAMPLES: &str = "Examples:
  sidelane sim examples/scenarios/demo.toml
  sidelane sim examples/scenarios/demo.toml --format json | jq '.configurations[].machine'
  sidelane sim examples/scenarios/demo.toml --seconds 0.2 --configuration sidelane --svg lanes.svg
  sidelane sim examples/scenarios/demo.toml --seconds 1 --trace trace.json   # for ui.perfetto.dev
  sidelane sim examples/scenarios/demo.toml --configuration sidelane --record sidelane.rec
  sidelane report sidelane.rec        its SMT metrics; 'sidelane advise' reads it too
  sidelane sim --swarm 200            random machines and loads: does the scheduler keep its rules?";

/// Simulate what Sidelane would do on a machine with a load.
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// The scenario.
    #[arg(value_name = "SCENARIO.toml", required_unless_present_any = ["swarm", "swarm_seed"])]
    scenario: Option<PathBuf>,
    /// Instead of a scenario: the random ones of so many seeds, each checked against the scheduler's
    /// rules.
    #[arg(long, value_name = "N", conflicts_with_all = ["scenario", "swarm_seed"])]
    swarm: Option<u64>,
    /// Instead of a scenario: the random one of this seed, as a failure names it.
    #[arg(long, value_name = "SEED", conflicts_with = "scenario")]
    swarm_seed: Option<u64>,
    /// Only this configuration; needed for pictures, traces and recordings where there are several.
    #[arg(long, value_name = "NAME")]
    configuration: Option<String>,
    /// Instead of the scenario's number of replications.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    replications: Option<u32>,
    /// Instead of the scenario's measured time.
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// Instead of the scenario's seed.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Replications that run at the same time [default: one for each CPU].
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Draw the first replication as a timeline of all lanes.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write all steps of the first replication, for Perfetto.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Record the first replication as 'sidelane record' does a machine, for 'report' and 'advise'.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// How to print.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// How results are printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people: tables.
    Text,
    /// For programs: one JSON document.
    Json,
    /// One line a metric.
    Csv,
}

/// Runs `sidelane sim`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(threads) = args.threads {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build_global().context("cannot start the threads")?;
    }
    if let Some(seeds) = args
        .swarm
        .map(|n| 0..n)
        .or(args.swarm_seed.map(|n| n..n + 1))
    {
        return run_swarm(seeds, args.format);
    }
    let scenario = read(&args)?;
    if args.svg.is_some() || args.trace.is_some() {
        draw(&scenario, &args)?;
    }
    if let Some(path) = &args.record {
        record(&scenario, path)?;
    }
    let outcomes = with_progress(&scenario)?;
    let summary = Summary::new(&scenario, &outcomes);
    match args.format {
        Format::Text => super::write_out(&summary.text())?,
        Format::Csv => super::write_out(&summary.csv())?,
        Format::Json => super::write_out(&(serde_json::to_string_pretty(&summary)? + "\n"))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Random scenarios; fails if one of them violates a rule.
fn run_swarm(seeds: Range<u64>, format: Format) -> anyhow::Result<ExitCode> {
    let bar = progress_bar(seeds.end.saturating_sub(seeds.start));
    let total = swarm::run_many(seeds, &|done| bar.set_position(done));
    bar.finish_and_clear();
    match format {
        Format::Json => super::write_out(&(serde_json::to_string_pretty(&total)? + "\n"))?,
        Format::Text | Format::Csv => super::write_out(&format!("{total}\n"))?,
    }
    Ok(match total.failures.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// The scenario, with what the command line says instead.
fn read(args: &Args) -> anyhow::Result<Scenario> {
    let path = args.scenario.as_deref().unwrap_or(Path::new(""));
    let mut scenario = read_scenario(path)?;
    let run = &mut scenario.run;
    run.replications = args.replications.unwrap_or(run.replications);
    run.seed = args.seed.unwrap_or(run.seed);
    if let Some(seconds) = args.seconds {
        run.set_seconds(seconds)
            .map_err(|reason| BadInput(format!("--seconds: {reason}")))?;
    }
    if let Some(name) = &args.configuration {
        scenario
            .keep_only(name)
            .map_err(|reason| BadInput(format!("--configuration: {reason}")))?;
    }
    Ok(scenario)
}

fn read_scenario(path: &Path) -> anyhow::Result<Scenario> {
    let text = std::fs::read_to_string(path)
        .with_context(|| BadInput(format!("cannot read {}", path.display())))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let read = |name: &str| std::fs::read_to_string(folder.join(name));
    let scenario = Scenario::parse_with(&text, &path.display().to_string(), &read);
    scenario.map_err(|error| BadInput(error.to_string()).into())
}

/// Runs everything, with a progress bar where somebody looks.
fn with_progress(scenario: &Scenario) -> anyhow::Result<Vec<sidelane_sim::Outcome>> {
    let runs = scenario.configurations.len() as u64 * u64::from(scenario.run.replications);
    let bar = progress_bar(runs);
    let outcomes = sidelane_sim::run(scenario, &|| bar.inc(1));
    bar.finish_and_clear();
    outcomes.map_err(ended_early)
}

/// Why a simulation ended early.
fn ended_early(error: sidelane_sim::Error) -> anyhow::Error {
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

/// The only configuration, to do something with.
fn only<'a>(scenario: &'a Scenario, what: &str) -> anyhow::Result<&'a Configuration> {
    match scenario.configurations.as_slice() {
        [configuration] => Ok(configuration),
        _ => Err(BadInput(format!("name the one to {what} with --configuration")).into()),
    }
}

/// Records the first replication of the only configuration.
fn record(scenario: &Scenario, path: &Path) -> anyhow::Result<()> {
    let configuration = only(scenario, "record")?;
    let failed = || format!("cannot write {}", path.display());
    let file = BufWriter::new(File::create(path).with_context(failed)?);
    match sidelane_sim::record(scenario, configuration, env!("CARGO_PKG_VERSION"), file) {
        Ok(mut file) => file.flush().with_context(failed)?,
        Err(RecordError::Simulation(error)) => return Err(ended_early(error)),
        Err(error) => return Err(error).with_context(failed),
    }
    eprintln!("sidelane: wrote {}", path.display());
    Ok(())
}

/// Pictures and traces of the first replication of the only configuration.
fn draw(scenario: &Scenario, args: &Args) -> anyhow::Result<()> {
    let configuration = only(scenario, "draw")?;
    let traced = sidelane_sim::trace(scenario, configuration).map_err(ended_early)?;
    let trace = Trace {
        machine: &traced.machine,
        tasks: &traced.tasks,
        records: &traced.records,
    };
    let measured_ns = scenario.run.warmup_ns..scenario.run.warmup_ns + scenario.run.length_ns;
    if let Some(path) = &args.svg {
        let title = format!("{}: {}", scenario.name, configuration.name);
        super::write_file(path, &trace.gantt(&title, measured_ns.clone()))?;
    }
    if let Some(path) = &args.trace {
        let failed = || format!("cannot write {}", path.display());
        let mut file = BufWriter::new(File::create(path).with_context(failed)?);
        trace
            .write_perfetto(measured_ns.end, &mut file)
            .with_context(failed)?;
        eprintln!("sidelane: wrote {}", path.display());
    }
    Ok(())
}
