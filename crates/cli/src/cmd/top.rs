//! `sidelane top`: the machine on a terminal.

use super::record::RateArgs;
use super::seconds;
use crate::interrupt;
use sidelane_sched::metrics::live;
use sidelane_top::{Sample, Screen};
use std::process::ExitCode;
use std::time::Duration;

const ABOUT: &str = "\
Shows cores as a map of lanes (height: how busy, colour: class of what runs), SMT metrics, the tail of
critical jobs, and tasks or cgroups to sort: lanes used, work done (MT1-equivalent), waiting.";

const EXAMPLES: &str = "Examples:
  sidelane top
  sidelane top --interval 0.5 --calibration machine.json

Keys are htop's; F1 lists them, q ends. Needs root and BTF. Classes are known while Sidelane's
scheduler is attached.";

/// Watch cores, tasks and cgroups on a terminal.
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// Length of an interval.
    #[arg(long, value_name = "S", default_value = "1",
        value_parser = |text: &str| seconds(text, 0.1))]
    interval: f64,
    #[command(flatten)]
    rates: RateArgs,
}

/// Runs `sidelane top`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let settings = args.rates.settings()?;
    let stop = interrupt::flag()?;
    let length = Duration::from_secs_f64(args.interval);
    let mut screen: Option<Screen> = None;
    live::follow(&settings, |interval, lanes| {
        let screen = match &mut screen {
            Some(screen) => screen,
            // not before the collector has begun: its errors belong on a plain terminal
            None => screen.insert(Screen::open()?),
        };
        anyhow::Ok(screen.show(Sample { interval, lanes }, length, stop)?)
    })?;
    Ok(ExitCode::SUCCESS)
}
