//! `sidelane demo`: a server beside batch work, under several schedulers, on an emulated SMT machine.

use super::demo_args::{CommonArgs, milliseconds, seconds};
use anyhow::Context;
use sidelane_demo::plan::{ComputePlan, Plan, RedisPlan};
use sidelane_demo::setups::{Configuration, Workload};
use sidelane_demo::{multiply, options, report, results::Results, server, vm};
use std::path::PathBuf;
use std::process::ExitCode;

const ABOUT: &str = "\
Measures the latency of critical work and the batch work done beside it, in one boot of an
emulated SMT machine, under these configurations, in an order that rotates with each repetition:

  alone     no batch, the kernel's default scheduler
  default   batch as SCHED_IDLE, the kernel's default scheduler
  smt-off   the same with SMT switched off
  sidelane  batch beside the critical work, scheduled by Sidelane

Critical work: `compute`, a server whose requests are real computation of exponential length, and
`redis`, both under open-loop load; latency counts from the moment a request should have been
sent. Batch: a gzip process for each lane.

Batch share = bytes compressed per second / (bytes per second of one whole core × (cores -
core-time per second that the critical work needs)), by reference measurements before and after
each configuration.";

const EXAMPLES: &str = "Examples:
  sidelane demo                                     everything, in about four minutes
  sidelane demo --format json > demo.json
  sidelane demo --workloads compute --repetitions 1 --seconds 3
  sidelane demo --cores 1 --lanes 4 --workloads compute
  sidelane demo --native                            on this machine's own SMT, as root";

/// Show what Sidelane does for a server that shares its cores with batch work.
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    part: Option<Part>,
    /// How often each workload is measured under each configuration.
    #[arg(long, default_value_t = Plan::default().repetitions, value_name = "N")]
    repetitions: u32,
    /// What is compared.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", default_values_t = Configuration::ALL)]
    configurations: Vec<Configuration>,
    /// What is measured.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", default_values_t = Workload::ALL)]
    workloads: Vec<Workload>,
    /// Length of a run of the computing server.
    #[arg(long, default_value_t = seconds(Plan::default().compute.run_ms), value_name = "S")]
    seconds: f64,
    /// Offered load of the computing server, as a share of all cores.
    #[arg(long, default_value_t = Plan::default().compute.load, value_name = "SHARE")]
    load: f64,
    /// Mean demand of a request to the computing server, ms of a whole core.
    #[arg(long, default_value_t = Plan::default().compute.mean_demand_ms, value_name = "MS")]
    mean_ms: f64,
    /// Worker threads of the computing server [default: one for each lane].
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// Length of a run of redis.
    #[arg(long, default_value_t = seconds(Plan::default().redis.run_ms), value_name = "S")]
    redis_seconds: f64,
    /// Offered load of redis, as a share of one core.
    #[arg(long, default_value_t = Plan::default().redis.load, value_name = "SHARE")]
    redis_load: f64,
    /// Length of the traced runs at the end; 0 leaves them out.
    #[arg(long, default_value_t = seconds(Plan::default().trace_ms.unwrap_or(0)), value_name = "S")]
    trace_seconds: f64,
    /// Start of all random numbers: same seed, same requests.
    #[arg(long, default_value_t = Plan::default().seed, value_name = "N")]
    seed: u64,
    /// Where the drawing of the latency distributions goes.
    #[arg(long, default_value = "sidelane-demo.svg", value_name = "FILE")]
    svg: PathBuf,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(clap::Subcommand)]
enum Part {
    Io(super::demo_io::Args),
    Lanes(super::demo_lanes::Args),
    Levels(super::demo_levels::Args),
    Objective(super::demo_objective::Args),
    Options(super::demo_options::Args),
    Pools(super::demo_pools::Args),
    /// A batch process that multiplies matrices until it is killed.
    #[command(hide = true)]
    Multiply {
        /// Where it keeps what it has done.
        totals_file: PathBuf,
    },
    /// The computing server, on the connection that is its standard input.
    #[command(hide = true)]
    ServeCompute {
        /// Worker threads.
        #[arg(long)]
        workers: usize,
    },
    /// The option server, on the socket that is its standard input.
    #[command(hide = true)]
    ServeOptions {
        /// Worker threads.
        #[arg(long)]
        workers: usize,
    },
    /// A virtual machine that runs until it is killed.
    #[command(hide = true)]
    ServeVm {
        /// Virtual CPUs.
        #[arg(long)]
        vcpus: u32,
        /// They compute so many turns of a loop, and let the partner do the same; else they multiply.
        #[arg(long)]
        turns: Option<u32>,
        /// They wait so long for a device instead.
        #[arg(long, requires = "turns")]
        wait_us: Option<u32>,
        /// The file that becomes its memory.
        memory: PathBuf,
    },
}

/// Runs `sidelane demo`.
pub fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    match args.part.take() {
        Some(Part::ServeCompute { workers }) => {
            server::serve_standard_input(workers)?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(Part::ServeOptions { workers }) => {
            options::serve_standard_input(workers)?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(Part::ServeVm {
            vcpus,
            turns,
            wait_us,
            memory,
        }) => {
            let duty = match (turns, wait_us) {
                (None, _) => vm::Duty::Multiply,
                (Some(turns), None) => vm::Duty::PingPong { turns },
                (Some(turns), Some(wait_us)) => vm::Duty::Device { turns, wait_us },
            };
            let plan = vm::VmPlan {
                vcpus,
                duty,
                memory,
            };
            plan.run()?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(Part::Multiply { totals_file }) => {
            multiply::multiply(&totals_file)?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(Part::Io(args)) => return super::demo_io::run(args),
        Some(Part::Lanes(args)) => return super::demo_lanes::run(args),
        Some(Part::Levels(args)) => return super::demo_levels::run(args),
        Some(Part::Objective(args)) => return super::demo_objective::run(args),
        Some(Part::Options(args)) => return super::demo_options::run(args),
        Some(Part::Pools(args)) => return super::demo_pools::run(args),
        None => {}
    }
    args.common.machine.default_thread_perf(&[1.0, 0.63]); // measured for option pricing (FOF)
    let plan = args.plan()?;
    let Some(messages) = args.common.measure(&plan)? else {
        return Ok(ExitCode::SUCCESS);
    };
    let emulated = !args.common.machine.native;
    let results = Results::new(&messages, emulated.then_some(&plan.thread_perf[..]))?;
    std::fs::write(&args.svg, report::draw(&results))
        .with_context(|| format!("writing {}", args.svg.display()))?;
    eprintln!(
        "sidelane: latency distributions drawn in {}",
        args.svg.display()
    );
    args.common.format.print(
        || report::render(&results),
        &report::Document::new(&results),
    )?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn plan(&self) -> anyhow::Result<Plan> {
        let machine = &self.common.machine;
        Ok(Plan {
            thread_perf: machine.known_thread_perf()?,
            seed: self.seed,
            repetitions: self.repetitions,
            configurations: self.configurations.clone(),
            workloads: self.workloads.clone(),
            compute: ComputePlan {
                run_ms: milliseconds(self.seconds),
                load: self.load,
                mean_demand_ms: self.mean_ms,
                workers: self.workers,
            },
            redis: RedisPlan {
                run_ms: milliseconds(self.redis_seconds),
                load: self.redis_load,
            },
            trace_ms: Some(milliseconds(self.trace_seconds)).filter(|&ms| ms > 0),
            ..Plan::default()
        })
    }
}
