//! `sidelane advise`: what to do about what was measured.

use super::record::RateArgs;
use super::{Format, recording, seconds};
use crate::exit::{self, BadInput};
use sidelane_collect::watch::watch;
use sidelane_control::service::{self, Asked, Service};
use sidelane_interface::say;
use sidelane_interface::{Kind, Listed};
use sidelane_smt::advise::{advise, text};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

const ABOUT: &str = "\
Says what SMT metrics mean for this machine and its work: whether a stage has too few workers, a thread \
keeps all others waiting, SMT is worth having, room is left, or a limited cgroup gets less than it is \
entitled to; each with its evidence and how sure it is. Of a service it says what SMT costs that now: how \
long it waits for a lane, how long it has a core to itself, how fast it is beside others, and which they are.";

const EXAMPLES: &str = "Examples:
  sidelane advise                          on this machine, for 10 s
  sidelane advise --seconds 60 --calibration machine.json
  sidelane advise smt.rec                  on a recording
  sidelane advise unit:nginx.service       what SMT costs this unit now, and beside what
  sidelane advise cgroup:/kubepods --seconds 60 --format json

On this machine it needs root, or CAP_BPF and CAP_PERFMON, and BTF. Services: unit:NAME (or just NAME), user-unit:NAME, \
cgroup:/PATH, with all cgroups below. How fast a service is beside others is counted in instructions; machines that count none need \
--calibration, and without one that is unknown. Recordings of version 2 do not say which cgroups are \
limited.";

/// Advise on what was measured.
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct Args {
    /// A file of 'sidelane record', or a service: unit:NAME, user-unit:NAME, cgroup:/PATH [default: this machine, now].
    #[arg(value_name = "FILE|SERVICE")]
    of: Option<String>,
    /// How long this machine, or the service, is watched.
    #[arg(long, value_name = "S", default_value = "10",
        value_parser = |text: &str| seconds(text, 2.0))]
    seconds: f64,
    #[command(flatten)]
    rates: RateArgs,
    /// How the result is printed.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Runs `sidelane advise`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let intervals = match args.of.as_deref() {
        Some(service) if !is_file(service) => return of_service(&args, service),
        Some(file) => recording(Path::new(file))?,
        None => {
            say!("sidelane: watching for {} s", args.seconds);
            let length = Duration::from_secs_f64(args.seconds);
            watch(&args.rates.settings()?, length, exit::interrupted()?)?
        }
    };
    let advice = advise(&intervals)?;
    let listed = Listed("advice", &advice);
    args.format.print(Kind::Advise, || text(&advice), &listed)?;
    Ok(ExitCode::SUCCESS)
}

/// A recording, rather than a service? One that is not there is told by its name.
fn is_file(of: &str) -> bool {
    Path::new(of).is_file() || of.ends_with(".rec")
}

/// What SMT costs a service.
fn of_service(args: &Args, name: &str) -> anyhow::Result<ExitCode> {
    let service = Service::parse(name)
        .map_err(|error| BadInput(format!("{error} (and there is no file of that name)")))?;
    let rates = args.rates.settings()?.rates.unwrap_or_default();
    let length = Duration::from_secs_f64(args.seconds);
    match service::ask(&service, &rates, length, exit::interrupted()?)? {
        Asked::NoSmt(none) => args
            .format
            .print(Kind::AdviseService, || none.text(), &none)?,
        Asked::Answered(answer) => {
            args.format
                .print(Kind::AdviseService, || answer.text(), &*answer)?
        }
    }
    Ok(ExitCode::SUCCESS)
}
