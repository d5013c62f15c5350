//! `sidelane demo io`: I/O-bound work beside computation, both normal.

use super::demo_args::{CommonArgs, milliseconds, seconds};
use sidelane_demo::io::{Document, IoPlan, Work, render};
use std::process::ExitCode;

const ABOUT: &str = "\
Measures how often a redis-server answers whose clients wait for one reply at a time, and the work of
compressors beside it; or, with --virtual-machines, the same of virtual CPUs of KVM that wait for a
device (their timer) and of others that multiply matrices. All are of the normal class, in one boot of an emulated SMT machine,
in an order that rotates with each repetition:

  default      the kernel's default scheduler (virtual machines: halt polling off)
  polling      the same with the kernel's halt polling (virtual machines only)
  sidelane     Sidelane's scheduler without settings
  short-slice  with slice_ms = 3 (processes only)
  retain       with retain = true: lanes are held for tasks that are soon back from sleep
  pair         with pair = true as well: I/O-bound tasks and the others have lanes of their own

What is computed is given as whole cores: over that of one process that has a core to itself. Ratios are
of runs of the same repetition.";

const EXAMPLES: &str = "Examples:
  sidelane demo io                             about seven minutes
  sidelane demo io --virtual-machines
  sidelane demo io --virtual-machines --ping-pong --turns 20000
  sidelane demo io --repetitions 2 --seconds 3
  sidelane demo io --connections 4 --format json
  sidelane demo io --native                    on this machine's own SMT, as root";

/// Timers look so often for holds that are over. The scheduler's own 0.2 ms make thousands of interrupts a
/// second, which are dear where they are emulated.
const EMULATED_HOLD_MIN_MS: f64 = 1.0;
/// Turns of a loop, and what the device takes afterwards: both many times what they would be on a real
/// machine, as an emulated wake-up is.
const TURNS: u32 = 100_000;
const WAIT_US: u32 = 2_000;

/// Compare what I/O-bound work and computation get beside each other.
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// Virtual CPUs of KVM instead of processes.
    #[arg(long)]
    virtual_machines: bool,
    /// How often each setup is measured.
    #[arg(long, default_value_t = IoPlan::default().repetitions, value_name = "N")]
    repetitions: u32,
    /// Clients of redis, each of which waits for one reply at a time.
    #[arg(
        long,
        default_value_t = 1,
        value_name = "N",
        conflicts_with = "virtual_machines"
    )]
    connections: u32,
    /// Virtual CPUs that do I/O; without it as many as lanes.
    #[arg(long, value_name = "N", requires = "virtual_machines")]
    players: Option<u32>,
    /// Turns of a loop of two instructions that one of them computes before it waits.
    #[arg(long, default_value_t = TURNS, value_name = "N", requires = "virtual_machines")]
    turns: u32,
    /// How long the device takes.
    #[arg(long, default_value_t = WAIT_US, value_name = "US", requires = "virtual_machines")]
    wait_us: u32,
    /// They wait for each other instead of a device, in pairs.
    #[arg(long, conflicts_with = "wait_us", requires = "virtual_machines")]
    ping_pong: bool,
    /// Processes that compute; without it as many as lanes.
    #[arg(long, value_name = "N")]
    computing: Option<u32>,
    /// The shortest hold with retention, ms [default: 1 where timers are emulated, else the scheduler's own].
    #[arg(long, value_name = "MS")]
    hold_min_ms: Option<f64>,
    /// Length of a run.
    #[arg(long, default_value_t = seconds(IoPlan::default().run_ms), value_name = "S")]
    seconds: f64,
    /// Start of all random numbers: same seed, same text to compress.
    #[arg(long, default_value_t = IoPlan::default().seed, value_name = "N")]
    seed: u64,
    #[command(flatten)]
    common: CommonArgs,
}

/// Runs `sidelane demo io`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let plan = args.plan()?;
    let emulated = !args.common.machine.native;
    let document = |messages: &[_]| Document::new(&plan, messages, emulated);
    args.common.show(&plan, document, render)
}

impl Args {
    fn plan(&self) -> anyhow::Result<IoPlan> {
        let machine = &self.common.machine;
        Ok(IoPlan {
            thread_perf: machine.known_thread_perf()?,
            seed: self.seed,
            repetitions: self.repetitions,
            work: match self.virtual_machines {
                true => Work::VirtualMachines {
                    players: self.players,
                    turns: self.turns,
                    wait_us: (!self.ping_pong).then_some(self.wait_us),
                },
                false => Work::Processes {
                    connections: self.connections,
                },
            },
            computing: self.computing,
            hold_min_ms: match machine.native {
                true => self.hold_min_ms,
                false => Some(self.hold_min_ms.unwrap_or(EMULATED_HOLD_MIN_MS)),
            },
            run_ms: milliseconds(self.seconds),
            ..IoPlan::default()
        })
    }
}
