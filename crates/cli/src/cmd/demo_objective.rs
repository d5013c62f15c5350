//! `sidelane demo objective`: a server's tail is kept below objectives, and batch gets the rest.

use super::demo_args::{CommonArgs, milliseconds, seconds};
use anyhow::Context;
use sidelane_demo::objective::{Document, ObjectivePlan, draw, render};
use std::path::PathBuf;
use std::process::ExitCode;

const ABOUT: &str = "\
Measures a server beside batch, in one boot of an emulated SMT machine, under service-level objectives:
multiples of its 99th percentile alone. Sidelane lets batch stay beside requests as far as the objective
allows. Printed are the latency, how often the objective was kept, and what batch got. Then the load
doubles for a while, which is drawn. Where two lanes do no more than one (threadPerf 1, 1/2, as by
default), batch cannot gain, whatever the objective: what it does beside a request delays that by as
much.";

const EXAMPLES: &str = "Examples:
  sidelane demo objective                            about twenty minutes
  sidelane demo objective --factors 1.5 --repetitions 1 --step-seconds 10
  sidelane demo objective --load 0.4 --thread-perf 1,0.75 --format json";

/// Show how batch follows a server's objective.
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// How often each objective is measured.
    #[arg(long, default_value_t = ObjectivePlan::default().repetitions, value_name = "N")]
    repetitions: u32,
    /// Objectives in rising order, as multiples of the 99th percentile alone.
    #[arg(long, value_delimiter = ',', value_name = "X,...", default_values_t = ObjectivePlan::default().factors)]
    factors: Vec<f64>,
    /// Offered load, as a share of all cores.
    #[arg(long, default_value_t = ObjectivePlan::default().load, value_name = "SHARE")]
    load: f64,
    /// Mean demand of a request, ms of a whole core.
    #[arg(long, default_value_t = ObjectivePlan::default().mean_demand_ms, value_name = "MS")]
    mean_ms: f64,
    /// Length of a run.
    #[arg(long, default_value_t = seconds(ObjectivePlan::default().run_ms), value_name = "S")]
    seconds: f64,
    /// Load before the first run under an objective: the scheduler has to find the budget.
    #[arg(long, default_value_t = seconds(ObjectivePlan::default().settle_ms), value_name = "S")]
    settle: f64,
    /// Length of each of the three loads at the end; 0 leaves them out.
    #[arg(long, default_value_t = seconds(ObjectivePlan::default().step_ms), value_name = "S")]
    step_seconds: f64,
    /// Where the drawing of the load steps goes.
    #[arg(long, default_value = "sidelane-objective.svg", value_name = "FILE")]
    svg: PathBuf,
    /// Start of all random numbers: same seed, same requests.
    #[arg(long, default_value_t = ObjectivePlan::default().seed, value_name = "N")]
    seed: u64,
    #[command(flatten)]
    common: CommonArgs,
}

/// Runs `sidelane demo objective`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let plan = args.plan();
    let Some(messages) = args.common.measure(&plan)? else {
        return Ok(ExitCode::SUCCESS);
    };
    let document = Document::new(&plan, &messages, !args.common.machine.native)?;
    if let Some(svg) = draw(&document) {
        std::fs::write(&args.svg, svg)
            .with_context(|| format!("writing {}", args.svg.display()))?;
        eprintln!("sidelane: load steps drawn in {}", args.svg.display());
    }
    args.common.format.print(|| render(&document), &document)?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn plan(&self) -> ObjectivePlan {
        ObjectivePlan {
            seed: self.seed,
            repetitions: self.repetitions,
            factors: self.factors.clone(),
            load: self.load,
            mean_demand_ms: self.mean_ms,
            run_ms: milliseconds(self.seconds),
            settle_ms: milliseconds(self.settle),
            step_ms: milliseconds(self.step_seconds),
        }
    }
}
