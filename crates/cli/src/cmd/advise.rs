//! `sidelane advise`: what to do about what was measured.

use super::record::RateArgs;
use super::{Format, seconds};
use crate::exit::BadInput;
use crate::interrupt;
use sidelane_collect::watch::watch;
use sidelane_smt::advise::{advise, text};
use sidelane_smt::recording::intervals;
use sidelane_topology::printable;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const ABOUT: &str = "\
Says what SMT metrics mean for this machine and its work: whether a stage has too few workers, a thread
keeps all others waiting, SMT is worth having, room is left, or a limited cgroup gets less than it is
entitled to; each with its evidence and how sure it is.";

const EXAMPLES: &str = "Examples:
  sidelane advise                          on this machine, for 10 s
  sidelane advise --seconds 60 --calibration machine.json
  sidelane advise smt.rec                  on a recording

On this machine it needs root, or CAP_BPF and CAP_PERFMON, and BTF. Recordings of version 2 do not say
which cgroups are limited.";

/// Advise on what was measured.
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// A file of 'sidelane record' [default: this machine, now].
    file: Option<PathBuf>,
    /// How long this machine is watched.
    #[arg(long, value_name = "S", default_value = "10", conflicts_with = "file",
        value_parser = |text: &str| seconds(text, 2.0))]
    seconds: f64,
    #[command(flatten)]
    rates: RateArgs,
    /// How the result is printed.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Runs `sidelane advise`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (intervals, notes) = match &args.file {
        Some(file) => {
            let bad = |reason: String| BadInput(format!("{}: {reason}", file.display()));
            let bytes = std::fs::read(file).map_err(|e| bad(e.to_string()))?;
            intervals(&bytes).map_err(|e| bad(printable(e.to_string().as_bytes())))?
        }
        None => {
            eprintln!("sidelane: watching for {} s", args.seconds);
            let length = Duration::from_secs_f64(args.seconds);
            let intervals = watch(&args.rates.settings()?, length, interrupt::flag()?)?;
            (intervals, Vec::new())
        }
    };
    for note in notes {
        eprintln!("sidelane: {}", printable(note.as_bytes()));
    }
    let advice = advise(&intervals)?;
    args.format.print(|| text(&advice), &advice)?;
    Ok(ExitCode::SUCCESS)
}
