//! Tasks that no sched_ext scheduler controls, or that tie its hands.

use super::Finding;
use super::kernel;
use super::source::{Source, Unreadable};
use crate::adopt::{BOOT, PATH, count};
use crate::error::STOP_COOKIES;
use sidelane_topology::printable;
use std::io;

/// How many tasks are named; the rest is counted.
const NAMED_MAX: usize = 5;

/// The flag of kernel threads in `/proc/PID/stat`, from `linux/sched.h`.
const PF_KTHREAD: u64 = 0x0020_0000;

/// A thread as its `stat` file describes it.
#[derive(Debug, PartialEq)]
struct Task {
    tid: u32,
    name: String,
    kernel_thread: bool,
    real_time_priority: u32,
    policy: u32,
}

/// Calls `take` with the folder and the number of each thread.
fn each_thread(
    source: &Source,
    mut take: impl FnMut(&str, u32) -> Result<(), Unreadable>,
) -> Result<(), Unreadable> {
    let numbered = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
    for process in source.names("proc")?.into_iter().filter(numbered) {
        let threads = format!("proc/{process}/task");
        for name in source.names(&threads)? {
            if let Ok(tid) = name.parse() {
                take(&format!("{threads}/{name}"), tid)?;
            }
        }
    }
    Ok(())
}

/// All threads. One that ends meanwhile is left out.
fn threads(source: &Source) -> Result<Vec<Task>, Unreadable> {
    let mut tasks = Vec::new();
    each_thread(source, |folder, _| {
        let stat = source.text(&format!("{folder}/stat"))?;
        tasks.extend(stat.as_deref().and_then(parse_stat));
        Ok(())
    })?;
    Ok(tasks)
}

/// Parses a `stat` file. The name stands in brackets and may hold brackets and spaces itself.
fn parse_stat(stat: &str) -> Option<Task> {
    let (tid, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    // `rest` begins with field 3 of proc_pid_stat(5).
    let fields: Vec<&str> = rest.split(' ').collect();
    let field = |number: usize| fields.get(number - 3).copied();
    let flags: u64 = field(9)?.parse().ok()?;
    Some(Task {
        tid: tid.parse().ok()?,
        name: name.to_owned(),
        kernel_thread: flags & PF_KTHREAD != 0,
        real_time_priority: field(40)?.parse().ok()?,
        policy: field(41)?.parse().ok()?,
    })
}

/// Names the first tasks and counts the others.
fn named(tasks: &[String]) -> String {
    let mut text = tasks[..tasks.len().min(NAMED_MAX)].join(", ");
    if tasks.len() > NAMED_MAX {
        text.push_str(&format!(" and {} more", tasks.len() - NAMED_MAX));
    }
    text
}

/// A user task of a real-time policy: such tasks run before every sched_ext task.
fn describe_real_time(task: &Task) -> Option<String> {
    let policy = match i32::try_from(task.policy).ok()? {
        libc::SCHED_FIFO => format!("SCHED_FIFO {}", task.real_time_priority),
        libc::SCHED_RR => format!("SCHED_RR {}", task.real_time_priority),
        libc::SCHED_DEADLINE => "SCHED_DEADLINE".to_owned(),
        _ => return None,
    };
    (!task.kernel_thread).then(|| {
        format!(
            "{} ({}, {policy})",
            printable(task.name.as_bytes()),
            task.tid
        )
    })
}

pub(super) fn real_time(source: &Source) -> Result<Finding, Unreadable> {
    let tasks = threads(source)?;
    if tasks.is_empty() {
        return Ok(Finding::unknown(
            "/proc lists no tasks",
            "mount procfs at /proc",
        ));
    }
    let found: Vec<String> = tasks.iter().filter_map(describe_real_time).collect();
    Ok(match found.is_empty() {
        true => Finding::ok("none but the kernel's own"),
        false => Finding::warning(
            named(&found),
            "harmless if they mostly sleep; one that spins takes its lane from the scheduler \
             (chrt -o -p 0 TID makes a task an ordinary one)",
        ),
    })
}

/// The first kernel that keeps a share of each lane for sched_ext tasks, 50 ms in a second.
const KERNEL_WITH_RESERVE: (u32, u32) = (7, 0);

/// What keeps real-time tasks from taking a whole lane.
///
/// Before 7.0 nothing does: a spinning task starves the scheduler's tasks on its lane until the
/// kernel ejects the scheduler, whatever `sched_rt_runtime_us` says, unless real-time group
/// scheduling is built in.
pub(super) fn real_time_limit(source: &Source) -> Result<Finding, Unreadable> {
    const RUNTIME: &str = "proc/sys/kernel/sched_rt_runtime_us";
    const REMEDY: &str = "boot Linux 7.0 or later, or see that no real-time task spins: the kernel \
                          ejects a scheduler whose tasks it keeps waiting";
    // The kernel's debug folder is only for root, and need not be mounted.
    let reserve = source
        .text("sys/kernel/debug/sched/ext_server/cpu0/runtime")
        .ok()
        .flatten();
    match reserve.and_then(|runtime_ns| runtime_ns.parse::<u64>().ok()) {
        Some(0) => {}
        Some(runtime_ns) => {
            let runtime_ms = runtime_ns / 1_000_000;
            let seen = format!("{runtime_ms} ms a period are kept for the scheduler's tasks");
            return Ok(Finding::ok(seen));
        }
        None if kernel::version_of(source)?.is_some_and(|v| v >= KERNEL_WITH_RESERVE) => {
            return Ok(Finding::ok(
                "this kernel keeps a share for the scheduler's tasks",
            ));
        }
        None => {}
    }
    if source.text(RUNTIME)?.as_deref() == Some("-1") {
        let seen =
            format!("none: /{RUNTIME} is -1, so that real-time tasks may take all of a lane");
        return Ok(Finding::warning(seen, REMEDY));
    }
    let none_now = threads(source)?
        .iter()
        .all(|task| describe_real_time(task).is_none());
    Ok(match none_now {
        true => Finding::ok("this kernel may have none; no task is a real-time one now"),
        false => Finding::warning(
            "this kernel may have none: real-time tasks that spin may take all of a lane",
            REMEDY,
        ),
    })
}

const NOTHING_LEFT: &str = "no thread keeps policy and nice value of a scheduler that was killed";

/// Threads that a scheduler of batch alone left behind with a policy that it gave them.
pub(super) fn left_behind(source: &Source) -> Result<Finding, Unreadable> {
    let path = PATH.trim_start_matches('/');
    let text = source.text(path)?.filter(|text| !text.is_empty());
    let Some(text) = text else {
        return Ok(Finding::ok(NOTHING_LEFT));
    };
    let boot = source.text(BOOT)?.unwrap_or_default();
    // a source ends no text with a line's end
    let Some(threads) = count(&(text + "\n"), &boot) else {
        let remedy = format!("remove {PATH}: it keeps `sidelane run` from starting");
        return Ok(Finding::warning(format!("{PATH} is no ledger"), remedy));
    };
    let number = threads.adopted + threads.lent;
    Ok(match (number, kernel::is_attached(source)?) {
        (0, _) => Finding::ok(NOTHING_LEFT),
        (_, true) => Finding::ok(format!(
            "{NOTHING_LEFT}: {number} are the running scheduler's"
        )),
        (_, false) => Finding::warning(
            format!(
                "{number} or fewer have SCHED_EXT and nice 19 from a scheduler that was killed"
            ),
            "`sidelane run --restore` gives them back what they had",
        ),
    })
}

/// What is known of core-scheduling cookies on the running kernel.
#[derive(Debug, PartialEq)]
pub(crate) enum Cookies {
    /// There can be none, and why.
    Impossible(&'static str),
    /// Every thread was asked.
    Asked {
        /// Threads that have one, by name and number.
        found: Vec<String>,
        /// How many could not be asked.
        refused: usize,
    },
}

impl Cookies {
    /// Asks the kernel about every thread below `source`, which is the running machine.
    pub(crate) fn look(source: &Source) -> Result<Cookies, Unreadable> {
        // This process can always ask for its own cookie: an error is the kernel's answer for all.
        match cookie(0).map_err(|error| error.raw_os_error()) {
            Err(Some(libc::ENODEV)) => {
                return Ok(Cookies::Impossible("no core has two lanes online"));
            }
            Err(Some(libc::EINVAL)) => {
                return Ok(Cookies::Impossible("the kernel has no core scheduling"));
            }
            _ => {}
        }
        let (mut found, mut refused) = (Vec::new(), 0);
        each_thread(source, |folder, tid| {
            match cookie(tid) {
                Ok(0) => {}
                Ok(_) => {
                    let name = source.text(&format!("{folder}/comm"))?.unwrap_or_default();
                    found.push(format!("{} ({tid})", printable(name.as_bytes())));
                }
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(_) => refused += 1,
            }
            Ok(())
        })?;
        Ok(Cookies::Asked { found, refused })
    }

    /// The threads that have one, for a message; `None` if none is known.
    pub(crate) fn holders(&self) -> Option<String> {
        match self {
            Cookies::Asked { found, .. } if !found.is_empty() => Some(named(found)),
            _ => None,
        }
    }
}

/// Core-scheduling cookies: with SMT, kernels have stopped for good when a task that has one ran under
/// a sched_ext scheduler (issue 3715 of sched-ext/scx).
pub(super) fn core_scheduling(source: &Source) -> Result<Finding, Unreadable> {
    if !source.is_live() {
        let remedy = "run the doctor on the machine itself: only its kernel tells";
        return Ok(Finding::unknown("not told by a captured tree", remedy));
    }
    Ok(judge_cookies(&Cookies::look(source)?))
}

fn judge_cookies(cookies: &Cookies) -> Finding {
    if let Some(holders) = cookies.holders() {
        let seen = format!(
            "cookies in use by {holders}: beside a sched_ext scheduler the kernel may hang"
        );
        return Finding::fail(seen, STOP_COOKIES);
    }
    match cookies {
        Cookies::Impossible(why) => Finding::ok(format!("none: {why}")),
        Cookies::Asked { refused: 0, .. } => Finding::ok("no task has a cookie"),
        Cookies::Asked { refused, .. } => Finding::unknown(
            format!("{refused} tasks could not be asked for their cookie"),
            "run the doctor as root",
        ),
    }
}

/// The core-scheduling cookie of a thread, 0 for none; thread 0 is the caller.
fn cookie(tid: u32) -> io::Result<u64> {
    const PIDTYPE_PID: libc::c_ulong = 0;
    let mut cookie: u64 = 0;
    // SAFETY: this form of prctl writes 8 bytes to its last argument, which outlives the call.
    let result = unsafe {
        libc::prctl(
            libc::PR_SCHED_CORE,
            libc::PR_SCHED_CORE_GET as libc::c_ulong,
            libc::c_ulong::from(tid),
            PIDTYPE_PID,
            &raw mut cookie,
        )
    };
    if result == 0 {
        Ok(cookie)
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn cookies_are_judged() {
        let judged = |found: &[&str], refused| {
            let found: Vec<String> = found.iter().map(|name| (*name).to_owned()).collect();
            let finding = judge_cookies(&Cookies::Asked { found, refused });
            (finding.verdict, finding.seen)
        };
        assert_eq!(judged(&[], 0).0, Verdict::Ok);
        assert_eq!(judged(&[], 3).0, Verdict::Unknown);
        let (verdict, seen) = judged(&["a (1)", "b (2)"], 3);
        assert_eq!(verdict, Verdict::Fail);
        assert!(
            seen.starts_with("cookies in use by a (1), b (2): "),
            "{seen}"
        );
        assert!(judged(&["x"; 9], 0).1.contains("x and 4 more: "));
        let finding = judge_cookies(&Cookies::Impossible("no kernel"));
        assert_eq!(
            (finding.verdict, finding.seen.as_str()),
            (Verdict::Ok, "none: no kernel")
        );
    }
}
