//! Pools as the scheduler reads them and keeps them.

use super::native;
use crate::scheduler::{Pool, PoolState};

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
