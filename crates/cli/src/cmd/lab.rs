//! What is for machines that are no servers: the test bed, the demonstrations, the published experiments. A program that is
//! built without the feature `lab` leaves them to the program `sidelane-lab`.

#[cfg(feature = "lab")]
use super::{demo, reproduce, testbed};
use clap::Subcommand;
use std::process::ExitCode;

/// The subcommands.
#[cfg(feature = "lab")]
#[derive(Subcommand)]
pub enum Command {
    Demo(Box<demo::Args>),
    Reproduce(reproduce::Args),
    Testbed(Box<testbed::Args>),
}

#[cfg(feature = "lab")]
impl Command {
    /// Runs the subcommand; the exit code is the process's.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Command::Demo(args) => demo::run(*args),
            Command::Reproduce(args) => reproduce::run(args),
            Command::Testbed(args) => testbed::run(*args),
        }
    }
}

/// The program that has all subcommands, as the package of this name installs it.
#[cfg(not(feature = "lab"))]
const PROGRAM: &str = "sidelane-lab";

/// The subcommands, by name alone.
#[cfg(not(feature = "lab"))]
#[derive(Subcommand)]
pub enum Command {
    #[command(hide = true)]
    Demo(Rest),
    #[command(hide = true)]
    Reproduce(Rest),
    #[command(hide = true)]
    Testbed(Rest),
}

/// A part of the program sidelane-lab.
#[cfg(not(feature = "lab"))]
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Rest {
    /// What that program is to do.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<std::ffi::OsString>,
}

#[cfg(not(feature = "lab"))]
impl Command {
    /// Becomes that program.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let (name, rest) = match self {
            Command::Demo(Rest { rest }) => ("demo", rest),
            Command::Reproduce(Rest { rest }) => ("reproduce", rest),
            Command::Testbed(Rest { rest }) => ("testbed", rest),
        };
        let args = std::iter::once(name.into()).chain(rest);
        Ok(super::become_program(name, PROGRAM, args))
    }
}
