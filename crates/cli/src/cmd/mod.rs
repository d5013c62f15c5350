//! The subcommands, a file each.

mod testbed;
mod topology;

use clap::{Subcommand, ValueEnum};
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
