//! Counters of instructions and cycles on each lane: what `budget/counter.bpf.h` reads.

use crate::Error;
use crate::bpf::BpfSkel;
use crate::error::load_error;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Func;
use libbpf_rs::{MapCore, MapFlags, MapMut};
use perf_event::events::{Event, Hardware, Raw, Software};
use perf_event::{Builder, Counter};
use sidelane_policy::UseCounters;
use sidelane_topology::cpuinfo_field;
use std::fmt;
use std::io;
use std::os::fd::AsRawFd;

/// Why nothing is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoCounters {
    /// No budget is dynamic, nothing is symbiotic, and retention has no use for them.
    NotNeeded,
    /// The configuration says so.
    Off,
    /// Critical work is the kernel's scheduler's: nobody sees it begin and end.
    OnlyBatch,
    /// They would be read at switches only.
    NoTicks,
    /// The machine has none for us.
    Missing(String),
}

impl fmt::Display for NoCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoCounters::NotNeeded => write!(f, "nothing needed them at the start"),
            NoCounters::Off => write!(f, "counters = \"off\""),
            NoCounters::OnlyBatch => write!(f, "counters need scope = \"all\""),
            NoCounters::NoTicks => write!(f, "the kernel does not show the ticks of lanes"),
            NoCounters::Missing(reason) => write!(f, "{reason}"),
        }
    }
}

/// Counters on each lane, which count as long as this lives.
pub(crate) struct Counters {
    /// CPU number, instructions, cycles.
    lanes: Vec<(u32, Counter, Counter)>,
    /// What tells for how long memory is waited for, or why there is nothing.
    misses: Result<Vec<Misses>, NoCounters>,
}

/// Of a CPU.
struct Misses {
    cpu: u32,
    /// Cycles in which nothing is executed; or cache misses.
    misses: Counter,
    /// With the former, cycles in which the core's units are full.
    waits: Option<Counter>,
}

impl Counters {
    /// Opens them for all these lanes.
    pub(crate) fn open(
        which: UseCounters,
        with_misses: bool,
        cpus: impl IntoIterator<Item = u32> + Clone,
    ) -> Result<Counters, NoCounters> {
        let one = |cpu, event: Hardware| {
            let counter = match which {
                UseCounters::Off => return Err(NoCounters::Off),
                UseCounters::Auto => count(cpu, event),
                UseCounters::Clock => count(cpu, Software::CPU_CLOCK),
            };
            counter.map_err(|error| missing(cpu, &error))
        };
        let lanes = cpus.clone().into_iter().map(|cpu| {
            let instructions = one(cpu, Hardware::INSTRUCTIONS)?;
            Ok((cpu, instructions, one(cpu, Hardware::CPU_CYCLES)?))
        });
        let lanes = lanes.collect::<Result<_, _>>()?;
        let stalls = match with_misses && which == UseCounters::Auto && tells_stalls(&cpuinfo()) {
            true => cpus.clone().into_iter().map(stalled).collect(),
            false => Err(NoCounters::NotNeeded),
        };
        let misses = cpus.into_iter().map(|cpu| match with_misses {
            true => Ok(Misses {
                cpu,
                misses: one(cpu, Hardware::CACHE_MISSES)?,
                waits: None,
            }),
            false => Err(NoCounters::NotNeeded),
        });
        // where they do not count, misses do
        let misses = stalls.or_else(|_| misses.collect());
        Ok(Counters { lanes, misses })
    }

    /// Whether cache misses are counted, too.
    pub(crate) fn misses(&self) -> Result<(), NoCounters> {
        self.misses.as_ref().map(|_| ()).map_err(Clone::clone)
    }

    /// Whether cycles are counted in place of misses.
    pub(crate) fn stalls(&self) -> bool {
        let of = |misses: &Vec<Misses>| misses.iter().all(|lane| lane.waits.is_some());
        self.misses.as_ref().is_ok_and(of)
    }

    /// Hands them to the loaded scheduler.
    pub(crate) fn lend(&self, skel: &BpfSkel) -> Result<(), Error> {
        let hand = |map: &MapMut<'_>, cpu: u32, counter: &Counter| {
            let fd = counter.as_raw_fd().to_ne_bytes();
            map.update(&cpu.to_ne_bytes(), &fd, MapFlags::ANY)
                .map_err(load_error("hand counters to"))
        };
        for (cpu, instructions, cycles) in &self.lanes {
            hand(&skel.maps.instruction_events, *cpu, instructions)?;
            hand(&skel.maps.cycle_events, *cpu, cycles)?;
        }
        for lane in self.misses.iter().flatten() {
            hand(&skel.maps.miss_events, lane.cpu, &lane.misses)?;
            if let Some(waits) = &lane.waits {
                hand(&skel.maps.wait_events, lane.cpu, waits)?;
            }
        }
        Ok(())
    }
}

/// CYCLE_ACTIVITY.STALLS_TOTAL: event 0xa3, mask 4, four cycles at least.
const STALLS_TOTAL: Raw = Raw::new(0x0400_04a3);
/// RESOURCE_STALLS.ANY: event 0xa2, mask 1.
const RESOURCE_STALLS: Raw = Raw::new(0x01a2);

/// Intel's models of family 6 that have both events, Sandy Bridge to Comet Lake (Intel's event tables; Ice Lake and later have no
/// RESOURCE_STALLS.ANY).
const TELL_STALLS: [u32; 19] = [
    42, 45, 58, 62, 60, 63, 69, 70, 61, 71, 79, 86, 78, 85, 94, 142, 158, 165, 166,
];

/// Cycles of a CPU that wait.
fn stalled(cpu: u32) -> Result<Misses, NoCounters> {
    let opened =
        count(cpu, STALLS_TOTAL).and_then(|misses| Ok((misses, count(cpu, RESOURCE_STALLS)?)));
    let (misses, waits) = opened.map_err(|error| missing(cpu, &error))?;
    Ok(Misses {
        cpu,
        misses,
        waits: Some(waits),
    })
}

/// Whether the first processor of /proc/cpuinfo tells cycles that wait.
fn tells_stalls(cpuinfo: &str) -> bool {
    let value = |name| cpuinfo_field(cpuinfo, name);
    let model = value("model").and_then(|model| model.parse().ok());
    value("vendor_id") == Some("GenuineIntel")
        && value("cpu family") == Some("6")
        && model.is_some_and(|model| TELL_STALLS.contains(&model))
}

/// Nothing where it cannot be read: then misses are counted.
fn cpuinfo() -> String {
    std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default()
}

/// Counts an event on a CPU, whatever runs there. Pinned: it does not take turns with others,
/// so that both counters always count at the same time, or cannot be read.
fn count<E: Event>(cpu: u32, event: E) -> io::Result<Counter> {
    let mut counter = Builder::new(event)
        .any_pid()
        .one_cpu(cpu as usize)
        .include_kernel()
        .pinned(true)
        .enabled(true)
        .build()?;
    // one that found no room opens all the same, and cannot be read
    counter.read()?;
    Ok(counter)
}

fn missing(cpu: u32, error: &io::Error) -> NoCounters {
    NoCounters::Missing(match error.raw_os_error() {
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::ENOSYS) => format!(
            "CPU {cpu} has no counters of instructions, cycles and cache misses, or its hypervisor shows none"
        ),
        _ => format!("those of CPU {cpu} cannot be opened: {error}"),
    })
}

/// Has the kernel the function at which a tick of a lane can be seen?
pub(crate) fn ticks_can_be_seen() -> bool {
    let Ok(btf) = Btf::from_vmlinux() else {
        return false;
    };
    btf.type_by_name::<Func<'_>>("sched_tick").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_that_tell_stalls_are_known() {
        let of = |vendor: &str, model: u32| {
            let text = format!(
                "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: 6\nmodel\t\t: {model}\nmodel name\t: x 85\n"
            );
            tells_stalls(&text)
        };
        assert!(of("GenuineIntel", 63) && of("GenuineIntel", 85));
        assert!(!of("GenuineIntel", 106) && !of("AuthenticAMD", 63) && !tells_stalls(""));
    }

    #[test]
    fn counters_are_opened_or_it_is_said_why_not() {
        match Counters::open(UseCounters::Auto, true, [0]) {
            Ok(counters) => assert_eq!(counters.lanes.len(), 1),
            Err(NoCounters::Missing(reason)) => assert!(reason.contains("CPU 0"), "{reason}"),
            Err(other) => panic!("{other}"),
        }
        assert_eq!(
            Counters::open(UseCounters::Off, false, [0]).err(),
            Some(NoCounters::Off)
        );
    }

    #[test]
    fn reasons_are_told_apart() {
        let of = |number| missing(3, &io::Error::from_raw_os_error(number)).to_string();
        assert!(of(libc::ENOENT).contains("hypervisor"));
        assert!(of(libc::EACCES).contains("CPU 3 cannot be opened"));
    }
}
