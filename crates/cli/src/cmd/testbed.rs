//! `sidelane testbed`: boots an emulated SMT machine and runs a command in it.

use anyhow::bail;
use sidelane_testbed::{Interrupt, Job, Kernel, Machine, Spec, belongings, guest};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Boot an emulated SMT machine and run a command in it.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Run(RunArgs),
    /// The guest's first process.
    #[command(hide = true)]
    GuestInit,
    /// Cleans up after this program was killed.
    #[command(hide = true)]
    Reaper,
    /// Measures in the guest.
    #[command(hide = true)]
    GuestProbe {
        /// How often each speed is measured.
        repetitions: usize,
        /// How many hand-overs of each kind.
        wake_ups: usize,
    },
}

/// Boot the machine, run a command in it, stream its output and exit with its status.
#[derive(clap::Args)]
struct RunArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// Give up after this many seconds (exit status 124).
    #[arg(long, value_name = "S")]
    timeout: Option<f64>,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    argv: Vec<OsString>,
}

/// The machine.
#[derive(clap::Args)]
struct MachineArgs {
    /// Sockets.
    #[arg(long, default_value_t = 1, value_name = "S")]
    sockets: usize,
    /// Cores of each socket.
    #[arg(long, default_value_t = 2, value_name = "C")]
    cores: usize,
    /// Lanes of each core [default: 2].
    #[arg(long, value_name = "T")]
    lanes: Option<usize>,
    /// Speed of a lane when 1, 2, … lanes of its core run.
    #[arg(long, value_delimiter = ',', value_name = "1,X,...")]
    thread_perf: Vec<f64>,
    /// `newest`, a version, or the path of a kernel image.
    #[arg(long, default_value = "newest", value_name = "VERSION|PATH")]
    kernel: String,
    /// Memory, MiB.
    #[arg(long, default_value_t = 1024, value_name = "MIB")]
    memory: u64,
    /// A file to have in the guest, with the libraries it needs (repeatable).
    #[arg(long, value_name = "FILE")]
    add: Vec<PathBuf>,
    /// A kernel module to load at boot (repeatable).
    #[arg(long, value_name = "NAME")]
    module: Vec<String>,
    /// The slice that the host gives a lane's thread, ms.
    #[arg(long, value_name = "MS")]
    host_slice: Option<f64>,
    /// How often the host is made to choose anew between sibling lanes, ms.
    #[arg(long, value_name = "MS")]
    host_metronome: Option<f64>,
    /// Keep the host CPUs awake with idle-class spinners.
    #[arg(long)]
    keep_awake: bool,
    /// A word to add to the kernel's command line (repeatable).
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    kernel_arg: Vec<String>,
    /// Copy the guest kernel's console to standard error.
    #[arg(long)]
    console: bool,
}

impl MachineArgs {
    fn spec(&self, interrupt: &Interrupt) -> anyhow::Result<Spec> {
        let mut spec = Spec::new(std::env::current_exe()?)?;
        spec.sockets = self.sockets;
        spec.cores = self.cores;
        spec.thread_perf = match (self.lanes, self.thread_perf.len()) {
            (lanes, 0) => sidelane_testbed::smt::even_shares(lanes.unwrap_or(2)),
            (Some(lanes), given) if lanes != given => {
                bail!("--thread-perf has {given} numbers for {lanes} lanes: one for each is needed")
            }
            _ => self.thread_perf.clone(),
        };
        spec.kernel = Kernel::from(self.kernel.as_str());
        spec.memory_mib = self.memory;
        spec.add = self.add.clone();
        spec.modules = self.module.clone();
        let ms = |value: Option<f64>| {
            value
                .map(|ms| Duration::try_from_secs_f64(ms / 1e3))
                .transpose()
        };
        spec.host.slice = ms(self.host_slice)?;
        spec.host.metronome = ms(self.host_metronome)?;
        spec.keep_host_awake = self.keep_awake;
        spec.console = self.console;
        spec.kernel_args = self.kernel_arg.clone();
        spec.interrupt = interrupt.clone();
        Ok(spec)
    }
}

/// Runs `sidelane testbed`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Run(args) => run_command(args),
        Command::GuestInit => Err(guest::init::run().into()),
        Command::Reaper => {
            belongings::reap()?;
            Ok(ExitCode::SUCCESS)
        }
        Command::GuestProbe {
            repetitions,
            wake_ups,
        } => {
            guest::probe::run(repetitions, wake_ups)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn run_command(args: RunArgs) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::new()?;
    let raise = interrupt.clone();
    ctrlc::set_handler(move || raise.raise())?;
    let mut machine = Machine::boot(&args.machine.spec(&interrupt)?)?;
    let mut job = Job::new(&args.argv);
    if let Some(seconds) = args.timeout {
        job = job.timeout(Duration::try_from_secs_f64(seconds)?);
    }
    let status = machine.run(job, &mut std::io::stdout(), &mut std::io::stderr())?;
    let code = status
        .code()
        .or(status.signal().map(|s| 128 + s))
        .unwrap_or(1);
    Ok(ExitCode::from(code as u8))
}
