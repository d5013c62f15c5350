//! Exit codes: one table, shown in `--help`.

use std::process::ExitCode;

/// The table of exit codes, printed below `--help`.
pub const HELP: &str = "Exit codes:
  0    done
  1    failed
  2    wrong usage
  3    this machine cannot do it (kernel feature, privilege or program missing)
  4    bad input (configuration, scenario, captured tree)
  124  timed out
  130  interrupted
`testbed run` exits with the status of the command that it ran.";

/// The exit code for an error that reached `main`.
pub fn code_of(_error: &anyhow::Error) -> ExitCode {
    ExitCode::FAILURE
}
