//! What came out of a simulation.

use crate::control::LevelTotals;
use crate::engine::{CoreTotals, LaneTotals};
use crate::scheduler::Counters;
use crate::task::Class;
use crate::workload::Measured;

/// One replication of one configuration.
#[derive(Debug, Clone)]
pub struct Replication {
    /// Measured time, ns.
    pub length_ns: u64,
    /// Σ capacity of the cores that are online, in fastest cores.
    pub capacity: f64,
    /// By workload that took part.
    pub workloads: Vec<Measured>,
    /// By core.
    pub cores: Vec<CoreTotals>,
    /// By CPU number, those that do not exist left out.
    pub lanes: Vec<(u32, LaneTotals)>,
    /// What the scheduler did.
    pub counters: Counters,
    /// Times that a lane began to run another task than the one before.
    pub switches: u64,
    /// Times that a task went on on a lane of another last-level cache.
    pub cache_moves: u64,
    /// The SMT levels that it had; none if nothing set them.
    pub levels: Option<LevelTotals>,
}

impl Replication {
    /// Work that all batch did, as a share of what whole cores could have done beside all other
    /// work: none without batch.
    pub fn batch_share(&self) -> Option<f64> {
        let sum = |batch: bool| -> f64 {
            let of_class = |m: &&Measured| (m.class == Class::Batch) == batch;
            let work = self
                .workloads
                .iter()
                .filter(of_class)
                .map(|m| m.totals.work_ns);
            work.sum()
        };
        let left_ns = self.capacity * self.length_ns as f64 - sum(false);
        let any = self.workloads.iter().any(|m| m.class == Class::Batch);
        (any && left_ns > 0.0).then(|| sum(true) / left_ns)
    }

    /// Share of lane time, of the lanes that are online, spent on tasks.
    pub fn utilization(&self) -> f64 {
        let busy_ns: u64 = self.lanes.iter().flat_map(|(_, lane)| lane.class_ns).sum();
        let idle_ns: u64 = self.lanes.iter().map(|(_, lane)| lane.idle_ns).sum();
        ratio(busy_ns as f64, (busy_ns + idle_ns) as f64)
    }

    /// Core time with exactly n busy lanes, and the work done in it, both ns, by n.
    pub fn densities(&self) -> Vec<(u64, f64)> {
        let widest = self.cores.iter().map(|core| core.density_ns.len()).max();
        let sum = |n: usize| {
            let core = |core: &CoreTotals| {
                let time_ns = core.density_ns.get(n).copied().unwrap_or(0);
                (time_ns, core.density_work_ns.get(n).copied().unwrap_or(0.0))
            };
            self.cores
                .iter()
                .map(core)
                .fold((0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1))
        };
        (0..widest.unwrap_or(0)).map(sum).collect()
    }

    /// Thread density: busy lanes of a busy core (DESIGN "Metrics").
    pub fn thread_density(&self) -> f64 {
        let densities = self.densities();
        let busy_ns: u64 = densities.iter().skip(1).map(|d| d.0).sum();
        let lanes_ns: u64 = densities
            .iter()
            .enumerate()
            .map(|(n, d)| n as u64 * d.0)
            .sum();
        ratio(lanes_ns as f64, busy_ns as f64)
    }

    /// Share of core time with a busy lane.
    pub fn core_utilization(&self) -> f64 {
        let densities = self.densities();
        let all_ns: u64 = densities.iter().map(|d| d.0).sum();
        let idle_ns = densities.first().map_or(0, |d| d.0);
        ratio((all_ns - idle_ns) as f64, all_ns as f64)
    }

    /// Lane time of batch beside running critical work, as a share of all lane time of batch.
    pub fn batch_beside_critical(&self) -> f64 {
        let beside_ns: u64 = self
            .cores
            .iter()
            .map(|core| core.batch_beside_critical_ns)
            .sum();
        let batch = |lane: &(u32, LaneTotals)| lane.1.class_ns[Class::Batch as usize];
        let batch_ns: u64 = self.lanes.iter().map(batch).sum();
        ratio(beside_ns as f64, batch_ns as f64)
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
