//! `sidelane lanes`: critical work and batch on lanes of their own, with the kernel's scheduler.

use crate::interrupt;
use sidelane_control::lanes::{DEFAULT_STATE_PATH, LanesEvent, LanesSettings};
use sidelane_sched::signal::lanes::Groups;
use std::path::PathBuf;
use std::process::ExitCode;

const ABOUT: &str = "\
Gives critical work the first lane of each core and batch the others, by cpusets, and keeps the lane
signal, by which batch programs that were built for it step aside while critical work runs beside
them. The kernel's own scheduler stays. docs/runtime.md describes it.";

const EXAMPLES: &str = "Examples:
  sidelane lanes --critical /system.slice/nginx.service --batch /batch.slice
  SIDELANE_RUNTIME_VERBOSE=1 ./matmul-stepping-aside     in the batch cgroup: tells its naps

Needs root, cgroup v2 and BTF. Ctrl-C and SIGTERM restore the cpusets; after a crash the next start
does. Programs find the signal at /run/sidelane/signal.sock; SIDELANE_SIGNAL_SOCKET names another.";

/// Bind critical work and batch to lanes of their own, without a scheduler, until stopped.
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// Cgroup of the work that somebody waits for: a path from the cgroup root.
    #[arg(long, value_name = "CGROUP")]
    critical: String,
    /// Cgroup of the work that may wait.
    #[arg(long, value_name = "CGROUP")]
    batch: String,
    /// Where what was found is kept until it is restored.
    #[arg(long, value_name = "FILE", default_value = DEFAULT_STATE_PATH)]
    state: PathBuf,
}

/// Runs `sidelane lanes`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let settings = LanesSettings {
        groups: Groups {
            critical: args.critical,
            batch: args.batch,
        },
        state: args.state,
    };
    let stop = interrupt::flag()?;
    sidelane_control::lanes::run(&settings, stop, &mut |event| match event {
        LanesEvent::Restored => eprintln!("sidelane: restored what an earlier run had found"),
        LanesEvent::Serving { critical, batch } => {
            eprintln!("sidelane: serving: critical work on CPUs {critical}, batch on CPUs {batch}");
            eprintln!(
                "sidelane: other work may run on CPUs {batch} while batch naps there: cpusets keep it away, \
                 'sidelane run' does so by itself"
            );
        }
    })?;
    eprintln!("sidelane: cpusets restored");
    Ok(ExitCode::SUCCESS)
}
