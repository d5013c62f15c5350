//! What pools of the running scheduler may use, and what they used (`share/pool.bpf.h`).

use crate::attached::{self, map};
use crate::{Error, Plain, bytes_of};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use serde::Serialize;
use sidelane_policy::{Charge, intf};
use std::time::Duration;

/// Maps of the running scheduler; the kernel keeps 15 bytes of a name.
const LIMITS: &[u8] = b"sidelane_limits";
const POOLS: &[u8] = b"sidelane_pools";
const PATHS: &[u8] = b"sidelane_paths";

/// A pool, with totals since attach.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PoolState {
    /// Its cgroup, by path below the cgroup root.
    pub cgroup: String,
    /// What it is charged.
    pub charge: Charge,
    /// Cores, or lanes with `raw`, that it may use; none: no limit now.
    pub capacity_cores: Option<f64>,
    /// Its period, ms.
    pub period_ms: f64,
    /// Time that its tasks ran on lanes.
    pub raw_ns: u64,
    /// MT1-equivalent time of that.
    pub mt1_ns: u64,
    /// Periods that have ended.
    pub periods: u64,
    /// Those in which a task was held.
    pub throttled_periods: u64,
    /// Time in which any was held.
    pub throttled_ns: u64,
    /// Most that a period ended overdrawn by, ms.
    pub overdrawn_ms: f64,
}

/// What a pool did in an interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PoolRates {
    /// Its cgroup, by path below the cgroup root.
    pub cgroup: String,
    /// What it is charged.
    pub charge: Charge,
    /// Cores, or lanes with `raw`, that it may use; none: no limit now.
    pub capacity_cores: Option<f64>,
    /// Cores that it used: MT1-equivalent time.
    pub mt1_cores: f64,
    /// Lanes that it used.
    pub lanes: f64,
    /// Share of the interval in which tasks were held, 0 to 1.
    pub throttled: f64,
    /// What it did since the scheduler was attached.
    pub totals: PoolTotals,
}

/// What a pool did since the scheduler was attached.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PoolTotals {
    /// MT1-equivalent time, s.
    pub mt1_core_s: f64,
    /// Time that its tasks ran on lanes, s.
    pub lane_s: f64,
    /// Periods that have ended.
    pub periods: u64,
    /// Those in which a task was held.
    pub throttled_periods: u64,
    /// Time in which any was held, s.
    pub throttled_s: f64,
}

/// Handles on the pools of the running scheduler.
pub struct Pools {
    limits: MapHandle,
    pools: MapHandle,
    paths: MapHandle,
}

impl Pools {
    /// Finds the running scheduler.
    ///
    /// # Errors
    /// [`Error::NotPrivileged`], [`Error::NotRunning`], or [`Error::Running`].
    pub fn open() -> Result<Pools, Error> {
        Ok(Pools {
            limits: map(LIMITS, size_of::<intf::pool_limit>())?,
            pools: map(POOLS, size_of::<intf::pool>())?,
            paths: map(PATHS, size_of::<intf::pool_path>())?,
        })
    }

    /// All of them, in the order of the configuration.
    ///
    /// # Errors
    /// [`Error::Running`].
    pub fn read(&self) -> Result<Vec<PoolState>, Error> {
        let state = |id| -> Result<Option<PoolState>, Error> {
            let limit = entry::<intf::pool_limit>(&self.limits, id)?;
            if is_free(&limit) {
                return Ok(None);
            }
            let used = entry::<intf::pool>(&self.pools, id)?;
            Ok(Some(PoolState::of(self.path(id)?, &limit, &used)))
        };
        let ids = 0..self.limits.max_entries();
        ids.filter_map(|id| state(id).transpose()).collect()
    }

    /// The path of a pool's cgroup.
    fn path(&self, id: u32) -> Result<String, Error> {
        let path = entry::<intf::pool_path>(&self.paths, id)?;
        let text = bytes_of(&path).split(|&byte| byte == 0).next();
        Ok(String::from_utf8_lossy(text.unwrap_or_default()).into_owned())
    }
}

/// Room for the limit of a cgroup that may get one?
fn is_free(limit: &intf::pool_limit) -> bool {
    limit.period_ns == 0
}

impl Pools {
    /// Lets the pool of a cgroup use so many cores (lanes with `raw`); none: without a limit. From its next
    /// period on. False: there is no such pool.
    ///
    /// # Errors
    /// [`Error::Running`].
    pub fn set(&self, cgroup: &str, cores: Option<f64>) -> Result<bool, Error> {
        let path = |id: u32| self.path(id).map(|path| (id, path));
        let ids = 0..self.limits.max_entries();
        let paths = ids.map(path).collect::<Result<Vec<_>, Error>>()?;
        let found = paths.into_iter().find(|(_, path)| path == cgroup);
        let Some((id, _)) = found else {
            return Ok(false);
        };
        let mut limit = entry::<intf::pool_limit>(&self.limits, id)?;
        let allowance = |cores: f64| ((cores * limit.period_ns as f64) as u64).max(1);
        limit.allowance_ns = cores.map_or(0, allowance);
        self.limits
            .update(&id.to_ne_bytes(), bytes_of(&limit), MapFlags::ANY)
            .map_err(|e| Error::Running(e.to_string()))?;
        Ok(true)
    }
}

fn entry<T: Plain>(map: &MapHandle, key: u32) -> Result<T, Error> {
    let entry = attached::entry(map, key)?;
    entry.ok_or_else(|| Error::Running("a table is too short".to_owned()))
}

impl PoolState {
    fn of(cgroup: String, limit: &intf::pool_limit, used: &intf::pool) -> PoolState {
        let capacity = limit.allowance_ns as f64 / limit.period_ns.max(1) as f64;
        PoolState {
            cgroup,
            charge: Charge::of_native(limit.charge),
            capacity_cores: (limit.allowance_ns > 0).then_some(capacity),
            period_ms: limit.period_ns as f64 / 1e6,
            raw_ns: used.raw_ns,
            mt1_ns: used.mt1_ns,
            periods: used.periods,
            throttled_periods: used.throttled,
            throttled_ns: used.throttled_ns,
            overdrawn_ms: used.overdrawn_ns as f64 / 1e6,
        }
    }

    /// What it did since it was as `before`.
    pub fn since(&self, before: &PoolState, elapsed: Duration) -> PoolRates {
        let span_ns = elapsed.as_secs_f64().max(f64::MIN_POSITIVE) * 1e9;
        let per = |now: u64, before: u64| now.saturating_sub(before) as f64 / span_ns;
        PoolRates {
            cgroup: self.cgroup.clone(),
            charge: self.charge,
            capacity_cores: self.capacity_cores,
            mt1_cores: per(self.mt1_ns, before.mt1_ns),
            lanes: per(self.raw_ns, before.raw_ns),
            // it is added up at the ends of periods
            throttled: per(self.throttled_ns, before.throttled_ns).min(1.0),
            totals: PoolTotals {
                mt1_core_s: self.mt1_ns as f64 / 1e9,
                lane_s: self.raw_ns as f64 / 1e9,
                periods: self.periods,
                throttled_periods: self.throttled_periods,
                throttled_s: self.throttled_ns as f64 / 1e9,
            },
        }
    }
}

impl PoolRates {
    /// A line with its end.
    pub fn line(&self) -> String {
        let unit = match self.charge {
            Charge::Mt1 => "cores",
            Charge::Raw => "lanes",
        };
        let limit = match self.capacity_cores {
            Some(capacity) => format!("of {capacity:.2} {unit}"),
            None => format!("{unit}, no limit"),
        };
        let (used, other) = match self.charge {
            Charge::Mt1 => (self.mt1_cores, format!("{:.2} lanes", self.lanes)),
            Charge::Raw => (self.lanes, format!("{:.2} cores", self.mt1_cores)),
        };
        format!(
            "  pool {}: {used:.2} {limit} used ({other}), throttled {:.0} % of the time\n",
            sidelane_topology::printable(self.cgroup.as_bytes()),
            self.throttled * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zeroed;

    #[test]
    fn a_pool_tells_what_it_used_of_what() {
        let limit = intf::pool_limit {
            allowance_ns: 150_000_000,
            period_ns: 100_000_000,
            charge: Charge::Mt1.native(),
            parent: 0,
        };
        let mut used: intf::pool = zeroed();
        assert!(!is_free(&limit) && is_free(&zeroed()));
        let state = |used: &intf::pool| PoolState::of("/tenants/a".to_owned(), &limit, used);
        let before = state(&used);
        (used.raw_ns, used.mt1_ns) = (4_000_000_000, 3_000_000_000);
        used.throttled_ns = 500_000_000;
        let rates = state(&used).since(&before, Duration::from_secs(2));
        assert_eq!((rates.totals.lane_s, rates.totals.mt1_core_s), (4.0, 3.0));
        assert_eq!(
            rates.line(),
            "  pool /tenants/a: 1.50 of 1.50 cores used (2.00 lanes), throttled 25 % of the time\n"
        );
    }
}
