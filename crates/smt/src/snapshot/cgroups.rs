//! Cgroups: those of one path together, and what they may use.

use super::CgroupTotals;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One entry a path: of cgroups that had it one after the other, the sum, with the id of the latest. Those
/// without a path stay as they are. Ascending by id.
pub fn by_path(groups: impl IntoIterator<Item = CgroupTotals>) -> Vec<CgroupTotals> {
    let mut by_path: BTreeMap<String, CgroupTotals> = BTreeMap::new();
    let mut all = Vec::new();
    for group in groups {
        let Some(path) = &group.path else {
            all.push(group);
            continue;
        };
        match by_path.get_mut(path) {
            Some(known) => {
                known.id = known.id.max(group.id);
                known.usage.add(&group.usage);
            }
            None => drop(by_path.insert(path.clone(), group)),
        }
    }
    all.extend(by_path.into_values());
    all.sort_by_key(|group| group.id);
    all
}

/// What a cgroup, with all below it, may use.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Its path from the root.
    pub cgroup: String,
    /// What counts.
    pub charge: Charge,
    /// So much on the mean: lanes with [`Charge::Raw`], cores with [`Charge::Mt1`].
    pub capacity: f64,
    /// Time in which tasks were held because it was used up. None where nobody tells.
    pub throttled_ns: Option<u64>,
}

/// What a cgroup is charged for the time that its tasks run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Charge {
    /// Time on lanes, as with `cpu.max`.
    #[default]
    Raw,
    /// MT1-equivalent time.
    Mt1,
}

/// The limits at the end of an interval, with what was held back within it.
pub(super) fn between(before: &[Limit], after: &[Limit]) -> Vec<Limit> {
    let since = |limit: &Limit| {
        let known = before.iter().find(|known| known.cgroup == limit.cgroup);
        let before_ns = known.map_or(Some(0), |known| known.throttled_ns);
        let both = limit.throttled_ns.zip(before_ns);
        Limit {
            throttled_ns: both.map(|(now, before)| now.saturating_sub(before)),
            ..limit.clone()
        }
    };
    after.iter().map(since).collect()
}

/// Those of an interval and of the one that follows: as they were last.
pub(super) fn added(earlier: &[Limit], later: &[Limit]) -> Vec<Limit> {
    let gone = |limit: &&Limit| later.iter().all(|other| other.cgroup != limit.cgroup);
    let mut all: Vec<Limit> = earlier.iter().filter(gone).cloned().collect();
    for limit in later {
        let known = earlier.iter().find(|other| other.cgroup == limit.cgroup);
        let before_ns = known.map_or(Some(0), |known| known.throttled_ns);
        let both = limit.throttled_ns.zip(before_ns);
        all.push(Limit {
            throttled_ns: both.map(|(a, b)| a.saturating_add(b)),
            ..limit.clone()
        });
    }
    all.sort_by(|a, b| a.cgroup.cmp(&b.cgroup));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Usage;

    #[test]
    fn lives_at_one_path_are_one_entry() {
        let group = |id, path: Option<&str>, raw_ns| CgroupTotals {
            id,
            path: path.map(str::to_owned),
            usage: Usage {
                raw_ns,
                ..Usage::default()
            },
        };
        let all = [
            group(0, None, 1),
            group(3, Some("/a"), 2),
            group(4, Some("/b"), 4),
            group(5, None, 8),
            group(9, Some("/a"), 16),
        ];
        let expected = [
            group(0, None, 1),
            group(4, Some("/b"), 4),
            group(5, None, 8),
            group(9, Some("/a"), 18),
        ];
        assert_eq!(by_path(all), expected);
    }

    fn limit(cgroup: &str, capacity: f64, throttled_ns: Option<u64>) -> Limit {
        Limit {
            cgroup: cgroup.to_owned(),
            capacity,
            throttled_ns,
            ..Limit::default()
        }
    }

    #[test]
    fn what_was_held_back_is_of_the_interval_and_adds_up() {
        let before = [limit("/a", 1.0, Some(10)), limit("/b", 1.0, None)];
        let after = [
            limit("/a", 2.0, Some(25)),
            limit("/b", 1.0, Some(5)),
            limit("/c", 1.0, Some(7)),
        ];
        let first = between(&before, &after);
        let expected = [
            limit("/a", 2.0, Some(15)),
            limit("/b", 1.0, None),
            limit("/c", 1.0, Some(7)),
        ];
        assert_eq!(first, expected);
        let second = [limit("/a", 3.0, Some(1)), limit("/c", 1.0, None)];
        let expected = [
            limit("/a", 3.0, Some(16)),
            limit("/b", 1.0, None),
            limit("/c", 1.0, None),
        ];
        assert_eq!(added(&first, &second), expected);
    }
}
