//! `sidelane control`: the daemon that sets the SMT level.

use super::Format;
use super::model::ModelName;
use crate::exit::{self, BadInput};
use clap::ValueEnum;
use sidelane_calibrate::Calibration;
use sidelane_control::{
    ActuatorKind, DEFAULT_STATE_PATH, Event, Normalization, Outcome, PUBLISHED_NORMALIZATION,
    Settings, restore,
};
use sidelane_interface::Kind;
use sidelane_interface::say;
use sidelane_model::{GovernorConfig, LaneOrder, Model, Options, ThreadPerf};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const ABOUT: &str = "\
Sets the SMT level, how many lanes of each core may run, to the one with the least response time at \
the machine's load, every few seconds: the model's choice ('sidelane model') for the peak of the last \
minute. It restores what it found when it ends; after a crash, when it is started again or with \
--restore. docs/control.md describes it.";

const EXAMPLES: &str = "Examples:
  sidelane control --dry-run                     log what it would do, and change nothing
  sidelane control                               set smt/control or lanes' online files
  sidelane control --actuator scheduler          cap the running 'sidelane run': no hotplug
  sidelane control --thread-perf 1,0.65 --interval 2 --window 10
  sidelane control --published                   as the paper: its model, no hysteresis
  sidelane control --restore                     after a crash: restore, and end

A machine without SMT, or with SMT switched off, has nothing to control: it says so, exit code 0.";

/// Set the SMT level by load, until stopped (Ctrl-C).
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct Args {
    /// What sets the level.
    #[arg(long, value_enum, default_value = "sysfs")]
    actuator: Actuator,
    /// Decide and log, and change nothing: short for --actuator dry-run.
    #[arg(long, conflicts_with = "actuator")]
    dry_run: bool,
    /// Seconds from one decision to the next.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = interval)]
    interval: f64,
    /// Seconds whose peak load decides.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = window)]
    window: f64,
    /// Take another level only if it is right also at a load that differs by this share.
    #[arg(long, value_name = "SHARE", default_value_t = GovernorConfig::default().hysteresis)]
    hysteresis: f64,
    /// Seconds that a level is kept at least, unless it is overloaded.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = window)]
    dwell: f64,
    /// Take another level only if its expected response is lower by this share.
    #[arg(long, value_name = "SHARE", default_value_t = GovernorConfig::default().min_gain)]
    min_gain: f64,
    /// Which model [default: with the scheduler balanced, else last-lane].
    #[arg(long, value_enum)]
    model: Option<ModelName>,
    /// As the source: its model, no hysteresis, no dwell time, no least gain.
    #[arg(long, conflicts_with_all = ["model", "hysteresis", "dwell", "min_gain"])]
    published: bool,
    /// Speed of a thread when 1, 2, ... lanes of its core run, relative to a core with SMT off
    /// [default: typical values, assumed].
    #[arg(long, value_name = "1,S,...", value_delimiter = ',')]
    thread_perf: Option<Vec<f64>>,
    /// Take threadPerf from a file of 'sidelane calibrate'.
    #[arg(long, value_name = "FILE", conflicts_with = "thread_perf")]
    calibration: Option<PathBuf>,
    /// Learn threadPerf while the machine works, where it counts instructions.
    #[arg(long)]
    learn: bool,
    /// How load follows from how busy lanes are [default: as the model expects; with the
    /// source's model core by core as the source; with --published over all cores, as the
    /// source].
    #[arg(long, value_enum)]
    lanes: Option<Lanes>,
    /// Tasks of a nice value above 0 are no load (with --actuator scheduler batch never is).
    #[arg(long)]
    ignore_nice: bool,
    /// State file, from which a crash is mended.
    #[arg(long, value_name = "FILE", default_value = DEFAULT_STATE_PATH)]
    state: PathBuf,
    /// Write metrics to this file with each decision, as node_exporter's textfile collector reads them.
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
    /// Restore what a killed daemon has left behind, and end.
    #[arg(long)]
    restore: bool,
    /// Read `proc` and `sys` below this folder [default: this machine].
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/",
        hide_default_value = true
    )]
    root: PathBuf,
    /// Log changes of the level and warnings only.
    #[arg(long)]
    quiet: bool,
    /// How to log; JSON is one document a line.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Names of actuators.
#[derive(Clone, Copy, ValueEnum)]
enum Actuator {
    /// The level cap of the running Sidelane scheduler.
    Scheduler,
    /// The kernel's SMT control, or single lanes.
    Sysfs,
    /// None: decisions are logged.
    DryRun,
}

/// Names of normalisations.
#[derive(Clone, Copy, ValueEnum)]
enum Lanes {
    /// Lanes of a core are busy independently of each other.
    Independent,
    /// Lower lanes are used first (POWER).
    LowerFirst,
    /// The first (POWER: the second) of these, of what the lanes at each place of their core are busy on average.
    Averaged,
    /// As the model expects.
    Model,
}

fn interval(text: &str) -> Result<f64, String> {
    super::seconds(text, 0.1)
}

fn window(text: &str) -> Result<f64, String> {
    super::seconds(text, 0.0)
}

/// Runs `sidelane control`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    super::root_of(Some(&args.root), "proc/ and sys/")?;
    if args.restore {
        let done = restore(&args.root, &args.state)?;
        say!(
            "sidelane: {}",
            if done {
                "restored"
            } else {
                "nothing to restore"
            }
        );
        return Ok(ExitCode::SUCCESS);
    }
    let settings = settings(&args)?;
    let stop = exit::interrupted()?;
    let (format, quiet) = (args.format, args.quiet);
    let outcome = sidelane_control::run(&settings, stop, &mut |event| tell(&event, format, quiet))?;
    match outcome {
        Outcome::NothingToDo(why) => say!("sidelane: nothing to do: {why}"),
        Outcome::Stopped => say!("sidelane: stopped; the SMT state is as it was found"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Events go to standard output, warnings to standard error. A log that nobody reads any more is no
/// reason to leave the level as it is.
fn tell(event: &Event, format: Format, quiet: bool) {
    let boring = |event: &Event| matches!(event, Event::Decided(decision) if !decision.changed());
    match event {
        Event::Warning { message } if format == Format::Text => {
            say!("sidelane: warning: {message}");
        }
        event if quiet && boring(event) => {}
        event => drop(format.print_line(Kind::Control, || format!("{event}\n"), event)),
    }
}

fn settings(args: &Args) -> anyhow::Result<Settings> {
    let intervals = |seconds: f64| (seconds / args.interval).round();
    let actuator = match args.actuator {
        _ if args.dry_run => ActuatorKind::DryRun,
        Actuator::Scheduler => ActuatorKind::Scheduler,
        Actuator::Sysfs => ActuatorKind::Sysfs,
        Actuator::DryRun => ActuatorKind::DryRun,
    };
    let governor = match args.published {
        true => GovernorConfig::published(),
        false => GovernorConfig {
            options: Options::new(args.model.map_or_else(|| actuator.model(), Model::from)),
            hysteresis: args.hysteresis,
            dwell: intervals(args.dwell) as u32,
            min_gain: args.min_gain,
            ..GovernorConfig::default()
        },
    };
    let speeds = match &args.calibration {
        Some(path) => Some(Calibration::read(path)?.thread_perf),
        None => args.thread_perf.clone(),
    };
    let thread_perf = speeds.map(ThreadPerf::new).transpose();
    Ok(Settings {
        root: args.root.clone(),
        actuator,
        interval: Duration::from_secs_f64(args.interval),
        governor: GovernorConfig {
            window: (intervals(args.window) as usize).max(1),
            ..governor
        },
        thread_perf: thread_perf.map_err(|e| BadInput(e.to_string()))?,
        normalization: args
            .lanes
            .map(|lanes| match lanes {
                Lanes::Independent => Normalization::Lanes(LaneOrder::Independent),
                Lanes::LowerFirst => Normalization::Lanes(LaneOrder::LowerFirst),
                Lanes::Averaged => PUBLISHED_NORMALIZATION,
                Lanes::Model => Normalization::Model,
            })
            .or(args.published.then_some(PUBLISHED_NORMALIZATION)),
        learn: args.learn,
        ignore_nice: args.ignore_nice,
        state: args.state.clone(),
        metrics: args.metrics.clone(),
    })
}
