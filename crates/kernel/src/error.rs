//! What can go wrong at the kernel's door.

/// An error; each names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Loading BPF needs privileges.
    #[error(
        "loading BPF programs needs root (CAP_SYS_ADMIN, or CAP_BPF with CAP_PERFMON); run as root"
    )]
    NotPrivileged,
    /// No running scheduler to read counters from.
    #[error("no Sidelane scheduler is attached; start one with 'sidelane run'")]
    NotRunning,
    /// The running scheduler's counters or settings cannot be reached.
    #[error(
        "cannot read or change the running scheduler: {0}; run as root, with the same version of sidelane as the scheduler's"
    )]
    Running(String),
}

impl Error {
    /// Is the machine (kernel, privilege) at fault rather than the input?
    pub fn is_machine(&self) -> bool {
        matches!(self, Error::NotPrivileged)
    }
}
