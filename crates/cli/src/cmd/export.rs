//! `sidelane export`: SMT metrics and the scheduler's state for Prometheus.

use super::record::RateArgs;
use crate::exit;
use sidelane_export::{Server, address};
use sidelane_interface::say;
use std::path::PathBuf;
use std::process::ExitCode;

const ABOUT: &str = "\
Answers GET /metrics in the OpenMetrics text format. With any scheduler: times by density, thread \
density, capacity factor, productivity, the raw, MT1-equivalent and prorated time of cgroups, and of \
pods where an agent names them. Of Sidelane's \
scheduler: whether it is attached, why it ended last, its counters, settings, objectives, pools, and \
how long jobs took. docs/metrics.md lists them; packaging/prometheus has alerts, \
packaging/grafana a dashboard.";

const EXAMPLES: &str = "Examples:
  sidelane export
  sidelane export --listen localhost:9000 --calibration machine.json

Needs root, or CAP_BPF and CAP_PERFMON, and BTF; what the scheduler counts takes CAP_SYS_ADMIN, too. \
It listens on this machine alone unless told otherwise: others on the network would see the names of \
cgroups. Ctrl-C ends it.";

/// Export SMT metrics and the scheduler's state over HTTP.
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// Where to listen.
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:9754", value_parser = address)]
    listen: String,
    /// Names pods, and what the node offers to batch: the file that 'sidelane node' keeps.
    #[arg(long, value_name = "FILE")]
    node_state: Option<PathBuf>,
    #[command(flatten)]
    rates: RateArgs,
}

/// Runs `sidelane export`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let settings = args.rates.settings()?;
    let stop = exit::interrupted()?;
    let server = Server::listen(&args.listen)?;
    say!("sidelane: metrics at http://{}/metrics", server.address());
    sidelane_export::export(&settings, args.node_state, &server, stop, &mut |text| {
        say!("sidelane: {text}");
    })?;
    Ok(ExitCode::SUCCESS)
}
