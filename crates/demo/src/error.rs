//! What can go wrong, each with its remedy.

use std::path::PathBuf;

/// A failure of the demonstration.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings make no sense.
    #[error("{0}")]
    BadPlan(String),
    /// A program that the workloads need is missing.
    #[error("{program} is not installed; install it with: apt-get install {package}{or}")]
    MissingProgram {
        /// The program looked for on PATH.
        program: &'static str,
        /// The Debian package that has it.
        package: &'static str,
        /// Another way out, beginning with a comma or empty.
        or: &'static str,
    },
    /// This machine cannot run it.
    #[error("{0}")]
    Unsupported(String),
    /// A system call or file operation failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done, with the file's name.
        what: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A process that the demonstration started ended or misbehaved.
    #[error("{who}: {reason}")]
    Process {
        /// Which process.
        who: &'static str,
        /// What it did, and what it said last.
        reason: String,
    },
    /// The topology cannot be read.
    #[error(transparent)]
    Topology(#[from] sidelane_topology::ReadError),
    /// The option server or its load generator failed.
    #[error(transparent)]
    Options(#[from] sidelane_options::Error),
    /// The SMT level cannot be set.
    #[error(transparent)]
    Control(#[from] sidelane_control::Error),
    /// The emulated machine failed.
    #[error(transparent)]
    Testbed(#[from] sidelane_testbed::Error),
    /// Work that was to go on did not.
    #[error("{0} stood still")]
    StoodStill(String),
    /// The part that measures, in the emulated machine, failed; it said why on its standard error.
    #[error("the measuring part in the emulated machine failed ({0}); what it said is above")]
    Guest(std::process::ExitStatus),
    /// The measuring part wrote something that is not a message.
    #[error("not a message of the measuring part: {text:?}: {source}")]
    Message {
        /// The line.
        text: String,
        /// Why.
        source: serde_json::Error,
    },
    /// The trace of scheduling events cannot be read.
    #[error(transparent)]
    TraceText(#[from] sidelane_smt::trace::ParseError),
    /// The trace of scheduling events cannot be analysed.
    #[error(transparent)]
    Trace(#[from] sidelane_smt::trace::TraceError),
    /// The results are incomplete.
    #[error("incomplete results: {0}")]
    Incomplete(String),
    /// A file of results cannot be written.
    #[error("{path}: {source}", path = path.display())]
    Output {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Adds what was being done to an input/output error.
pub(crate) trait During<T> {
    /// `what` names the action and the file.
    fn during(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<std::io::Error>> During<T> for std::result::Result<T, E> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Io {
            what: what(),
            source: source.into(),
        })
    }
}
