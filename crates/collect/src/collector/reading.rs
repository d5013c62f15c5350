//! What the collector tells, as totals of cores, tasks and cgroups.

use super::failed;
use crate::Error;
use crate::bpf::{MetricsSkel, intf};
use libbpf_rs::{Iter, Link, MapCore, MapFlags};
use sidelane_kernel::{Plain, from_bytes};
use sidelane_smt::histogram::LogHistogram;
use sidelane_smt::snapshot::{Class, CoreTotals, LaneTotals, TaskTotals, Usage};
use sidelane_topology::{CpuList, Topology};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, hash_map};
use std::io::Read;

/// Entries that are read from a map at once.
const BATCH: u32 = 512;

const JOB_BUCKETS: usize = intf::metrics_jobs_METRICS_JOB_BUCKETS as usize;

/// Cgroups by id.
pub(super) type Cgroups = BTreeMap<u64, Usage>;

/// Tasks by key.
pub(super) type Tasks = BTreeMap<(u32, u64), Usage>;

/// Totals of all cores, as of the view that was asked for last.
pub(super) fn cores(
    skel: &MetricsSkel<'_>,
    topology: &Topology,
    online: &CpuList,
    classes: bool,
) -> Result<Vec<CoreTotals>, Error> {
    let lane = |cpu: u32| {
        let busy_ns: u64 = entry(&skel.maps.metrics_lane_view, cpu)?;
        Ok(LaneTotals {
            cpu,
            online: online.contains(cpu),
            busy_ns,
            instructions: None,
        })
    };
    let core = |core: &sidelane_topology::Core| {
        let index = core.index as u32;
        let record: intf::density_record = entry(&skel.maps.metrics_view, index)?;
        let times = &record.by_density_ns[..=core.lanes.len().min(LANES_MAX)];
        let lanes: Result<_, Error> = core.lanes.iter().map(|l| lane(l.cpu)).collect();
        Ok(CoreTotals {
            core: index,
            elapsed_ns: times.iter().sum(),
            by_density_ns: times.iter().skip(1).copied().collect(),
            lanes: lanes?,
            forced_idle_ns: classes.then_some(record.forced_idle_ns),
        })
    };
    topology.cores().iter().map(core).collect()
}

const LANES_MAX: usize = intf::metrics_limits_METRICS_LANES_MAX as usize;

fn entry<T: Plain>(map: &impl MapCore, key: u32) -> Result<T, Error> {
    let bytes = map.lookup(&key.to_ne_bytes(), MapFlags::ANY);
    let bytes = bytes.map_err(failed("read"))?;
    let value = bytes.and_then(|bytes| from_bytes(&bytes));
    value.ok_or_else(|| Error::Metrics(format!("no entry {key} in a table of the collector")))
}

/// All entries of a hash map.
pub(crate) fn entries<K: Plain, T: Plain>(map: &impl MapCore) -> Result<Vec<(K, T)>, Error> {
    let batches = map.lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY);
    let parse = |(key, value): (Vec<u8>, Vec<u8>)| from_bytes(&key).zip(from_bytes(&value));
    Ok(batches.map_err(failed("read"))?.filter_map(parse).collect())
}

/// What of cgroups' totals was late before a reading, by id.
pub(super) type LateBefore = HashMap<u64, intf::metrics_times>;

fn raw_cgroups(skel: &MetricsSkel<'_>) -> Result<Vec<(u64, intf::metrics_cgroup)>, Error> {
    entries(&skel.maps.metrics_cgroups)
}

/// What of cgroups' totals is late.
pub(super) fn late(skel: &MetricsSkel<'_>) -> Result<LateBefore, Error> {
    let groups = raw_cgroups(skel)?.into_iter();
    Ok(groups.map(|(id, group)| (id, group.late)).collect())
}

/// Totals of cgroups, as charged so far for the time before the view.
pub(super) fn cgroups(
    skel: &MetricsSkel<'_>,
    classes: bool,
    late_before: &LateBefore,
) -> Result<Cgroups, Error> {
    let without_late = |(id, group): (u64, intf::metrics_cgroup)| {
        let late = match late_before.get(&id) {
            Some(before) => minus(&group.late, before),
            None => group.late,
        };
        let times = minus(&group.times, &late);
        (id, usage(&times, group.jobs.iter().copied(), classes))
    };
    Ok(raw_cgroups(skel)?.into_iter().map(without_late).collect())
}

/// Each of the times less that of `part`.
fn minus(times: &intf::metrics_times, part: &intf::metrics_times) -> intf::metrics_times {
    intf::metrics_times {
        raw_ns: times.raw_ns.saturating_sub(part.raw_ns),
        mt1_ns: times.mt1_ns.saturating_sub(part.mt1_ns),
        prorated_ns: times.prorated_ns.saturating_sub(part.prorated_ns),
        waiting_ns: times.waiting_ns.saturating_sub(part.waiting_ns),
        runs: times.runs.saturating_sub(part.runs),
        borrowed_ns: times.borrowed_ns.saturating_sub(part.borrowed_ns),
        forced_idle_ns: (times.forced_idle_ns).saturating_sub(part.forced_idle_ns),
    }
}

/// What was borrowed and forced to idle nobody knows without `classes`.
fn usage(times: &intf::metrics_times, jobs: impl Iterator<Item = u64>, classes: bool) -> Usage {
    Usage {
        raw_ns: times.raw_ns,
        mt1_ns: times.mt1_ns,
        prorated_ns: Some(times.prorated_ns),
        waiting_ns: times.waiting_ns,
        runs: times.runs,
        jobs: latencies(jobs),
        borrowed_ns: classes.then_some(times.borrowed_ns),
        forced_idle_ns: classes.then_some(times.forced_idle_ns),
    }
}

/// Latencies, of what the kernel counted in each of its buckets.
pub(crate) fn latencies(buckets: impl Iterator<Item = u64>) -> LogHistogram {
    let mut histogram = LogHistogram::default();
    for (bucket, count) in (0..JOB_BUCKETS).zip(buckets) {
        histogram.record_many(job_ns(bucket), count);
    }
    histogram
}

/// The longest latency of a bucket; of the last one, the shortest.
fn job_ns(bucket: usize) -> u64 {
    let first = 1u64 << intf::metrics_jobs_METRICS_JOB_FIRST;
    match bucket.checked_sub(1) {
        None => first - 1,
        Some(_) if bucket == JOB_BUCKETS - 1 => 1 << intf::metrics_jobs_METRICS_JOB_LAST,
        Some(index) => ((first / 4 * (index as u64 % 4 + 5)) << (index / 4)) - 1,
    }
}

/// A task that runs while it is read.
struct Running {
    pid: u32,
    cgroup: u64,
    /// What it was not charged for yet.
    pending: Usage,
    start_ns: u64,
    cpu: u32,
    /// It has been charged for that.
    left: bool,
}

/// Tasks as told.
#[derive(Default)]
pub(super) struct TaskTable {
    tasks: BTreeMap<(u32, u64), TaskTotals>,
    running: Vec<Running>,
    /// Tasks that changed while they were read.
    pub(super) torn: u64,
    /// Those in the table of ended ones.
    pub(super) ended: u64,
}

impl TaskTable {
    /// Reads living tasks, then those that have ended, in the reading with this number.
    pub(super) fn read(
        skel: &MetricsSkel<'_>,
        reader: &Link,
        classes: bool,
        number: u32,
    ) -> Result<TaskTable, Error> {
        let mut bytes = Vec::new();
        let mut living = Iter::new(reader).map_err(failed("read"))?;
        (living.read_to_end(&mut bytes)).map_err(failed("read"))?;
        let mut table = TaskTable::default();
        let size = size_of::<intf::metrics_ended>();
        for one in bytes.chunks_exact(size) {
            if let Some(one) = from_bytes::<intf::metrics_ended>(one) {
                table.add_living(&one, classes, number);
            }
        }
        for (_, one) in
            entries::<intf::metrics_ended_key, intf::metrics_ended>(&skel.maps.metrics_ended)?
        {
            let task = totals(&one, true, classes, number);
            table.ended += 1;
            table.tasks.insert(task.key(), task);
        }
        Ok(table)
    }

    fn add_living(&mut self, one: &intf::metrics_ended, classes: bool, number: u32) {
        let reading = &one.reading;
        self.torn += u64::from(reading.torn);
        let task = totals(one, false, classes, number);
        if reading.torn == 0 && reading.pending.raw_ns + reading.pending.waiting_ns > 0 {
            self.running.push(Running {
                pid: reading.pid,
                cgroup: reading.cgroup,
                pending: usage(&reading.pending, std::iter::empty(), classes),
                start_ns: reading.run_ns,
                cpu: reading.cpu,
                left: false,
            });
        }
        if !task.usage.is_empty() {
            self.tasks.insert(task.key(), task);
        }
    }

    /// Looks which of the tasks that ran or waited as they were read do not any more: they were charged
    /// since. Returns how many that were not before.
    pub(super) fn look_who_left(&mut self, skel: &MetricsSkel<'_>) -> Result<usize, Error> {
        let mut lanes: HashMap<u32, intf::metrics_lane> = HashMap::new();
        let mut left = 0;
        for running in self.running.iter_mut().filter(|running| !running.left) {
            let lane = match lanes.entry(running.cpu) {
                hash_map::Entry::Occupied(lane) => *lane.get(),
                hash_map::Entry::Vacant(none) => {
                    *none.insert(entry(&skel.maps.metrics_lanes, running.cpu)?)
                }
            };
            let runs = lane.pid == running.pid;
            running.left = match running.start_ns {
                0 => runs,
                start_ns => !runs || lane.start_ns != start_ns,
            };
            left += usize::from(running.left);
        }
        Ok(left)
    }

    /// Adds to cgroups what their running tasks were not charged for yet.
    pub(super) fn add_pending(&self, groups: &mut Cgroups) {
        for running in self.running.iter().filter(|running| !running.left) {
            match groups.entry(running.cgroup) {
                Entry::Vacant(none) => drop(none.insert(running.pending.clone())),
                Entry::Occupied(group) => group.into_mut().add(&running.pending),
            }
        }
    }

    /// The tasks, ascending. One that was read while it changed is told as it was `told` before, so that
    /// nothing counts twice.
    pub(super) fn into_totals(self, told: &mut Tasks) -> Vec<TaskTotals> {
        let mut tasks: Vec<TaskTotals> = self.tasks.into_values().collect();
        for task in &mut tasks {
            if let Some(before) = told.get(&task.key()) {
                not_back(&mut task.usage, before);
            }
        }
        *told = tasks
            .iter()
            .map(|task| (task.key(), task.usage.clone()))
            .collect();
        tasks
    }
}

/// Raises times to what they were before.
pub(super) fn not_back(usage: &mut Usage, before: &Usage) {
    usage.raw_ns = usage.raw_ns.max(before.raw_ns);
    usage.mt1_ns = usage.mt1_ns.max(before.mt1_ns);
    usage.prorated_ns = usage.prorated_ns.max(before.prorated_ns);
    usage.waiting_ns = usage.waiting_ns.max(before.waiting_ns);
    usage.borrowed_ns = usage.borrowed_ns.max(before.borrowed_ns);
    usage.forced_idle_ns = usage.forced_idle_ns.max(before.forced_idle_ns);
}

/// What a task used until the view of the reading with this number.
fn totals(one: &intf::metrics_ended, ended: bool, classes: bool, number: u32) -> TaskTotals {
    let reading = &one.reading;
    let comm: Vec<u8> = (reading.comm.iter().map(|&c| c as u8))
        .take_while(|&c| c != 0)
        .collect();
    let times = match reading.late_reading == number {
        true => minus(&reading.times, &reading.late),
        false => reading.times,
    };
    let mut usage = usage(
        &times,
        one.jobs.iter().map(|&count| u64::from(count)),
        classes,
    );
    if reading.torn == 0 {
        usage.add(&self::usage(&reading.pending, std::iter::empty(), classes));
    }
    TaskTotals {
        pid: reading.pid,
        tgid: reading.tgid,
        start_ns: reading.start_ns,
        comm: String::from_utf8_lossy(&comm).into_owned(),
        cgroup: reading.cgroup,
        class: match reading.class {
            1 => Some(Class::Critical),
            2 => Some(Class::Normal),
            3 => Some(Class::Batch),
            _ => None,
        },
        ended,
        usage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_of_latencies_ascend_and_meet() {
        assert_eq!(job_ns(0), 1023);
        assert_eq!(job_ns(1), 1279);
        assert_eq!(job_ns(4), 2047);
        assert_eq!(job_ns(5), 2559);
        assert_eq!(job_ns(JOB_BUCKETS - 2), (1 << 36) - 1);
        assert_eq!(job_ns(JOB_BUCKETS - 1), 1 << 36);
        assert!((1..JOB_BUCKETS).all(|bucket| job_ns(bucket) > job_ns(bucket - 1)));
    }
}
