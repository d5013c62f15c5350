//! `sidelane doctor`: can this machine run the scheduler?

use super::{Format, root_of};
use crate::exit::CANNOT;
use sidelane_interface::Kind;
use sidelane_sched::doctor;
use std::path::PathBuf;
use std::process::ExitCode;

/// Tell whether this machine can run the scheduler, and what to do if not.
///
/// Each check says what was seen and, unless all is well, a remedy behind an arrow. A check that
/// failed rules the scheduler out; a warning says what it will do less well. Nothing is changed.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Examine a captured tree: the folder that holds `proc/`, `sys/` and `boot/` [default: this
    /// machine].
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// How to print.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

const EXAMPLES: &str = "Examples:
  sudo sidelane doctor
  sidelane doctor --format json | jq '.checks[] | select(.verdict != \"ok\")'

Exit code 0: the scheduler can run, perhaps with warnings; 3: it cannot.";

/// Runs `sidelane doctor`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let root = root_of(args.root.as_deref(), "proc/, sys/ and boot/")?;
    let report = doctor::examine(root);
    args.format.print(Kind::Doctor, || report.text(), &report)?;
    Ok(if report.runnable {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(CANNOT)
    })
}
