//! `sidelane testbed`: an emulated SMT machine for everyone.

use super::Format;
use anyhow::bail;
use sidelane_interface::say;
use sidelane_interface::{Kind, Listed};
use sidelane_testbed::{
    Interrupt, Job, Kernel, Machine, Spec, belongings, guest, kernel, probe, smt,
};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  sidelane testbed run -- lscpu -e
  sidelane testbed probe --cores 2 --lanes 2
  sidelane testbed kernels";

/// Boot an emulated SMT machine and run a command in it, or measure it.
///
/// QEMU boots a stock distribution kernel with the cores and lanes asked for. The lanes of a core
/// share one CPU of this machine, so that siblings really compete. Figures from it are ratios
/// between configurations in one boot, not figures of silicon.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Run(RunArgs),
    Probe(ProbeArgs),
    Kernels(KernelsArgs),
    /// The guest's first process.
    #[command(hide = true)]
    GuestInit,
    /// Measures in the guest.
    #[command(hide = true)]
    GuestProbe {
        /// How often each speed is measured.
        repetitions: usize,
        /// How many hand-overs of each kind.
        wake_ups: usize,
    },
    /// Cleans up after this program was killed.
    #[command(hide = true)]
    Reaper,
}

const RUN_EXAMPLES: &str = "\
Examples:
  sidelane testbed run -- lscpu -e
  sidelane testbed run --cores 1 --lanes 4 -- cat /sys/devices/system/cpu/smt/control
  sidelane testbed run --thread-perf 1,0.63 --add /usr/bin/redis-server -- redis-server --version
  sidelane testbed run --kernel 6.18 --module kvm-amd --timeout 60 -- ls -l /dev/kvm

The guest has busybox, this program, and what --add brings. The exit status is the command's, \
128 + N if signal N ended it; 124 if it did not end in time, 125 if the machine failed.";

/// Boot the machine, run a command in it, stream its output, and exit with its status.
#[derive(clap::Args)]
#[command(after_help = RUN_EXAMPLES, allow_negative_numbers = true)]
struct RunArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// Give up when the command has not ended after so many seconds (exit status 124).
    #[arg(long, value_name = "S", value_parser = seconds)]
    timeout: Option<Duration>,
    /// A variable for the command's environment (repeatable).
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// Do not forward standard input.
    #[arg(short = 'n', long)]
    no_stdin: bool,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    argv: Vec<OsString>,
}

const PROBE_EXAMPLES: &str = "\
Examples:
  sidelane testbed probe
  sidelane testbed probe --thread-perf 1,0.63 --format json";

/// Boot the machine and measure the threadPerf and hand-overs that it really delivers.
#[derive(clap::Args)]
#[command(after_help = PROBE_EXAMPLES)]
struct ProbeArgs {
    #[command(flatten)]
    machine: MachineArgs,
    /// How often each speed is measured.
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = at_least_one())]
    repetitions: u32,
    /// How many hand-overs of each kind are timed.
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = at_least_one())]
    wake_ups: u32,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// List the kernels that are cached or can be fetched.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  sidelane testbed kernels --refresh")]
struct KernelsArgs {
    /// Ask the distribution even if it was asked within the last days.
    #[arg(long)]
    refresh: bool,
    /// How the result is printed.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// The machine.
#[derive(clap::Args)]
#[command(next_help_heading = "Machine")]
struct MachineArgs {
    /// Sockets.
    #[arg(long, default_value_t = 1, value_name = "S")]
    sockets: usize,
    /// Cores of each socket.
    #[arg(long, default_value_t = 2, value_name = "C")]
    cores: usize,
    /// Lanes of each core [default: 2, or as many as --thread-perf has numbers].
    #[arg(long, value_name = "T")]
    lanes: Option<usize>,
    /// Speed of a lane when 1, 2, … lanes of its core run [default: 1,1/2,1/3,…].
    #[arg(long, value_delimiter = ',', value_name = "1,X,...")]
    thread_perf: Vec<f64>,
    /// A version as in `7.0` or `6.18.15`, `newest`, `oldest`, or the path of a kernel image.
    #[arg(long, default_value = "newest", value_name = "VERSION|PATH")]
    kernel: String,
    /// Memory, MiB.
    #[arg(long, default_value_t = 1024, value_name = "MIB")]
    memory: u64,
    /// A file or folder to have in the guest, with the libraries it needs (repeatable).
    #[arg(long, value_name = "FILE")]
    add: Vec<PathBuf>,
    /// A kernel module to load at boot, with those it needs (repeatable).
    #[arg(long, value_name = "NAME")]
    module: Vec<String>,
    /// Copy the guest kernel's console to standard error.
    #[arg(long)]
    console: bool,
    /// A word to add to the guest kernel's command line (repeatable).
    #[arg(long, value_name = "WORD")]
    kernel_arg: Vec<String>,
    /// Keep the host CPUs awake while the machine runs, as for a measurement.
    #[arg(long)]
    keep_awake: bool,
    /// Keep the host CPUs at this share of their speed, 0.2 to 0.9, whatever their neighbours do.
    #[arg(long, value_name = "SHARE")]
    steady: Option<f64>,
    /// Let the guest's clock go by executed instructions, a nanosecond each: the host's speed is not seen,
    /// and measurements repeat nearly exactly. All lanes share that time; nothing is emulated of SMT.
    #[arg(long)]
    counted_time: bool,
    /// Let lanes run on any host CPU that is free: of SMT the machine has the shape alone. For what measures
    /// no times, which is done sooner.
    #[arg(long)]
    float: bool,
    /// How long a lane runs before it yields to a busy sibling, ms; 0 leaves that to the host's
    /// tick, or to the emulator's next timer with counted time [default: 0.1; with counted time 0]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    lane_turn: Option<Duration>,
    /// The slice that the host's scheduler gives a lane, ms; 0 is the host's own.
    #[arg(long, value_name = "MS", default_value = "0.1", value_parser = milliseconds)]
    host_slice: Duration,
}

impl MachineArgs {
    fn spec(&self, interrupt: Interrupt) -> anyhow::Result<Spec> {
        let mut spec = Spec::new(std::env::current_exe()?)?;
        spec.sockets = self.sockets;
        spec.cores = self.cores;
        spec.thread_perf = match (self.lanes, self.thread_perf.len()) {
            (lanes, 0) => smt::even_shares(lanes.unwrap_or(2)),
            (Some(lanes), given) if lanes != given => {
                bail!("--thread-perf has {given} numbers for {lanes} lanes: give one for each")
            }
            _ => self.thread_perf.clone(),
        };
        spec.kernel = Kernel::from(self.kernel.as_str());
        spec.memory_mib = self.memory;
        spec.add = self.add.clone();
        spec.modules = self.module.clone();
        spec.console = self.console;
        spec.kernel_args = self.kernel_arg.clone();
        spec.keep_host_awake = self.keep_awake;
        spec.steady = self.steady;
        spec.counted_time = self.counted_time;
        spec.floats = self.float;
        spec.host.slice = Some(self.host_slice).filter(|length| !length.is_zero());
        match self.lane_turn {
            Some(turn) => spec.lane_turn = Some(turn).filter(|turn| !turn.is_zero()),
            None if self.counted_time => spec.lane_turn = None,
            None => {}
        }
        spec.interrupt = interrupt;
        Ok(spec)
    }
}

/// Runs `sidelane testbed`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Run(args) => return run_command(args),
        Command::Probe(args) => run_probe(args)?,
        Command::Kernels(args) => list_kernels(args)?,
        Command::GuestInit => return Err(guest::run().into()),
        Command::GuestProbe {
            repetitions,
            wake_ups,
        } => guest::probe::run(repetitions, wake_ups)?,
        Command::Reaper => belongings::reap()?,
    }
    Ok(ExitCode::SUCCESS)
}

fn run_command(args: RunArgs) -> anyhow::Result<ExitCode> {
    let spec = args.machine.spec(on_signal()?)?;
    let mut job = Job::new(&args.argv);
    for variable in &args.env {
        match variable.split_once('=') {
            Some((name, value)) => job = job.env(name, value),
            None => bail!("--env {variable}: give NAME=VALUE"),
        }
    }
    if let Some(limit) = args.timeout {
        job = job.timeout(limit);
    }
    if let (false, Some(stdin)) = (args.no_stdin, sidelane_testbed::standard_input()) {
        job = job.stdin(stdin);
    }
    let mut machine = Machine::boot(&spec)?;
    let status = machine.run(job, &mut std::io::stdout(), &mut std::io::stderr())?;
    Ok(ExitCode::from(sidelane_testbed::exit_code(status)))
}

fn run_probe(args: ProbeArgs) -> anyhow::Result<()> {
    let mut spec = args.machine.spec(on_signal()?)?;
    spec.keep_host_awake = true;
    let effort = probe::Effort {
        repetitions: args.repetitions,
        wake_ups: args.wake_ups,
    };
    let report = probe::run(&spec, effort)?;
    args.format
        .print(Kind::TestbedProbe, || report.to_string(), &report)
}

fn list_kernels(args: KernelsArgs) -> anyhow::Result<()> {
    let notice = |text: &str| say!("sidelane: {text}");
    let kernels = kernel::list(args.refresh, &on_signal()?, notice)?;
    let listed = Listed("kernels", &kernels);
    let text = || kernel::render(&kernels);
    args.format.print(Kind::TestbedKernels, text, &listed)
}

/// Raised by Ctrl-C, SIGTERM and SIGHUP, so that nothing is left behind.
fn on_signal() -> anyhow::Result<Interrupt> {
    let interrupt = Interrupt::new()?;
    let raise = interrupt.clone();
    ctrlc::set_handler(move || raise.raise())?;
    Ok(interrupt)
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    Duration::try_from_secs_f64(number).map_err(|error| error.to_string())
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    Duration::try_from_secs_f64(number / 1e3).map_err(|error| error.to_string())
}

fn at_least_one() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..)
}
