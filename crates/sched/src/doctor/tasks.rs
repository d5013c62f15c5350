//! Tasks that no sched_ext scheduler controls, or that tie its hands.

use super::Finding;
use super::source::{Source, Unreadable};
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

/// All threads. One that ends meanwhile is left out.
fn threads(source: &Source) -> Result<Vec<Task>, Unreadable> {
    let numbered = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
    let mut tasks = Vec::new();
    for process in source.names("proc")?.into_iter().filter(numbered) {
        for thread in source
            .names(&format!("proc/{process}/task"))?
            .into_iter()
            .filter(numbered)
        {
            let stat = source.text(&format!("proc/{process}/task/{thread}/stat"))?;
            tasks.extend(stat.as_deref().and_then(parse_stat));
        }
    }
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

/// Tasks of real-time policies run before every sched_ext task.
pub(super) fn real_time(source: &Source) -> Result<Finding, Unreadable> {
    let tasks = threads(source)?;
    if tasks.is_empty() {
        return Ok(Finding::unknown(
            "/proc lists no tasks",
            "mount procfs at /proc",
        ));
    }
    let describe = |task: &Task| {
        let policy = match i32::try_from(task.policy).ok()? {
            libc::SCHED_FIFO => format!("SCHED_FIFO {}", task.real_time_priority),
            libc::SCHED_RR => format!("SCHED_RR {}", task.real_time_priority),
            libc::SCHED_DEADLINE => "SCHED_DEADLINE".to_owned(),
            _ => return None,
        };
        (!task.kernel_thread).then(|| format!("{} ({}, {policy})", task.name, task.tid))
    };
    let found: Vec<String> = tasks.iter().filter_map(describe).collect();
    Ok(match found.is_empty() {
        true => Finding::ok("none but the kernel's own"),
        false => Finding::warning(
            named(&found),
            "harmless if they mostly sleep; one that spins takes its lane from the scheduler, and \
             the kernel ejects a scheduler whose tasks wait too long (chrt -o -p 0 TID demotes one)",
        ),
    })
}

pub(super) fn real_time_limit(source: &Source) -> Result<Finding, Unreadable> {
    const RUNTIME: &str = "proc/sys/kernel/sched_rt_runtime_us";
    Ok(match source.text(RUNTIME)?.as_deref() {
        Some("-1") => Finding::warning(
            format!("/{RUNTIME} is -1: a real-time task may take all of a lane"),
            "sysctl kernel.sched_rt_runtime_us=950000",
        ),
        Some(runtime) => Finding::ok(format!("/{RUNTIME} is {runtime}")),
        None => Finding::unknown(
            format!("/{RUNTIME} is missing"),
            "see that no real-time task can take a lane for long",
        ),
    })
}

/// Core-scheduling cookies: beside a task that has one, the kernel keeps lanes idle that the
/// scheduler counts as free.
pub(super) fn core_scheduling(source: &Source) -> Result<Finding, Unreadable> {
    if !source.is_live() {
        let remedy = "run the doctor on the machine itself: only its kernel tells";
        return Ok(Finding::unknown("not told by a captured tree", remedy));
    }
    // This process can always ask for its own cookie: an error is the kernel's answer for all.
    match cookie(0).map_err(|error| error.raw_os_error()) {
        Err(Some(libc::ENODEV)) => return Ok(Finding::ok("none: no core has two lanes online")),
        Err(Some(libc::EINVAL)) => {
            return Ok(Finding::ok("none: the kernel has no core scheduling"));
        }
        _ => {}
    }
    let (mut found, mut refused) = (Vec::new(), 0);
    for task in threads(source)? {
        match cookie(task.tid) {
            Ok(0) => {}
            Ok(_) => found.push(format!("{} ({})", task.name, task.tid)),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(_) => refused += 1,
        }
    }
    Ok(judge_cookies(&found, refused))
}

/// The verdict on the tasks that have a cookie and the number of those that could not be asked.
fn judge_cookies(found: &[String], refused: usize) -> Finding {
    match (found.is_empty(), refused) {
        (true, 0) => Finding::ok("no task has a cookie"),
        (true, refused) => Finding::unknown(
            format!("{refused} tasks could not be asked for their cookie"),
            "run the doctor as root",
        ),
        (false, _) => Finding::warning(
            format!("cookies in use by {}", named(found)),
            "stop these programs or start them without core scheduling: beside them the kernel \
             keeps lanes idle that the scheduler counts on",
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
            let finding = judge_cookies(&found, refused);
            (finding.verdict, finding.seen)
        };
        assert_eq!(judged(&[], 0).0, Verdict::Ok);
        assert_eq!(judged(&[], 3).0, Verdict::Unknown);
        let (verdict, seen) = judged(&["a (1)", "b (2)"], 3);
        assert_eq!(verdict, Verdict::Warning);
        assert_eq!(seen, "cookies in use by a (1), b (2)");
        assert!(judged(&["x"; 9], 0).1.ends_with("x and 4 more"));
    }
}
