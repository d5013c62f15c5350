//! `sidelane record`: SMT metrics of a time or of a command, in a file.

use super::seconds;
use crate::exit::{self, BadInput};
use sidelane_calibrate::Calibration;
use sidelane_collect::collector::{SAMPLE_HZ, Settings};
use sidelane_collect::record::{Plan, record};
use sidelane_interface::say;
use sidelane_smt::snapshot::{RateSource, Rates};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const ABOUT: &str = "\
Records what the lanes of each core did, and what tasks and cgroups used and waited for, with any \
scheduler. 'sidelane report' reads the file. docs/metrics.md says what is measured and what is not.";

const EXAMPLES: &str = "Examples:
  sidelane record smt.rec --seconds 60
  sidelane record build.rec --calibration machine.json -- make -j8
  sidelane record smt.rec --sample --seconds 60
  sidelane report smt.rec

Needs root, or CAP_BPF and CAP_PERFMON, and BTF. Ctrl-C ends the recording; so does the end of the \
command, whose exit status is this one's. Without --calibration and --thread-perf typical values \
are assumed, and said to be.";

/// Record SMT metrics in a file.
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct Args {
    /// The file; one of this name is replaced.
    file: PathBuf,
    /// How long; without it, until Ctrl-C or the end of the command.
    #[arg(long, value_name = "S", value_parser = |text: &str| seconds(text, 0.01))]
    seconds: Option<f64>,
    /// Length of an interval, ms.
    #[arg(long, value_name = "MS", default_value_t = 1000,
        value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
    interval_ms: u64,
    #[command(flatten)]
    rates: RateArgs,
    /// A command to run meanwhile.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// By what work is counted.
#[derive(clap::Args)]
pub struct RateArgs {
    /// threadPerf from a file of 'sidelane calibrate'.
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// threadPerf: speeds of a lane when 1, 2, ... lanes of its core run, as in 1,0.6.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        conflicts_with = "calibration"
    )]
    thread_perf: Option<Vec<f64>>,
    /// Do not count instructions where the machine could.
    #[arg(long)]
    no_counters: bool,
    /// Look at all lanes so many times a second in place of tracing each switch: costs next to
    /// nothing, tells estimates, and no waits and jobs. Without a number 251.
    #[arg(long, value_name = "HZ", num_args = 0..=1, require_equals = true, default_missing_value = "251",
        value_parser = sample_hz)]
    sample: Option<u32>,
}

fn sample_hz(text: &str) -> Result<u32, String> {
    let hz = text.parse().map_err(|e| format!("{e}"))?;
    let (least, most) = SAMPLE_HZ.into_inner();
    match SAMPLE_HZ.contains(&hz) {
        true => Ok(hz),
        false => Err(format!("from {least} to {most}")),
    }
}

impl RateArgs {
    /// As the collector wants them.
    pub fn settings(&self) -> anyhow::Result<Settings> {
        let rates = |source, thread_perf| Rates {
            source,
            thread_perf,
        };
        let rates = match (&self.calibration, &self.thread_perf) {
            (Some(path), _) => {
                let read = Calibration::read(path)?;
                Some(rates(RateSource::Calibrated, read.thread_perf))
            }
            (None, Some(speeds)) => {
                if let Some(fault) = sidelane_smt::thread_perf::fault(speeds) {
                    return Err(BadInput(format!("--thread-perf: {fault}")).into());
                }
                Some(rates(RateSource::Given, speeds.clone()))
            }
            (None, None) => None,
        };
        Ok(Settings {
            rates,
            counters: !self.no_counters,
            sample_hz: self.sample,
        })
    }
}

/// Runs `sidelane record`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let plan = Plan {
        settings: args.rates.settings()?,
        interval: Duration::from_millis(args.interval_ms),
        length: args.seconds.map(Duration::from_secs_f64),
        command: Some(args.command).filter(|command| !command.is_empty()),
        program: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let stop = exit::interrupted()?;
    let recorded = record(&plan, &args.file, stop)?;
    for reason in &recorded.restarts {
        say!("sidelane: the collector was started anew: {reason}");
    }
    for what in (recorded.rates.iter().map(Rates::sentence)).chain(recorded.messages) {
        say!("sidelane: {what}");
    }
    let (intervals, file) = (recorded.intervals, args.file.display());
    say!("sidelane: {intervals} intervals in {file}");
    Ok(match (plan.command, recorded.status) {
        (None, _) => ExitCode::SUCCESS,
        (Some(_), status) => status
            .and_then(|status| u8::try_from(status).ok())
            .map_or(ExitCode::FAILURE, ExitCode::from),
    })
}
