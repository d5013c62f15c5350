//! What can go wrong.

use crate::record::Record;

/// Why a simulation could not go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The scheduler did what the kernel would eject it for.
    #[error("at {at_ns} ns the scheduler {what}")]
    Violation {
        /// When, in simulated time.
        at_ns: u64,
        /// What it did.
        what: String,
        /// The last steps up to there.
        steps: Vec<Record>,
    },
    /// The machine asked for does not make sense.
    #[error("{0}")]
    BadMachine(String),
    /// The workload asks for what the machine cannot do.
    #[error("{0}")]
    BadWorkload(String),
    /// The scheduler's globals are one set a thread.
    #[error("this thread simulates already: end that simulation, or use another thread")]
    Busy,
}

impl Error {
    /// The last steps before a violation, one a line; empty for other errors.
    pub fn steps(&self) -> String {
        let Error::Violation { steps, .. } = self else {
            return String::new();
        };
        let line = |record: &Record| format!("  {:>12} ns  {}\n", record.at_ns, record.step);
        steps.iter().map(line).collect()
    }
}

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;
