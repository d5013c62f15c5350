//! Pools: what a cgroup may use of the cores (`share/pool.bpf.h`), and the scheduler's table of them.

use crate::bpf::{intf, zeroed};
use crate::cgroup_path::{self, up};
use crate::cgroups::{Allotted, allot};
use sidelane_kernel::cgroups::Quota;
use sidelane_policy::Charge;
use sidelane_policy::file::{Result, Section, Shape, with_keys};
use sidelane_policy::pool::{self, Limit};
use std::collections::{BTreeMap, HashMap};

/// Longest path of a cgroup, bytes.
pub(crate) const PATH_MAX: usize = intf::limits_POOL_PATH_LEN as usize - 1;

/// A `[[pool]]`: a cgroup with all below it.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Path of the cgroup below the cgroup root, `/` first.
    pub cgroup: String,
    /// Capacity limit: at most so many cores, or lanes with `raw`; above 0.
    pub capacity_cores: Option<f64>,
    /// Share limit: of the machine, this part of the sum of all pools' shares; above 0.
    pub share: Option<f64>,
    /// What it is charged.
    pub charge: Charge,
    /// Its allowance is for so long, 10 to 1000 ms.
    pub period_ms: f64,
}

/// What there is to share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Capacity {
    /// Cores with a lane that is online.
    pub cores: usize,
    /// Their lanes that are online.
    pub lanes: usize,
}

impl Pool {
    /// A table `[[pool]]`.
    pub(crate) const SHAPE: Shape = Shape {
        title: "[[pool]]",
        form: "tables [[pool]]",
        keys: &with_keys::<1, 4, 5>(["cgroup"], pool::KEYS),
        elsewhere: &[],
    };

    /// Reads a `[[pool]]`.
    pub(crate) fn read(section: &Section) -> Result<Pool> {
        const WHAT: &str = "a path below the cgroup root, such as \"/batch.slice\"";
        let cgroup = section.need("cgroup", WHAT)?;
        let path = cgroup.string(WHAT)?;
        let terms = pool::terms(section, false)?;
        let pool = Pool {
            cgroup: path.to_owned(),
            capacity_cores: match terms.limit {
                Some(Limit::Cores(cores)) => Some(cores),
                _ => None,
            },
            share: match terms.limit {
                Some(Limit::Share(share)) => Some(share),
                _ => None,
            },
            charge: terms.charge,
            period_ms: terms.period_ns as f64 / 1e6,
        };
        let escaped = cgroup_path::lost_escape(cgroup.text(), path);
        match escaped.map_or_else(|| check_path(path), Err) {
            Ok(()) => Ok(pool),
            Err(problem) => Err(cgroup.error(pool.wrong(&problem))),
        }
    }

    /// What is wrong with it, as a message.
    pub(crate) fn wrong(&self, problem: &str) -> String {
        format!("{} {:?}: {problem}", Pool::SHAPE.title, self.cgroup)
    }

    /// How many cores, or lanes with `raw`, it may use; `shares` is the sum of all pools'.
    pub(crate) fn entitlement(&self, shares: f64, capacity: Capacity) -> f64 {
        let machine = match self.charge {
            Charge::Mt1 => capacity.cores,
            Charge::Raw => capacity.lanes,
        };
        match (self.capacity_cores, self.share) {
            (Some(cores), _) => cores,
            (None, Some(share)) => machine as f64 * share / shares,
            (None, None) => 0.0,
        }
    }
}

/// A pool is one cgroup, by a path that it can have.
fn check_path(path: &str) -> std::result::Result<(), String> {
    let bare = cgroup_path::written(path)?;
    if bare.len() < path.len() {
        return Err(format!("the path ends with '/'; did you mean {bare:?}?"));
    }
    if path.contains(['*', '?', '[', ']', '{', '}']) {
        return Err(
            "a pool is one cgroup, with all below it: patterns are not possible".to_owned(),
        );
    }
    if path.len() > PATH_MAX {
        return Err(format!("no path is longer than {PATH_MAX} bytes"));
    }
    Ok(())
}

/// The scheduler's table of pools: those of the configuration, then those that `cpu.max` makes.
pub(crate) struct PoolTable {
    configured: Vec<Pool>,
    capacity: Capacity,
    quotas: Vec<Option<Quota>>,
    /// Entries by the cgroup that they are of, ascending: of two the later one is within the other.
    by_cgroup: HashMap<String, Vec<usize>>,
    /// Allowances that were tuned, by cgroup, ns.
    tuned_ns: BTreeMap<String, u64>,
}

impl PoolTable {
    /// With room for so many cgroups that have a `cpu.max`.
    pub fn new(pools: &[Pool], capacity: Capacity, quotas: usize) -> PoolTable {
        let mut table = PoolTable {
            configured: pools.to_vec(),
            capacity,
            quotas: vec![None; quotas],
            by_cgroup: HashMap::new(),
            tuned_ns: BTreeMap::new(),
        };
        table.index();
        table
    }

    fn index(&mut self) {
        self.by_cgroup.clear();
        let quotas = self.quotas.iter();
        let quotas = quotas.map(|quota| quota.as_ref().map(|quota| &quota.cgroup));
        let configured = self.configured.iter().map(|pool| Some(&pool.cgroup));
        for (index, cgroup) in configured.chain(quotas).enumerate() {
            if let Some(cgroup) = cgroup {
                let entries = self.by_cgroup.entry(cgroup.clone()).or_default();
                entries.push(index);
            }
        }
    }

    /// Takes over allowances that were tuned, by cgroup, ns; those of other pools are as configured.
    pub fn set_tuned(&mut self, tuned_ns: BTreeMap<String, u64>) {
        self.tuned_ns = tuned_ns;
    }

    /// Those of `limits`, the scheduler's table now, that differ from `written`; and what was tuned
    /// before.
    pub fn tuned(
        &self,
        written: &[intf::pool_limit],
        limits: &[intf::pool_limit],
    ) -> BTreeMap<String, u64> {
        let mut tuned_ns = self.tuned_ns.clone();
        for ((pool, written), limit) in self.configured.iter().zip(written).zip(limits) {
            if written.allowance_ns != limit.allowance_ns {
                tuned_ns.insert(pool.cgroup.clone(), limit.allowance_ns);
            }
        }
        tuned_ns
    }

    /// How many entries it has.
    pub fn len(&self) -> usize {
        self.configured.len() + self.quotas.len()
    }

    /// How many cgroups with a `cpu.max` it has room for.
    pub fn quota_room(&self) -> usize {
        self.quotas.len()
    }

    /// Takes over what `cpu.max` says now. The slots are told as entries of the whole table.
    pub fn set_quotas(&mut self, found: Vec<Quota>) -> Allotted {
        let mut allotted = allot(&mut self.quotas, found, |quota| &quota.cgroup);
        let first = self.configured.len();
        allotted.begun.iter_mut().for_each(|slot| *slot += first);
        self.index();
        allotted
    }

    /// Of the pools that the cgroup at `path` is in, the innermost; of those on itself only ones before `before`.
    fn innermost(&self, path: &str, before: usize) -> Option<usize> {
        up(path).find_map(|at| {
            let entries = self.by_cgroup.get(at)?.iter().rev();
            let mut within = entries.filter(|&&entry| at != path || entry < before);
            within.next().copied()
        })
    }

    /// The number of the innermost pool that the cgroup at `path` is in, as the scheduler counts: 1
    /// for the first; 0: none.
    pub fn of_cgroup(&self, path: &str) -> u32 {
        self.innermost(path, usize::MAX)
            .map_or(0, |index| index as u32 + 1)
    }

    /// How many pools there are at most around a task.
    pub fn depth(&self) -> usize {
        let within = |path: &String| {
            let pools = up(path).filter_map(|at| self.by_cgroup.get(at));
            pools.map(Vec::len).sum()
        };
        self.by_cgroup.keys().map(within).max().unwrap_or(0)
    }

    /// The cgroup of each entry; empty: of none now.
    pub fn cgroups(&self) -> Vec<String> {
        let configured = self.configured.iter().map(|pool| pool.cgroup.clone());
        let quotas = self.quotas.iter();
        let quotas =
            quotas.map(|quota| quota.as_ref().map_or(String::new(), |of| of.cgroup.clone()));
        configured.chain(quotas).collect()
    }

    /// The table as the scheduler reads it.
    pub fn limits(&self) -> Vec<intf::pool_limit> {
        let shares = self.configured.iter().filter_map(|pool| pool.share).sum();
        let parent = |index: usize, path: &str| {
            let parent = self.innermost(path, index);
            parent.map_or(0, |parent| parent as u32 + 1)
        };
        let of_pool = |(index, pool): (usize, &Pool)| {
            let period_ns = pool.period_ms * 1e6;
            let allowance_ns = pool.entitlement(shares, self.capacity) * period_ns;
            let tuned_ns = self.tuned_ns.get(&pool.cgroup).copied();
            intf::pool_limit {
                allowance_ns: tuned_ns.unwrap_or((allowance_ns as u64).max(1)), // 0 is no limit
                period_ns: period_ns as u64,
                charge: pool.charge.native(),
                parent: parent(index, &pool.cgroup),
            }
        };
        let of_quota = |(slot, quota): (usize, &Option<Quota>)| {
            let Some(quota) = quota else {
                return zeroed();
            };
            intf::pool_limit {
                allowance_ns: quota.quota_ns,
                period_ns: quota.period_ns,
                charge: Charge::Raw.native(),
                parent: parent(self.configured.len() + slot, &quota.cgroup),
            }
        };
        let pools = self.configured.iter().enumerate().map(of_pool);
        pools
            .chain(self.quotas.iter().enumerate().map(of_quota))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    /// With a period of 100 ms, charged by MT1-equivalent time.
    pub fn pool(cgroup: &str, capacity_cores: Option<f64>, share: Option<f64>) -> Pool {
        Pool {
            cgroup: cgroup.to_owned(),
            capacity_cores,
            share,
            charge: Charge::Mt1,
            period_ms: 100.0,
        }
    }

    #[test]
    fn mistakes_in_paths_name_the_remedy() {
        let long = format!("/{}", "a".repeat(PATH_MAX));
        for (path, problem) in [
            ("a", "'/a'"),
            ("/a/", "\"/a\""),
            ("/sys/fs/cgroup/a", "'/a'"),
            ("/a/*", "patterns"),
            ("/a-{b,c}", "patterns"),
            (&long, "longer than 4095"),
        ] {
            let error = check_path(path).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
        assert!(check_path(&long[..PATH_MAX]).is_ok());
    }

    const CAPACITY: Capacity = Capacity {
        cores: 8,
        lanes: 16,
    };

    fn table(pools: &[Pool], quotas: usize) -> PoolTable {
        PoolTable::new(pools, CAPACITY, quotas)
    }

    fn changed(begun: &[usize], left_out: usize) -> Allotted {
        let begun = begun.to_vec();
        Allotted { begun, left_out }
    }

    fn quota(cgroup: &str, text: &str) -> Quota {
        Quota::parse(cgroup, text).unwrap()
    }

    #[test]
    fn a_cgroup_belongs_to_the_innermost_pool_around_it() {
        let pools = [
            pool("/a", Some(1.0), None),
            pool("/", Some(1.0), None),
            pool("/a/b", Some(1.0), None),
        ];
        let three = table(&pools, 0);
        let of = |path| three.of_cgroup(path);
        assert_eq!([of("/a"), of("/a/b/c"), of("/ab"), of("/")], [1, 3, 2, 2]);
        assert_eq!(table(&pools[..1], 0).of_cgroup("/ab"), 0);
        let limits = three.limits();
        let parents: Vec<_> = limits.iter().map(|limit| limit.parent).collect();
        assert_eq!(parents, [2, 0, 1]);
    }

    #[test]
    fn quotas_come_and_go_within_pools() {
        let mut table = table(&[pool("/a", Some(1.0), None)], 2);
        assert_eq!((table.len(), table.quota_room()), (3, 2));
        let first = vec![quota("/a", "50000 100000"), quota("/b", "20000 100000")];
        assert_eq!(table.set_quotas(first.clone()), changed(&[1, 2], 0));
        let of = |table: &PoolTable| ["/a/x", "/b", "/c"].map(|path| table.of_cgroup(path));
        assert_eq!(of(&table), [2, 3, 0]);
        assert_eq!(table.cgroups(), ["/a", "/a", "/b"]);
        let limits = table.limits();
        assert_eq!((limits[1].parent, limits[1].allowance_ns), (1, 50_000_000));
        assert_eq!((limits[0].parent, limits[2].parent), (0, 0));
        assert_eq!(table.set_quotas(first), changed(&[], 0));
        let second = vec![quota("/c", "1000 100000"), quota("/b", "30000 100000")];
        assert_eq!(table.set_quotas(second), changed(&[1], 0));
        assert_eq!(of(&table), [1, 3, 2]);
        assert_eq!(table.limits()[2].allowance_ns, 30_000_000);
        let many = ["/a", "/b", "/c", "/d", "/e"].map(|path| quota(path, "1000 100000"));
        assert_eq!(table.set_quotas(many.to_vec()), changed(&[], 3));
        assert_eq!(table.set_quotas(vec![]), changed(&[], 0));
        assert_eq!(table.cgroups(), ["/a", "", ""]);
        assert_eq!(Quota::parse("/a", "max 100000"), None);
    }

    #[test]
    fn pools_within_pools_are_counted() {
        let pools = [pool("/", Some(1.0), None), pool("/a/b", Some(1.0), None)];
        let mut table = table(&pools, 8);
        assert_eq!(table.depth(), 2);
        let quotas = ["/a/b", "/a/b/c/d", "/e"].map(|path| quota(path, "1 1"));
        table.set_quotas(quotas.to_vec());
        assert_eq!(table.depth(), 4);
    }

    #[test]
    fn what_was_tuned_outlives_the_table() {
        let pools = [pool("/a", Some(1.0), None), pool("/b", Some(1.0), None)];
        let mut first = table(&pools, 0);
        let written = first.limits();
        let mut now = first.limits();
        now[1].allowance_ns = 0;
        first.set_tuned(first.tuned(&written, &now));
        let limits = first.limits();
        let allowances: Vec<_> = limits.iter().map(|limit| limit.allowance_ns).collect();
        assert_eq!(allowances, [100_000_000, 0]);
        assert_eq!(first.tuned(&now, &now).len(), 1);
    }

    #[test]
    fn shares_are_of_cores_or_with_raw_of_lanes() {
        let raw = Pool {
            charge: Charge::Raw,
            ..pool("/c", None, Some(5.0))
        };
        let pools = [
            pool("/a", Some(0.4), None),
            pool("/b", None, Some(5.0)),
            raw,
            pool("/d", None, Some(90.0)),
        ];
        let limits = table(&pools, 0).limits();
        let allowances: Vec<_> = limits.iter().map(|limit| limit.allowance_ns).collect();
        assert_eq!(
            allowances,
            [40_000_000, 40_000_000, 80_000_000, 720_000_000]
        );
    }
}
