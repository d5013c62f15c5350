//! The load generator of the option pricing server.

use anyhow::Context;
use clap::Parser;
use sidelane_options::load::{Load, Outcome, run};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);

const EXAMPLES: &str = "Examples:
  option-load --rate 50 --mean-paths 20000 --deadline-ms 50
  option-load --server localhost:7700 --rate 200 --seconds 30 --format json";

/// Send requests to an option server at random moments, whether or not earlier ones were answered.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Args {
    /// The server.
    #[arg(long, default_value = "localhost:7700", value_name = "HOST:PORT")]
    server: String,
    /// Requests a second.
    #[arg(long, value_name = "N")]
    rate: f64,
    /// For how long.
    #[arg(long, default_value_t = 10, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Mean number of paths of a request; the largest have five times as many.
    #[arg(long, default_value_t = 20_000.0, value_name = "N")]
    mean_paths: f64,
    /// When a request has to be answered, after its arrival.
    #[arg(long, default_value_t = 50, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    deadline_ms: u32,
    /// Start of all random numbers: same seed, same requests.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// How the results are printed.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed))?;
    // Any free port, of the family that reaches the server.
    let socket = UdpSocket::bind("localhost:0").or_else(|_| UdpSocket::bind("[::]:0"))?;
    socket
        .connect(&args.server)
        .with_context(|| args.server.clone())?;
    let load = Load {
        rate_per_s: args.rate,
        run_ms: u64::from(args.seconds) * 1000,
        settle_ms: 0,
        mean_paths: args.mean_paths,
        deadline_us: u64::from(args.deadline_ms) * 1000,
        seed: args.seed,
    };
    let outcome = run(&socket, &load, &STOP)?;
    match args.format {
        Format::Json => println!("{}", serde_json::to_string(&outcome)?),
        Format::Text => print(&outcome),
    }
    Ok(())
}

fn print(outcome: &Outcome) {
    let ms = |ns: u64| ns as f64 / 1e6;
    println!("requests {:10}", outcome.requests);
    println!(
        "missed   {:10}   not complete at their deadline",
        outcome.missed
    );
    println!("lost     {:10}   never answered", outcome.lost);
    println!("quality  {:10.4}", outcome.quality);
    println!(
        "latency  {:10.2} ms median, {:.2} ms at 99 %",
        ms(outcome.latency.p50_ns),
        ms(outcome.latency.p99_ns)
    );
}
