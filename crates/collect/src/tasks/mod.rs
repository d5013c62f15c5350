//! What retention and pairing know of each task, and what it got done meanwhile: vSMT-IO's workload monitor
//! (Jia et al., USENIX ATC 2020) for the running scheduler. Virtual CPUs are grouped by virtual machine.

mod report;
mod vcpus;

use crate::Error;
use crate::collector::{SCHEDULER_TASKS, Settings};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use serde::Serialize;
use sidelane_kernel::{attached, from_bytes};
use sidelane_policy::intf::{self, task_ctx};
use sidelane_smt::snapshot::{Class, Interval, RateSource, TaskTotals};
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use vcpus::Vcpu;

/// A retention rate of 1 (`RATE_ALL` in `io/pair.bpf.h`).
const RATE_ALL: f64 = 1024.0;

/// To which lanes of its core a task belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The I/O lane.
    Io,
    /// The others.
    Cpu,
}

/// What pairing knows of a task.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Retention {
    /// To which lanes it belongs; on a core whose tasks are all alike, all of them to [`Side::Cpu`].
    pub side: Side,
    /// Share of the time, waiting apart, in which its lane was or could have been held for it: 0 to 1.
    pub rate: f64,
    /// Sleeps a second in which it could have been.
    pub frequency_per_s: u32,
    /// Which part of its cycles it waits for memory while its siblings idle; none: not known (symbiosis).
    pub miss_share: Option<f64>,
}

/// A task that ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Task {
    /// Thread id.
    pub tid: u32,
    /// Process id.
    pub process: u32,
    /// Its name.
    pub name: String,
    /// Its number, if it is a virtual CPU of the process, which then is a virtual machine.
    pub vcpu: Option<u32>,
    /// Its class.
    pub class: Option<Class>,
    /// None of tasks that are not of the normal class, and where pairing is off.
    pub retention: Option<Retention>,
    /// Lanes that it used on the mean.
    pub lanes: f64,
    /// Work that it got done, as lanes that run alone: lane time by speed of the lane.
    pub progress: f64,
}

/// A virtual machine: its virtual CPUs that ran, together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VirtualMachine {
    /// Process id.
    pub process: u32,
    /// The process's name, as that of its first virtual CPU.
    pub name: String,
    /// Virtual CPUs.
    pub vcpus: usize,
    /// Of them, those that belong to the I/O lane of their core.
    pub io_bound: usize,
    /// Mean of their retention rates; none where pairing is off.
    pub retention_rate: Option<f64>,
    /// Lanes that they used on the mean.
    pub lanes: f64,
    /// Work that they got done, as lanes that run alone.
    pub progress: f64,
}

/// What was seen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Monitored {
    /// Length, s.
    pub seconds: f64,
    /// Where the speeds are from by which progress counts.
    pub rate_source: RateSource,
    /// Virtual machines, most progress first.
    pub virtual_machines: Vec<VirtualMachine>,
    /// Tasks, those with the highest retention rate first.
    pub tasks: Vec<Task>,
    /// What limits the figures; each a sentence.
    pub notes: Vec<String>,
}

/// Watches for so long, or until `stop`.
///
/// # Errors
/// No privilege, no running scheduler, or the metrics cannot be collected.
pub fn watch(settings: &Settings, length: Duration, stop: &AtomicBool) -> Result<Monitored, Error> {
    let contexts = attached::map(SCHEDULER_TASKS, size_of::<task_ctx>())?;
    let mut intervals = crate::watch::watch(settings, length, stop)?.into_iter();
    let mut seen = intervals
        .next()
        .ok_or_else(|| Error::Metrics("nothing was measured".into()))?;
    for next in intervals {
        if seen.add(&next).is_err() {
            seen = next; // lanes came
        }
    }
    let mut notes = Vec::new();
    let vcpus = vcpus::read(Path::new("/")).unwrap_or_else(|why| {
        notes.push(why);
        BTreeMap::new()
    });
    let retention = |task: &TaskTotals| {
        let normal = task.class == Some(Class::Normal) && !task.ended;
        normal.then(|| retention(&contexts, task.pid)).flatten()
    };
    Ok(monitored(&seen, &vcpus, retention, notes))
}

/// What pairing knows of a thread; none if it has ended or was not ranked yet.
fn retention(contexts: &MapHandle, tid: u32) -> Option<Retention> {
    let thread = open_thread(tid)?;
    let key = thread.as_raw_fd().to_ne_bytes();
    let bytes = contexts.lookup(&key, MapFlags::ANY).ok()??;
    let context: task_ctx = from_bytes(&bytes)?;
    (context.rated != 0).then(|| Retention {
        side: match context.side {
            intf::side_SIDE_IO => Side::Io,
            _ => Side::Cpu,
        },
        rate: f64::from(context.rate) / RATE_ALL,
        frequency_per_s: context.holds_per_s,
        miss_share: (context.profiled >= intf::limits_PROFILE_MIN)
            .then(|| miss_share(context.profile))
            .flatten(),
    })
}

/// Which part of its cycles a profile (`profile.bpf.h`) waits for memory.
fn miss_share(profile: u64) -> Option<f64> {
    let part = |n: u32| {
        (profile >> (n * intf::limits_PROFILE_BITS) & ((1 << intf::limits_PROFILE_BITS) - 1)) as f64
    };
    let all = part(0) + part(1) + part(2);
    (all > 0.0).then(|| part(2) / all)
}

/// A handle on a thread, by which maps of tasks are read.
fn open_thread(tid: u32) -> Option<OwnedFd> {
    // SAFETY: no pointers; the descriptor is new
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, tid, libc::PIDFD_THREAD) };
    // SAFETY: as above
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn monitored(
    seen: &Interval,
    vcpus: &BTreeMap<u32, Vcpu>,
    retention: impl Fn(&TaskTotals) -> Option<Retention>,
    mut notes: Vec<String>,
) -> Monitored {
    let elapsed_ns = seen.elapsed_ns().max(1) as f64;
    let task = |task: &TaskTotals| Task {
        tid: task.pid,
        process: task.tgid,
        name: task.comm.clone(),
        vcpu: (vcpus.get(&task.pid))
            .filter(|vcpu| vcpu.process == task.tgid)
            .map(|vcpu| vcpu.number),
        class: task.class,
        retention: retention(task),
        lanes: task.usage.raw_ns as f64 / elapsed_ns,
        progress: task.usage.mt1_ns as f64 / elapsed_ns,
    };
    let mut tasks: Vec<Task> = seen.tasks.iter().map(task).collect();
    let rate = |task: &Task| task.retention.map_or(-1.0, |known| known.rate);
    tasks.sort_by(|a, b| {
        rate(b)
            .total_cmp(&rate(a))
            .then(b.progress.total_cmp(&a.progress))
            .then(a.tid.cmp(&b.tid))
    });
    if tasks.iter().all(|task| task.retention.is_none()) {
        notes.push(
            "no retention rates: the scheduler runs without pair = true, or no normal task has run for a \
             period"
                .into(),
        );
    }
    Monitored {
        seconds: elapsed_ns / 1e9,
        rate_source: seen.rates.source,
        virtual_machines: virtual_machines(&tasks),
        tasks,
        notes,
    }
}

/// The virtual CPUs among `tasks`, by virtual machine.
fn virtual_machines(tasks: &[Task]) -> Vec<VirtualMachine> {
    let mut groups: BTreeMap<u32, Vec<&Task>> = BTreeMap::new();
    for task in tasks.iter().filter(|task| task.vcpu.is_some()) {
        groups.entry(task.process).or_default().push(task);
    }
    let machine = |(process, mut vcpus): (u32, Vec<&Task>)| {
        vcpus.sort_by_key(|task| task.vcpu);
        let known = || vcpus.iter().filter_map(|task| task.retention);
        let rates: Vec<f64> = known().map(|retention| retention.rate).collect();
        VirtualMachine {
            process,
            name: vcpus
                .first()
                .map_or(String::new(), |task| task.name.clone()),
            vcpus: vcpus.len(),
            io_bound: known().filter(|of| of.side == Side::Io).count(),
            retention_rate: (!rates.is_empty())
                .then(|| rates.iter().sum::<f64>() / rates.len() as f64),
            lanes: vcpus.iter().map(|task| task.lanes).sum(),
            progress: vcpus.iter().map(|task| task.progress).sum(),
        }
    };
    let mut machines: Vec<VirtualMachine> = groups.into_iter().map(machine).collect();
    machines.sort_by(|a, b| b.progress.total_cmp(&a.progress));
    machines
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use sidelane_smt::snapshot::Usage;

    fn task(pid: u32, tgid: u32, comm: &str, raw_ms: u64) -> TaskTotals {
        TaskTotals {
            pid,
            tgid,
            comm: comm.into(),
            class: Some(Class::Normal),
            usage: Usage {
                raw_ns: raw_ms * 1_000_000,
                mt1_ns: raw_ms * 500_000,
                ..Usage::default()
            },
            ..TaskTotals::default()
        }
    }

    /// Two seconds of a virtual machine with two virtual CPUs, and of a task beside it that has the number
    /// of one that ended.
    pub fn seen(paired: bool) -> Monitored {
        let interval = Interval {
            to_ns: 2_000_000_000,
            tasks: vec![
                task(9, 9, "gzip", 1600),
                task(11, 10, "vcpu 0", 400),
                task(12, 10, "vcpu 1", 1000),
                task(13, 13, "bash", 2),
            ],
            ..Interval::default()
        };
        let vcpu = |number| Vcpu {
            process: 10,
            number,
        };
        let vcpus = [(11, vcpu(0)), (12, vcpu(1)), (13, vcpu(2))].into();
        let retention = |task: &TaskTotals| {
            let (side, rate) = match task.pid {
                11 => (Side::Io, 0.75),
                12 => (Side::Cpu, 0.25),
                _ => (Side::Cpu, 0.0),
            };
            (paired && task.pid != 13).then_some(Retention {
                side,
                rate,
                frequency_per_s: 100,
                miss_share: None,
            })
        };
        monitored(&interval, &vcpus, retention, Vec::new())
    }

    #[test]
    fn virtual_cpus_are_grouped_and_rates_rank() {
        let seen = seen(true);
        assert_eq!(seen.seconds, 2.0);
        let [machine] = &seen.virtual_machines[..] else {
            panic!("{:?}", seen.virtual_machines);
        };
        assert_eq!(
            (machine.process, machine.vcpus, machine.io_bound),
            (10, 2, 1)
        );
        assert_eq!(machine.name, "vcpu 0");
        assert_eq!(machine.retention_rate, Some(0.5));
        assert_eq!((machine.lanes, machine.progress), (0.7, 0.35));
        let order: Vec<u32> = seen.tasks.iter().map(|task| task.tid).collect();
        assert_eq!(order, [11, 12, 9, 13]);
        assert_eq!(seen.tasks[3].vcpu, None, "of another process");
        assert!(seen.notes.is_empty());
    }

    #[test]
    fn without_pairing_it_is_said() {
        let seen = seen(false);
        assert_eq!(seen.virtual_machines[0].retention_rate, None);
        assert_eq!(seen.notes.len(), 1);
    }

    #[test]
    fn a_thread_is_opened_and_one_that_is_not_there_is_none() {
        assert!(open_thread(std::process::id()).is_some());
        assert!(open_thread(u32::MAX).is_none());
    }
}
