//! What can go wrong, each with its remedy.

use sidelane_collect::proc_stat;
use std::path::PathBuf;

/// Why there is no calibration.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No core has a second lane that runs.
    #[error("nothing to measure: every core has one lane online{hint}")]
    NoSmt {
        /// What could be done about it, if anything; begins with a separator.
        hint: String,
    },
    /// There are such cores, but this process may not use two lanes of any.
    #[error(
        "nothing to measure: this process may run on CPUs {allowed}, and no core has two lanes \
         among them; widen its affinity (taskset) or its cpuset"
    )]
    NotAllowed {
        /// The CPUs that it may use.
        allowed: String,
    },
    /// The settings make no sense.
    #[error("{0}")]
    Settings(String),
    /// The command to measure cannot be started.
    #[error("cannot start {command}: {cause}")]
    Start {
        /// The command's name.
        command: String,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The command to measure failed; its time means nothing then.
    #[error("{command} failed: {status}; a command that is measured must succeed")]
    Failed {
        /// The command's name.
        command: String,
        /// How it ended.
        status: std::process::ExitStatus,
    },
    /// A system call failed.
    #[error("{what}: {cause}")]
    System {
        /// What was being done.
        what: String,
        /// What the system said.
        cause: std::io::Error,
    },
    /// A calibration file cannot be read.
    #[error("{path}: cannot read it: {cause}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// A file is no calibration.
    #[error("{place}: no calibration: {reason}; write one with 'sidelane calibrate --output FILE'")]
    Malformed {
        /// The file, and line and column where they are known.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// This machine, or what this process may use of it, cannot be calibrated.
    pub fn is_machine(&self) -> bool {
        matches!(self, Error::NoSmt { .. } | Error::NotAllowed { .. })
    }

    /// What was handed in is at fault.
    pub fn is_input(&self) -> bool {
        matches!(
            self,
            Error::Settings(_)
                | Error::Start { .. }
                | Error::Malformed { .. }
                | Error::Unreadable { .. }
        )
    }

    pub(super) fn system(what: impl Into<String>, cause: impl Into<std::io::Error>) -> Error {
        Error::System {
            what: what.into(),
            cause: cause.into(),
        }
    }
}

impl From<proc_stat::Error> for Error {
    fn from(error: proc_stat::Error) -> Error {
        let (path, cause) = match error {
            proc_stat::Error::Unreadable { path, cause } => (path, cause),
            proc_stat::Error::Malformed { path, problem, .. } => (
                path,
                std::io::Error::new(std::io::ErrorKind::InvalidData, problem),
            ),
        };
        Error::system(format!("read {}", path.display()), cause)
    }
}

/// A result of this module.
pub type Result<T> = std::result::Result<T, Error>;
