//! How a command ends: exit codes, one table, shown in `--help`; and Ctrl-C, SIGTERM and SIGHUP as a flag that long work
//! looks at.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::register;
use std::fmt;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// First steps and the table of exit codes, printed below `--help`.
pub const HELP: &str = "Examples:
  sidelane doctor                      can this machine run the scheduler?
  sidelane topology                    its packages, caches, cores and lanes
  sidelane sim --cores 64 --load 0.3 --batch   what would be, simulated
  sidelane run --check                 checks all, and attaches nothing
  sidelane run --help                  what a command does, with examples

Exit codes:
  0    done
  1    failed
  2    wrong usage
  3    this machine cannot do it (kernel feature, privilege or program missing)
  4    bad input (configuration, scenario, recording, captured tree)
  5    the answer is no: 'run --check --strict' has doubts, a guard ended 'trial', 'status' finds no Sidelane
  6    the scheduler was ejected by SysRq-S (run)
  124  timed out
  125  the emulated machine failed
  130  interrupted
`testbed run` exits with the status of the command that it ran.";

/// The exit code for "this machine cannot do it".
pub const CANNOT: u8 = 3;

/// The exit code for "bad input".
pub const BAD_INPUT: u8 = 4;

/// The exit code for "the answer is no": nothing failed.
pub const NO: u8 = 5;

/// The exit code for a scheduler that somebody ejected by hand: whoever keeps it running leaves it alone then.
const EJECTED_BY_HAND: u8 = 6;

/// The exit code for work that a signal ended before its time: as shells tell it of SIGINT.
pub const INTERRUPTED: u8 = 130;

const FAILED: u8 = 1;

/// Context for an error that lies in what the user handed in: makes the exit code [`BAD_INPUT`].
#[derive(Debug)]
pub struct BadInput(pub String);

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// An error with its reasons, each once: some errors tell theirs themselves.
pub fn told(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |text, cause| {
        let cause = cause.to_string();
        match text.as_str() {
            "" => cause,
            told if told.contains(&cause) => text,
            told => format!("{told}: {cause}"),
        }
    })
}

/// The exit code for an error that reached `main`.
pub fn code_of(error: &anyhow::Error) -> u8 {
    if error.downcast_ref::<BadInput>().is_some() {
        return BAD_INPUT;
    }
    #[cfg(feature = "lab")]
    if let Some(code) = of_lab(error) {
        return code;
    }
    if let Some(error) = error.downcast_ref::<sidelane_calibrate::Error>() {
        return of_calibration(error);
    }
    match error.downcast_ref::<sidelane_control::Error>() {
        Some(error) if error.is_machine() => return CANNOT,
        Some(error) if error.is_input() => return BAD_INPUT,
        _ => {}
    }
    if let Some(error) = error.downcast_ref::<sidelane_sched::Error>() {
        return of_scheduler(error);
    }
    let of_kernel = error.downcast_ref().map(sidelane_kernel::Error::is_machine);
    let of_collector = error
        .downcast_ref()
        .map(sidelane_collect::Error::is_machine);
    match of_kernel.or(of_collector) {
        Some(true) => CANNOT,
        _ => FAILED,
    }
}

/// The exit code for what stops the scheduler.
pub fn of_scheduler(error: &sidelane_sched::Error) -> u8 {
    match error {
        sidelane_sched::Error::Ejected(reason) if reason.is_by_hand() => EJECTED_BY_HAND,
        error if error.is_machine() => CANNOT,
        error if error.is_input() => BAD_INPUT,
        _ => FAILED,
    }
}

#[cfg(feature = "lab")]
fn of_lab(error: &anyhow::Error) -> Option<u8> {
    let of_testbed_below = error.chain().find_map(|e| e.downcast_ref().map(of_testbed));
    of_testbed_below.or_else(|| error.downcast_ref().map(of_demo))
}

#[cfg(feature = "lab")]
fn of_testbed(error: &sidelane_testbed::Error) -> u8 {
    use sidelane_testbed::Error;
    match error {
        Error::MissingProgram { .. } | Error::Unsupported(_) | Error::Kernel(_) => CANNOT,
        Error::BadSpec(_) => BAD_INPUT,
        Error::TimedOut { .. } => 124,
        Error::Machine { .. } => 125,
        Error::Interrupted => INTERRUPTED,
        Error::Io { .. } => FAILED,
    }
}

fn of_calibration(error: &sidelane_calibrate::Error) -> u8 {
    use sidelane_calibrate::Error;
    match error {
        error if error.is_machine() => CANNOT,
        error if error.is_input() => BAD_INPUT,
        Error::Interrupted => INTERRUPTED,
        _ => FAILED,
    }
}

#[cfg(feature = "lab")]
fn of_demo(error: &sidelane_demo::Error) -> u8 {
    use sidelane_demo::Error;
    match error {
        Error::MissingProgram { .. } | Error::Unsupported(_) => CANNOT,
        Error::BadPlan(_) => BAD_INPUT,
        Error::Interrupted => INTERRUPTED,
        Error::Testbed(error) => of_testbed(error),
        _ => FAILED,
    }
}

static SIGNALLED: AtomicBool = AtomicBool::new(false);

/// Installs the handler; the flag is set by the first signal.
pub fn interrupted() -> anyhow::Result<&'static AtomicBool> {
    ctrlc::set_handler(|| SIGNALLED.store(true, Ordering::Relaxed))?;
    Ok(&SIGNALLED)
}

/// Signals of a service.
pub struct Signals {
    /// Ctrl-C, SIGTERM, and a terminal that closes.
    pub stop: Arc<AtomicBool>,
    /// SIGHUP from somebody else.
    pub hangup: Arc<AtomicBool>,
}

/// Installs handlers that tell a hangup from a wish to stop.
pub fn signals() -> anyhow::Result<Signals> {
    let signals = Signals {
        stop: Arc::default(),
        hangup: Arc::default(),
    };
    let closes = std::io::stderr().is_terminal();
    let hangup = if closes {
        &signals.stop
    } else {
        &signals.hangup
    };
    register(SIGHUP, Arc::clone(hangup))?;
    for signal in [SIGINT, SIGTERM] {
        register(signal, Arc::clone(&signals.stop))?;
    }
    Ok(signals)
}
