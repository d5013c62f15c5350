//! Cgroups by path.

use super::CgroupTotals;
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
}
