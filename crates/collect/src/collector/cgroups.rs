//! Cgroups over the readings: their paths, what was told of each, and what each may use.

use super::failed;
use super::reading::{Cgroups, entries, not_back};
use crate::Error;
use crate::bpf::{MetricsSkel, intf};
use libbpf_rs::{ErrorKind, MapCore};
use sidelane_kernel::cgroups;
use sidelane_kernel::pools::{PoolState, Pools};
use sidelane_policy::Charge;
use sidelane_smt::snapshot::{self, CgroupTotals, Limit};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Removed cgroups by id, with the path of each; empty if it is not known.
pub(super) type Removed = BTreeMap<u64, String>;

/// With so many removed cgroups in the kernel's table a reading makes room.
pub(super) const CROWD: u64 = intf::metrics_limits_METRICS_CGROUPS_MAX as u64 / 4;

/// The cgroups of the kernel's table that were removed and not forgotten yet.
pub(super) fn removed(skel: &MetricsSkel<'_>) -> Result<Removed, Error> {
    let entries = entries::<u64, intf::metrics_removed>(&skel.maps.metrics_removed)?;
    let path = |removed: &intf::metrics_removed| {
        let bytes = removed.path.iter().map(|&c| c as u8);
        let bytes: Vec<u8> = bytes.take_while(|&c| c != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let entries = entries.into_iter();
    Ok(entries.map(|(id, gone)| (id, path(&gone))).collect())
}

/// Makes room in the kernel's tables: what they held of these cgroups has been read.
pub(super) fn forget(skel: &MetricsSkel<'_>, removed: &Removed) -> Result<(), Error> {
    let drop_from =
        |map: &dyn Fn(&[u8]) -> libbpf_rs::Result<()>, id: u64| match map(&id.to_ne_bytes()) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failed("forget what")(error)),
            _ => Ok(()),
        };
    for id in removed.keys() {
        drop_from(&|key| skel.maps.metrics_cgroups.delete(key), *id)?;
        drop_from(&|key| skel.maps.metrics_removed.delete(key), *id)?;
    }
    Ok(())
}

/// What is known of the cgroups in the kernel's table: what was told once does not go back.
#[derive(Default)]
pub(super) struct CgroupTable {
    mount: Option<PathBuf>,
    /// By id; empty if it is not known.
    paths: HashMap<u64, String>,
    told: Cgroups,
}

impl CgroupTable {
    /// Of the hierarchy mounted there.
    pub(super) fn new(mount: Option<PathBuf>) -> CgroupTable {
        CgroupTable {
            mount,
            ..CgroupTable::default()
        }
    }

    /// The totals now, with paths where known. Those that were removed are told for the last time.
    pub(super) fn update(&mut self, now: Cgroups, removed: &Removed) -> Vec<CgroupTotals> {
        self.look_for_paths(&now, removed);
        for (id, mut usage) in now {
            let told = self.told.entry(id).or_default();
            not_back(&mut usage, told);
            *told = usage;
        }
        let told = self.told.iter().filter(|(_, usage)| !usage.is_empty());
        let totals = told.map(|(id, usage)| CgroupTotals {
            id: *id,
            path: self.paths.get(id).filter(|path| !path.is_empty()).cloned(),
            usage: usage.clone(),
        });
        let totals = totals.collect();
        self.told.retain(|id, _| !removed.contains_key(id));
        totals
    }

    fn look_for_paths(&mut self, groups: &Cgroups, removed: &Removed) {
        self.paths.retain(|id, _| groups.contains_key(id));
        for (id, path) in removed {
            let known = self.paths.entry(*id).or_default();
            if known.is_empty() {
                known.clone_from(path);
            }
        }
        let unknown = |id: &u64| *id != 0 && !self.paths.contains_key(id);
        if !groups.keys().any(unknown) {
            return;
        }
        let found = self.mount.as_deref().map(cgroups::list);
        let mut found = found.unwrap_or_default();
        for id in groups.keys() {
            let path = self.paths.entry(*id);
            path.or_insert_with(|| found.remove(id).unwrap_or_default());
        }
    }
}

/// Files are read anew after so long: there may be many, and they hardly ever change.
const STALE: Duration = Duration::from_secs(10);

/// Reads what cgroups may use: `cpu.max`, and the pools of Sidelane's scheduler.
pub(super) struct Limits {
    mount: Option<PathBuf>,
    /// Of the running scheduler, if it is Sidelane's.
    pools: Option<Pools>,
    /// Lanes by `cpu.max`, by path of the cgroup, and when that was read.
    quotas: BTreeMap<String, f64>,
    read: Option<Instant>,
}

impl Limits {
    /// Of cgroups below `mount`, and of pools if `attached`: Sidelane's scheduler is.
    pub fn new(mount: Option<PathBuf>, attached: bool) -> Limits {
        Limits {
            mount,
            pools: attached.then(Pools::open).and_then(Result::ok),
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
        let pools = self.pools.as_ref().and_then(|pools| pools.read().ok());
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
    use sidelane_smt::snapshot::Usage;

    fn usage(raw_ns: u64) -> Usage {
        Usage {
            raw_ns,
            ..Usage::default()
        }
    }

    #[test]
    fn what_was_told_of_a_cgroup_does_not_go_back() {
        let mut table = CgroupTable::default();
        table.paths.insert(7, "/a".to_owned());
        for (now, told) in [(10, 10), (8, 10), (12, 12)] {
            let now = Cgroups::from([(7, usage(now)), (0, Usage::default())]);
            let groups = table.update(now, &Removed::new());
            assert_eq!(groups.len(), 1);
            assert_eq!(groups[0].usage.raw_ns, told);
            assert_eq!(groups[0].path.as_deref(), Some("/a"));
        }
    }

    #[test]
    fn a_removed_cgroup_is_told_once_more_and_forgotten() {
        let mut table = CgroupTable::default();
        let living = Cgroups::from([(1, usage(5))]);
        for id in 2..5_000 {
            let mut now = living.clone();
            now.insert(id, usage(id));
            let groups = table.update(now, &Removed::from([(id, format!("/{id}"))]));
            assert_eq!(groups.len(), 2);
            assert_eq!(groups[1].path, Some(format!("/{id}")));
            assert_eq!(groups[1].usage.raw_ns, id);
            assert_eq!(table.update(living.clone(), &Removed::new()).len(), 1);
            assert!(table.paths.len() <= 2 && table.told.len() == 1);
        }
    }

    #[test]
    fn paths_come_from_the_mount_and_stay_once_the_folder_is_gone() {
        use std::os::unix::fs::MetadataExt;
        let mount = tempfile::tempdir().unwrap();
        let folder = mount.path().join("a");
        std::fs::create_dir(&folder).unwrap();
        let id = std::fs::metadata(&folder).unwrap().ino();
        let mut table = CgroupTable::new(Some(mount.path().to_owned()));
        for removed in [Removed::new(), Removed::from([(id, String::new())])] {
            let groups = table.update(Cgroups::from([(id, usage(3))]), &removed);
            assert_eq!(groups[0].path.as_deref(), Some("/a"));
            std::fs::remove_dir(&folder).unwrap_or_default();
        }
    }

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
