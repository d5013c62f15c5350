//! `sidelane doctor`: can this machine run the scheduler?

use super::Format;
use crate::exit::{BadInput, CANNOT};
use anyhow::ensure;
use sidelane_interface::Kind;
use sidelane_sched::doctor;
use std::path::{Path, PathBuf};
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
    let root = args.root.as_deref().unwrap_or(Path::new("/"));
    ensure!(
        root.is_dir(),
        BadInput(format!(
            "{}: no folder; name one that holds proc/, sys/ and boot/",
            root.display()
        ))
    );
    let report = doctor::examine(root);
    args.format.print(Kind::Doctor, || report.text(), &report)?;
    Ok(if report.runnable {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(CANNOT)
    })
}
