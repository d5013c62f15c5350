//! What a collector would have counted: the readings of `sidelane record`, taken from a simulation, and files of them.
//!
//! Tasks have their number + 1 as thread and process id, for id 0 is the idle thread's. Each pool is a
//! cgroup below the one that it is part of; what is in no pool is in the root. The wall clock begins
//! at 0.

use crate::machine::{Interference, Machine};
use crate::run::Running;
use crate::scenario::{Configuration, Scenario};
use crate::simulation::Simulation;
use crate::task::{Class, State, TaskId, TaskSpec};
use crate::{Charge, Error, Pool, Result};
use sidelane_smt::recording::{Error as WritingError, Frame, Header, Writer};
use sidelane_smt::snapshot::{
    self, CgroupTotals, CoreTotals, Interval, LaneTotals, Limit, RateSource, Rates, Snapshot,
    TaskTotals, Usage, delta,
};
use sidelane_smt::thread_perf::nearest_valid;
use std::io::Write;

/// The id of the root cgroup; 0 stands for those that are not told apart.
const ROOT: u64 = 1;

/// Bytes of a thread's name, as the kernel keeps it.
const COMM_BYTES: usize = 15;

/// Longest interval of a recording.
const INTERVAL_MAX_NS: u64 = 1_000_000_000;

/// Runs the first replication of a configuration as a collector sees it that is read every `every_ns`
/// after the warm-up. The run's length is divided into whole intervals; what is left over is cut off.
///
/// # Errors
/// As [`run`](crate::run()); also if `every_ns` is 0.
pub fn watch(
    scenario: &Scenario,
    configuration: &Configuration,
    every_ns: u64,
) -> Result<Vec<Interval>> {
    if every_ns == 0 {
        return Err(Error::BadWorkload("intervals of 0 ns never end".into()));
    }
    let mut running = Running::begin(scenario, configuration, 0, false)?;
    running.sim.keep_jobs();
    running.advance(scenario.run.warmup_ns)?;
    let mut before = running.sim.snapshot();
    let mut intervals = Vec::new();
    for _ in 0..scenario.run.length_ns / every_ns {
        running.advance(before.taken_ns.saturating_add(every_ns))?;
        let after = running.sim.snapshot();
        let interval = delta(&before, &after).map_err(|e| Error::BadMachine(e.to_string()))?;
        intervals.push(interval);
        before = after;
    }
    Ok(intervals)
}

impl Simulation {
    /// Everything that a collector has counted up to now. How long jobs take is in it from
    /// [`keep_jobs`](Self::keep_jobs) on.
    pub fn snapshot(&mut self) -> Snapshot {
        self.account();
        let now_ns = self.now_ns();
        let tasks: Vec<TaskTotals> = (self.tasks())
            .map(|(id, spec)| self.task_so_far(id, spec))
            .collect();
        Snapshot {
            taken_ns: now_ns,
            wall_ms: (now_ns / 1_000_000).cast_signed(),
            rates: self.rates(),
            cores: self.cores_so_far(),
            cgroups: self.cgroups_so_far(&tasks),
            limits: self.limits_so_far(),
            tasks,
            ..Snapshot::default()
        }
    }

    fn cores_so_far(&self) -> Vec<CoreTotals> {
        let places = (0..).zip(&self.machine().cores);
        let cores = places.zip(self.core_totals());
        let lane = |&cpu: &u32| LaneTotals {
            cpu,
            online: self.is_online(cpu),
            busy_ns: self.lane_totals(cpu).busy_ns(),
            instructions: None,
        };
        cores
            .map(|((core, place), totals)| CoreTotals {
                core,
                elapsed_ns: totals.density_ns.iter().sum(),
                by_density_ns: totals.density_ns.iter().skip(1).copied().collect(),
                lanes: place.lanes.iter().map(lane).collect(),
                forced_idle_ns: None, // not looked at
            })
            .collect()
    }

    fn task_so_far(&self, id: TaskId, spec: &TaskSpec) -> TaskTotals {
        let (totals, collected) = (self.task_totals(id), self.collected(id));
        TaskTotals {
            pid: id.0.saturating_add(1),
            tgid: id.0.saturating_add(1),
            start_ns: 0,
            comm: comm(&spec.name),
            cgroup: self.cgroup_of(spec),
            class: Some(match spec.class {
                Class::Critical => snapshot::Class::Critical,
                Class::Normal => snapshot::Class::Normal,
                Class::Batch => snapshot::Class::Batch,
            }),
            ended: self.state(id) == State::Exited,
            usage: Usage {
                raw_ns: totals.lane_ns,
                mt1_ns: libm::round(collected.mt1_ns) as u64,
                prorated_ns: Some(libm::round(totals.prorated_ns) as u64),
                waiting_ns: totals.wait_ns + self.waiting_ns(id),
                runs: collected.runs,
                jobs: collected.jobs.clone(),
                borrowed_ns: None, // not looked at
                forced_idle_ns: None,
            },
        }
    }

    /// The cgroup of a task: that of its pool, or the root.
    fn cgroup_of(&self, spec: &TaskSpec) -> u64 {
        let pool = spec.pool.filter(|pool| *pool < self.pool_settings().len());
        pool.map_or(ROOT, cgroup_id)
    }

    /// The root, and a cgroup for each pool, with what their tasks used.
    fn cgroups_so_far(&self, tasks: &[TaskTotals]) -> Vec<CgroupTotals> {
        let pools = self.pool_settings();
        let below = (0..pools.len()).map(|pool| (cgroup_id(pool), path(pools, pool)));
        let all = std::iter::once((ROOT, "/".to_owned())).chain(below);
        all.map(|(id, path)| {
            let mut usage: Option<Usage> = None;
            for task in tasks.iter().filter(|task| task.cgroup == id) {
                match &mut usage {
                    Some(sum) => sum.add(&task.usage),
                    None => usage = Some(task.usage.clone()),
                }
            }
            CgroupTotals {
                id,
                path: Some(path),
                usage: usage.unwrap_or_default(),
            }
        })
        .collect()
    }

    fn limits_so_far(&self) -> Vec<Limit> {
        let (pools, states) = (self.pool_settings(), self.pools());
        let limited = pools.iter().zip(states).enumerate();
        let limited = limited.filter(|(_, (pool, _))| pool.allowance_ns > 0);
        let mut limits: Vec<Limit> = limited
            .map(|(index, (pool, state))| Limit {
                cgroup: path(pools, index),
                charge: match pool.charge {
                    Charge::Raw => snapshot::Charge::Raw,
                    Charge::Mt1 => snapshot::Charge::Mt1,
                },
                capacity: pool.allowance_ns as f64 / pool.period_ns.max(1) as f64,
                throttled_ns: Some(state.throttled_ns),
            })
            .collect();
        limits.sort_by(|a, b| a.cgroup.cmp(&b.cgroup));
        limits
    }

    /// The machine's threadPerf, as the scenario gives it; with an interference table the speeds that came
    /// out so far, assumed while some density was not seen.
    fn rates(&self) -> Rates {
        let (source, thread_perf) = match &self.machine().interference {
            Interference::ThreadPerf(speeds) => (RateSource::Given, speeds.clone()),
            Interference::Kinds(_) => self.speeds_so_far(self.machine()),
        };
        Rates {
            source,
            thread_perf,
        }
    }

    fn speeds_so_far(&self, machine: &Machine) -> (RateSource, Vec<f64>) {
        let widest = machine.cores.iter().map(|core| core.lanes.len()).max();
        let (mut speeds, mut weights) = (Vec::new(), Vec::new());
        let mut source = RateSource::Given;
        for busy in 1..=widest.unwrap_or(1) {
            let (mut done_ns, mut alone_ns) = (0.0, 0.0);
            for (core, place) in self.core_totals().iter().zip(&machine.cores) {
                let time_ns = core.density_ns.get(busy).copied().unwrap_or(0);
                done_ns += core.density_work_ns.get(busy).copied().unwrap_or(0.0);
                alone_ns += time_ns as f64 * busy as f64 * f64::from(place.capacity) / 1024.0;
            }
            let before = speeds.last().copied().unwrap_or(1.0);
            speeds.push(if alone_ns > 0.0 {
                done_ns / alone_ns
            } else {
                source = RateSource::Assumed;
                before
            });
            weights.push(alone_ns.max(1.0));
        }
        (source, nearest_valid(&speeds, &weights))
    }
}

/// The id of a pool's cgroup.
fn cgroup_id(pool: usize) -> u64 {
    ROOT + 1 + pool as u64
}

/// The path of a pool's cgroup.
fn path(pools: &[Pool], pool: usize) -> String {
    let parent = |index: &usize| pools.get(*index).and_then(|pool| pool.parent);
    let around: Vec<usize> = std::iter::successors(Some(pool), parent)
        .take(pools.len())
        .collect();
    let names = around.iter().rev().filter_map(|index| pools.get(*index));
    names.map(|pool| format!("/{}", pool.name)).collect()
}

/// A name, cut as the kernel cuts it.
fn comm(name: &str) -> String {
    let end = (0..=name.len().min(COMM_BYTES)).rev();
    let end = end.into_iter().find(|&at| name.is_char_boundary(at));
    name[..end.unwrap_or(0)].to_owned()
}

/// Why there is no recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The simulation could not go on.
    #[error(transparent)]
    Simulation(#[from] Error),
    /// What came out cannot be written.
    #[error(transparent)]
    Writing(#[from] WritingError),
}

/// Records the measured time of the first replication of a configuration, in equal intervals of at most
/// a second. `program` is the version of the program that records.
///
/// # Errors
/// As [`run`](crate::run()); also if it cannot be written.
pub fn record<W: Write>(
    scenario: &Scenario,
    configuration: &Configuration,
    program: &str,
    out: W,
) -> std::result::Result<W, RecordError> {
    let length_ns = scenario.run.length_ns;
    let every_ns = length_ns / length_ns.div_ceil(INTERVAL_MAX_NS).max(1);
    let intervals = watch(scenario, configuration, every_ns)?;
    let online = scenario.machine_of(configuration).online;
    let header = Header {
        program: program.to_owned(),
        kernel: "none, simulated".to_owned(),
        scheduler: Some(configuration.name.clone()),
        lanes: online.iter().filter(|online| **online).count() as u32,
        wall_ms: (scenario.run.warmup_ns / 1_000_000).cast_signed(),
        interval_ms: every_ns / 1_000_000,
        command: None,
    };
    let mut writer = Writer::new(out, header)?;
    for interval in intervals {
        writer.write(&Frame::Interval(interval))?;
    }
    Ok(writer.finish(None)?)
}
