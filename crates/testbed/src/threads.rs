//! How the host treats the lanes' threads: those of one core on one host CPU, where siblings compete.

use crate::error::{During, Result};
use libc::sched_attr;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// How the host's scheduler is to treat the machine's threads. It can be changed while the machine runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostSettings {
    /// The slice that the host's scheduler gives a lane's thread, 0.1 to 100 ms; none is the host's
    /// default.
    pub slice: Option<Duration>,
    /// How often the host's scheduler is made to choose anew between sibling lanes; none leaves it
    /// to its tick. Dear on a virtual machine, and coarser than [`crate::Spec::lane_turn`].
    pub metronome: Option<Duration>,
    /// Lets QEMU's main thread, which fires the guest's timers, run as soon as it wants to
    /// (real-time class).
    pub urgent_timers: bool,
}

impl HostSettings {
    /// What serves a machine with several lanes to a core best (see `examples/hand_over.rs`).
    pub fn recommended() -> Self {
        HostSettings {
            slice: Some(Duration::from_micros(100)),
            metronome: None,
            urgent_timers: true,
        }
    }
}

/// A lane's thread in QEMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneThread {
    /// The thread's id.
    pub tid: i32,
    /// Which core of the whole machine the lane belongs to.
    pub core: usize,
}

/// Tells how long a thread ran.
pub struct RunTime {
    file: File,
    /// At the last look, ns.
    seen_ns: u64,
}

impl RunTime {
    /// Of a thread of this process.
    ///
    /// # Errors
    /// The thread is gone, or the kernel keeps no statistics.
    pub fn of(process: u32, thread: i32) -> Result<RunTime> {
        let path = format!("/proc/{process}/task/{thread}/schedstat");
        let file = File::open(&path).during(|| format!("open {path}"))?;
        let mut run_time = RunTime { file, seen_ns: 0 };
        run_time.passed();
        Ok(run_time)
    }

    /// How long it ran since this was called last, ns; 0 for a thread that ended.
    pub fn passed(&mut self) -> u64 {
        let mut text = [0; 64];
        let length = self.file.read_at(&mut text, 0).unwrap_or(0);
        let first = text[..length].split(|byte| *byte == b' ').next();
        let first = first.and_then(|word| std::str::from_utf8(word).ok());
        let Some(now_ns) = first.and_then(|word| word.parse().ok()) else {
            return 0;
        };
        let before_ns = std::mem::replace(&mut self.seen_ns, now_ns);
        now_ns.saturating_sub(before_ns)
    }
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
    let new = sched_attr {
        sched_runtime: length.as_nanos() as u64,
        sched_nice: nice(tid),
        ..blank()
    };
    attributes(tid, new).during(what)
}

/// Puts the calling thread into the idle class: it runs when nobody else wants the CPU.
pub fn idle_class() -> Result<()> {
    let new = sched_attr {
        sched_policy: libc::SCHED_IDLE as u32,
        ..blank()
    };
    attributes(0, new).during(|| "enter the idle class".into())
}

/// Puts a thread into the real-time class (0: the calling one): it runs at once when it wants to.
/// Needs privilege.
pub fn real_time(tid: i32) -> Result<()> {
    let new = sched_attr {
        sched_policy: libc::SCHED_FIFO as u32,
        sched_priority: 1,
        ..blank()
    };
    attributes(tid, new).during(|| "enter the real-time class".into())
}

/// A thread's nice value; all attributes are set at once, and this one is to stay.
fn nice(tid: i32) -> i32 {
    // SAFETY: a plain system call. A thread that is gone has none, which the next call tells.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, tid as libc::id_t) }
}

fn blank() -> sched_attr {
    // SAFETY: numbers alone, of which 0 is a valid one
    unsafe { std::mem::zeroed() }
}

fn attributes(tid: i32, mut new: sched_attr) -> std::io::Result<()> {
    new.size = size_of::<sched_attr>() as u32;
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

    #[test]
    fn a_thread_that_works_is_seen_to() {
        // SAFETY: a plain system call.
        let thread = unsafe { libc::gettid() };
        let mut run_time = RunTime::of(std::process::id(), thread).unwrap();
        let begin = std::time::Instant::now();
        while begin.elapsed() < Duration::from_millis(20) {}
        // what is told is as old as the last tick
        std::thread::sleep(Duration::from_millis(1));
        let passed_ns = run_time.passed();
        assert!(passed_ns > 0 && passed_ns < 1_000_000_000, "{passed_ns}");
        assert!(RunTime::of(std::process::id(), -1).is_err());
    }
}
