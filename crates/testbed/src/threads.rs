//! Puts the lanes' threads where siblings compete: the lanes of one core on one host CPU.

use crate::error::{During, Result};
use crate::qemu::LaneThread;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::time::Duration;

/// Parameters of `sched_setattr` (the kernel's `struct sched_attr`, first version).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Pins every lane of core c to the host's CPU number c, counted round `cpus`. QEMU's other threads
/// float.
pub fn lanes(lanes: &[LaneThread], cpus: &[usize]) -> Result<()> {
    for lane in lanes {
        if let Some(cpu) = cpus.get(lane.core % cpus.len().max(1)) {
            pin(lane.tid, *cpu)?;
        }
    }
    Ok(())
}

/// Lets a thread run on one CPU alone (0: the calling thread).
pub fn pin(tid: i32, cpu: usize) -> Result<()> {
    let what = || format!("pin thread {tid} to CPU {cpu}");
    let mut set = CpuSet::new();
    set.set(cpu).during(what)?;
    sched_setaffinity(Pid::from_raw(tid), &set).during(what)
}

/// Asks the host's scheduler for slices of this length for a thread. Kernels before 6.12 take it
/// and do nothing.
pub fn slice(tid: i32, length: Duration) -> Result<()> {
    let what = || format!("set the slice of thread {tid}");
    let new = Attributes {
        runtime_ns: length.as_nanos() as u64,
        nice: nice(tid),
        ..Attributes::default()
    };
    attributes(tid, new).during(what)
}

/// Puts the calling thread into the idle class: it runs when nobody else wants the CPU.
pub fn idle_class() -> Result<()> {
    let policy = libc::SCHED_IDLE as u32;
    attributes(
        0,
        Attributes {
            policy,
            ..Attributes::default()
        },
    )
    .during(|| "enter the idle class".into())
}

/// Puts a thread into the real-time class (0: the calling one): it runs at once when it wants to.
/// Needs privilege.
pub fn real_time(tid: i32) -> Result<()> {
    let policy = libc::SCHED_FIFO as u32;
    let new = Attributes {
        policy,
        priority: 1,
        ..Attributes::default()
    };
    attributes(tid, new).during(|| "enter the real-time class".into())
}

/// A thread's nice value; all attributes are set at once, and this one is to stay.
fn nice(tid: i32) -> i32 {
    // SAFETY: a plain system call. A thread that is gone has none, which the next call tells.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, tid as libc::id_t) }
}

fn attributes(tid: i32, mut new: Attributes) -> std::io::Result<()> {
    new.size = size_of::<Attributes>() as u32;
    // SAFETY: the attributes live for the call and begin with their size.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &new, 0) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_leaves_the_nice_value_alone() {
        let nice_after = std::thread::spawn(|| {
            // SAFETY: a plain system call about the calling thread.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 12) };
            slice(0, Duration::from_micros(100)).unwrap();
            nice(0)
        });
        assert_eq!(nice_after.join().unwrap(), 12);
    }
}
