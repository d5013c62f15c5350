//! What can go wrong when metrics are collected.

/// An error of the collector; each names the place and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No privilege, or no running scheduler that can be read.
    #[error(transparent)]
    Kernel(#[from] sidelane_kernel::Error),
    /// The machine's topology cannot be read.
    #[error(transparent)]
    Topology(#[from] sidelane_topology::ReadError),
    /// This machine is larger than the collector's tables.
    #[error(
        "this machine has {found} {what}, the collector handles at most {limit}; raise the limit in bpf/metrics_intf.h and rebuild"
    )]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there may be.
        limit: usize,
    },
    /// Metrics cannot be collected.
    #[error("the metrics: {0}")]
    Metrics(String),
}

impl Error {
    /// Is the machine (kernel, privilege) at fault rather than the input?
    pub fn is_machine(&self) -> bool {
        match self {
            Error::Kernel(error) => error.is_machine(),
            Error::TooLarge { .. } => true,
            Error::Topology(_) | Error::Metrics(_) => false,
        }
    }
}
