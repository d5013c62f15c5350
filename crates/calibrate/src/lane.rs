//! Lanes as the kernel sees them: pinning, and how much of a lane others had.

use super::error::{Error, Result};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use sidelane_collect::proc_stat::{self, LaneTicks, LaneTicksByCpu};
use sidelane_topology::CpuList;
use std::path::Path;
use std::time::{Duration, Instant};

/// The kernel's unit in `/proc/stat`, 1/100 s on every architecture that it shows to programs.
const TICK: Duration = Duration::from_millis(10);

/// The CPUs that this process may run on: its affinity within its cpuset.
pub fn allowed() -> Result<CpuList> {
    let set = sched_getaffinity(Pid::from_raw(0))
        .map_err(|error| Error::system("read the CPU affinity", error))?;
    let cpus = 0..CpuSet::count();
    Ok(cpus
        .filter(|cpu| set.is_set(*cpu).unwrap_or(false))
        .map(|cpu| cpu as u32)
        .collect())
}

/// Lets the calling thread, and what it starts, run on this CPU alone.
pub(super) fn pin(cpu: u32) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu as usize)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
        .map_err(|error| Error::system(format!("run on CPU {cpu}"), error))
}

/// CPU time of the calling thread.
pub(super) fn thread_time() -> Result<Duration> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map_err(|error| Error::system("read the thread's CPU time", error))?;
    Ok(Duration::from(time))
}

/// Watches what others do on lanes, by `/proc/stat`.
pub(super) struct Watch {
    since: Instant,
    ticks: LaneTicksByCpu,
}

/// What happened on lanes while they were watched.
pub(super) struct Seen {
    elapsed: Duration,
    ticks: LaneTicksByCpu,
}

impl Watch {
    /// Begins. `root`: `/`, or a captured tree.
    pub(super) fn begin(root: &Path) -> Result<Watch> {
        Ok(Watch {
            since: Instant::now(),
            ticks: proc_stat::read(root)?,
        })
    }

    /// What happened since.
    pub(super) fn end(&self, root: &Path) -> Result<Seen> {
        let now = proc_stat::read(root)?;
        let since = |(cpu, ticks): (&u32, &LaneTicks)| {
            let before = self.ticks.get(cpu).copied().unwrap_or_default();
            (*cpu, ticks.since(&before))
        };
        Ok(Seen {
            elapsed: self.since.elapsed(),
            ticks: now.iter().map(since).collect(),
        })
    }
}

impl Seen {
    /// How long was watched.
    pub(super) fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// The largest share of one of these lanes that a hypervisor took away, 0 to 1.
    pub(super) fn stolen_share(&self, cpus: &[u32]) -> f64 {
        self.largest(cpus, |ticks| ticks.stolen)
    }

    /// The largest share of one of these lanes that was busy, 0 to 1.
    pub(super) fn busy_share(&self, cpus: &[u32]) -> f64 {
        self.largest(cpus, worked)
    }

    /// Busy time of these lanes together.
    pub(super) fn busy(&self, cpus: &[u32]) -> Duration {
        let ticks = cpus.iter().filter_map(|cpu| self.ticks.get(cpu));
        TICK * u32::try_from(ticks.map(worked).sum::<u64>()).unwrap_or(u32::MAX)
    }

    /// One tick less than counted: a tick may have begun long before.
    fn largest(&self, cpus: &[u32], count: impl Fn(&LaneTicks) -> u64) -> f64 {
        let most = cpus.iter().filter_map(|cpu| self.ticks.get(cpu)).map(count);
        let ticks = most.max().unwrap_or(0).saturating_sub(1);
        ticks as f64 * TICK.as_secs_f64() / self.elapsed.as_secs_f64().max(1e-3)
    }
}

/// Ticks in which the lane was not idle.
fn worked(ticks: &LaneTicks) -> u64 {
    ticks.busy + ticks.nice + ticks.stolen
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_tick_more_or_less_is_nothing() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("proc")).unwrap();
        let write = |text: &str| fs::write(root.path().join("proc/stat"), text).unwrap();
        write("cpu0 100 0 0 0 0 0 0 0\ncpu1 10 0 0 0 0 0 0 5\n");
        let mut watch = Watch::begin(root.path()).unwrap();
        watch.since -= Duration::from_millis(500);
        write("cpu0 101 0 0 0 0 0 0 0\ncpu1 30 0 0 0 0 0 0 11\n");
        let seen = watch.end(root.path()).unwrap();
        assert_eq!((seen.busy_share(&[0]), seen.stolen_share(&[0])), (0.0, 0.0));
        assert!((seen.stolen_share(&[0, 1]) - 0.1).abs() < 0.01);
        assert!((seen.busy_share(&[0, 1]) - 0.5).abs() < 0.05);
        assert_eq!(seen.busy(&[0, 1]), Duration::from_millis(270));
    }

    #[test]
    fn a_thread_is_pinned() {
        let first = allowed().unwrap().first().unwrap();
        let after = std::thread::spawn(move || {
            pin(first).unwrap();
            allowed().unwrap()
        });
        assert_eq!(after.join().unwrap(), CpuList::from([first]));
        assert!(
            pin(100_000)
                .unwrap_err()
                .to_string()
                .contains("run on CPU 100000")
        );
    }
}
