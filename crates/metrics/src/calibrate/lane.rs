//! Lanes as the kernel sees them: pinning, and how much of a lane others had.

use super::error::{Error, Result};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use sidelane_topology::CpuList;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Fields of a CPU's line in `/proc/stat` that are no work: idle and iowait.
const IDLE_FIELDS: [usize; 2] = [3, 4];

/// The field of stolen time.
const STEAL_FIELD: usize = 7;

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

/// Ticks of a lane so far.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
struct Ticks {
    busy: u64,
    stolen: u64,
}

/// Watches what others do on lanes, by `/proc/stat`.
pub(super) struct Watch {
    since: Instant,
    ticks: BTreeMap<u32, Ticks>,
}

/// What happened on lanes while they were watched.
pub(super) struct Seen {
    elapsed: Duration,
    ticks: BTreeMap<u32, Ticks>,
}

impl Watch {
    /// Begins. `root`: `/`, or a captured tree.
    pub(super) fn begin(root: &Path) -> Result<Watch> {
        Ok(Watch {
            since: Instant::now(),
            ticks: read(root)?,
        })
    }

    /// What happened since.
    pub(super) fn end(&self, root: &Path) -> Result<Seen> {
        let now = read(root)?;
        let since = |(cpu, ticks): (&u32, &Ticks)| {
            let before = self.ticks.get(cpu).copied().unwrap_or_default();
            let spent = Ticks {
                busy: ticks.busy.saturating_sub(before.busy),
                stolen: ticks.stolen.saturating_sub(before.stolen),
            };
            (*cpu, spent)
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
        self.largest(cpus, |ticks| ticks.busy + ticks.stolen)
    }

    /// Busy time of these lanes together.
    pub(super) fn busy(&self, cpus: &[u32]) -> Duration {
        let ticks = cpus.iter().filter_map(|cpu| self.ticks.get(cpu));
        TICK * u32::try_from(ticks.map(|t| t.busy + t.stolen).sum::<u64>()).unwrap_or(u32::MAX)
    }

    /// One tick less than counted: a tick may have begun long before.
    fn largest(&self, cpus: &[u32], count: impl Fn(&Ticks) -> u64) -> f64 {
        let most = cpus.iter().filter_map(|cpu| self.ticks.get(cpu)).map(count);
        let ticks = most.max().unwrap_or(0).saturating_sub(1);
        ticks as f64 * TICK.as_secs_f64() / self.elapsed.as_secs_f64().max(1e-3)
    }
}

fn read(root: &Path) -> Result<BTreeMap<u32, Ticks>> {
    let path = root.join("proc/stat");
    let text = fs::read_to_string(&path)
        .map_err(|error| Error::system(format!("read {}", path.display()), error))?;
    Ok(text.lines().filter_map(lane_line).collect())
}

/// Reads `cpu3 user nice system idle iowait irq softirq steal guest guest_nice`.
fn lane_line(line: &str) -> Option<(u32, Ticks)> {
    let (cpu, rest) = line.strip_prefix("cpu")?.split_once(' ')?;
    let cpu = cpu.parse().ok()?;
    // What guests get is part of user and nice.
    let fields = rest.split_whitespace().take(STEAL_FIELD + 1);
    let mut ticks = Ticks::default();
    for (index, field) in fields.enumerate() {
        let count: u64 = field.parse().ok()?;
        match index {
            STEAL_FIELD => ticks.stolen = count,
            index if IDLE_FIELDS.contains(&index) => {}
            _ => ticks.busy += count,
        }
    }
    Some((cpu, ticks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_of_proc_stat_are_read() {
        assert_eq!(lane_line("cpu  1 2 3 4 5 6 7 8 9 10"), None);
        assert_eq!(lane_line("ctxt 44"), None);
        let ticks = Ticks {
            busy: 1 + 2 + 3 + 6 + 7,
            stolen: 8,
        };
        assert_eq!(lane_line("cpu13 1 2 3 400 5 6 7 8 9 10"), Some((13, ticks)));
    }

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
