//! `sidelane tasks`: what retention and pairing know of each task.

use super::Format;
use super::record::RateArgs;
use crate::exit;
use sidelane_collect::tasks;
use sidelane_interface::Kind;
use std::process::ExitCode;
use std::time::Duration;

const ABOUT: &str = "\
Shows what the running scheduler knows of each task with pair = true: how much of its time its lane \
could be held for it, how often, and whether it belongs to the I/O lane of its core or to others; \
beside it, the lanes that it used and the work that it got done. Virtual CPUs of KVM are \
recognised, and summed up by virtual machine.";

const EXAMPLES: &str = "Examples:
  sidelane tasks                         what ran in two seconds
  sidelane tasks --seconds 10 --rows 100
  sidelane tasks --calibration machine.json --format json

Needs root, or CAP_SYS_ADMIN. Virtual CPUs are known from /sys/kernel/debug/kvm.";

/// Show what retention and pairing know of each task, and of virtual machines.
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct Args {
    /// How long to watch.
    #[arg(long, value_name = "S", default_value_t = 2.0, value_parser = |text: &str| super::seconds(text, 0.1))]
    seconds: f64,
    /// Tasks that are printed; JSON has all.
    #[arg(long, value_name = "N", default_value_t = 30)]
    rows: usize,
    /// How the results are printed.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    #[command(flatten)]
    rates: RateArgs,
}

/// Runs `sidelane tasks`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let settings = args.rates.settings()?;
    let length = Duration::from_secs_f64(args.seconds);
    let seen = tasks::watch(&settings, length, exit::interrupted()?)?;
    args.format
        .print(Kind::Tasks, || seen.text(args.rows), &seen)?;
    Ok(ExitCode::SUCCESS)
}
