//! `sidelane reproduce`: published results beside ours.

use super::Format;
use super::sweep::progress_bar;
use crate::exit::BadInput;
use serde::Serialize;
use sidelane_interface::{Kind, Listed};
use sidelane_sim::experiment::{self, Experiment, ExperimentError, Report};
use std::path::PathBuf;
use std::process::ExitCode;

const ABOUT: &str = "\
Runs experiments of published systems in the simulator and prints each published value beside ours, \
with a verdict. Without a name the experiments are listed. docs/experiments.md says what the verdicts \
mean; a difference is a result, so the exit code does not depend on them.";

const EXAMPLES: &str = "Examples:
  sidelane reproduce
  sidelane reproduce elfen-one-core
  sidelane reproduce elfen-one-core zvm-smt2-parallel --format json
  sidelane reproduce --all --html experiments.html";

/// Reproduce published results, by simulation.
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// Which ones.
    #[arg(value_name = "NAME", conflicts_with = "all")]
    names: Vec<String>,
    /// All of them.
    #[arg(long)]
    all: bool,
    /// Write a page with tables and figures [default with --all: sidelane-experiments.html].
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// How to print.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// What is printed of an experiment that is listed.
#[derive(Serialize)]
struct Titled<'a> {
    name: &'a str,
    title: &'a str,
}

/// Runs `sidelane reproduce`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let experiments = Experiment::all()?;
    if !args.all && args.names.is_empty() {
        list(&experiments, args.format)?;
        return Ok(ExitCode::SUCCESS);
    }
    let chosen = choose(&experiments, &args)?;
    let bar = progress_bar(chosen.iter().map(|experiment| experiment.runs()).sum());
    let mut reports = Vec::new();
    for experiment in chosen {
        reports.push(experiment.run(&|| bar.inc(1)).map_err(explained)?);
    }
    bar.finish_and_clear();
    let page = args
        .html
        .or_else(|| args.all.then(|| PathBuf::from("sidelane-experiments.html")));
    if let Some(path) = page {
        super::write_file(&path, &experiment::page(&reports))?;
    }
    let text = || {
        reports
            .iter()
            .map(Report::text)
            .collect::<Vec<_>>()
            .join("\n")
    };
    let listed = Listed("experiments", &reports);
    args.format.print(Kind::Reproduce, text, &listed)?;
    Ok(ExitCode::SUCCESS)
}

/// The experiments that were named, in the order of their names.
fn choose<'a>(experiments: &'a [Experiment], args: &Args) -> anyhow::Result<Vec<&'a Experiment>> {
    for name in &args.names {
        if !experiments
            .iter()
            .any(|experiment| experiment.name == *name)
        {
            return Err(BadInput(format!(
                "there is no experiment {name:?}; `sidelane reproduce` lists them"
            ))
            .into());
        }
    }
    let wanted = |e: &&Experiment| args.all || args.names.contains(&e.name);
    Ok(experiments.iter().filter(wanted).collect())
}

fn list(experiments: &[Experiment], format: Format) -> anyhow::Result<()> {
    let lines = experiments.iter().map(|experiment| Titled {
        name: &experiment.name,
        title: &experiment.title,
    });
    let lines: Vec<Titled> = lines.collect();
    let line = |line: &Titled| format!("{:<24} {}\n", line.name, line.title);
    let text = || lines.iter().map(line).collect();
    format.print(Kind::Experiments, text, &Listed("experiments", &lines))
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
