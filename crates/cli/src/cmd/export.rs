//! `sidelane export`: SMT metrics for Prometheus.

use super::record::RateArgs;
use crate::interrupt;
use sidelane_export::Server;
use std::process::ExitCode;

const ABOUT: &str = "\
Answers GET /metrics with SMT metrics in the OpenMetrics text format: times by density, thread density,
capacity factor, productivity, and the raw and MT1-equivalent time of cgroups. docs/metrics.md
defines them; packaging/grafana/sidelane.json is a dashboard.";

const EXAMPLES: &str = "Examples:
  sidelane export
  sidelane export --listen localhost:9000 --calibration machine.json

Needs root, or CAP_BPF and CAP_PERFMON, and BTF; what the scheduler counts takes CAP_SYS_ADMIN, too.
It listens on this machine alone unless told otherwise: others on the network would see the names of
cgroups. Ctrl-C ends it.";

/// Export SMT metrics over HTTP.
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES)]
pub struct Args {
    /// Where to listen.
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:9754")]
    listen: String,
    #[command(flatten)]
    rates: RateArgs,
}

/// Runs `sidelane export`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let settings = args.rates.settings()?;
    let stop = interrupt::flag()?;
    let server = Server::listen(&args.listen)?;
    eprintln!("sidelane: metrics at http://{}/metrics", server.address());
    sidelane_export::export(&settings, &server, stop, &mut |text| {
        eprintln!("sidelane: {text}");
    })?;
    Ok(ExitCode::SUCCESS)
}
