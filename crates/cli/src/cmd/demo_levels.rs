//! `sidelane demo levels`: a server's load rises and falls; the SMT level is fixed, or controlled.

use super::demo_args::CommonArgs;
use sidelane_demo::levels::{Document, LevelsPlan, Plateau, render};
use std::process::ExitCode;

const ABOUT: &str = "\
Measures a server's mean response while its load goes through plateaus, in one boot of an emulated SMT
machine, with the kernel's default scheduler and with Sidelane's: at each SMT level, and under
'sidelane control', which sets the level through sysfs or through the scheduler's cap.";

const EXAMPLES: &str = "Examples:
  sidelane demo levels                               about a quarter of an hour
  sidelane demo levels --loads 0.1,0.9,0.1 --repetitions 5 --format json";

/// Show what controlling the SMT level does while a server's load rises and falls.
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// How often each setup is measured.
    #[arg(long, default_value_t = LevelsPlan::default().repetitions, value_name = "N")]
    repetitions: u32,
    /// Load of each plateau, as a share of all cores.
    #[arg(long, value_delimiter = ',', value_name = "SHARE,...", default_values_t = loads())]
    loads: Vec<f64>,
    /// Length of each plateau.
    #[arg(long, default_value_t = run_seconds(), value_name = "S")]
    seconds: f64,
    /// The beginning of each plateau that does not count.
    #[arg(long, default_value_t = LevelsPlan::default().settle_ms as f64 / 1000.0, value_name = "S")]
    settle: f64,
    /// Mean demand of a request, ms of a whole core.
    #[arg(long, default_value_t = LevelsPlan::default().mean_demand_ms, value_name = "MS")]
    mean_ms: f64,
    /// An argument more for `sidelane control`.
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    control: Vec<String>,
    /// Start of all random numbers: same seed, same requests.
    #[arg(long, default_value_t = LevelsPlan::default().seed, value_name = "N")]
    seed: u64,
    #[command(flatten)]
    common: CommonArgs,
}

fn loads() -> Vec<f64> {
    LevelsPlan::default()
        .plateaus
        .iter()
        .map(|plateau| plateau.load)
        .collect()
}

fn run_seconds() -> f64 {
    let first = LevelsPlan::default().plateaus.first().copied();
    first.map_or(0.0, |plateau| plateau.run_ms as f64 / 1000.0)
}

/// Runs `sidelane demo levels`.
pub fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    args.common.machine.default_thread_perf(&[1.0, 0.6]); // what the daemon takes as typical
    let plan = args.plan();
    let document = |messages: &[_]| Document::new(&plan, messages);
    args.common.show(&plan, document, render)
}

impl Args {
    fn plan(&self) -> LevelsPlan {
        let run_ms = (self.seconds * 1000.0) as u64;
        let mut plan = LevelsPlan {
            seed: self.seed,
            repetitions: self.repetitions,
            plateaus: self
                .loads
                .iter()
                .map(|&load| Plateau { load, run_ms })
                .collect(),
            settle_ms: (self.settle * 1000.0) as u64,
            mean_demand_ms: self.mean_ms,
            ..LevelsPlan::default()
        };
        plan.control.extend(self.control.iter().cloned());
        if !self.common.machine.thread_perf.is_empty() {
            let speeds = self.common.machine.thread_perf.iter().map(f64::to_string);
            plan.control.push("--thread-perf".into());
            plan.control.push(speeds.collect::<Vec<_>>().join(","));
        }
        plan
    }
}
