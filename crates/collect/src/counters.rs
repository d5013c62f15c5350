//! Instructions that each lane has executed, whatever ran: the kernel's hardware counters.

use perf_event::events::{Event, Hardware};
use perf_event::{Builder, Counter};
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// Errors of the system call that mean "no such counter here".
const ABSENT: [nix::errno::Errno; 4] = [
    nix::errno::Errno::ENOENT,
    nix::errno::Errno::EOPNOTSUPP,
    nix::errno::Errno::ENODEV,
    nix::errno::Errno::ENOSYS,
];

/// Why there are no counters.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine has none.
    #[error(
        "no counter of instructions here: the machine has none or its hypervisor shows none, or the \
         kernel was built without them ({0})"
    )]
    Absent(io::Error),
    /// They are there and not for this process.
    #[error(
        "instructions of all processes may not be counted: run as root, grant CAP_PERFMON, or set \
         kernel.perf_event_paranoid to 0 ({0})"
    )]
    Denied(io::Error),
    /// Anything else.
    #[error("cannot count instructions of CPU {cpu}: {cause}")]
    System {
        /// The lane.
        cpu: u32,
        /// What the system said.
        cause: io::Error,
    },
}

/// A counter on each of some lanes.
#[derive(Debug)]
pub struct LaneCounters {
    lanes: Vec<Lane>,
}

#[derive(Debug)]
struct Lane {
    cpu: u32,
    counter: Counter,
    before: Reading,
}

/// What the kernel tells of a counter since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Reading {
    count: u64,
    /// How long it was meant to count, ns.
    enabled_ns: u64,
    /// How long it did: counters take turns if there are more than the hardware has.
    running_ns: u64,
}

impl LaneCounters {
    /// Counts instructions on these lanes, in user mode and in the kernel.
    ///
    /// # Errors
    /// No such counters, or no permission; each says what could be done.
    pub fn instructions(cpus: &[u32]) -> Result<LaneCounters, Error> {
        LaneCounters::open(cpus, Hardware::INSTRUCTIONS)
    }

    fn open<E: Event + Clone>(cpus: &[u32], event: E) -> Result<LaneCounters, Error> {
        let open_one = |&cpu: &u32| {
            let counter = Builder::new(event.clone())
                .any_pid()
                .one_cpu(cpu as usize)
                .include_kernel()
                .enabled(true)
                .build();
            let mut lane = Lane {
                cpu,
                counter: counter.map_err(|source| explained(cpu, source))?,
                before: Reading::default(),
            };
            lane.before = lane.read()?;
            Ok(lane)
        };
        let lanes: Result<Vec<Lane>, Error> = cpus.iter().map(open_one).collect();
        Ok(LaneCounters { lanes: lanes? })
    }

    /// By CPU, by which a BPF program may read them. They are open as long as this lives.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = (u32, RawFd)> {
        let lanes = self.lanes.iter();
        lanes.map(|lane| (lane.cpu, lane.counter.as_raw_fd()))
    }

    /// By CPU, what was counted since the last call, or since the counters were opened; scaled up
    /// where the counter had to take turns, `None` where it had none.
    ///
    /// # Errors
    /// A counter that cannot be read: its lane went offline.
    pub fn since_last(&mut self) -> Result<Vec<(u32, Option<f64>)>, Error> {
        let one = |lane: &mut Lane| {
            let now = lane.read()?;
            let counted = now.since(lane.before);
            lane.before = now;
            Ok((lane.cpu, counted))
        };
        self.lanes.iter_mut().map(one).collect()
    }
}

impl Lane {
    fn read(&mut self) -> Result<Reading, Error> {
        let data = self.counter.read_count_and_time();
        let data = data.map_err(|source| explained(self.cpu, source))?;
        Ok(Reading {
            count: data.count,
            enabled_ns: data.time_enabled,
            running_ns: data.time_running,
        })
    }
}

impl Reading {
    fn since(self, before: Reading) -> Option<f64> {
        let count = self.count.saturating_sub(before.count) as f64;
        let enabled = self.enabled_ns.saturating_sub(before.enabled_ns) as f64;
        let running = self.running_ns.saturating_sub(before.running_ns) as f64;
        (running > 0.0).then(|| count * (enabled / running).max(1.0))
    }
}

fn explained(cpu: u32, source: io::Error) -> Error {
    let number = nix::errno::Errno::from_raw(source.raw_os_error().unwrap_or(0));
    match source.kind() {
        io::ErrorKind::PermissionDenied => Error::Denied(source),
        _ if ABSENT.contains(&number) => Error::Absent(source),
        _ => Error::System { cpu, cause: source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf_event::events::Software;

    #[test]
    fn instructions_are_counted_or_it_says_why_not() {
        match LaneCounters::instructions(&[0]) {
            Ok(mut counters) => {
                let counted = counters.since_last().unwrap();
                assert_eq!((counted.len(), counted[0].0), (1, 0));
            }
            Err(Error::System { cpu, cause }) => panic!("unexplained on CPU {cpu}: {cause}"),
            Err(Error::Absent(_) | Error::Denied(_)) => {}
        }
    }

    #[test]
    fn a_counter_of_a_lane_counts() {
        // The kernel's clock: a counter that every machine has.
        let mut counters = match LaneCounters::open(&[0], Software::CPU_CLOCK) {
            Ok(counters) => counters,
            Err(Error::Denied(_)) => return,
            Err(error) => panic!("{error}"),
        };
        std::thread::sleep(std::time::Duration::from_millis(30));
        let ns = counters.since_last().unwrap()[0].1.unwrap();
        assert!(ns > 25e6, "{ns}");
        assert!(counters.since_last().unwrap()[0].1.unwrap() < ns);
    }

    #[test]
    fn turns_are_scaled_up() {
        let reading = |count, enabled_ns, running_ns| Reading {
            count,
            enabled_ns,
            running_ns,
        };
        let before = reading(100, 10, 10);
        assert_eq!(reading(400, 110, 60).since(before), Some(600.0));
        assert_eq!(reading(400, 110, 110).since(before), Some(300.0));
        assert_eq!(reading(100, 110, 10).since(before), None);
    }

    #[test]
    fn reasons_are_told_apart() {
        let of = |number: nix::errno::Errno| explained(3, io::Error::from(number)).to_string();
        assert!(of(nix::errno::Errno::EACCES).contains("CAP_PERFMON"));
        assert!(of(nix::errno::Errno::ENOENT).contains("hypervisor"));
        assert!(of(nix::errno::Errno::EMFILE).contains("CPU 3"));
    }
}
