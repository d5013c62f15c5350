//! `sidelane stat`: counters of the running scheduler, each interval.

use super::Format;
use super::record::RateArgs;
use crate::exit;
use serde::Serialize;
use sidelane_collect::collector::Place;
use sidelane_collect::watch::Watch as SmtWatch;
use sidelane_interface::Kind;
use sidelane_interface::say;
use sidelane_sched::stats::{Rates, Reader, Watch};
use sidelane_smt::metrics::SmtMetrics;
use sidelane_smt::snapshot::RateSource;
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "Examples:
  sidelane stat              one line a second until Ctrl-C
  sidelane stat 5 3          three lines, five seconds each
  sidelane stat 1 10 --format json
  sidelane stat --calibration machine.json

Columns: lanes busy with critical, normal and batch work; critical wake-ups a second by where they \
went (whole idle core, core taken back from batch, shared core, had to wait); batch evictions a \
second and their mean wait; runs by the starvation bound; steals a second; critical jobs that moved \
to a better core. With scope = \"batch\" batch alone: its lanes, evictions, runs by the bound, steals, \
how many threads Sidelane has, and how many of them it has lent to the kernel.

Further lines: with borrow = \"slo\" the tail of the last window, the budget, how many windows missed \
the objective. With \"dynamic\" whether the budget is charged by counters or by thread_perf, and what \
counters have shown. With vertical polarization how many cores normal and batch work uses. For each \
pool what it used of what, and for how much of the time its tasks had to wait for its next period. \
Last the SMT metrics of all cores together (docs/metrics.md); a tracer of context switches collects \
them meanwhile.";

/// Print counters of the running scheduler, each interval.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
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
    /// Leave the SMT metrics out.
    #[arg(long)]
    no_smt: bool,
    #[command(flatten)]
    rates: RateArgs,
}

/// What is printed for an interval.
#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    rates: Rates,
    /// None where they cannot be collected.
    smt: Option<SmtMetrics>,
    /// Where the work rates of those are from.
    smt_rates: Option<RateSource>,
}

impl Line {
    fn text(&self, index: u64) -> String {
        let ratio = |of: Option<f64>| of.map_or("-".to_owned(), |of| format!("{of:.2}"));
        let share =
            |of: Option<f64>| of.map_or("-".to_owned(), |of| format!("{:.1} %", of * 100.0));
        let smt = self.smt.as_ref().map_or(String::new(), |smt| {
            let assumed = match self.smt_rates {
                Some(RateSource::Assumed) => " (threadPerf assumed)",
                _ => "",
            };
            format!(
                "  density {}, capacity factor {} of {}, productivity {}, MT utilisation {}{assumed}\n",
                ratio(smt.thread_density),
                ratio(smt.capacity_factor),
                ratio(smt.max_capacity_factor),
                ratio(smt.productivity),
                share(smt.mt_utilization),
            )
        });
        self.rates.line(index) + &smt
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    super::seconds(text, 0.01)
}

/// Runs `sidelane stat`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let stop = exit::interrupted()?;
    let interval = Duration::from_secs_f64(args.interval);
    let reader = Reader::open()?;
    let mut place = Place::default();
    let settings = args.rates.settings()?;
    let mut smt = None;
    if !args.no_smt {
        match SmtWatch::start(&settings, &mut place) {
            Ok(started) => smt = Some(started),
            Err(error) => say!("sidelane: no SMT metrics: {error}"),
        }
    }
    // last, because to load the collector takes time
    let mut watch = Watch::new(reader, interval)?;
    let mut printed = 0;
    while args.count.is_none_or(|count| printed < count) {
        let Some(rates) = watch.next(stop)? else {
            break;
        };
        let metrics = smt.as_mut().and_then(SmtWatch::since_last);
        let line = Line {
            rates,
            smt_rates: metrics.as_ref().map(|(_, source)| *source),
            smt: metrics.map(|(metrics, _)| metrics),
        };
        args.format
            .print_line(Kind::Stat, || line.text(printed), &line)?;
        printed += 1;
    }
    Ok(ExitCode::SUCCESS)
}
