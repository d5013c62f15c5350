//! An option pricing server with deadlines and partial results.

use anyhow::Context;
use clap::Parser;
use sidelane_interface::say;
use sidelane_options::server::{Totals, prepare, serve};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);

const EXAMPLES: &str = "Examples:
  option-server --listen localhost:7700
  echo 'price id=1 paths=100000 deadline_us=5000 strike=100 seed=1' | nc -u -w 1 localhost 7700";

/// Price options by Monte Carlo, each by a deadline; an answer that is not complete then says so.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES)]
struct Args {
    /// Where to listen (UDP).
    #[arg(long, default_value = "localhost:7700", value_name = "HOST:PORT")]
    listen: String,
    /// Threads; by default one for each CPU.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    workers: Option<u16>,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    ctrlc::set_handler(|| STOP.store(true, Ordering::Relaxed))?;
    let socket = UdpSocket::bind(&args.listen).with_context(|| args.listen.clone())?;
    prepare(&socket)?;
    let workers = match args.workers {
        Some(workers) => workers.into(),
        None => std::thread::available_parallelism()?.get(),
    };
    say!(
        "option-server: {} workers listen on {}; Ctrl-C ends",
        workers,
        socket.local_addr()?
    );
    let totals = Totals::default();
    serve(&socket, workers, &STOP, &totals)?;
    let count = |total: &std::sync::atomic::AtomicU64| total.load(Ordering::Relaxed);
    say!(
        "option-server: {} complete, {} incomplete, {} refused",
        count(&totals.complete),
        count(&totals.incomplete),
        count(&totals.refused)
    );
    Ok(())
}
