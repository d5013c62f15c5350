//! `sidelane reproduce`: published results beside ours.

use super::Format;
use super::sweep::progress_bar;
use crate::exit::BadInput;
use serde::Serialize;
use sidelane_interface::{Kind, Listed};
use sidelane_sim::experiment::{
    self, Change, Experiment, ExperimentError, Report, Saved, Slack, Tally, changes_text, tallies,
};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const ABOUT: &str = "\
Runs experiments of published systems in the simulator and prints each published value beside ours, \
with a verdict. With --list, or without a name, the experiments are listed. docs/experiments.md says what the verdicts \
mean; a difference is a result, so the exit code does not depend on them.";

const EXAMPLES: &str = "Examples:
  sidelane reproduce --list
  sidelane reproduce elfen-one-core
  sidelane reproduce elfen-one-core zvm-smt2-parallel --format json
  sidelane reproduce my-experiment.toml
  sidelane reproduce --all --html experiments.html
  sidelane reproduce --all --format json > before.json
  sidelane reproduce --all --compare before.json";

/// Reproduce published results, by simulation.
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// Which ones: names, or files that end in .toml.
    #[arg(value_name = "NAME", conflicts_with = "all", group = "chosen")]
    names: Vec<String>,
    /// All of them.
    #[arg(long, group = "chosen")]
    all: bool,
    /// Say of each what it is, where the published values stand and how long it is simulated, and run none.
    #[arg(long, conflicts_with_all = ["compare", "html"])]
    list: bool,
    /// Print what changed since a run that --format json wrote: verdicts, and values whose intervals do not meet.
    #[arg(long, value_name = "FILE", requires = "chosen")]
    compare: Option<PathBuf>,
    /// Write a page with tables and figures [default with --all: sidelane-experiments.html].
    #[arg(long, value_name = "FILE", requires = "chosen")]
    html: Option<PathBuf>,
    /// How to print.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// What is printed of an experiment that is listed.
#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    title: &'a str,
    source: &'a str,
    simulated_s: f64,
}

/// What is printed of those that were run.
#[derive(Serialize)]
struct Printed<'a> {
    experiments: &'a [Report],
    /// Verdicts by source, and of all.
    summary: Vec<Tally>,
    /// Since the run that was saved; none without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<&'a [Change]>,
}

/// Runs `sidelane reproduce`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let chosen = choose(Experiment::all()?, &args)?;
    if args.list || (args.names.is_empty() && !args.all) {
        list(&chosen, args.format)?;
        return Ok(ExitCode::SUCCESS);
    }
    let saved = args.compare.as_deref().map(read_saved).transpose()?;
    let bar = progress_bar(chosen.iter().map(|experiment| experiment.runs()).sum());
    let reports = Experiment::run_all(&chosen, &|| bar.inc(1)).map_err(explained)?;
    bar.finish_and_clear();
    let page = args
        .html
        .or_else(|| args.all.then(|| PathBuf::from("sidelane-experiments.html")));
    if let Some(path) = page {
        super::write_file(&path, &experiment::page(&reports))?;
    }
    let now = Saved::of(&reports);
    let changes = saved.map(|then| then.changes(&now, Slack::Intervals));
    let printed = Printed {
        experiments: &reports,
        summary: tallies(&reports),
        changes: changes.as_deref(),
    };
    args.format
        .print(Kind::Reproduce, || text(&printed), &printed)?;
    Ok(ExitCode::SUCCESS)
}

/// Each experiment and the summary; only what changed, if that was asked.
fn text(printed: &Printed) -> String {
    if let Some(changes) = printed.changes {
        return changes_text(changes);
    }
    let mut parts: Vec<String> = printed.experiments.iter().map(Report::text).collect();
    if parts.len() > 1 {
        parts.push(Tally::text(&printed.summary));
    }
    parts.join("\n")
}

fn read_saved(path: &Path) -> anyhow::Result<Saved> {
    let wrong = |error: String| BadInput(format!("{}: {error}", path.display()));
    Ok(Saved::read(&super::read_text(path)?).map_err(wrong)?)
}

/// The experiments that were named, in the order of their names, then files; all, if none was.
fn choose(experiments: Vec<Experiment>, args: &Args) -> anyhow::Result<Vec<Experiment>> {
    let (files, names): (Vec<_>, Vec<_>) =
        (args.names.iter()).partition(|name| name.ends_with(".toml"));
    for name in &names {
        if !experiments.iter().any(|it| it.name == **name) {
            return Err(BadInput(format!(
                "there is no experiment {name:?}; `sidelane reproduce` lists them"
            ))
            .into());
        }
    }
    let wanted = |it: &Experiment| args.names.is_empty() || names.contains(&&it.name);
    let mut chosen: Vec<Experiment> = experiments.into_iter().filter(wanted).collect();
    for file in files {
        chosen.push(read_experiment(Path::new(file))?);
    }
    Ok(chosen)
}

fn read_experiment(path: &Path) -> anyhow::Result<Experiment> {
    let text = super::read_text(path)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let mistake = |error: ExperimentError| BadInput(error.to_string());
    Ok(Experiment::parse(&text, &name).map_err(mistake)?)
}

fn list(experiments: &[Experiment], format: Format) -> anyhow::Result<()> {
    let entries = experiments.iter().map(|experiment| Entry {
        name: &experiment.name,
        title: &experiment.title,
        source: &experiment.source,
        simulated_s: experiment.simulated_s(),
    });
    let entries: Vec<Entry> = entries.collect();
    let text = || {
        let head = format!(
            "{:<28} {:>10}  title, and where the values stand\n",
            "name", "simulated"
        );
        head + &experiments
            .iter()
            .map(Experiment::entry)
            .collect::<String>()
    };
    format.print(Kind::Experiments, text, &Listed("experiments", &entries))
}

/// A violation is explained by its last steps.
fn explained(error: ExperimentError) -> anyhow::Error {
    match &error {
        ExperimentError::Simulation { error: inner, .. } => {
            anyhow::anyhow!("{error}\n{}", inner.steps())
        }
        _ => error.into(),
    }
}
