//! Groups of CPUs (a core's lanes, a cache's sharers), of which each member lists all: what the lists
//! say together where some of them are wrong.

use crate::CpuList;
use std::collections::{BTreeMap, BTreeSet};

/// The groups that most lists speak for, no two of them with a CPU in common. `lists` has the list
/// of each CPU that has one.
///
/// A group is worth the number of CPUs that list just it, less those that list something else and
/// share a CPU with it. Groups are taken by their worth, then by their size: a list that misses a
/// CPU is the likelier fault, and to take lanes of two cores for siblings is the safer mistake. Of
/// groups that overlap and that nothing tells apart, none is taken.
pub(super) fn agreed(lists: &BTreeMap<u32, CpuList>) -> Vec<CpuList> {
    let mut votes: BTreeMap<&CpuList, i64> = BTreeMap::new();
    for list in lists.values() {
        *votes.entry(list).or_default() += 1;
    }
    let overlaps = Overlaps::of(votes.keys().copied());
    let mut ranked: Vec<(i64, &CpuList)> = votes
        .iter()
        .map(|(list, votes_for)| {
            let against: i64 = overlaps.with(list).iter().map(|other| votes[other]).sum();
            (votes_for - against, *list)
        })
        .collect();
    ranked.sort_by_key(|(worth, list)| (-worth, -(list.len() as i64)));
    let mut taken: BTreeSet<&CpuList> = BTreeSet::new();
    for equals in ranked.chunk_by(|a, b| (a.0, a.1.len()) == (b.0, b.1.len())) {
        let free: BTreeSet<&CpuList> = equals
            .iter()
            .map(|(_, list)| *list)
            .filter(|list| overlaps.with(list).is_disjoint(&taken))
            .collect();
        let undisputed = free
            .iter()
            .filter(|list| overlaps.with(list).is_disjoint(&free));
        taken.extend(undisputed);
    }
    taken.into_iter().cloned().collect()
}

/// Which lists name a CPU.
struct Overlaps<'a>(BTreeMap<u32, Vec<&'a CpuList>>);

impl<'a> Overlaps<'a> {
    fn of(lists: impl Iterator<Item = &'a CpuList>) -> Self {
        let mut naming: BTreeMap<u32, Vec<&CpuList>> = BTreeMap::new();
        for list in lists {
            for cpu in list.iter() {
                naming.entry(cpu).or_default().push(list);
            }
        }
        Overlaps(naming)
    }

    /// The other lists that share a CPU with `list`.
    fn with(&self, list: &CpuList) -> BTreeSet<&'a CpuList> {
        let naming = list.iter().filter_map(|cpu| self.0.get(&cpu)).flatten();
        naming.copied().filter(|other| *other != list).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn groups(lists: &[(u32, &str)]) -> String {
        let lists = lists
            .iter()
            .map(|(cpu, list)| (*cpu, list.parse().unwrap()))
            .collect();
        let groups: Vec<String> = agreed(&lists).iter().map(CpuList::to_string).collect();
        groups.join(" ")
    }

    #[test]
    fn lists_that_agree_are_groups() {
        let lists = [(0, "0,4"), (4, "0,4"), (1, "1"), (2, "2,9")];
        assert_eq!(groups(&lists), "0,4 1 2,9");
    }

    #[test]
    fn a_list_that_others_contradict_is_no_group() {
        let far = [(0, "0,4"), (4, "0-7"), (1, "1,5"), (5, "1,5")];
        assert_eq!(groups(&far), "0,4 1,5");
        let beside = [(0, "0,4"), (4, "4-5"), (1, "1,5"), (5, "1,5")];
        assert_eq!(groups(&beside), "0,4 1,5");
        let alone = [(0, "0"), (1, "0-2"), (2, "2")];
        assert_eq!(groups(&alone), "0 2");
    }

    #[test]
    fn a_list_that_misses_a_cpu_yields_to_one_that_has_it() {
        assert_eq!(groups(&[(0, "0,4"), (4, "4")]), "0,4");
    }

    #[test]
    fn lists_that_nothing_tells_apart_are_no_groups() {
        let ring = [(0, "0-1"), (1, "1-2"), (2, "2-3"), (3, "0,3"), (7, "7")];
        assert_eq!(groups(&ring), "7");
    }

    proptest! {
        #[test]
        fn groups_share_no_cpu_and_are_lists(
            lists in proptest::collection::btree_map(
                0..12_u32, proptest::collection::btree_set(0..12_u32, 0..12), 0..12)
        ) {
            let lists: BTreeMap<u32, CpuList> = lists.into_iter()
                .map(|(cpu, list)| (cpu, list.into_iter().chain([cpu]).collect()))
                .collect();
            let groups = agreed(&lists);
            let mut seen = CpuList::new();
            for group in &groups {
                prop_assert!(lists.values().any(|list| list == group));
                prop_assert!(group.iter().all(|cpu| seen.insert(cpu)));
            }
        }

        #[test]
        fn one_wrong_list_of_many_changes_nothing(
            lanes in 3..9_u32, cores in 1..6_u32, which in any::<prop::sample::Index>(),
            wrong in proptest::collection::btree_set(0..54_u32, 0..54)
        ) {
            let core = |cpu: u32| (cpu / lanes * lanes..(cpu / lanes + 1) * lanes).collect();
            let right: BTreeMap<u32, CpuList> = (0..cores * lanes).map(|cpu| (cpu, core(cpu))).collect();
            let mut lists = right.clone();
            let cpu = which.index(lists.len()) as u32;
            lists.insert(cpu, wrong.into_iter().chain([cpu]).collect());
            prop_assert_eq!(agreed(&lists), agreed(&right));
        }
    }
}
