//! `sidelane top`: the machine on a terminal.

use super::record::RateArgs;
use super::seconds;
use crate::exit;
use sidelane_collect::Lanes;
use sidelane_collect::watch::{Listener, Wanted, tell};
use sidelane_smt::snapshot::Interval;
use sidelane_top::{Sample, Screen};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const ABOUT: &str = "\
Shows cores as a map of lanes (height: how busy, colour: class of what runs), SMT metrics, the tail of \
critical jobs, and tasks or cgroups to sort: lanes used, work done (MT1-equivalent), waiting.";

const EXAMPLES: &str = "Examples:
  sidelane top
  sidelane top --interval 0.5 --calibration machine.json

Keys are htop's; F1 lists them, q ends. Needs root, or CAP_BPF and CAP_PERFMON, and BTF. Classes are \
known while Sidelane's scheduler is attached, and take CAP_SYS_ADMIN.";

/// Watch cores, tasks and cgroups on a terminal.
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct Args {
    /// Length of an interval.
    #[arg(long, value_name = "S", default_value = "1",
        value_parser = |text: &str| seconds(text, 0.1))]
    interval: f64,
    #[command(flatten)]
    rates: RateArgs,
}

/// Runs `sidelane top`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut view = View {
        length: Duration::from_secs_f64(args.interval),
        stop: exit::interrupted()?,
        screen: None,
        lanes: None,
    };
    tell(&args.rates.settings()?, &mut view)?;
    Ok(ExitCode::SUCCESS)
}

/// Shows what it is told.
struct View {
    length: Duration,
    stop: &'static AtomicBool,
    screen: Option<Screen>,
    /// Of the scheduler, if it is attached.
    lanes: Option<Lanes>,
}

impl Listener for View {
    type Error = anyhow::Error;

    fn begun(&mut self, _instead: Option<&str>) -> anyhow::Result<()> {
        self.lanes = Lanes::open();
        if self.screen.is_none() {
            // not before the collector has begun: its errors belong on a plain terminal
            self.screen = Some(Screen::open()?);
        }
        Ok(())
    }

    fn wait(&mut self) -> anyhow::Result<Wanted> {
        let Some(screen) = &mut self.screen else {
            return Ok(Wanted::Nothing);
        };
        Ok(match screen.wait(self.length, self.stop)? {
            true => Wanted::More,
            false => Wanted::Nothing,
        })
    }

    fn take(&mut self, interval: Interval) -> anyhow::Result<()> {
        let cores = interval.cores.iter();
        let cpus = cores.flat_map(|core| core.lanes.iter().map(|lane| lane.cpu));
        let states = self.lanes.as_ref().map(|lanes| lanes.states(cpus));
        let lanes = states.unwrap_or_default();
        if let Some(screen) = &mut self.screen {
            screen.push(Sample { interval, lanes });
        }
        Ok(())
    }
}
