//! What a scheduler keeps to and tells of itself beside its counters: pools, its objective, what was counted.

use sidelane_policy::Charge;

/// A pool, as `[[pool]]` of the scheduler's configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    /// What it is called; tasks name it.
    pub name: String,
    /// What its tasks may use of each period, ns; 0: no limit.
    pub allowance_ns: u64,
    /// ns, at least a millisecond.
    pub period_ns: u64,
    /// What it is charged.
    pub charge: Charge,
    /// Index of the pool that it is part of.
    pub parent: Option<usize>,
    /// Its weight among normal work, as `cpu.weight`, 1 to 10000; if any pool has one, none is 100.
    pub weight: Option<u32>,
}

/// What a pool used since the scheduler was attached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolState {
    /// Left of this period's allowance, ns; negative: overdrawn.
    pub left_ns: i64,
    /// Time on lanes, ns.
    pub raw_ns: u64,
    /// MT1-equivalent time, ns.
    pub mt1_ns: u64,
    /// Periods that have ended.
    pub periods: u64,
    /// Those in which a task was held.
    pub throttled: u64,
    /// Time in which any was, ns.
    pub throttled_ns: u64,
    /// Most that a period ended overdrawn by, ns.
    pub overdrawn_ns: u64,
}

/// What became of an objective.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ObjectiveState {
    /// The budget now, ns.
    pub budget_ns: u64,
    /// Tail of the jobs in the last window, ns; 0: there was none yet.
    pub tail_ns: u64,
    /// Windows so far.
    pub windows: u64,
    /// Those whose tail was beyond the objective.
    pub missed: u64,
}

/// What counters showed of critical work beside batch and alone.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counted {
    /// Instructions a cycle with idle siblings; NaN before there was any.
    pub ipc_alone: f64,
    /// The same beside batch.
    pub ipc_beside: f64,
    /// Of 1, what is lost beside batch; none: not known well enough yet.
    pub loss: Option<f64>,
}
