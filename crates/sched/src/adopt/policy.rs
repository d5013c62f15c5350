//! Policies and nice values of tasks: what the kernel says of them, and how they are set.

use crate::bpf::intf;
use libc::sched_attr;
use nix::time::{ClockId, clock_gettime};
use std::fs;
use std::io;
use std::mem::size_of;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// A task's number: that of a thread.
pub(crate) type Tid = u32;

/// Scheduling policies, by the kernel's numbers.
pub(crate) const NORMAL: u32 = 0;
pub(crate) const BATCH: u32 = 3;
pub(crate) const IDLE: u32 = 5;
pub(crate) const EXT: u32 = 7;

/// What adopted tasks have: the least weight if no scheduler is there.
pub(crate) const ADOPTED_NICE: i32 = intf::ADOPTED_NICE as i32;

/// A policy and a nice value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Had {
    pub policy: u32,
    pub nice: i32,
}

impl Had {
    /// The least that the kernel's scheduler gives.
    pub const LEAST: Had = Had {
        policy: IDLE,
        nice: ADOPTED_NICE,
    };

    /// As the scheduler keeps it (`HAD` in `intf.h`).
    pub fn native(self) -> u32 {
        self.policy << 8 | (self.nice + 21).cast_unsigned()
    }

    /// From there; none: nothing is kept.
    pub fn of_native(native: u32) -> Option<Had> {
        (native > 0).then_some(Had {
            policy: native >> 8,
            nice: (native & 0xff).cast_signed() - 21,
        })
    }
}

const SIZE: u32 = size_of::<sched_attr>() as u32;

fn blank() -> sched_attr {
    // SAFETY: numbers alone, of which 0 is a valid one
    unsafe { std::mem::zeroed() }
}

fn done(result: libc::c_long) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn attributes(tid: Tid) -> io::Result<sched_attr> {
    let mut found = blank();
    // SAFETY: fills in at most SIZE bytes
    done(unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut found, SIZE, 0) })?;
    Ok(found)
}

/// What a task has now; 0: the caller.
pub(crate) fn get(tid: Tid) -> io::Result<Had> {
    let found = attributes(tid)?;
    Ok(Had {
        policy: found.sched_policy,
        nice: found.sched_nice,
    })
}

/// Gives a task this policy and nice value; all else that it has of its own stays.
pub(crate) fn set(tid: Tid, to: Had) -> io::Result<()> {
    let found = attributes(tid)?;
    // a slice of its own: others have the kernel's, as this thread
    let own_slice = attributes(0)?.sched_runtime != found.sched_runtime;
    let wanted = sched_attr {
        size: SIZE,
        sched_policy: to.policy,
        sched_nice: to.nice,
        sched_flags: found.sched_flags,
        sched_runtime: if own_slice { found.sched_runtime } else { 0 },
        ..blank()
    };
    // SAFETY: reads SIZE bytes
    done(unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const wanted, 0) })?;
    if to.policy != IDLE || found.sched_nice == to.nice {
        return Ok(());
    }
    // the kernel takes no nice value with this policy
    set_nice(tid, to.nice)
}

/// Gives a task this nice value.
pub(crate) fn set_nice(tid: Tid, nice: i32) -> io::Result<()> {
    // SAFETY: a plain system call; it is of one thread
    done(unsafe { libc::setpriority(libc::PRIO_PROCESS, tid, nice) }.into())
}

/// What `/proc` says of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// The process that made its process.
    pub parent: Tid,
    /// When it was made, in clock ticks since boot: with its number, which task it is.
    pub start: u64,
}

impl Stat {
    /// Of a task that is there.
    pub fn of(tid: Tid) -> Option<Stat> {
        Stat::parse(&fs::read_to_string(format!("/proc/{tid}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Stat> {
        // the name, in brackets, may have blanks and brackets
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        Some(Stat {
            parent: fields.get(1)?.parse().ok()?,
            start: fields.get(19)?.parse().ok()?,
        })
    }
}

/// When a process was made, in clock ticks since boot; none if there is none of this number below this root folder.
pub(crate) fn started(root: &Path, pid: Tid) -> Option<u64> {
    let text = fs::read_to_string(root.join(format!("proc/{pid}/stat"))).ok()?;
    Stat::parse(&text).map(|stat| stat.start)
}

/// Nanoseconds since boot in the clock ticks of `/proc`.
pub(crate) fn ticks(ns: u64) -> u64 {
    // SAFETY: a plain call
    let a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    ns / (1_000_000_000 / u64::try_from(a_second).unwrap_or(100).max(1))
}

/// Now, in the same.
pub(crate) fn ticks_now() -> u64 {
    let since_boot = clock_gettime(ClockId::CLOCK_BOOTTIME).map(Duration::from);
    since_boot.map_or(u64::MAX, |now| ticks(now.as_nanos() as u64))
}

/// Number of the PID namespace in which the scheduler counts (`PROC_PID_INIT_INO` of the kernel).
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Whether this process sees tasks by the numbers by which the scheduler tells them.
pub(crate) fn numbers_are_the_scheduler_s(proc: &Path) -> io::Result<bool> {
    Ok(fs::metadata(proc.join("self/ns/pid"))?.ino() == FIRST_PID_NAMESPACE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_task_had_is_one_number() {
        for policy in [NORMAL, BATCH, IDLE, EXT] {
            for nice in -20..=19 {
                let had = Had { policy, nice };
                assert_eq!(Had::of_native(had.native()), Some(had));
            }
        }
        assert_eq!(Had::of_native(0), None);
    }

    #[test]
    fn a_name_with_brackets_hides_nothing() {
        let text = "7 (a) b (c) S 3 1 1 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 1 0 4711 1 2";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.parent, stat.start), (3, 4711));
        assert_eq!(Stat::parse("7 (a) S 3"), None);
    }

    #[test]
    fn a_thread_s_own_policy_comes_and_goes() {
        std::thread::spawn(|| {
            // SAFETY: a plain call
            let tid = unsafe { libc::gettid() }.cast_unsigned();
            let before = get(tid).unwrap();
            let idle = Had {
                policy: IDLE,
                nice: before.nice,
            };
            set(tid, idle).unwrap();
            assert_eq!(get(0).unwrap(), idle);
            assert!(Stat::of(tid).unwrap().start > 0);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn ticks_are_those_of_proc() {
        assert_eq!(ticks(1_999_999_999) / 2, ticks(999_999_999));
    }
}
