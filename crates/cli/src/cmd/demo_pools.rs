//! `sidelane demo pools`: what pools of the same entitlement get, with SMT on and off.

use super::demo_args::{CommonArgs, milliseconds, seconds};
use sidelane_demo::pools::{Document, PoolsPlan, render};
use std::process::ExitCode;

const ABOUT: &str = "\
Measures the work of two pools of the same entitlement, in one boot of an emulated SMT machine, in an
order that rotates with each repetition: with SMT off, and with SMT on, charged by MT1-equivalent time and
by the time on a lane. One pool has one compressor, alone on its core, the other one for each lane of its
core; processes and cores change in turn. The scheduler is told the speeds of lanes that are measured
with the same work.";

const EXAMPLES: &str = "Examples:
  sidelane demo pools                                about six minutes
  sidelane demo pools --repetitions 1 --seconds 4
  sidelane demo pools --lanes 4 --capacity 0.3 --format json
  sidelane demo pools --native                       on this machine's own SMT, as root";

/// Show what charging pools by MT1-equivalent time is for.
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// How often each setup is measured.
    #[arg(long, default_value_t = PoolsPlan::default().repetitions, value_name = "N")]
    repetitions: u32,
    /// Capacity limit of each pool; lanes where raw time is charged.
    #[arg(long, default_value_t = PoolsPlan::default().capacity_cores, value_name = "CORES")]
    capacity: f64,
    /// Length of a run.
    #[arg(long, default_value_t = seconds(PoolsPlan::default().run_ms), value_name = "S")]
    seconds: f64,
    /// Start of all random numbers: same seed, same text to compress.
    #[arg(long, default_value_t = PoolsPlan::default().seed, value_name = "N")]
    seed: u64,
    #[command(flatten)]
    common: CommonArgs,
}

/// Runs `sidelane demo pools`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let plan = args.plan();
    let emulated = !args.common.machine.native;
    let document = |messages: &[_]| Document::new(&plan, messages, emulated);
    args.common.show(&plan, document, render)
}

impl Args {
    fn plan(&self) -> PoolsPlan {
        PoolsPlan {
            seed: self.seed,
            repetitions: self.repetitions,
            capacity_cores: self.capacity,
            run_ms: milliseconds(self.seconds),
        }
    }
}
