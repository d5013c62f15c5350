//! Can this machine run the scheduler? One check a condition, each with a verdict, what was seen
//! and a remedy.
//!
//! Everything is read from files below a root folder, so that a captured tree can be examined too.
//! The one exception, core-scheduling cookies, must be asked of the running kernel and is unknown
//! of a captured tree. Nothing is changed, and no privilege is needed to look.

mod cmdline;
mod kernel;
mod machine;
mod render;
mod source;
mod tasks;

use serde::Serialize;
use source::{Source, Unreadable};
use std::path::Path;

pub use kernel::KERNEL_MIN;
pub(crate) use kernel::boot_a_kernel;
pub(crate) use tasks::STOP_COOKIES;

/// The outcome of a check, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// It could not be told.
    Unknown,
    /// The scheduler runs, but not as well as it could.
    Warning,
    /// The scheduler cannot run.
    Fail,
}

/// One check and its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was checked, a stable word or two.
    pub name: &'static str,
    /// The outcome.
    pub verdict: Verdict,
    /// What was seen.
    pub seen: String,
    /// What to do about it; `None` if all is well.
    pub remedy: Option<String>,
}

/// All checks of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Whether no check failed.
    pub runnable: bool,
    /// The checks, always the same ones in the same order.
    pub checks: Vec<Check>,
}

/// The outcome of a check before it has its name.
struct Finding {
    verdict: Verdict,
    seen: String,
    remedy: Option<String>,
}

impl Finding {
    fn ok(seen: impl Into<String>) -> Self {
        Finding {
            verdict: Verdict::Ok,
            seen: seen.into(),
            remedy: None,
        }
    }

    fn bad(verdict: Verdict, seen: impl Into<String>, remedy: impl Into<String>) -> Self {
        Finding {
            verdict,
            seen: seen.into(),
            remedy: Some(remedy.into()),
        }
    }

    fn unknown(seen: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::bad(Verdict::Unknown, seen, remedy)
    }

    fn warning(seen: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::bad(Verdict::Warning, seen, remedy)
    }

    fn fail(seen: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::bad(Verdict::Fail, seen, remedy)
    }
}

/// Looks at one condition.
type Examine = fn(&Source) -> Result<Finding, Unreadable>;

/// The checks: what rules the scheduler out first, then what hampers it.
const CHECKS: [(&str, Examine); 19] = [
    ("kernel", kernel::version),
    ("sched_ext", kernel::sched_ext),
    ("BTF", kernel::btf),
    ("BPF JIT", kernel::jit),
    ("kernel config", kernel::config),
    ("privileges", kernel::privileges),
    ("lockdown", kernel::lockdown),
    ("memlock", kernel::memlock),
    ("other scheduler", kernel::other_scheduler),
    ("cgroup v2", kernel::cgroup_v2),
    ("topology", machine::topology),
    ("SMT", machine::smt),
    ("isolated lanes", machine::isolated),
    ("nohz_full lanes", machine::nohz_full),
    ("CPU manager", machine::cpu_manager),
    ("frequency", machine::frequency),
    ("core scheduling", tasks::core_scheduling),
    ("real-time tasks", tasks::real_time),
    ("real-time limit", tasks::real_time_limit),
];

/// The threads of this machine that have a core-scheduling cookie, for a message; `None` if none is
/// known to have one.
pub(crate) fn cookie_holders() -> Option<String> {
    let cookies = tasks::Cookies::look(&Source::new(Path::new("/")));
    cookies.ok()?.holders()
}

/// Examines the machine whose `proc`, `sys` and `boot` lie below `root`; `/` is this machine.
pub fn examine(root: &Path) -> Report {
    let source = Source::new(root);
    let checks: Vec<Check> = CHECKS
        .iter()
        .map(|(name, examine)| {
            let found = examine(&source).unwrap_or_else(Unreadable::into_finding);
            Check {
                name,
                verdict: found.verdict,
                seen: found.seen,
                remedy: found.remedy,
            }
        })
        .collect();
    Report {
        runnable: checks.iter().all(|check| check.verdict != Verdict::Fail),
        checks,
    }
}
