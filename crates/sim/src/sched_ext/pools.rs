//! Pools: groups of tasks that may use so much of the cores.

use super::native;
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

impl Pool {
    pub(super) fn native(&self) -> native::pool_limit {
        native::pool_limit {
            allowance_ns: self.allowance_ns,
            period_ns: self.period_ns,
            charge: self.charge.native(),
            parent: self.parent.map_or(0, |parent| parent as u32 + 1),
        }
    }
}

impl PoolState {
    pub(super) fn of(pool: &native::pool) -> PoolState {
        PoolState {
            left_ns: pool.left_ns as i64,
            raw_ns: pool.raw_ns,
            mt1_ns: pool.mt1_ns,
            periods: pool.periods,
            throttled: pool.throttled,
            throttled_ns: pool.throttled_ns,
            overdrawn_ns: pool.overdrawn_ns,
        }
    }
}
