//! Puts the lanes' threads where siblings compete: the lanes of one core on one host CPU.

use crate::error::{During, Result};
use crate::host;
use crate::qemu::LaneThread;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

/// Pins every lane of core c to the host's CPU number c, counted round its allowed CPUs. QEMU's other threads float.
pub fn lanes(lanes: &[LaneThread]) -> Result<()> {
    let cpus = host::allowed_cpus()?;
    for lane in lanes {
        pin(lane.tid, cpus[lane.core % cpus.len()])?;
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
