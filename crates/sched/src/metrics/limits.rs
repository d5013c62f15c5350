//! What cgroups may use: `cpu.max`, and the pools of Sidelane's scheduler.

use crate::stats::Reader;
use crate::{PoolState, cgroups};
use sidelane_policy::Charge;
use sidelane_smt::snapshot::{self, Limit};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Files are read anew after so long: there may be many, and they hardly ever change.
const STALE: Duration = Duration::from_secs(10);

/// Reads limits.
pub(super) struct Limits {
    mount: Option<PathBuf>,
    /// Of the running scheduler, if it is Sidelane's.
    scheduler: Option<Reader>,
    /// Lanes by `cpu.max`, by path of the cgroup, and when that was read.
    quotas: BTreeMap<String, f64>,
    read: Option<Instant>,
}

impl Limits {
    /// Of cgroups below `mount`, and of pools if `attached`: Sidelane's scheduler is.
    pub fn new(mount: Option<PathBuf>, attached: bool) -> Limits {
        Limits {
            mount,
            scheduler: attached.then(Reader::open).and_then(Result::ok),
            quotas: BTreeMap::new(),
            read: None,
        }
    }

    /// The limits now, ascending by path. A pool stands for the `cpu.max` of the same cgroup: it is what
    /// the scheduler keeps.
    pub fn now(&mut self) -> Vec<Limit> {
        if let Some(mount) = &self.mount
            && self.read.is_none_or(|read| read.elapsed() >= STALE)
        {
            self.quotas = quotas(mount);
            self.read = Some(Instant::now());
        }
        let pools = (self.scheduler.as_ref()).and_then(|scheduler| scheduler.pools().ok());
        together(&self.quotas, &pools.unwrap_or_default())
    }
}

fn together(quotas: &BTreeMap<String, f64>, pools: &[PoolState]) -> Vec<Limit> {
    let quotas = quotas.iter().map(|(path, lanes)| Limit {
        cgroup: path.clone(),
        charge: snapshot::Charge::Raw,
        capacity: *lanes,
        throttled_ns: None,
    });
    let pools = pools.iter().filter_map(|pool| {
        Some(Limit {
            cgroup: pool.cgroup.clone(),
            charge: match pool.charge {
                Charge::Raw => snapshot::Charge::Raw,
                Charge::Mt1 => snapshot::Charge::Mt1,
            },
            capacity: pool.capacity_cores?,
            throttled_ns: Some(pool.throttled_ns),
        })
    });
    let all = quotas.chain(pools);
    let by_path: BTreeMap<String, Limit> = all.map(|limit| (limit.cgroup.clone(), limit)).collect();
    by_path.into_values().collect()
}

/// Cgroups with a `cpu.max`, by path: how many lanes they may use on the mean.
fn quotas(mount: &Path) -> BTreeMap<String, f64> {
    let quotas = cgroups::quotas(mount, cgroups::list(mount).values());
    let limited = quotas.into_iter().filter_map(|quota| {
        let lanes = quota.lanes()?;
        Some((quota.cgroup, lanes))
    });
    limited.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_stands_for_the_quota_of_its_cgroup() {
        let pool = |cgroup: &str, capacity_cores| PoolState {
            cgroup: cgroup.to_owned(),
            charge: Charge::Mt1,
            capacity_cores,
            period_ms: 100.0,
            raw_ns: 9,
            mt1_ns: 7,
            periods: 3,
            throttled_periods: 2,
            throttled_ns: 5,
            overdrawn_ms: 0.0,
        };
        let quotas = BTreeMap::from([("/b".to_owned(), 2.0), ("/c".to_owned(), 1.5)]);
        let pools = [
            pool("/b", Some(0.5)),
            pool("/a", Some(0.25)),
            pool("/c", None),
        ];
        let found = together(&quotas, &pools);
        let limit = |cgroup: &str, charge, capacity, throttled_ns| Limit {
            cgroup: cgroup.to_owned(),
            charge,
            capacity,
            throttled_ns,
        };
        let expected = [
            limit("/a", snapshot::Charge::Mt1, 0.25, Some(5)),
            limit("/b", snapshot::Charge::Mt1, 0.5, Some(5)),
            limit("/c", snapshot::Charge::Raw, 1.5, None),
        ];
        assert_eq!(found, expected);
    }
}
