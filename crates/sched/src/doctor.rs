//! Can this machine run the scheduler? One check a condition, each with a verdict, what was seen
//! and a remedy.
//!
//! Everything is read from files below a root folder, so that a captured tree can be examined too.
//! The one exception, core-scheduling cookies, must be asked of the running kernel and is unknown
//! of a captured tree. Nothing is changed, and no privilege is needed to look.

mod kernel;
mod machine;
mod source;
mod tasks;

use serde::Serialize;
use source::{Source, Unreadable};
use std::path::Path;

pub use crate::error::KERNEL_MIN;

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

/// The check of what this process may do.
const PRIVILEGES: &str = "privileges";

/// The checks: what rules the scheduler out first, then what hampers it.
const CHECKS: [(&str, Examine); 20] = [
    ("kernel", kernel::version),
    ("sched_ext", kernel::sched_ext),
    ("BTF", kernel::btf),
    ("BPF JIT", kernel::jit),
    ("kernel config", kernel::config),
    (PRIVILEGES, kernel::privileges),
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
    ("left behind", tasks::left_behind),
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

/// The widest line, in columns.
const WIDTH: usize = 100;

/// Where the text of a check begins: behind verdict and name.
const TEXT_COLUMN: usize = 26;

impl Report {
    /// The report as text: a line a check, its remedy below, and a conclusion. No line is wider
    /// than 100 columns.
    pub fn text(&self) -> String {
        let mut text: String = self.checks.iter().map(Check::text).collect();
        text.push('\n');
        text.push_str(&self.conclusion());
        text.push('\n');
        text
    }

    /// Which checks say that the scheduler cannot be attached, in a line; none: nothing but the privilege may be
    /// wanting, which whoever asks need not have.
    pub(crate) fn cannot_attach(&self) -> Option<String> {
        let failed = |check: &&Check| check.verdict == Verdict::Fail && check.name != PRIVILEGES;
        let failed: Vec<&str> = self.checks.iter().filter(failed).map(|c| c.name).collect();
        (!failed.is_empty()).then(|| {
            format!(
                "this machine cannot attach the scheduler now: {} (see 'sidelane doctor')",
                failed.join(", ")
            )
        })
    }

    fn conclusion(&self) -> String {
        let count = |verdict| self.checks.iter().filter(|c| c.verdict == verdict).count();
        let numbers = format!(
            "failed: {}, warnings: {}, unknown: {}",
            count(Verdict::Fail),
            count(Verdict::Warning),
            count(Verdict::Unknown),
        );
        match self.runnable {
            true => format!("This machine can run the scheduler ({numbers})."),
            false => format!("This machine cannot run the scheduler ({numbers})."),
        }
    }
}

impl Check {
    fn text(&self) -> String {
        let verdict = match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Unknown => "unknown",
            Verdict::Warning => "WARNING",
            Verdict::Fail => "FAIL",
        };
        let mut text = wrapped(&format!("{verdict:8}  {:16}", self.name), &self.seen);
        if let Some(remedy) = &self.remedy {
            text.push_str(&wrapped("", &format!("-> {remedy}")));
        }
        text
    }
}

/// `text` from [`TEXT_COLUMN`] on, behind `first` and wrapped between words. A word too long for a
/// line is cut.
fn wrapped(first: &str, text: &str) -> String {
    let mut lines = vec![format!("{first:TEXT_COLUMN$}")];
    let mut columns = TEXT_COLUMN;
    for word in text.split_whitespace().flat_map(cut) {
        let length = word.chars().count();
        let gap = usize::from(columns > TEXT_COLUMN);
        if columns + gap + length > WIDTH {
            lines.push(" ".repeat(TEXT_COLUMN));
            columns = TEXT_COLUMN;
        } else if gap == 1 {
            lines.last_mut().into_iter().for_each(|line| line.push(' '));
            columns += 1;
        }
        lines
            .last_mut()
            .into_iter()
            .for_each(|line| line.push_str(&word));
        columns += length;
    }
    lines
        .iter()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

/// Cuts a word into pieces that fit a line.
fn cut(word: &str) -> Vec<String> {
    let characters: Vec<char> = word.chars().collect();
    characters
        .chunks(WIDTH - TEXT_COLUMN)
        .map(|piece| piece.iter().collect())
        .collect()
}
