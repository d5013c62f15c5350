//! `sidelane demo io`: I/O-bound work beside computation, both normal.

use super::demo::{CommonArgs, milliseconds, seconds};
use sidelane_demo::io::{Document, IoPlan, Work, render};
use std::process::ExitCode;

const ABOUT: &str = "\
Measures how often a redis-server answers whose clients wait for one reply at a time, and the work of
compressors beside it; or, with --virtual-machines, the same of virtual CPUs of KVM that play ping-pong
and of others that multiply matrices. All are of the normal class, in one boot of an emulated SMT machine,
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
  sidelane demo io                             about six minutes
  sidelane demo io --virtual-machines
  sidelane demo io --repetitions 2 --seconds 3
  sidelane demo io --connections 4 --format json
  sidelane demo io --native                    on this machine's own SMT, as root";

/// Turns of a player's loop, for each time.
const TURNS: u32 = 20_000;

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
    /// Virtual CPUs that play, an even number; without it as many as lanes.
    #[arg(long, value_name = "N", requires = "virtual_machines")]
    players: Option<u32>,
    /// Turns of a loop of two instructions that a player computes before it is its partner's turn.
    #[arg(long, default_value_t = TURNS, value_name = "N", requires = "virtual_machines")]
    turns: u32,
    /// Processes that compute; without it as many as lanes.
    #[arg(long, value_name = "N")]
    computing: Option<u32>,
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
    let plan = args.plan();
    let Some(messages) = args.common.measure(&plan)? else {
        return Ok(ExitCode::SUCCESS);
    };
    let document = Document::new(&plan, &messages, !args.common.machine.native)?;
    args.common.format.print(|| render(&document), &document)?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn plan(&self) -> IoPlan {
        IoPlan {
            seed: self.seed,
            repetitions: self.repetitions,
            work: match self.virtual_machines {
                true => Work::VirtualMachines {
                    players: self.players,
                    turns: self.turns,
                },
                false => Work::Processes {
                    connections: self.connections,
                },
            },
            computing: self.computing,
            run_ms: milliseconds(self.seconds),
            ..IoPlan::default()
        }
    }
}
