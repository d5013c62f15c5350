//! `sidelane model`: which SMT level answers soonest.

use super::Format;
use crate::exit::BadInput;
use clap::ValueEnum;
use serde::Serialize;
use sidelane_calibrate::Calibration;
use sidelane_interface::Kind;
use sidelane_model::{
    Crossover, Machine, Model, Options, SweepPoint, ThreadPerf, Utilization, crossovers, evaluate,
    sweep, sweep_text, text,
};
use sidelane_sim::experiment::levels_chart;
use std::path::PathBuf;
use std::process::ExitCode;

const ABOUT: &str = "\
Predicts mean response times on a machine with SMT for each SMT level: how many lanes of each core \
may run at once. Few lanes are fast but make tasks wait at high load. Times are in units of the mean \
service time of a task that has a core to itself, with SMT off. docs/model.md describes the models.";

const EXAMPLES: &str = "Examples:
  sidelane model --cores 16 --thread-perf 1,0.6 --utilization 0.3
  sidelane model --cores 16 --thread-perf 1,0.6 --utilization 0.3 --model placed
  sidelane model --cores 4 --thread-perf 1,0.75,0.57,0.45 --sweep --svg figure-3.svg
  sidelane model --cores 16 --calibration machine.json --utilization 0.3
  sidelane model --cores 4 --thread-perf 1,0.6 --utilization 0.7 --format json | jq .best";

/// Points of a sweep.
const POINTS: usize = 240;

/// Predict which SMT level answers soonest.
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct Args {
    /// Cores of the machine.
    #[arg(long, value_name = "N")]
    cores: u32,
    /// Speed of a thread when 1, 2, ... lanes of its core run, relative to a core with SMT off.
    #[arg(
        long,
        value_name = "1,S,...",
        value_delimiter = ',',
        required_unless_present = "calibration",
        conflicts_with = "calibration"
    )]
    thread_perf: Vec<f64>,
    /// The same as measured, from a file of `sidelane calibrate --output`.
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Normalised utilisation: that of the cores if one lane of each did all the work; 0.3 for 30 %.
    /// May be above 1.
    #[arg(
        long,
        value_name = "U",
        required_unless_present = "sweep",
        conflicts_with_all = ["sweep", "svg"]
    )]
    utilization: Option<f64>,
    /// All loads, and where the best level changes.
    #[arg(long)]
    sweep: bool,
    /// Draw the sweep.
    #[arg(long, value_name = "FILE", requires = "sweep")]
    svg: Option<PathBuf>,
    /// Which model.
    #[arg(long, value_enum, default_value = "source")]
    model: ModelName,
    /// Iterations of the source's model [default: until nothing changes; the source: 10].
    #[arg(long, value_name = "N")]
    iterations: Option<u32>,
    /// How to print.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Names of models.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum ModelName {
    /// The published one: random placement, waiting tasks move to idle cores.
    Source,
    /// Naive M/M/s: lanes do not slow each other down.
    Mms,
    /// The published one with time slices in each core.
    TimeSliced,
    /// Idle cores first; running tasks stay where they are.
    Placed,
    /// The lane where a task ran last if it is idle, else as placed: the kernel's default scheduler.
    LastLane,
    /// Tasks always spread evenly.
    Balanced,
}

impl From<ModelName> for Model {
    fn from(name: ModelName) -> Model {
        match name {
            ModelName::Source => Model::Source,
            ModelName::Mms => Model::MMs,
            ModelName::TimeSliced => Model::TimeSliced,
            ModelName::Placed => Model::Placed,
            ModelName::LastLane => Model::LastLane,
            ModelName::Balanced => Model::Balanced,
        }
    }
}

/// What is printed of a sweep.
#[derive(Serialize)]
struct Swept {
    points: Vec<SweepPoint>,
    crossovers: Vec<Crossover>,
}

/// Runs `sidelane model`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let thread_perf = match &args.calibration {
        Some(path) => Calibration::read(path)?.thread_perf,
        None => args.thread_perf.clone(),
    };
    let (machine, options) = read(&args, thread_perf).map_err(bad_input)?;
    match args.utilization {
        Some(utilization) => {
            let utilization = Utilization::new(utilization).map_err(bad_input)?;
            let found = evaluate(&machine, utilization, options);
            let text = || text(&machine, utilization, options, &found);
            args.format.print(Kind::Model, text, &found)?;
        }
        None => run_sweep(&machine, options, &args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn run_sweep(machine: &Machine, options: Options, args: &Args) -> anyhow::Result<()> {
    let points = sweep(machine, options, POINTS)?;
    if let Some(path) = &args.svg {
        super::write_file(path, &levels_chart(machine, options, &points).draw())?;
    }
    let swept = Swept {
        crossovers: crossovers(machine, options),
        points,
    };
    let text = || sweep_text(machine, options, &swept.points, &swept.crossovers);
    args.format.print(Kind::ModelSweep, text, &swept)
}

fn read(args: &Args, thread_perf: Vec<f64>) -> sidelane_model::Result<(Machine, Options)> {
    let thread_perf = ThreadPerf::new(thread_perf)?;
    let options = Options::new(args.model.into());
    let options = match args.iterations {
        Some(iterations) => options.with_iterations(iterations)?,
        None => options,
    };
    Ok((Machine::new(args.cores, thread_perf)?, options))
}

fn bad_input(error: sidelane_model::Error) -> anyhow::Error {
    BadInput(error.to_string()).into()
}
