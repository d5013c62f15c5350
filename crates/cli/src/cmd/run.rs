//! `sidelane run`: attach the scheduler until stopped.

use crate::interrupt;
use sidelane_sched::{Class, ClassRule, Config, Event, Rule};
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "Examples:
  sidelane run --config /etc/sidelane.toml
  sidelane run --critical unit:nginx.service --batch cgroup:/batch
  sidelane run --critical 'comm:redis-server*' --batch exe:/usr/bin/xz

Rules: cgroup:GLOB, unit:NAME, exe:PATH, comm:THREAD-NAME (may end with *), user:NAME,
policy:idle|batch|normal, nice:>=N. The first that matches decides; rules given as flags
come before the file's, critical before normal before batch. Tasks that no rule names are
batch if they are SCHED_IDLE, SCHED_BATCH or nice 10 and more, else normal.

Ctrl-C detaches the scheduler; the kernel's default one takes over.";

/// Attach the scheduler and keep it until stopped (Ctrl-C).
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Configuration file (TOML).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Work that somebody waits for.
    #[arg(long, value_name = "RULE")]
    critical: Vec<Rule>,
    /// Work that is neither.
    #[arg(long, value_name = "RULE")]
    normal: Vec<Rule>,
    /// Work that may wait.
    #[arg(long, value_name = "RULE")]
    batch: Vec<Rule>,
}

/// Runs `sidelane run`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut config = match &args.config {
        Some(path) => Config::read(path)?,
        None => Config::default(),
    };
    let classes = [
        (Class::Critical, args.critical),
        (Class::Normal, args.normal),
        (Class::Batch, args.batch),
    ];
    let flags = classes
        .into_iter()
        .flat_map(|(class, rules)| rules.into_iter().map(move |rule| ClassRule { class, rule }));
    config.rules.splice(0..0, flags);
    let stop = interrupt::flag()?;
    let reason = sidelane_sched::run(&config, stop, &mut |event| tell(&event))?;
    eprintln!("sidelane: detached: {reason}");
    Ok(ExitCode::SUCCESS)
}

fn tell(event: &Event) {
    eprintln!("sidelane: {event}");
}
