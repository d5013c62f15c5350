//! `sidelane tune`: settings of the running scheduler.

use super::Format;
use sidelane_interface::Kind;
use sidelane_sched::tune::{Changes, PoolChange, tune};
use sidelane_sched::{Borrow, Objective, Polarization};
use std::process::ExitCode;

const EXAMPLES: &str = "Examples:
  sidelane tune                                print the settings in force
  sidelane tune --borrow fixed --budget 20     batch may run beside critical work for 20 ms
  sidelane tune --budget 10                    less of it
  sidelane tune --borrow slo --objective 'p99 < 20 ms'
                                               as long as the tail of critical jobs allows
  sidelane tune --borrow borrow-idle           not at all
  sidelane tune --pool /tenants/a --cores 1.5  what a pool may use, from its next period on
  sidelane tune --polarization vertical        normal and batch work on as few cores as it needs

Changes last until 'sidelane run' ends, also when lanes come or go meanwhile. \
Rules with a budget of their own keep it. Counters are opened when the scheduler is attached, if a \
budget is dynamic then: one that becomes so later is charged by thread_perf.";

/// Print or change settings of the running scheduler.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct Args {
    /// How long batch may run beside critical work: borrow-idle, fixed, refresh, dynamic, slo or
    /// off.
    #[arg(long, value_name = "POLICY")]
    borrow: Option<Borrow>,
    /// With slo: the latency that few critical jobs may exceed, such as "p99 < 20 ms".
    #[arg(long, value_name = "OBJECTIVE")]
    objective: Option<Objective>,
    /// The budget of fixed, refresh and dynamic, in milliseconds.
    #[arg(long, value_name = "MS")]
    budget: Option<f64>,
    /// Speed of a thread when 1, 2, ... lanes of its core run, for dynamic.
    #[arg(long, value_name = "1,S,...", value_delimiter = ',')]
    thread_perf: Option<Vec<f64>>,
    /// Which cores normal and batch work uses: horizontal (all) or vertical (as few as it needs).
    #[arg(long, value_name = "WORD")]
    polarization: Option<Polarization>,
    /// The pool, by its cgroup, that --cores is for.
    #[arg(long, value_name = "CGROUP", requires = "cores")]
    pool: Option<String>,
    /// Cores (lanes with charge = "raw") that the pool may use; off: without a limit.
    #[arg(long, value_name = "N|off", requires = "pool", value_parser = cores)]
    cores: Option<Cores>,
    /// How the settings are printed.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Runs `sidelane tune`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let tuned = tune(&Changes {
        borrow: args.borrow,
        budget_ms: args.budget,
        objective: args.objective,
        thread_perf: args.thread_perf,
        polarization: args.polarization,
        pool: args.pool.zip(args.cores).map(|(cgroup, cores)| PoolChange {
            cgroup,
            cores: cores.0,
        }),
    })?;
    args.format
        .print(Kind::Tune, || tuned.to_string(), &tuned)?;
    Ok(ExitCode::SUCCESS)
}

/// What a pool may use; none: as much as it likes.
#[derive(Clone, Copy)]
struct Cores(Option<f64>);

fn cores(text: &str) -> Result<Cores, String> {
    if text == "off" {
        return Ok(Cores(None));
    }
    let cores = text.parse().ok();
    match cores.filter(|cores| *cores > 0.0 && *cores <= 1e6) {
        Some(cores) => Ok(Cores(Some(cores))),
        None => Err("expected a number above 0, or off".to_owned()),
    }
}
