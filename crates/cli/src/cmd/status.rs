//! `sidelane status`: is the scheduler attached, and how did the last one end?

use super::{Format, root_of};
use crate::exit::{CANNOT, NO};
use sidelane_interface::Kind;
use sidelane_sched::status::{State, look};
use std::path::PathBuf;
use std::process::ExitCode;

/// Tell whether the scheduler is attached, since when, by which process, and how the last one ended.
///
/// The kernel says which scheduler it has. 'sidelane run' and 'sidelane trial' keep the rest in /run/sidelane/attached and
/// /run/sidelane/last-exit, until the next boot. Needs no privilege.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Examine a captured tree: the folder that holds `proc/`, `sys/` and `run/` [default: this machine].
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// How to print.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

const EXAMPLES: &str = "Examples:
  sidelane status
  sidelane status --format json | jq .last_exit.reason

Exit code 0: Sidelane is attached; 5: it is not, or another scheduler is; 3: this kernel has no \
sched_ext. In JSON the outcome of the last exit is stopped, ejected, failed, killed or unknown.";

/// Runs `sidelane status`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let root = root_of(args.root.as_deref(), "proc/, sys/ and run/")?;
    let status = look(root);
    args.format
        .print(Kind::Status, || status.to_string(), &status)?;
    Ok(match status.state {
        State::Attached => ExitCode::SUCCESS,
        State::NotAttached | State::OtherScheduler => NO.into(),
        State::NoSchedExt => CANNOT.into(),
    })
}
