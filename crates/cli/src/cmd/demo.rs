//! `sidelane demo`: a server beside batch work, under several schedulers, on an emulated SMT machine.

use super::Format;
use crate::interrupt;
use anyhow::{Context, bail};
use sidelane_demo::experiment::{self, Experiment};
use sidelane_demo::plan::{ComputePlan, Configuration, Plan, RedisPlan, Workload};
use sidelane_demo::{multiply, options, report, results::Results, server, vm};
use sidelane_testbed::{Interrupt, Kernel, Spec, smt};
use sidelane_topology::Topology;
use std::path::{Path, PathBuf};
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

/// What all experiments are told.
#[derive(clap::Args)]
pub(super) struct CommonArgs {
    #[command(flatten)]
    pub(super) machine: MachineArgs,
    /// How the results are printed.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(super) format: Format,
    /// The measuring part, in the emulated machine.
    #[arg(long, hide = true, value_name = "PLAN")]
    in_guest: Option<String>,
}

impl CommonArgs {
    /// Measures a plan where the arguments say. None: this is the measuring part in the guest, which has
    /// measured what it was told and printed it.
    pub(super) fn measure<E: Experiment>(
        &self,
        plan: &E,
    ) -> anyhow::Result<Option<Vec<E::Message>>> {
        let sidelane = std::env::current_exe()?;
        if let Some(plan) = &self.in_guest {
            experiment::in_guest::<E>(plan, &sidelane, interrupt::flag()?)?;
            return Ok(None);
        }
        plan.validate()?;
        let lanes = self.machine.lanes_per_core()?;
        eprintln!("sidelane: measuring for about {:.0} s", plan.seconds(lanes));
        let tell = &mut std::io::stderr();
        let messages = match self.machine.native {
            true => experiment::native(plan, &sidelane, interrupt::flag()?, tell)?,
            false => experiment::emulated(plan, self.machine.spec(sidelane)?, tell)?,
        };
        Ok(Some(messages))
    }

    /// Measures a plan and prints what is made of the messages, unless this is the measuring part.
    pub(super) fn show<E: Experiment, D: serde::Serialize>(
        &self,
        plan: &E,
        document: impl FnOnce(&[E::Message]) -> sidelane_demo::Result<D>,
        render: impl FnOnce(&D) -> String,
    ) -> anyhow::Result<ExitCode> {
        if let Some(messages) = self.measure(plan)? {
            let document = document(&messages)?;
            self.format.print(|| render(&document), &document)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// To what share of its speed the host is kept by default.
const STEADY: f64 = 0.9;

/// Which machine is measured.
#[derive(clap::Args)]
pub(super) struct MachineArgs {
    /// Cores of the emulated machine.
    #[arg(long, default_value_t = 2, value_name = "C")]
    cores: usize,
    /// Lanes of each core [default: 2].
    #[arg(long, value_name = "T")]
    lanes: Option<usize>,
    /// Speed of a lane when 1, 2, ... lanes of its core run [default: 1, 1/2, ... 1/T; 'sidelane demo' itself, with
    /// two lanes: 1, 0.63, measured for option pricing (FOF)].
    #[arg(long, value_delimiter = ',', value_name = "1,X,...")]
    pub(super) thread_perf: Vec<f64>,
    /// `newest`, `oldest`, a version, or the path of a kernel image.
    #[arg(long, default_value = "newest", value_name = "VERSION|PATH")]
    kernel: String,
    /// Keep the host CPUs at this share of their speed, 0.2 to 0.9, whatever their neighbours do; 0: do not
    /// [default: 0.9 for root, with a host CPU for each core].
    #[arg(long, value_name = "SHARE", conflicts_with = "native")]
    steady: Option<f64>,
    /// Measure on this machine's own SMT instead (needs root).
    #[arg(long)]
    pub(super) native: bool,
}

impl MachineArgs {
    /// Speeds of the emulated machine's lanes.
    fn thread_perf(&self) -> anyhow::Result<Vec<f64>> {
        Ok(match (self.lanes, self.thread_perf.len()) {
            (lanes, 0) => smt::even_shares(lanes.unwrap_or(2)),
            (Some(lanes), given) if lanes != given => {
                bail!("--thread-perf has {given} numbers for {lanes} lanes: one for each is needed")
            }
            _ => self.thread_perf.clone(),
        })
    }

    /// The same, which the scheduler is told. Of this machine's own SMT only those that are given: nobody knows them
    /// before 'sidelane calibrate'.
    pub(super) fn known_thread_perf(&self) -> anyhow::Result<Vec<f64>> {
        match self.native {
            true => Ok(self.thread_perf.clone()),
            false => self.thread_perf(),
        }
    }

    /// Lanes of a core of the machine that is measured.
    fn lanes_per_core(&self) -> anyhow::Result<usize> {
        if !self.native {
            return Ok(self.thread_perf()?.len());
        }
        let cores = Topology::read(Path::new("/"))?.online_by_core();
        Ok(cores.iter().map(Vec::len).max().unwrap_or(1))
    }

    /// Speeds of the emulated machine's lanes, where none are given, nor another number of lanes.
    pub(super) fn default_thread_perf(&mut self, speeds: &[f64]) {
        let lanes_fit = self.lanes.is_none_or(|lanes| lanes == speeds.len());
        if self.thread_perf.is_empty() && lanes_fit && !self.native {
            self.thread_perf = speeds.to_vec();
        }
    }

    /// The emulated machine; Ctrl-C ends it.
    fn spec(&self, sidelane: PathBuf) -> anyhow::Result<Spec> {
        let mut spec = Spec::new(sidelane)?;
        spec.cores = self.cores;
        spec.thread_perf = self.thread_perf()?;
        spec.kernel = Kernel::from(self.kernel.as_str());
        spec.steady = match self.steady {
            Some(share) => Some(share).filter(|share| *share != 0.0),
            None => sidelane_testbed::can_be_steady(&spec, STEADY)?.then_some(STEADY),
        };
        let interrupt = Interrupt::new()?;
        spec.interrupt = interrupt.clone();
        ctrlc::set_handler(move || interrupt.raise())?;
        Ok(spec)
    }
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

pub(super) fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

/// Negative and absurd lengths become 0 and the longest there is.
pub(super) fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1000.0) as u64
}
