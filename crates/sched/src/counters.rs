//! Counters of instructions and cycles on each lane: what `budget/counter.bpf.h` reads.

use crate::Error;
use crate::bpf::BpfSkel;
use crate::error::load_error;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Func;
use libbpf_rs::{MapCore, MapFlags, MapMut};
use perf_event::events::{Event, Hardware, Software};
use perf_event::{Builder, Counter};
use sidelane_policy::UseCounters;
use std::fmt;
use std::io;
use std::os::fd::AsRawFd;

/// Why nothing is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoCounters {
    /// No budget is dynamic, nothing is symbiotic, and no time-out is searched.
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
    /// CPU number and cache misses of each, or why there are none.
    misses: Result<Vec<(u32, Counter)>, NoCounters>,
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
        let misses = cpus.into_iter().map(|cpu| match with_misses {
            true => Ok((cpu, one(cpu, Hardware::CACHE_MISSES)?)),
            false => Err(NoCounters::NotNeeded),
        });
        let misses = misses.collect();
        Ok(Counters { lanes, misses })
    }

    /// Whether cache misses are counted, too.
    pub(crate) fn misses(&self) -> Result<(), NoCounters> {
        self.misses.as_ref().map(|_| ()).map_err(Clone::clone)
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
        for (cpu, misses) in self.misses.iter().flatten() {
            hand(&skel.maps.miss_events, *cpu, misses)?;
        }
        Ok(())
    }
}

/// Counts an event on a CPU, whoever runs there. Pinned: it does not take turns with others,
/// so that both counters always count at the same time, or cannot be read.
fn count<E: Event>(cpu: u32, event: E) -> io::Result<Counter> {
    Builder::new(event)
        .any_pid()
        .one_cpu(cpu as usize)
        .include_kernel()
        .pinned(true)
        .enabled(true)
        .build()
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
