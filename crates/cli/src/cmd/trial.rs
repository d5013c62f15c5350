//! `sidelane trial`: what helps a service on this machine, by trying.

use super::{Format, number, seconds};
use crate::exit::{self, INTERRUPTED, NO};
use sidelane_control::DEFAULT_STATE_PATH;
use sidelane_control::service::Service;
use sidelane_control::trial::{Outcome, Plan, Setup, run as try_it};
use sidelane_interface::Kind;
use sidelane_interface::say;
use sidelane_sched::Rule;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const ABOUT: &str = "\
Tries on the live machine what helps a service: the kernel's default scheduler, SMT level 1 and Sidelane take turns for some minutes. \
At SMT level 1 all CPUs but one of each core are offline: a third of the time, unless --without smt-off leaves that out. What the service waited and what batch got is compared, with \
intervals, and one of them is recommended if they are apart. Afterwards the machine is as it was.";

const EXAMPLES: &str = "Examples:
  sidelane trial unit:nginx.service --batch cgroup:/batch.slice
  sidelane trial unit:nginx.service --batch cgroup:/batch.slice --without smt-off
  sidelane trial unit:redis.service --batch unit:backup.service --minutes 20 --guard 1.5
  sidelane trial cgroup:/critical --batch cgroup:/batch --slot 5 --minutes 5 --format json
  sidelane trial unit:redis.service --batch cgroup:/batch.slice --latency-command \\
    'redis-cli --latency --raw -i 15 | cut -d\" \" -f3'

Services: unit:NAME (or just NAME), user-unit:NAME, cgroup:/PATH, with all cgroups below. Batch is found by the same kinds of rules, \
for its time is counted by cgroups. The latency command runs in a shell in each slot, prints one number a line, \
in ms, and ends by itself within $SIDELANE_SLOT_SECONDS; after twice that it is ended. Without one the 99th \
percentile of waits for a lane decides.

Needs root, and a kernel with sched_ext to which no scheduler is attached. Ctrl-C and SIGTERM end the trial and \
leave the machine as it was; killed by SIGKILL while lanes are offline, 'sidelane control --restore' brings \
them back. If --guard ends it the exit code is 5, after Ctrl-C or SIGTERM 130; what was measured before is \
printed. Without SMT there is nothing to try: that is said, and the exit code is 0. docs/trial.md tells what is \
measured.";

/// Try the kernel's default, SMT level 1 and Sidelane in turns, and compare them for a service.
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct Args {
    /// The service: unit:NAME, user-unit:NAME or cgroup:/PATH.
    service: String,
    /// Work that may wait; may be repeated.
    #[arg(long, value_name = "RULE", required = true)]
    batch: Vec<Rule>,
    /// How long it takes, at least a round of three slots.
    #[arg(long, value_name = "N", default_value = "10", value_parser = minutes)]
    minutes: f64,
    /// Length of a slot.
    #[arg(long, value_name = "S", default_value = "20", value_parser = |text: &str| seconds(text, 1.0))]
    slot: f64,
    /// Leave this setup out: smt-off, so that no CPU goes offline.
    #[arg(long, value_name = "SETUP", value_parser = setup)]
    without: Option<Setup>,
    /// End it at once if a 99th percentile is so many times the default's, and at least 1 ms for waits; off: never.
    #[arg(long, value_name = "X|off", default_value = "3", value_parser = guard)]
    guard: Guard,
    /// A shell command that prints latencies of the service, ms, one a line.
    #[arg(long, value_name = "COMMAND")]
    latency_command: Option<String>,
    /// Speed of a lane when 1, 2, ... lanes of its core run, for Sidelane.
    #[arg(long, value_name = "1,S,...", value_delimiter = ',')]
    thread_perf: Option<Vec<f64>>,
    /// Where the SMT level that was found is kept meanwhile.
    #[arg(long, value_name = "FILE", default_value = DEFAULT_STATE_PATH)]
    state: PathBuf,
    /// How the result is printed.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

fn minutes(text: &str) -> Result<f64, String> {
    number(text, 0.05..=1440.0, "minutes")
}

/// How many times the default's a 99th percentile may be; none: any.
#[derive(Clone, Copy)]
struct Guard(Option<f64>);

fn guard(text: &str) -> Result<Guard, String> {
    match text {
        "off" => Ok(Guard(None)),
        _ => number(text, 1.01..=1000.0, "times the default's, or off").map(|x| Guard(Some(x))),
    }
}

fn setup(text: &str) -> Result<Setup, String> {
    match text {
        "smt-off" => Ok(Setup::SmtOff),
        _ => Err("expected smt-off".to_owned()),
    }
}

/// Runs `sidelane trial`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let setups = Setup::ALL.into_iter();
    let setups = setups.filter(|setup| args.without != Some(*setup));
    let plan = Plan {
        service: Service::parse(&args.service)?,
        batch: args.batch,
        slot: Duration::from_secs_f64(args.slot),
        length: Duration::from_secs_f64(args.minutes * 60.0),
        setups: setups.collect(),
        guard: args.guard.0,
        latency_command: args.latency_command,
        thread_perf: args.thread_perf,
        state: args.state,
    };
    let stop = exit::interrupted()?;
    let outcome = try_it(&plan, stop, &mut |event| {
        // a terminal that has closed must not end it half-way
        let _ = writeln!(std::io::stderr(), "sidelane: {event}");
    })?;
    args.format
        .print(Kind::Trial, || outcome.text(), &outcome)?;
    match outcome {
        Outcome::Guarded { why, .. } => {
            say!("sidelane: the guard ended the trial, the machine is as it was: {why}");
            Ok(ExitCode::from(NO))
        }
        Outcome::Interrupted(_) => {
            say!("sidelane: interrupted, the machine is as it was");
            Ok(ExitCode::from(INTERRUPTED))
        }
        Outcome::Ended(_) | Outcome::NoSmt(_) => Ok(ExitCode::SUCCESS),
    }
}
