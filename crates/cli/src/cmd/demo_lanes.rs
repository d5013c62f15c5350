//! `sidelane demo lanes`: batch that steps aside by itself, beside batch that the scheduler evicts.

use super::demo_args::{CommonArgs, milliseconds, seconds};
use sidelane_demo::lanes::{Document, LanesPlan, render};
use std::process::ExitCode;

const ABOUT: &str = "\
Measures the latency of the computing server and the batch work done beside it, in one boot of an
emulated SMT machine, in an order that rotates with each repetition:

  alone     no batch, the kernel's default scheduler
  default   batch as SCHED_IDLE, the kernel's default scheduler
  lanes     the same under 'sidelane lanes': batch has lanes of its own and steps aside by itself
  sidelane  batch is evicted by Sidelane's scheduler, borrow-idle

Batch is one program everywhere, a matrix multiplication for each lane that looks at the lane signal in
each basic block. Batch share = multiplications per second / (those of one whole core × (cores - cores
that the requests need)).";

const EXAMPLES: &str = "Examples:
  sidelane demo lanes                                about six minutes
  sidelane demo lanes --repetitions 2 --seconds 3
  sidelane demo lanes --load 0.5 --format json
  sidelane demo lanes --native                       on this machine's own SMT, as root";

/// Compare batch that steps aside by itself with batch that the scheduler evicts.
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// How often each setup is measured.
    #[arg(long, default_value_t = LanesPlan::default().repetitions, value_name = "N")]
    repetitions: u32,
    /// Offered load, as a share of all cores.
    #[arg(long, default_value_t = LanesPlan::default().load, value_name = "SHARE")]
    load: f64,
    /// Mean demand of a request, ms of a whole core.
    #[arg(long, default_value_t = LanesPlan::default().mean_demand_ms, value_name = "MS")]
    mean_ms: f64,
    /// Length of a run.
    #[arg(long, default_value_t = seconds(LanesPlan::default().run_ms), value_name = "S")]
    seconds: f64,
    /// Start of all random numbers: same seed, same requests.
    #[arg(long, default_value_t = LanesPlan::default().seed, value_name = "N")]
    seed: u64,
    #[command(flatten)]
    common: CommonArgs,
}

/// Runs `sidelane demo lanes`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let plan = args.plan();
    let emulated = !args.common.machine.native;
    let document = |messages: &[_]| Document::new(&plan, messages, emulated);
    args.common.show(&plan, document, render)
}

impl Args {
    fn plan(&self) -> LanesPlan {
        LanesPlan {
            seed: self.seed,
            repetitions: self.repetitions,
            load: self.load,
            mean_demand_ms: self.mean_ms,
            run_ms: milliseconds(self.seconds),
            ..LanesPlan::default()
        }
    }
}
