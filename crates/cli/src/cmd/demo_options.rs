//! `sidelane demo options`: how much load a server with deadlines bears at a quality.

use super::demo_args::{CommonArgs, milliseconds, seconds};
use sidelane_demo::options::{Document, OptionsPlan, render};
use std::process::ExitCode;

const ABOUT: &str = "\
Measures the quality of an option pricing server's answers over its load, in one boot of an emulated SMT
machine, with the kernel's default scheduler and with Sidelane's. Each request has a deadline, at which it
is answered with what is there; an incomplete answer is worth less. No batch runs. Last comes the highest
load at each quality, and Sidelane's gain.";

const EXAMPLES: &str = "Examples:
  sidelane demo options                              about six minutes
  sidelane demo options --loads 0.6,0.8,1 --repetitions 1 --seconds 3
  sidelane demo options --deadline-ms 80 --qualities 0.9,0.95 --format json";

/// Show what Sidelane does for a server whose requests have deadlines.
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// How often each scheduler is measured.
    #[arg(long, default_value_t = OptionsPlan::default().repetitions, value_name = "N")]
    repetitions: u32,
    /// Loads in rising order, as shares of all cores.
    #[arg(long, value_delimiter = ',', value_name = "SHARE,...", default_values_t = OptionsPlan::default().loads)]
    loads: Vec<f64>,
    /// Length of a run at one load.
    #[arg(long, default_value_t = seconds(OptionsPlan::default().run_ms), value_name = "S")]
    seconds: f64,
    /// Mean demand of a request, ms of a whole core; the largest demands are five times as great.
    #[arg(long, default_value_t = OptionsPlan::default().mean_demand_ms, value_name = "MS")]
    mean_ms: f64,
    /// Deadline of a request, after its arrival.
    #[arg(long, default_value_t = OptionsPlan::default().deadline_ms, value_name = "MS")]
    deadline_ms: f64,
    /// Qualities at which the schedulers are compared.
    #[arg(long, value_delimiter = ',', value_name = "Q,...", default_values_t = OptionsPlan::default().targets)]
    qualities: Vec<f64>,
    /// Start of all random numbers: same seed, same requests.
    #[arg(long, default_value_t = OptionsPlan::default().seed, value_name = "N")]
    seed: u64,
    #[command(flatten)]
    common: CommonArgs,
}

/// Runs `sidelane demo options`.
pub fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    args.common.machine.default_thread_perf(&[1.0, 0.63]); // the source's
    let plan = args.plan();
    let emulated = !args.common.machine.native;
    let document = |messages: &[_]| Document::new(&plan, messages, emulated);
    args.common.show(&plan, document, render)
}

impl Args {
    fn plan(&self) -> OptionsPlan {
        OptionsPlan {
            seed: self.seed,
            repetitions: self.repetitions,
            loads: self.loads.clone(),
            run_ms: milliseconds(self.seconds),
            mean_demand_ms: self.mean_ms,
            deadline_ms: self.deadline_ms,
            targets: self.qualities.clone(),
            ..OptionsPlan::default()
        }
    }
}
