//! Exit codes: one table, shown in `--help`.

use std::fmt;
use std::process::ExitCode;

/// The table of exit codes, printed below `--help`.
pub const HELP: &str = "Exit codes:
  0    done
  1    failed
  2    wrong usage
  3    this machine cannot do it (kernel feature, privilege or program missing)
  4    bad input (configuration, scenario, recording, captured tree)
  5    the answer is no: 'run --check --strict' has doubts, a guard ended 'trial'
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
pub fn code_of(error: &anyhow::Error) -> ExitCode {
    if error.downcast_ref::<BadInput>().is_some() {
        return ExitCode::from(BAD_INPUT);
    }
    if let Some(error) = error
        .chain()
        .find_map(|e| e.downcast_ref::<sidelane_testbed::Error>())
    {
        return of_testbed(error);
    }
    if let Some(error) = error.downcast_ref::<sidelane_demo::Error>() {
        return of_demo(error);
    }
    if let Some(error) = error.downcast_ref::<sidelane_calibrate::Error>() {
        return of_calibration(error);
    }
    match error.downcast_ref::<sidelane_control::Error>() {
        Some(error) if error.is_machine() => return ExitCode::from(CANNOT),
        Some(error) if error.is_input() => return ExitCode::from(BAD_INPUT),
        _ => {}
    }
    match error.downcast_ref::<sidelane_sched::Error>() {
        Some(error) if error.is_machine() => return ExitCode::from(CANNOT),
        Some(error) if error.is_input() => return ExitCode::from(BAD_INPUT),
        _ => {}
    }
    let of_kernel = error.downcast_ref().map(sidelane_kernel::Error::is_machine);
    let of_collector = error
        .downcast_ref()
        .map(sidelane_collect::Error::is_machine);
    match of_kernel.or(of_collector) {
        Some(true) => ExitCode::from(CANNOT),
        _ => ExitCode::FAILURE,
    }
}

fn of_testbed(error: &sidelane_testbed::Error) -> ExitCode {
    use sidelane_testbed::Error;
    match error {
        Error::MissingProgram { .. } | Error::Unsupported(_) | Error::Kernel(_) => CANNOT.into(),
        Error::BadSpec(_) => BAD_INPUT.into(),
        Error::TimedOut { .. } => 124.into(),
        Error::Machine { .. } => 125.into(),
        Error::Interrupted => 130.into(),
        Error::Io { .. } => ExitCode::FAILURE,
    }
}

fn of_calibration(error: &sidelane_calibrate::Error) -> ExitCode {
    use sidelane_calibrate::Error;
    match error {
        error if error.is_machine() => CANNOT.into(),
        error if error.is_input() => BAD_INPUT.into(),
        Error::Interrupted => 130.into(),
        _ => ExitCode::FAILURE,
    }
}

fn of_demo(error: &sidelane_demo::Error) -> ExitCode {
    use sidelane_demo::Error;
    match error {
        Error::MissingProgram { .. } | Error::Unsupported(_) => CANNOT.into(),
        Error::BadPlan(_) => BAD_INPUT.into(),
        Error::Interrupted => 130.into(),
        Error::Testbed(error) => of_testbed(error),
        _ => ExitCode::FAILURE,
    }
}
