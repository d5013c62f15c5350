//! The subcommands, a file each.

mod advise;
mod calibrate;
mod control;
#[cfg(feature = "lab")]
mod demo;
mod doctor;
mod export;
mod lab;
mod lanes;
mod man;
mod mark;
mod model;
mod node;
mod record;
mod report;
#[cfg(feature = "lab")]
mod reproduce;
mod run;
mod sim;
mod stat;
mod status;
mod sweep;
mod tasks;
#[cfg(feature = "lab")]
mod testbed;
mod top;
mod topology;
mod trial;
mod tune;

use crate::exit::{BadInput, CANNOT};
use anyhow::{Context, ensure};
use clap::{Subcommand, ValueEnum};
use serde::Serialize;
use sidelane_interface::say;
use sidelane_interface::{Document, Kind};
use sidelane_smt::recording::intervals;
use sidelane_smt::snapshot::Interval;
use sidelane_topology::printable;
use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::ops::RangeInclusive;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::ExitCode;

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    Advise(advise::Args),
    Calibrate(calibrate::Args),
    Completions(man::CompletionArgs),
    Control(control::Args),
    Doctor(doctor::Args),
    Export(export::Args),
    Lanes(lanes::Args),
    Man(man::Args),
    Mark(mark::Args),
    Model(model::Args),
    Node(node::Args),
    Record(record::Args),
    Report(report::Args),
    Run(run::Args),
    Sim(Box<sim::Args>),
    Stat(stat::Args),
    Status(status::Args),
    Tasks(tasks::Args),
    Top(top::Args),
    Topology(topology::Args),
    Trial(trial::Args),
    Tune(tune::Args),
    #[command(flatten)]
    Lab(lab::Command),
}

impl Command {
    /// Runs the subcommand; the exit code is the process's.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Command::Advise(args) => advise::run(args),
            Command::Calibrate(args) => calibrate::run(args),
            Command::Completions(args) => man::complete(args),
            Command::Control(args) => control::run(args),
            Command::Doctor(args) => doctor::run(args),
            Command::Export(args) => export::run(args),
            Command::Lanes(args) => lanes::run(args),
            Command::Man(args) => man::run(args),
            Command::Mark(args) => mark::run(args),
            Command::Model(args) => model::run(args),
            Command::Node(args) => Ok(node::run(args)),
            Command::Record(args) => record::run(args),
            Command::Report(args) => report::run(args),
            Command::Run(args) => run::run(args),
            Command::Sim(args) => sim::run(*args),
            Command::Stat(args) => stat::run(args),
            Command::Status(args) => status::run(args),
            Command::Tasks(args) => tasks::run(args),
            Command::Top(args) => top::run(args),
            Command::Topology(args) => topology::run(args),
            Command::Trial(args) => trial::run(args),
            Command::Tune(args) => tune::run(args),
            Command::Lab(command) => command.run(),
        }
    }
}

/// Becomes the program that has a subcommand, called with these arguments.
fn become_program(name: &str, program: &str, args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let error = std::process::Command::new(program).args(args).exec();
    say!(
        "error: '{name}' is a part of {program}, which does not start: {error}; install {program}"
    );
    ExitCode::from(CANNOT)
}

/// How results are printed on standard output.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people: tables and pictures in text.
    Text,
    /// For programs: one JSON document.
    Json,
}

impl Format {
    /// Prints a result on standard output: what `text` renders, or `value` as a JSON document
    /// of its kind. A reader that
    /// has gone away (`sidelane … | head`) is no error.
    pub fn print(
        self,
        kind: Kind,
        text: impl FnOnce() -> String,
        value: &impl Serialize,
    ) -> anyhow::Result<()> {
        write_out(&match self {
            Format::Text => text(),
            Format::Json => Document::new(kind, value).pretty()?,
        })
    }

    /// Prints one of many results on standard output: JSON takes one line each.
    pub fn print_line(
        self,
        kind: Kind,
        text: impl FnOnce() -> String,
        value: &impl Serialize,
    ) -> anyhow::Result<()> {
        write_out(&match self {
            Format::Text => text(),
            Format::Json => Document::new(kind, value).line()?,
        })
    }
}

/// Reads a number of seconds, at least `least` and at most a day.
fn seconds(text: &str, least: f64) -> Result<f64, String> {
    number(text, least..=86_400.0, "seconds")
}

/// Reads a number of `what` within a range.
fn number(text: &str, range: RangeInclusive<f64>, what: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if range.contains(&value) => Ok(value),
        _ => Err(format!(
            "expected {} to {} {what}",
            range.start(),
            range.end()
        )),
    }
}

/// The intervals of a recording. What limits it is told.
fn recording(path: &Path) -> anyhow::Result<Vec<Interval>> {
    let bad = |reason: String| BadInput(format!("{}: {reason}", path.display()));
    let bytes = std::fs::read(path).map_err(|e| unread(path, &e))?;
    let read = intervals(&bytes).map_err(|e| bad(printable(e.to_string().as_bytes())));
    let (intervals, notes) = read?;
    for note in notes {
        say!("sidelane: {}", printable(note.as_bytes()));
    }
    Ok(intervals)
}

/// The text of a file.
fn read_text(path: &Path) -> anyhow::Result<String> {
    Ok(std::fs::read_to_string(path).map_err(|e| unread(path, &e))?)
}

/// Why a file that was named is not read, and what to do.
fn unread(path: &Path, error: &std::io::Error) -> BadInput {
    let name = path.display();
    BadInput(match error.kind() {
        ErrorKind::InvalidData => format!("{name}: it is not UTF-8 text; save it as that"),
        _ => format!("{name}: cannot read it: {error}; check the path"),
    })
}

/// The folder below which a machine is looked at: this machine's, or one that has to hold `what`.
fn root_of<'a>(given: Option<&'a Path>, what: &str) -> anyhow::Result<&'a Path> {
    let root = given.unwrap_or(Path::new("/"));
    ensure!(
        root.is_dir(),
        BadInput(format!(
            "{}: no folder; name one that holds {what}",
            root.display()
        ))
    );
    Ok(root)
}

/// Writes to standard output; a reader that has gone away is no error.
fn write_out(output: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(output.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Writes a file that was asked for, and says so.
fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("{}: cannot write it", path.display()))?;
    say!("sidelane: wrote {}", path.display());
    Ok(())
}
