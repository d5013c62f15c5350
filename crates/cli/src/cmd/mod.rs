//! The subcommands, a file each.

mod testbed;
mod topology;

use clap::{Subcommand, ValueEnum};
use serde::Serialize;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    Testbed(testbed::Args),
    Topology(topology::Args),
}

impl Command {
    /// Runs the subcommand; the exit code is the process's.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Command::Testbed(args) => testbed::run(args),
            Command::Topology(args) => topology::run(args),
        }
    }
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
    /// Prints a result on standard output: what `text` renders, or `value` as JSON. A reader that
    /// has gone away (`sidelane … | head`) is no error.
    pub fn print(self, text: impl FnOnce() -> String, value: &impl Serialize) -> anyhow::Result<()> {
        let output = match self {
            Format::Text => text(),
            Format::Json => serde_json::to_string_pretty(value)? + "\n",
        };
        match std::io::stdout().write_all(output.as_bytes()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        }
    }
}
