//! Gives all adopted tasks back what they had, without any help of the scheduler's.
//!
//! Tasks are found in `/proc`, so that it works after a crash, too. What is born meanwhile is found by looking again.

use super::ledger::{Entry, Ledger};
use super::policy::{self, ADOPTED_NICE, EXT, Had, IDLE, Stat, Tid};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// It is not looked for longer than this.
const LONGEST: Duration = Duration::from_secs(20);
/// A task that is being made is not seen yet: all looks for so long after the last change must find nothing.
const QUIET: Duration = Duration::from_millis(20);
/// Generations that are walked up to a task's ancestor.
const GENERATIONS: usize = 64;

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Restored {
    /// Tasks that have what they had.
    pub tasks: usize,
    /// Why others do not.
    pub failed: Option<io::Error>,
    /// There were always more of them.
    pub endless: bool,
}

/// Tasks of a directory of numbers.
fn numbers(folder: &str) -> impl Iterator<Item = Tid> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The threads of a process.
pub(crate) fn threads(process: Tid) -> impl Iterator<Item = Tid> {
    numbers(&format!("/proc/{process}/task"))
}

/// All tasks.
fn all() -> impl Iterator<Item = Tid> {
    numbers("/proc").flat_map(threads)
}

/// Is it a thread of this process?
pub(crate) fn is_own(tid: Tid) -> bool {
    Path::new(&format!("/proc/self/task/{tid}")).exists()
}

/// The process that a task is of.
fn process_of(tid: Tid) -> Option<Tid> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    line?.trim().parse().ok()
}

/// Where a task is among the cgroups.
fn cgroup_of(tid: Tid) -> Option<String> {
    fs::read_to_string(format!("/proc/{tid}/cgroup")).ok()
}

/// What the ledger says of a task that is there.
fn entry_of(ledger: &Ledger, tid: Tid) -> Option<Entry> {
    ledger.get(tid, Stat::of(tid)?.start)
}

/// What it says of any task of a process, of the first one before others.
fn entry_of_process(ledger: &Ledger, process: Tid) -> Option<Entry> {
    let first = entry_of(ledger, process);
    first.or_else(|| threads(process).find_map(|tid| entry_of(ledger, tid)))
}

/// What it says of the process of a task, or else of the nearest ancestor that it has.
pub(crate) fn inherited(ledger: &Ledger, tid: Tid) -> Option<Entry> {
    let mut process = process_of(tid)?;
    for _ in 0..GENERATIONS {
        if let Some(entry) = entry_of_process(ledger, process) {
            return Some(entry);
        }
        process = Stat::of(process)?.parent;
        if process <= 1 {
            break;
        }
    }
    None
}

/// What the tasks of each cgroup had that the ledger has.
fn by_cgroup(ledger: &Ledger) -> HashMap<String, Had> {
    let entries = ledger.tids().filter_map(|tid| {
        let entry = entry_of(ledger, tid).filter(|entry| !entry.is_left())?;
        Some((cgroup_of(tid)?, entry.had))
    });
    entries.collect()
}

/// What all this goes by.
struct Known<'a> {
    ledger: &'a Ledger,
    cgroups: HashMap<String, Had>,
    /// When the first task was given back, in clock ticks since boot.
    since: u64,
}

/// What a task is to get that has `now`; none: it is none of ours.
fn due(known: &Known, tid: Tid, now: Had) -> Option<Had> {
    let (ledger, own) = (known.ledger, entry_of(known.ledger, tid));
    let near = || known.cgroups.get(&cgroup_of(tid)?).copied();
    let had = match (now.policy, own) {
        (EXT, Some(entry)) if entry.is_left() => return None,
        (EXT, Some(entry)) => entry.had,
        (EXT, None) => {
            let ancestor = inherited(ledger, tid);
            if ancestor.as_ref().is_some_and(Entry::is_left) {
                return None; // of one that chose this itself
            }
            let had = ancestor.map(|entry| entry.had).or_else(near);
            had.unwrap_or(Had::LEAST)
        }
        (IDLE, Some(entry)) if entry.lent => entry.had,
        (_, None) if now.nice == ADOPTED_NICE => {
            let ancestor = inherited(ledger, tid);
            if now.policy == IDLE
                && let Some(lent) = ancestor.filter(|entry| entry.lent)
            {
                return Some(lent.had);
            }
            // The kernel copies a task without its lock: while that one is given back, the copy may have the new policy
            // with the old nice value.
            let had = ancestor.map(|entry| entry.had).or_else(near)?;
            let torn = now.policy == had.policy && Stat::of(tid)?.start >= known.since;
            torn.then_some(had)?
        }
        _ => return None,
    };
    Some(with_its_own_nice(had, now))
}

/// A nice value that a task was given meanwhile stays.
pub(crate) fn with_its_own_nice(had: Had, now: Had) -> Had {
    match now.nice {
        ADOPTED_NICE => had,
        nice => Had { nice, ..had },
    }
}

/// Looks at all tasks once.
fn pass(ledger: &Ledger, since: u64, restored: &mut Restored) -> usize {
    let known = Known {
        ledger,
        cgroups: by_cgroup(ledger),
        since,
    };
    let mut found = 0;
    for tid in all() {
        let Ok(now) = policy::get(tid) else {
            continue;
        };
        // most tasks of most machines: nothing has to be read of them
        if now.nice != ADOPTED_NICE && ![EXT, IDLE].contains(&now.policy) {
            continue;
        }
        let Some(had) = due(&known, tid, now).filter(|had| *had != now) else {
            continue;
        };
        match policy::set(tid, had) {
            Ok(()) => found += 1,
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
            Err(e) => restored.failed = Some(e),
        }
    }
    found
}

/// Looks until nothing is left.
pub(crate) fn restore(ledger: &Ledger) -> Restored {
    let (begun, mut restored) = (Instant::now(), Restored::default());
    if ledger.is_empty() {
        return restored;
    }
    let (since, mut changed) = (policy::ticks_now(), begun);
    loop {
        restored.failed = None;
        let begins = Instant::now();
        let found = pass(ledger, since, &mut restored);
        restored.tasks += found;
        restored.endless = found > 0 && begun.elapsed() >= LONGEST;
        if restored.endless || found == 0 && begins >= changed + QUIET {
            return restored;
        }
        match found {
            0 => std::thread::sleep(QUIET / 4),
            _ => changed = Instant::now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nice_value_that_was_given_meanwhile_stays() {
        let had = |policy, nice| Had { policy, nice };
        let now = |nice| with_its_own_nice(had(3, -5), had(EXT, nice));
        assert_eq!((now(ADOPTED_NICE), now(4)), (had(3, -5), had(3, 4)));
    }

    #[test]
    fn a_child_is_found_to_be_of_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::hold(&folder.path().join("adopted")).unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        assert_eq!(inherited(&ledger, child.id()), None);
        let own = std::process::id();
        let entry = |nice| Entry {
            start: Stat::of(own).unwrap().start,
            had: Had { policy: 0, nice },
            lent: false,
        };
        ledger.put(own, entry(5)).unwrap();
        assert_eq!(inherited(&ledger, child.id()), Some(entry(5)));
        let now = Had {
            policy: EXT,
            nice: ADOPTED_NICE,
        };
        let due_since = |ledger: &Ledger, since, now| {
            let cgroups = by_cgroup(ledger);
            let known = Known {
                ledger,
                cgroups,
                since,
            };
            due(&known, child.id(), now)
        };
        let due_now = |ledger: &Ledger, now| due_since(ledger, u64::MAX, now);
        assert_eq!(due_now(&ledger, now), Some(entry(5).had));
        // a copy of its parent just as that was given back
        let torn = Had { policy: 0, ..now };
        assert_eq!(due_since(&ledger, 0, torn), Some(entry(5).had));
        assert_eq!(due_now(&ledger, torn), None);
        let other = Had { nice: 4, ..torn };
        assert_eq!(due_since(&ledger, 0, other), None);
        // as SCHED_IDLE it is no lent one's
        let idle = Had {
            policy: IDLE,
            ..now
        };
        assert_eq!(due_now(&ledger, idle), None);
        let lent = Entry {
            lent: true,
            ..entry(5)
        };
        ledger.put(own, lent).unwrap();
        assert_eq!(due_now(&ledger, idle), Some(entry(5).had));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
