//! `sidelane sim`: what Sidelane would do on a machine with a load.

use super::recording;
use super::sweep::{self, Format, ended_early, progress_bar};
use crate::exit::BadInput;
use anyhow::Context;
use sidelane_interface::say;
use sidelane_interface::{Document, Kind};
use sidelane_sim::show::Trace;
use sidelane_sim::sweep::{Read, Swept};
use sidelane_sim::what_if::WhatIf;
use sidelane_sim::{Configuration, RecordError, Scenario, Summary, swarm};
use sidelane_topology::Topology;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const ABOUT: &str = "\
Simulates a machine whose lanes slow each other down, under the scheduler's own source (the same \
that `sidelane run` loads) and under others to compare with. The scenario says which machine, which \
load and which configurations; docs/scenarios.md describes it. Without a file one is made of --cores or \
--like-this and --load, or --from a recording; what it assumes is printed. The same scenario and seed give the \
same results on every machine.";

const EXAMPLES: &str = "Examples:
  sidelane sim examples/scenarios/demo.toml
  sidelane sim examples/scenarios/demo.toml --format json | jq '.configurations[].machine'
  sidelane sim examples/scenarios/demo.toml --seconds 0.2 --configuration sidelane --svg lanes.svg
  sidelane sim examples/scenarios/demo.toml --seconds 1 --trace trace.json   # for ui.perfetto.dev
  sidelane sim examples/scenarios/demo.toml --configuration sidelane --record sidelane.rec
  sidelane report sidelane.rec        its SMT metrics; 'sidelane advise' reads it too
  sidelane sim --cores 64 --load 0.3 --batch        no file: 64 cores of 2 lanes, batch on each
  sidelane sim --cores 16 --lanes 4 --load 0.5 --mean-ms 1 --show-scenario > mine.toml
  sidelane sim --like-this --load 0.3 --batch       as many cores and lanes as this machine has
  sidelane sim --from smt.rec         the machine and the load of a recording
  sidelane sim mine.toml --set machine.cores=64     with another value
  sidelane sim examples/scenarios/sweep.toml --shard 0/2 --format json > 0   # half of a sweep; then
  sidelane sim --merge 0 1 --format csv             both halves together
  sidelane sim --swarm 200            random machines and loads: does the scheduler keep its rules?";

const USAGE: &str = "\
sidelane sim SCENARIO.toml [OPTIONS]
       sidelane sim --cores N | --like-this[=DIR] --load SHARE [OPTIONS]
       sidelane sim --from RECORDING [OPTIONS]
       sidelane sim --merge FILE... | --swarm N | --swarm-seed SEED [--format FORMAT]";

/// Simulate what Sidelane would do on a machine with a load.
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES, override_usage = USAGE, allow_negative_numbers = true)]
pub struct Args {
    /// The scenario.
    #[arg(value_name = "SCENARIO.toml", required_unless_present_any = ["swarm", "swarm_seed", "machine", "from", "merge"])]
    scenario: Option<PathBuf>,
    #[command(flatten)]
    what_if: WhatIfArgs,
    #[command(flatten)]
    sweep: sweep::SweepArgs,
    /// Instead of a scenario: the random ones of so many seeds, each checked against the scheduler's
    /// rules.
    #[arg(long, value_name = "N", conflicts_with_all = ["scenario", "swarm_seed", "svg", "trace", "record"])]
    swarm: Option<u64>,
    /// Instead of a scenario: the random one of this seed, as a failure names it.
    #[arg(long, value_name = "SEED", conflicts_with_all = ["scenario", "svg", "trace", "record"])]
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
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
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

/// A scenario without a file.
#[derive(clap::Args)]
#[command(next_help_heading = "Instead of a scenario")]
struct WhatIfArgs {
    /// A machine of so many cores.
    #[arg(long, value_name = "N", group = "machine", requires = "load",
        conflicts_with_all = ["scenario", "swarm", "swarm_seed", "from"],
        value_parser = clap::value_parser!(u16).range(1..))]
    cores: Option<u16>,
    /// A machine of as many cores and lanes as this one has online, or a captured one.
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "/", group = "machine", requires = "load",
        conflicts_with_all = ["scenario", "swarm", "swarm_seed", "from"])]
    like_this: Option<PathBuf>,
    /// Lanes of each core.
    #[arg(long, value_name = "N", default_value_t = 2, requires = "cores",
        value_parser = clap::value_parser!(u16).range(1..=64))]
    lanes: u16,
    /// Share of the cores that a service's requests need, such as 0.3; above 1 they queue without end.
    #[arg(long, value_name = "SHARE", requires = "machine", value_parser = load)]
    load: Option<f64>,
    /// How long a request takes alone on a core, on the mean.
    #[arg(long, value_name = "MS", default_value_t = 4.0, requires = "machine")]
    mean_ms: f64,
    /// Batch beside it: so many tasks that always have work; without a number one for each lane.
    #[arg(long, value_name = "N", num_args = 0..=1, requires = "machine")]
    batch: Option<Option<usize>>,
    /// Machine and load of a file of 'sidelane record'.
    #[arg(long, value_name = "RECORDING", conflicts_with_all = ["scenario", "swarm", "swarm_seed"])]
    from: Option<PathBuf>,
    /// Speed of a lane when 1, 2, ... lanes of its core run [default: the recording's, or typical ones].
    #[arg(long, value_name = "1,S,...", value_delimiter = ',', conflicts_with_all = ["scenario", "swarm", "swarm_seed"])]
    thread_perf: Option<Vec<f64>>,
    /// Print the scenario that was made, to be kept in a file, and simulate nothing.
    #[arg(long, conflicts_with_all = ["scenario", "swarm", "swarm_seed", "svg", "trace", "record", "set", "seconds", "seed", "replications"])]
    show_scenario: bool,
}

/// The most cores' worth of work for each core: more is a mistake, most likely percent.
const LOAD_MOST: f64 = 2.0;

fn load(text: &str) -> Result<f64, String> {
    let load: f64 = text.parse().map_err(|_| "expected a share, such as 0.3")?;
    match load > 0.0 && load <= LOAD_MOST {
        true => Ok(load),
        false => Err(format!(
            "expected a share of the cores, above 0 and at most {LOAD_MOST}, such as 0.3"
        )),
    }
}

impl WhatIfArgs {
    /// What was asked for, if anything was.
    fn what_if(&self) -> anyhow::Result<Option<WhatIf>> {
        let of = |lanes: Vec<usize>, assumptions| WhatIf {
            load: self.load.unwrap_or_default(),
            mean_ms: self.mean_ms,
            batch: (self.batch).map_or(0, |n| n.unwrap_or(lanes.iter().sum())),
            lanes,
            thread_perf: None,
            assumptions,
        };
        let machine = match (self.cores, &self.like_this) {
            (Some(cores), _) => Some(of(vec![self.lanes.into(); cores.into()], Vec::new())),
            (None, Some(root)) => {
                let lanes = online(root)?;
                let left_out = "cores are equally fast, with one cache: only their number and their lanes are this machine's";
                let mut assumptions = vec![left_out.to_owned()];
                if lanes.iter().all(|&lanes| lanes == 1) {
                    let alike = "each core has one lane online, so there is no SMT to compare: '--cores N --lanes 2' shows it";
                    assumptions.push(alike.to_owned());
                }
                Some(of(lanes, assumptions))
            }
            (None, None) => None,
        };
        let mut what_if = match (machine, &self.from) {
            (Some(machine), _) => machine,
            (None, Some(file)) => {
                let bad = |reason| BadInput(format!("{}: {reason}", file.display()));
                WhatIf::from_recording(&recording(file)?).map_err(|e| bad(e.to_string()))?
            }
            (None, None) => return Ok(None),
        };
        if self.thread_perf.is_some() {
            what_if.thread_perf.clone_from(&self.thread_perf);
        }
        Ok(Some(what_if))
    }
}

/// The lanes of each core that has some online.
fn online(root: &Path) -> anyhow::Result<Vec<usize>> {
    let topology = Topology::read(root)
        .with_context(|| BadInput(format!("{}: no readable machine", root.display())))?;
    let lanes = topology
        .cores()
        .iter()
        .map(|core| core.online_lanes().count());
    Ok(lanes.filter(|&lanes| lanes > 0).collect())
}

/// Runs `sidelane sim`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(threads) = args.threads {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.into());
        pool.build_global().context("cannot start the threads")?;
    }
    if let Some(seeds) = args
        .swarm
        .map(|n| 0..n)
        .or(args.swarm_seed.map(|n| n..n + 1))
    {
        return run_swarm(seeds, args.format);
    }
    if !args.sweep.merge.is_empty() {
        sweep::merge(&args.sweep.merge, args.format)?;
        return Ok(ExitCode::SUCCESS);
    }
    let what_if = args.what_if.what_if()?;
    if let Some(what_if) = what_if.as_ref().filter(|_| args.what_if.show_scenario) {
        what_if
            .scenario()
            .map_err(|error| BadInput(error.to_string()))?;
        super::write_out(&what_if.text())?;
        return Ok(ExitCode::SUCCESS);
    }
    let folder = args.scenario.as_deref().and_then(Path::parent);
    let folder = folder.unwrap_or(Path::new("."));
    let read = |name: &str| std::fs::read_to_string(folder.join(name));
    let swept = read_scenario(&args, what_if.as_ref(), &read)?;
    let Some(scenario) = args.sweep.one(&swept, &read)? else {
        if let Some(option) = args.of_one_run() {
            let reason = "the scenario has sweeps: name one with --point";
            return Err(BadInput(format!("{option}: {reason}")).into());
        }
        args.sweep.run(&swept, &read, args.format)?;
        return Ok(ExitCode::SUCCESS);
    };
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
        Format::Json => super::write_out(&Document::new(Kind::Sim, &summary).pretty()?)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Random scenarios; fails if one of them violates a rule.
fn run_swarm(seeds: Range<u64>, format: Format) -> anyhow::Result<ExitCode> {
    let bar = progress_bar(seeds.end.saturating_sub(seeds.start));
    let total = swarm::run_many(seeds, &|done| bar.set_position(done));
    bar.finish_and_clear();
    match format {
        Format::Json => super::write_out(&Document::new(Kind::SimSwarm, &total).pretty()?)?,
        Format::Text | Format::Csv => super::write_out(&format!("{total}\n"))?,
    }
    Ok(match total.failures.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

impl Args {
    /// What only a single run can be asked for, if it was.
    fn of_one_run(&self) -> Option<&'static str> {
        let asked = [
            ("--svg", self.svg.is_some()),
            ("--trace", self.trace.is_some()),
            ("--record", self.record.is_some()),
        ];
        let first = asked.into_iter().find(|(_, asked)| *asked);
        first.map(|(option, _)| option)
    }

    /// What the command line says instead of the scenario's [run]: option, key and value.
    fn instead(&self) -> impl Iterator<Item = (&'static str, &'static str, String)> {
        let replications = self.replications.map(|n| n.to_string());
        let seconds = self.seconds.map(|s| s.to_string());
        let seed = self.seed.map(|n| n.to_string());
        [
            replications.map(|n| ("--replications", "run.replications", n)),
            seconds.map(|s| ("--seconds", "run.seconds", s)),
            seed.map(|n| ("--seed", "run.seed", n)),
        ]
        .into_iter()
        .flatten()
    }
}

/// The scenario and its sweeps, with what the command line says instead.
fn read_scenario(args: &Args, what_if: Option<&WhatIf>, read: Read) -> anyhow::Result<Swept> {
    let path = args.scenario.as_deref().unwrap_or(Path::new("what if"));
    let text = match what_if {
        Some(what_if) => {
            let made = what_if.scenario();
            made.map_err(|error| BadInput(error.to_string()))?;
            what_if.text()
        }
        None => super::read_text(path)?,
    };
    let swept = Swept::parse_with(&text, &path.display().to_string(), read);
    let mut swept = swept.map_err(|mistake| BadInput(mistake.to_string()))?;
    args.sweep.set(&mut swept, read)?;
    for (option, key, value) in args.instead() {
        swept
            .set(key, &value, read)
            .map_err(|reason| BadInput(format!("{option}: {reason}")))?;
    }
    if let Some(name) = &args.configuration {
        swept
            .keep_only(name)
            .map_err(|reason| BadInput(format!("--configuration: {reason}")))?;
    }
    Ok(swept)
}

/// Runs everything, with a progress bar where somebody looks.
fn with_progress(scenario: &Scenario) -> anyhow::Result<Vec<sidelane_sim::Outcome>> {
    let runs = scenario.configurations.len() as u64 * u64::from(scenario.run.replications);
    let bar = progress_bar(runs);
    let outcomes = sidelane_sim::run(scenario, &|| bar.inc(1));
    bar.finish_and_clear();
    outcomes.map_err(ended_early)
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
    let failed = || format!("{}: cannot write it", path.display());
    let file = BufWriter::new(File::create(path).with_context(failed)?);
    match sidelane_sim::record(scenario, configuration, env!("CARGO_PKG_VERSION"), file) {
        Ok(mut file) => file.flush().with_context(failed)?,
        Err(RecordError::Simulation(error)) => return Err(ended_early(error)),
        Err(error) => return Err(error).with_context(failed),
    }
    say!("sidelane: wrote {}", path.display());
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
        let failed = || format!("{}: cannot write it", path.display());
        let mut file = BufWriter::new(File::create(path).with_context(failed)?);
        trace
            .write_perfetto(measured_ns.end, &mut file)
            .with_context(failed)?;
        say!("sidelane: wrote {}", path.display());
    }
    Ok(())
}
