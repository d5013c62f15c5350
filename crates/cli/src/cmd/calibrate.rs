//! `sidelane calibrate`: threadPerf measured instead of assumed.

use super::Format;
use crate::exit::{self, BadInput};
use anyhow::Context;
use sidelane_calibrate::{Measured, Settings, Task, Work};
use sidelane_interface::Kind;
use sidelane_interface::say;
use sidelane_topology::Topology;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const ABOUT: &str = "\
Measures threadPerf: the speed of a thread when 1, 2, ... lanes of its core run, relative to running \
alone. Short, pinned runs of a representative mix (integer, floating point, memory streaming, \
pointer chasing, unforeseeable branches, requests; weighted equally), or of a command, on a few cores. \
The machine should have nothing else to do; others' work is noticed and told. docs/calibration.md \
describes the method.";

const EXAMPLES: &str = "\
Examples:
  sidelane calibrate
  sidelane calibrate --output machine.json
  sidelane calibrate --repetitions 9 -- gzip -9 --stdout /usr/bin/gdb
  sidelane calibrate --format json | jq -c .thread_perf
  sidelane model --cores 16 --calibration machine.json --utilization 0.3

A command runs in as many copies as lanes run; its speed is that of its time. Copies that are still \
running when the last lane has been measured are killed. A command that fails ends the measurement. \
Exit code 3: no core has two lanes that this process may use.";

/// Measure how lanes of a core slow each other down (threadPerf).
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct Args {
    /// Length of a run, ms; a run of a command lasts at least as long as the command.
    #[arg(long, value_name = "MS", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    duration: u64,
    /// Runs of each kind of work with each number of lanes, on each core.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// Cores of each kind that are measured, spread over the machine.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    cores: u32,
    /// Write the result to a file for --calibration of other commands.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How to print.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Show the command's standard output, on standard error [default: throw it away].
    #[arg(long, requires = "command")]
    show_output: bool,
    /// Read the machine from a captured tree.
    #[arg(long, value_name = "DIR", hide = true, default_value = "/")]
    root: PathBuf,
    /// A command to measure instead of the mix, and its arguments.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs `sidelane calibrate`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let topology = Topology::read(&args.root)
        .with_context(|| BadInput(format!("{}: no readable machine", args.root.display())))?;
    let task = Task::new(
        &args.root,
        &topology,
        &sidelane_calibrate::allowed()?,
        settings(&args),
    )?;
    let stop = exit::interrupted()?;
    say!(
        "sidelane: {} runs, {:.0} s or more",
        task.runs(),
        task.expected().as_secs_f64()
    );
    let found = task.run(stop, |_| {})?;
    if let Some(path) = &args.output {
        super::write_file(path, &found.to_json()?)?;
    }
    args.format
        .print(Kind::Calibrate, || found.to_string(), &found)?;
    Ok(ExitCode::SUCCESS)
}

fn settings(args: &Args) -> Settings {
    let standard = Settings::default();
    Settings {
        work: match args.command.is_empty() {
            true => standard.work,
            false => Work::Command(Measured {
                argv: args.command.clone(),
                show_output: args.show_output,
            }),
        },
        duration: Duration::from_millis(args.duration),
        repetitions: args.repetitions,
        cores: args.cores as usize,
    }
}
