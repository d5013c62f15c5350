//! What can go wrong when the scheduler is configured, loaded or watched, and what to do about machines on which it
//! cannot run: the doctor says the same. And why the kernel detached it.

use crate::bpf::types;
use std::ffi::CStr;
use std::fmt;
use std::path::PathBuf;

/// The oldest kernel that Sidelane is tested on. sched_ext itself is there since 6.12.
pub const KERNEL_MIN: (u32, u32) = (6, 16);

/// What to do about cookies.
pub(crate) const STOP_COOKIES: &str = "stop these programs, or start them without core scheduling \
    (cloud-hypervisor: --cpus core_scheduling=off)";

/// What to do where the kernel is no good.
pub(crate) fn boot_a_kernel() -> String {
    format!(
        "boot a kernel built with CONFIG_SCHED_CLASS_EXT=y, {}",
        kernels()
    )
}

/// The kernels that Sidelane is tested on.
pub(crate) fn kernels() -> String {
    let (major, minor) = KERNEL_MIN;
    format!("Linux {major}.{minor} or later")
}

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
    #[error("{}: cannot read it: {source}; check the path and its permissions", path.display())]
    ConfigUnreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A configuration with a mistake: `FILE:LINE:COLUMN: mistake`.
    #[error(transparent)]
    ConfigInvalid(#[from] sidelane_policy::file::Mistake),
    /// Only batch is to be scheduled, and no rule says what that is.
    #[error(
        "{origin}: scope = \"batch\" needs rules that say what is batch: --batch RULE, or [[rule]] with class = \"batch\""
    )]
    NoBatch {
        /// Where that stands, `FILE:LINE:COLUMN` or a flag.
        origin: String,
    },
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
    /// No privilege, or no running scheduler that can be read.
    #[error(transparent)]
    Kernel(#[from] sidelane_kernel::Error),
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
    /// The kernel refused the scheduler, and the machine is why.
    #[error("{load}\n{why}")]
    Unable {
        /// [`Error::Load`].
        load: Box<Error>,
        /// Which checks of `sidelane doctor` failed.
        why: String,
    },
    /// The kernel ejected the scheduler.
    #[error("the kernel ejected the scheduler: {0}; its default scheduler has taken over")]
    Ejected(ExitReason),
    /// What adopted tasks had is not known, or cannot be written.
    #[error("{}: cannot {problem}", path.display())]
    Ledger {
        /// The file, or its folder.
        path: PathBuf,
        /// What cannot be done, and why.
        problem: String,
    },
    /// Another process has adopted tasks.
    #[error(
        "{} is locked: a scheduler with scope = \"batch\" runs, or is about to end; stop it first",
        path.display()
    )]
    LedgerHeld {
        /// The lock.
        path: PathBuf,
    },
    /// The scheduler tells tasks by other numbers than this process sees.
    #[error(
        "with scope = \"batch\" threads are told by number, and those of a container are its own; run outside, or in the \
         host's PID namespace (docker run --pid=host, hostPID)"
    )]
    PidNamespace,
    /// Tasks keep what they were given.
    #[error(
        "some batch tasks do not have the policy that they had: {why}; try again: sidelane run --restore"
    )]
    NotRestored {
        /// Why.
        why: String,
    },
    /// Settings that cannot be.
    #[error("{0}")]
    Tune(String),
    /// The lane signal cannot be kept or served.
    #[error("the lane signal: cannot go on: {0}")]
    Signal(String),
}

fn prefix(origin: Option<&str>) -> String {
    origin.map_or(String::new(), |origin| format!("{origin}: "))
}

/// The error of a step of loading.
pub(crate) fn load_error<E: std::fmt::Display>(step: &'static str) -> impl Fn(E) -> Error {
    move |e| Error::Load {
        step,
        reason: format!("{e:#}"),
        details: sidelane_kernel::warnings(),
    }
}

impl Error {
    /// Is the machine (kernel, privilege) at fault rather than the input?
    pub fn is_machine(&self) -> bool {
        match self {
            Error::Kernel(error) => error.is_machine(),
            Error::NoSchedExt
            | Error::TooLarge { .. }
            | Error::OtherScheduler { .. }
            | Error::LedgerHeld { .. }
            | Error::Unable { .. }
            | Error::PidNamespace
            | Error::CoreScheduling { .. } => true,
            _ => false,
        }
    }

    /// Is the configuration or a rule at fault?
    pub fn is_input(&self) -> bool {
        matches!(
            self,
            Error::Rule { .. }
                | Error::ConfigUnreadable { .. }
                | Error::ConfigInvalid(_)
                | Error::NoBatch { .. }
                | Error::Tune(_)
        )
    }
}

/// Exit code bit by which the kernel asks for a restart (`SCX_ECODE_ACT_RESTART`).
const RESTART: i64 = 1 << 48;
/// Exit code bit for CPU hotplug (`SCX_ECODE_RSN_HOTPLUG`).
const HOTPLUG: i64 = 1 << 32;
/// Kinds up to this one (`SCX_EXIT_UNREG_KERN`) are no errors.
const LAST_GRACEFUL_KIND: i32 = 66;
/// Somebody unregistered the scheduler from user space: its loader.
const UNREGISTERED: i32 = 64;
/// Ejected by SysRq-S.
const SYSRQ: i32 = 67;
/// Ejected because a runnable task waited too long.
const STALLED: i32 = 1026;

/// What the kernel said when the scheduler was detached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitReason {
    /// The kernel's `enum scx_exit_kind`.
    pub kind: i32,
    /// The code given with it; its bits ask for a restart.
    pub code: i64,
    /// The kernel's short reason.
    pub reason: String,
    /// The details, possibly empty.
    pub message: String,
    /// What the kernel knew of CPUs and tasks when it ejected the scheduler; else, or if that is not known, empty.
    pub dump: String,
}

impl ExitReason {
    /// As the scheduler wrote it down, without the dump.
    pub(crate) fn of(info: &types::user_exit_info) -> ExitReason {
        ExitReason {
            kind: info.kind,
            code: info.exit_code,
            reason: text(&info.reason),
            message: text(&info.msg),
            dump: String::new(),
        }
    }

    /// Does the kernel ask to be loaded again, as after CPU hotplug?
    pub fn asks_for_restart(&self) -> bool {
        self.is_graceful() && self.code & RESTART != 0
    }

    /// Did somebody eject it at the keyboard, or by `/proc/sysrq-trigger`?
    pub fn is_by_hand(&self) -> bool {
        self.kind == SYSRQ
    }

    /// Was it detached in good order, rather than ejected?
    pub fn is_graceful(&self) -> bool {
        self.kind <= LAST_GRACEFUL_KIND
    }
}

/// A C string of a fixed-size field, whatever its bytes.
fn text(field: &[libc::c_char]) -> String {
    let bytes: Vec<u8> = field.iter().map(|&c| c as u8).collect();
    until_nul(&bytes)
}

/// A C string, whatever its bytes; empty if it does not end.
pub(crate) fn until_nul(bytes: &[u8]) -> String {
    CStr::from_bytes_until_nul(bytes)
        .map(|s| s.to_string_lossy().into_owned())
        .unwrap_or_default()
}

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            UNREGISTERED => "detached by its loader",
            SYSRQ => "ejected by SysRq-S",
            STALLED => "a runnable task was not run for too long (watchdog)",
            _ if self.code & HOTPLUG != 0 => "a CPU went online or offline",
            _ => "",
        };
        let details = [what, &self.reason, &self.message];
        let said: Vec<_> = details.into_iter().filter(|s| !s.is_empty()).collect();
        f.write_str(&said.join(": "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(kind: i32, code: i64) -> ExitReason {
        ExitReason {
            kind,
            code,
            reason: "why".into(),
            message: String::new(),
            dump: String::new(),
        }
    }

    #[test]
    fn hotplug_asks_for_a_restart() {
        let hotplug = reason(66, RESTART | HOTPLUG);
        assert!(hotplug.asks_for_restart() && hotplug.is_graceful());
        assert_eq!(hotplug.to_string(), "a CPU went online or offline: why");
    }

    #[test]
    fn a_stall_is_an_ejection() {
        let stall = reason(STALLED, 0);
        assert!(!stall.is_graceful() && !stall.asks_for_restart());
        assert!(stall.to_string().contains("watchdog"));
        assert!(!stall.is_by_hand() && reason(SYSRQ, 0).is_by_hand());
    }
}
