//! Why the scheduler was detached, in words.

use crate::bpf::types;
use std::ffi::CStr;
use std::fmt;

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
}

impl ExitReason {
    /// As the scheduler wrote it down.
    pub(crate) fn of(info: &types::user_exit_info) -> ExitReason {
        ExitReason {
            kind: info.kind,
            code: info.exit_code,
            reason: text(&info.reason),
            message: text(&info.msg),
        }
    }

    /// Does the kernel ask to be loaded again, as after CPU hotplug?
    pub fn asks_for_restart(&self) -> bool {
        self.is_graceful() && self.code & RESTART != 0
    }

    /// Was it detached in good order, rather than ejected?
    pub fn is_graceful(&self) -> bool {
        self.kind <= LAST_GRACEFUL_KIND
    }
}

/// A C string of a fixed-size field, whatever its bytes.
fn text(field: &[libc::c_char]) -> String {
    let bytes: Vec<u8> = field.iter().map(|&c| c as u8).collect();
    CStr::from_bytes_until_nul(&bytes)
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
    }
}
