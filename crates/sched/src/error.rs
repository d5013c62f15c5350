//! What can go wrong when the scheduler is configured, loaded or watched.

use crate::doctor::{STOP_COOKIES, boot_a_kernel};
use std::path::PathBuf;

/// An error of the scheduler's loader; each names the place and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A class rule that cannot be understood.
    #[error("{}rule '{rule}': {problem}", prefix(origin.as_deref()))]
    Rule {
        /// Where it stands, `FILE:LINE:COLUMN` or a flag; none: not known here.
        origin: Option<String>,
        /// The rule as it was written.
        rule: String,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// A configuration file that cannot be read.
    #[error("cannot read the configuration {}: {source}; check the path and its permissions", path.display())]
    ConfigUnreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A configuration with a mistake: `FILE:LINE:COLUMN: mistake`.
    #[error(transparent)]
    ConfigInvalid(#[from] sidelane_policy::file::Mistake),
    /// This machine is larger than the scheduler's tables.
    #[error(
        "this machine has {found} {what}, the scheduler handles at most {limit}; raise the limit in bpf/intf.h and rebuild"
    )]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there may be.
        limit: usize,
    },
    /// The machine's topology cannot be read.
    #[error(transparent)]
    Topology(#[from] sidelane_topology::ReadError),
    /// Another sched_ext scheduler is attached.
    #[error("the sched_ext scheduler '{name}' is attached; stop it first, only one can run")]
    OtherScheduler {
        /// Its name, as the kernel gives it.
        name: String,
    },
    /// The kernel lacks sched_ext.
    #[error(
        "this kernel has no sched_ext (no /sys/kernel/sched_ext); {}, and see 'sidelane doctor'",
        boot_a_kernel()
    )]
    NoSchedExt,
    /// Tasks use core scheduling, which stops some kernels under a sched_ext scheduler.
    #[error(
        "core scheduling is in use by {holders}, and beside a sched_ext scheduler the kernel may hang; {}",
        STOP_COOKIES
    )]
    CoreScheduling {
        /// The tasks that have a cookie.
        holders: String,
    },
    /// Loading BPF needs privileges.
    #[error(
        "loading BPF programs needs root (CAP_SYS_ADMIN, or CAP_BPF with CAP_PERFMON); run as root"
    )]
    NotPrivileged,
    /// The kernel refused the scheduler.
    #[error("{details}\ncannot {step} the scheduler: {reason}; see 'sidelane doctor'")]
    Load {
        /// What was being done.
        step: &'static str,
        /// The kernel's or libbpf's reason.
        reason: String,
        /// What libbpf warned of, the verifier's log among it.
        details: String,
    },
    /// The kernel ejected the scheduler.
    #[error("the kernel ejected the scheduler: {0}; its default scheduler has taken over")]
    Ejected(crate::ExitReason),
    /// Settings that cannot be.
    #[error("{0}")]
    Tune(String),
    /// The lane signal cannot be kept or served.
    #[error("the lane signal: cannot go on: {0}")]
    Signal(String),
    /// Metrics cannot be collected.
    #[error("the metrics: {0}")]
    Metrics(String),
    /// No running scheduler to read counters from.
    #[error("no Sidelane scheduler is attached; start one with 'sidelane run'")]
    NotRunning,
    /// The running scheduler's counters or settings cannot be reached.
    #[error(
        "cannot read or change the running scheduler: {0}; run as root, with the same version of sidelane as the scheduler's"
    )]
    Running(String),
}

fn prefix(origin: Option<&str>) -> String {
    origin.map_or(String::new(), |origin| format!("{origin}: "))
}

impl Error {
    /// Is the machine (kernel, privilege) at fault rather than the input?
    pub fn is_machine(&self) -> bool {
        matches!(
            self,
            Error::NoSchedExt
                | Error::NotPrivileged
                | Error::TooLarge { .. }
                | Error::OtherScheduler { .. }
                | Error::CoreScheduling { .. }
        )
    }

    /// Is the configuration or a rule at fault?
    pub fn is_input(&self) -> bool {
        matches!(
            self,
            Error::Rule { .. }
                | Error::ConfigUnreadable { .. }
                | Error::ConfigInvalid(_)
                | Error::Tune(_)
        )
    }
}
