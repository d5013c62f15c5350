//! `sidelane stat`: counters of the running scheduler, each interval.

use super::Format;
use crate::interrupt;
use sidelane_sched::stats::{Reader, Watch};
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "Examples:
  sidelane stat              one line a second until Ctrl-C
  sidelane stat 5 3          three lines, five seconds each
  sidelane stat 1 10 --format json

Columns: lanes busy with critical, normal and batch work; critical wake-ups a second by where
they went (whole idle core, core taken back from batch, shared core, had to wait); batch evictions
a second and their mean wait; runs by the starvation bound; steals a second; critical
jobs that moved to a better core. With borrow = \"slo\" a line more: the tail of the last
window, the budget, how many windows missed the objective. With \"dynamic\" too: whether the
budget is charged by counters or by thread_perf, and what counters have shown.";

/// Print counters of the running scheduler, each interval.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Seconds between lines.
    #[arg(value_name = "INTERVAL", default_value_t = 1.0, value_parser = seconds)]
    interval: f64,
    /// Lines to print; without it, until Ctrl-C.
    #[arg(value_name = "COUNT")]
    count: Option<u64>,
    /// How the lines are printed; JSON is one document a line.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

fn seconds(text: &str) -> Result<f64, String> {
    super::seconds(text, 0.01)
}

/// Runs `sidelane stat`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let stop = interrupt::flag()?;
    let interval = Duration::from_secs_f64(args.interval);
    let mut watch = Watch::new(Reader::open()?, interval)?;
    let mut printed = 0;
    while args.count.is_none_or(|count| printed < count) {
        let Some(rates) = watch.next(stop)? else {
            break;
        };
        args.format.print_line(|| rates.line(printed), &rates)?;
        printed += 1;
    }
    Ok(ExitCode::SUCCESS)
}
