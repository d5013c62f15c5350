//! `sidelane demo`: experiments with servers, batch and pools, on an emulated SMT machine.

use super::{Format, write_file};
use crate::exit;
use sidelane_demo::experiment::Experiment;
use sidelane_demo::io::IoPlan;
use sidelane_demo::lanes::LanesPlan;
use sidelane_demo::levels::LevelsPlan;
use sidelane_demo::objective::ObjectivePlan;
use sidelane_demo::options::{self, OptionsPlan};
use sidelane_demo::place::{Place, in_guest};
use sidelane_demo::plan::Plan;
use sidelane_demo::pools::PoolsPlan;
use sidelane_demo::{multiply, server, vm};
use sidelane_interface::Kind;
use sidelane_testbed::Interrupt;
use std::path::PathBuf;
use std::process::ExitCode;

const ABOUT: &str = "\
Measures the latency of critical work and the batch work done beside it, in one boot of an \
emulated SMT machine, under these configurations, in an order that rotates with each repetition:

  alone       no batch, the kernel's default scheduler
  default     batch as SCHED_IDLE, the kernel's default scheduler
  smt-off     the same with SMT switched off
  sidelane    batch beside the critical work, scheduled by Sidelane
  batch-only  the same, with all but batch left to the kernel's scheduler

Critical work: `compute`, a server whose requests are real computation of exponential length, and \
`redis`, both under open-loop load; latency counts from the moment a request should have been \
sent. Batch: a gzip process for each lane.

Batch share = bytes compressed per second / (bytes per second of one whole core × (cores - \
core-time per second that the critical work needs)), by reference measurements before and after \
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
    #[command(flatten)]
    plain: Frame<Plan>,
}

// What every experiment has: its plan, the machine, and how the results are printed.
#[derive(clap::Args)]
#[command(allow_negative_numbers = true)]
struct Frame<E: Experiment> {
    #[command(flatten)]
    plan: E,
    #[command(flatten)]
    place: Place,
    /// How the results are printed.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The measuring part, in the emulated machine.
    #[arg(long, hide = true, value_name = "PLAN")]
    in_guest: Option<String>,
}

#[derive(clap::Subcommand)]
enum Part {
    /// Compare what I/O-bound work and computation get beside each other.
    #[command(long_about = IO, after_help = IO_EXAMPLES)]
    Io(Frame<IoPlan>),
    /// Compare batch that steps aside by itself with batch that the scheduler evicts.
    #[command(long_about = LANES, after_help = LANES_EXAMPLES)]
    Lanes(Frame<LanesPlan>),
    /// Show what controlling the SMT level does while a server's load rises and falls.
    #[command(long_about = LEVELS, after_help = LEVELS_EXAMPLES)]
    Levels(Frame<LevelsPlan>),
    /// Show how batch follows a server's objective.
    #[command(long_about = OBJECTIVE, after_help = OBJECTIVE_EXAMPLES)]
    Objective(Frame<ObjectivePlan>),
    /// Show what Sidelane does for a server whose requests have deadlines.
    #[command(long_about = OPTIONS, after_help = OPTIONS_EXAMPLES)]
    Options(Frame<OptionsPlan>),
    /// Show what charging pools by MT1-equivalent time is for.
    #[command(long_about = POOLS, after_help = POOLS_EXAMPLES)]
    Pools(Frame<PoolsPlan>),
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
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.part {
        None => return args.plain.run(Kind::Demo),
        Some(Part::Io(frame)) => return frame.run(Kind::DemoIo),
        Some(Part::Lanes(frame)) => return frame.run(Kind::DemoLanes),
        Some(Part::Levels(frame)) => return frame.run(Kind::DemoLevels),
        Some(Part::Objective(frame)) => return frame.run(Kind::DemoObjective),
        Some(Part::Options(frame)) => return frame.run(Kind::DemoOptions),
        Some(Part::Pools(frame)) => return frame.run(Kind::DemoPools),
        Some(Part::Multiply { totals_file }) => multiply::multiply(&totals_file)?,
        Some(Part::ServeCompute { workers }) => server::serve_standard_input(workers)?,
        Some(Part::ServeOptions { workers }) => options::serve_standard_input(workers)?,
        Some(Part::ServeVm {
            vcpus,
            turns,
            wait_us,
            memory,
        }) => vm::VmPlan {
            vcpus,
            duty: vm::Duty::new(turns, wait_us),
            memory,
        }
        .run()?,
    }
    Ok(ExitCode::SUCCESS)
}

impl<E: Experiment> Frame<E> {
    fn run(mut self, kind: Kind) -> anyhow::Result<ExitCode> {
        let sidelane = std::env::current_exe()?;
        if let Some(plan) = &self.in_guest {
            in_guest::<E>(plan, &sidelane, exit::interrupted()?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let (place, plan, tell) = (&self.place, &mut self.plan, &mut std::io::stderr());
        let document = match place.is_native() {
            true => place.native(plan, &sidelane, exit::interrupted()?, tell)?,
            false => {
                let interrupt = Interrupt::new()?;
                let raised = interrupt.clone();
                ctrlc::set_handler(move || raised.raise())?;
                place.emulated(plan, &sidelane, interrupt, tell)?
            }
        };
        if let Some((path, svg)) = self.plan.drawing(&document) {
            write_file(path, &svg)?;
        }
        self.format
            .print(kind, || E::render(&document), &document)?;
        Ok(ExitCode::SUCCESS)
    }
}

const IO: &str = "\
Measures how often a redis-server answers whose clients wait for one reply at a time, and the work of \
compressors beside it; or, with --virtual-machines, the same of virtual CPUs of KVM that wait for a \
device (their timer) and of others that multiply matrices. All are of the normal class, in one boot of an emulated SMT machine, \
in an order that rotates with each repetition:

  default      the kernel's default scheduler (virtual machines: halt polling off)
  polling      the same with the kernel's halt polling (virtual machines only)
  sidelane     Sidelane's scheduler without settings
  short-slice  with slice_ms = 3 (processes only)
  retain       with retain = true: lanes are held for tasks that are soon back from sleep; and
               dispatching as in z/VM: what wakes waits for the slices of others
  pair         with pair = true as well: I/O-bound tasks and the others have lanes of their own

What is computed is given as whole cores: over that of one process that has a core to itself. Ratios are \
of runs of the same repetition.";

const IO_EXAMPLES: &str = "Examples:
  sidelane demo io                             about seven minutes
  sidelane demo io --virtual-machines
  sidelane demo io --virtual-machines --ping-pong --turns 20000
  sidelane demo io --repetitions 2 --seconds 3
  sidelane demo io --connections 4 --format json
  sidelane demo io --native                    on this machine's own SMT, as root";

const LANES: &str = "\
Measures the latency of the computing server and the batch work done beside it, in one boot of an \
emulated SMT machine, in an order that rotates with each repetition:

  alone     no batch, the kernel's default scheduler
  default   batch as SCHED_IDLE, the kernel's default scheduler
  lanes     the same under 'sidelane lanes': batch has lanes of its own and steps aside by itself
  sidelane  batch is evicted by Sidelane's scheduler, borrow-idle

Batch is one program everywhere, a matrix multiplication for each lane that looks at the lane signal in \
each basic block. Batch share = multiplications per second / (those of one whole core × (cores - cores \
that the requests need)).";

const LANES_EXAMPLES: &str = "Examples:
  sidelane demo lanes                                about six minutes
  sidelane demo lanes --repetitions 2 --seconds 3
  sidelane demo lanes --load 0.5 --format json
  sidelane demo lanes --native                       on this machine's own SMT, as root";

const LEVELS: &str = "\
Measures a server's mean response while its load goes through plateaus, in one boot of an emulated SMT \
machine, with the kernel's default scheduler and with Sidelane's: at each SMT level, and under \
'sidelane control', which sets the level through sysfs or through the scheduler's cap.";

const LEVELS_EXAMPLES: &str = "Examples:
  sidelane demo levels                               about a quarter of an hour
  sidelane demo levels --loads 0.1,0.9,0.1 --repetitions 5 --format json";

const OBJECTIVE: &str = "\
Measures a server beside batch, in one boot of an emulated SMT machine, under service-level objectives: \
multiples of its 99th percentile alone. Sidelane lets batch stay beside requests as far as the objective \
allows. Printed are the latency, how often the objective was kept, and what batch got. Then the load \
doubles for a while, which is drawn. Where two lanes do no more than one (threadPerf 1, 1/2, as by \
default), batch cannot gain, whatever the objective: what it does beside a request delays that by as \
much.";

const OBJECTIVE_EXAMPLES: &str = "Examples:
  sidelane demo objective                            about twenty minutes
  sidelane demo objective --factors 1.5 --repetitions 1 --step-seconds 10
  sidelane demo objective --load 0.4 --thread-perf 1,0.75 --format json";

const OPTIONS: &str = "\
Measures the quality of an option pricing server's answers over its load, in one boot of an emulated SMT \
machine, with the kernel's default scheduler and with Sidelane's. Each request has a deadline, at which it \
is answered with what is there; an incomplete answer is worth less. No batch runs. Last comes the highest \
load at each quality, and Sidelane's gain.";

const OPTIONS_EXAMPLES: &str = "Examples:
  sidelane demo options                              about six minutes
  sidelane demo options --loads 0.6,0.8,1 --repetitions 1 --seconds 3
  sidelane demo options --deadline-ms 80 --qualities 0.9,0.95 --format json";

const POOLS: &str = "\
Measures the work of two pools of the same entitlement, in one boot of an emulated SMT machine, in an \
order that rotates with each repetition: with SMT off, and with SMT on, charged by MT1-equivalent time and \
by the time on a lane. One pool has one compressor, alone on its core, the other one for each lane of its \
core; processes and cores change in turn. The scheduler is told the speeds of lanes that are measured \
with the same work.";

const POOLS_EXAMPLES: &str = "Examples:
  sidelane demo pools                                about six minutes
  sidelane demo pools --repetitions 1 --seconds 4
  sidelane demo pools --lanes 4 --capacity 0.3 --format json
  sidelane demo pools --native                       on this machine's own SMT, as root";
