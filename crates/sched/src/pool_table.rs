//! The scheduler's table of pools: those of the configuration, and those that `cpu.max` makes.

use crate::Error;
use crate::bpf::{intf, zeroed};
use crate::pool::{Capacity, PATH_MAX, Pool};
use sidelane_policy::Charge;
use std::collections::BTreeMap;

/// Is `path` the cgroup `top`, or below it?
fn is_within(path: &str, top: &str) -> bool {
    let below = |rest: &str| rest.is_empty() || rest.starts_with('/');
    top == "/" || path.strip_prefix(top).is_some_and(below)
}

/// `cpu.max` of a cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quota {
    /// Its path below the cgroup root.
    pub cgroup: String,
    pub quota_ns: u64,
    pub period_ns: u64,
}

impl Quota {
    /// From the text of `cpu.max`, such as "50000 100000"; none: it sets no limit.
    pub fn parse(cgroup: &str, text: &str) -> Option<Quota> {
        let mut words = text.split_whitespace();
        let mut us = || words.next()?.parse::<u64>().ok()?.checked_mul(1_000);
        Some(Quota {
            cgroup: cgroup.to_owned(),
            quota_ns: us()?.max(1), // 0 is no limit
            period_ns: us()?,
        })
    }

    /// How many lanes it allows on the mean: quota ÷ period.
    pub fn lanes(&self) -> Option<f64> {
        (self.period_ns > 0).then(|| self.quota_ns as f64 / self.period_ns as f64)
    }
}

/// The scheduler's table of pools: those of the configuration, then those that `cpu.max` makes.
pub(crate) struct PoolTable {
    configured: Vec<Pool>,
    capacity: Capacity,
    quotas: Vec<Option<Quota>>,
    /// Allowances that were tuned, by cgroup, ns.
    tuned_ns: BTreeMap<String, u64>,
}

impl PoolTable {
    /// With room for `cpu.max` of cgroups if that is to hold.
    ///
    /// # Errors
    /// [`Error::TooLarge`] with more pools than the table holds.
    pub fn new(pools: &[Pool], capacity: Capacity, quotas: bool) -> Result<PoolTable, Error> {
        let limit = intf::limits_MAX_POOLS as usize;
        let Some(room) = limit.checked_sub(pools.len()) else {
            return Err(Error::TooLarge {
                what: "pools",
                found: pools.len(),
                limit,
            });
        };
        Ok(PoolTable {
            configured: pools.to_vec(),
            capacity,
            quotas: vec![None; if quotas { room } else { 0 }],
            tuned_ns: BTreeMap::new(),
        })
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

    /// Takes over what `cpu.max` says now. The entries that are of other cgroups now, and how many
    /// limits have no room.
    pub fn set_quotas(&mut self, found: Vec<Quota>) -> (Vec<usize>, usize) {
        let mut begun = Vec::new();
        let first = self.configured.len();
        for quota in &mut self.quotas {
            let there = |old: &mut Quota| found.iter().any(|new| new.cgroup == old.cgroup);
            quota.take_if(|old| !there(old));
        }
        let mut left_out = 0;
        for new in found {
            let same =
                |old: &Option<Quota>| (old.as_ref()).is_some_and(|old| old.cgroup == new.cgroup);
            let slot = self.quotas.iter().position(same);
            match slot.or_else(|| self.quotas.iter().position(Option::is_none)) {
                Some(slot) if slot_differs(&self.quotas[slot], &new) => {
                    if !same(&self.quotas[slot]) {
                        begun.push(first + slot);
                    }
                    self.quotas[slot] = Some(new);
                }
                Some(_) => {}
                None => left_out += 1,
            }
        }
        (begun, left_out)
    }

    /// Entries and the paths of their cgroups.
    fn tops(&self) -> impl Iterator<Item = (usize, &str)> {
        let configured = self
            .configured
            .iter()
            .map(|pool| Some(pool.cgroup.as_str()));
        let quotas = self.quotas.iter();
        let quotas = quotas.map(|quota| quota.as_ref().map(|quota| quota.cgroup.as_str()));
        let tops = configured.chain(quotas).enumerate();
        tops.filter_map(|(index, path)| Some((index, path?)))
    }

    /// The innermost pool of those before `rank` that the cgroup at `path` is in.
    fn innermost(&self, path: &str, rank: Option<(usize, usize)>) -> Option<usize> {
        let ranks = self
            .tops()
            .filter(|(_, top)| is_within(path, top))
            .map(|(index, top)| self::rank(index, top));
        let before = ranks.filter(|found| rank.is_none_or(|rank| *found < rank));
        before.max().map(|(_, index)| index)
    }

    /// The number of the innermost pool that the cgroup at `path` is in, as the scheduler counts: 1
    /// for the first; 0: none.
    pub fn of_cgroup(&self, path: &str) -> u32 {
        self.innermost(path, None)
            .map_or(0, |index| index as u32 + 1)
    }

    /// The table as the scheduler reads it.
    pub fn limits(&self) -> Vec<intf::pool_limit> {
        let shares = self.configured.iter().filter_map(|pool| pool.share).sum();
        let parent = |index: usize, path: &str| {
            let parent = self.innermost(path, Some(rank(index, path)));
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
                cgroup: name(&pool.cgroup),
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
                cgroup: name(&quota.cgroup),
            }
        };
        let pools = self.configured.iter().enumerate().map(of_pool);
        pools
            .chain(self.quotas.iter().enumerate().map(of_quota))
            .collect()
    }
}

fn slot_differs(old: &Option<Quota>, new: &Quota) -> bool {
    old.as_ref() != Some(new)
}

/// The further within, the higher; of two on a cgroup the later one is within the other.
fn rank(index: usize, path: &str) -> (usize, usize) {
    (if path == "/" { 0 } else { path.len() }, index)
}

/// A path as the table has it: its end, if it is too long.
fn name(path: &str) -> [libc::c_char; intf::limits_POOL_NAME_LEN as usize] {
    let mut limit: intf::pool_limit = zeroed();
    let kept = path.as_bytes();
    let kept = &kept[kept.len().saturating_sub(PATH_MAX)..];
    for (to, from) in limit.cgroup.iter_mut().zip(kept) {
        *to = *from as libc::c_char;
    }
    limit.cgroup
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::tests::pool;

    const CAPACITY: Capacity = Capacity {
        cores: 8,
        lanes: 16,
    };

    fn table(pools: &[Pool], quotas: bool) -> PoolTable {
        PoolTable::new(pools, CAPACITY, quotas).unwrap()
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
        let three = table(&pools, false);
        let of = |path| three.of_cgroup(path);
        assert_eq!([of("/a"), of("/a/b/c"), of("/ab"), of("/")], [1, 3, 2, 2]);
        assert_eq!(table(&pools[..1], false).of_cgroup("/ab"), 0);
        let limits = three.limits();
        let parents: Vec<_> = limits.iter().map(|limit| limit.parent).collect();
        assert_eq!(parents, [2, 0, 1]);
    }

    #[test]
    fn a_quota_allows_lanes() {
        assert_eq!(quota("/a", "150000 100000\n").lanes(), Some(1.5));
        assert_eq!(quota("/a", "5 0").lanes(), None);
        for none in ["max 100000\n", "", "5", "a b"] {
            assert_eq!(Quota::parse("/a", none), None, "{none:?}");
        }
    }

    #[test]
    fn quotas_come_and_go_within_pools() {
        let mut table = table(&[pool("/a", Some(1.0), None)], true);
        assert_eq!(table.len(), intf::limits_MAX_POOLS as usize);
        let first = vec![quota("/a", "50000 100000"), quota("/b", "20000 100000")];
        assert_eq!(table.set_quotas(first.clone()), (vec![1, 2], 0));
        let of = |table: &PoolTable| ["/a/x", "/b", "/c"].map(|path| table.of_cgroup(path));
        assert_eq!(of(&table), [2, 3, 0]);
        let limits = table.limits();
        assert_eq!((limits[1].parent, limits[1].allowance_ns), (1, 50_000_000));
        assert_eq!((limits[0].parent, limits[2].parent), (0, 0));
        assert_eq!(table.set_quotas(first), (vec![], 0));
        let second = vec![quota("/c", "1000 100000"), quota("/b", "30000 100000")];
        assert_eq!(table.set_quotas(second), (vec![1], 0));
        assert_eq!(of(&table), [1, 3, 2]);
        assert_eq!(table.limits()[2].allowance_ns, 30_000_000);
        assert_eq!(Quota::parse("/a", "max 100000"), None);
    }

    #[test]
    fn what_was_tuned_outlives_the_table() {
        let pools = [pool("/a", Some(1.0), None), pool("/b", Some(1.0), None)];
        let mut first = table(&pools, false);
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
        let limits = table(&pools, false).limits();
        let allowances: Vec<_> = limits.iter().map(|limit| limit.allowance_ns).collect();
        assert_eq!(
            allowances,
            [40_000_000, 40_000_000, 80_000_000, 720_000_000]
        );
    }
}
