//! `sidelane lanes`: critical work and batch on lanes of their own, with the kernel's scheduler.

use crate::exit;
use sidelane_control::lanes::{DEFAULT_STATE_PATH, LanesEvent, LanesSettings};
use sidelane_control::service::Service;
use sidelane_interface::say;
use sidelane_sched::signal::lanes::Groups;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const ABOUT: &str = "\
Gives critical work the first lane of each core and batch the others, by cpusets, and keeps the lane \
signal, by which batch programs that were built for it step aside while critical work runs beside \
them. The kernel's own scheduler stays. docs/runtime.md describes it.";

const EXAMPLES: &str = "Examples:
  sidelane lanes --critical unit:nginx.service --batch cgroup:/batch.slice
  SIDELANE_RUNTIME_VERBOSE=1 ./matmul-stepping-aside     in the batch cgroup: tells its naps

Needs root, cgroup v2 and BTF. Ctrl-C and SIGTERM restore the cpusets; after a crash the next start \
does. Programs find the signal at /run/sidelane/signal.sock; SIDELANE_SIGNAL_SOCKET names another.";

/// Bind critical work and batch to lanes of their own, without a scheduler, until stopped.
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// The work that somebody waits for: unit:NAME, user-unit:NAME or cgroup:/PATH, of which there is one.
    #[arg(long, value_name = "SERVICE")]
    critical: String,
    /// The work that may wait, named in the same way.
    #[arg(long, value_name = "SERVICE")]
    batch: String,
    /// Where what was found is kept until it is restored.
    #[arg(long, value_name = "FILE", default_value = DEFAULT_STATE_PATH)]
    state: PathBuf,
}

/// The path of a service's cgroup; one that is a path already is looked up later.
fn cgroup(service: String) -> anyhow::Result<String> {
    match service.starts_with('/') {
        true => Ok(service),
        false => Ok(Service::parse(&service)?.cgroup(Path::new("/"))?),
    }
}

/// Runs `sidelane lanes`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let settings = LanesSettings {
        groups: Groups {
            critical: cgroup(args.critical)?,
            batch: cgroup(args.batch)?,
        },
        state: args.state,
    };
    let stop = exit::interrupted()?;
    sidelane_control::lanes::run(&settings, stop, &mut |event| match event {
        LanesEvent::Restored => say!("sidelane: restored what an earlier run had found"),
        LanesEvent::Serving { critical, batch } => {
            say!("sidelane: serving: critical work on CPUs {critical}, batch on CPUs {batch}");
            say!(
                "sidelane: other work may run on CPUs {batch} while batch naps there: cpusets keep it away, \
                 'sidelane run' does so by itself"
            );
        }
    })?;
    say!("sidelane: cpusets restored");
    Ok(ExitCode::SUCCESS)
}
