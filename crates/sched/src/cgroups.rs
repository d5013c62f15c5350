//! Cgroups as the scheduler is told of them: which rules match each, and their weights.

use crate::cgroup_path::up;
use crate::rules::{ClassRule, Matcher, matches_cgroup};
pub(crate) use sidelane_kernel::cgroups::{
    Label, folder, labels, list, mount_point, quotas, topmost,
};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

/// Labels of cgroups by their paths, of those that have one.
pub(crate) type Labels = HashMap<String, Label>;

/// Where the label of the cgroup at `path` stands: there, or at the nearest around it that has one.
pub(crate) fn labelled_at<'a>(labels: &Labels, path: &'a str) -> Option<&'a str> {
    up(path).find(|&at| labels.contains_key(at))
}

/// Does what a rule compares match the cgroup at `path`, which begins with `/`, or one of its ancestors?
pub(crate) fn matches(matcher: &Matcher, path: &str, labels: &Labels) -> bool {
    match matcher {
        Matcher::Label(wanted) => {
            labelled_at(labels, path).is_some_and(|at| labels[at].word == *wanted)
        }
        matcher => matches_cgroup(matcher, path),
    }
}

/// The first of the rules that match the cgroup at `path`, as the scheduler counts: 1 for the first; 0: none.
pub(crate) fn first_rule(rules: &[ClassRule], path: &str, labels: &Labels) -> u32 {
    let mut rules = rules.iter();
    let first = rules.position(|entry| matches(&entry.rule.matcher, path, labels));
    first.map_or(0, |index| index as u32 + 1)
}

/// Does any rule look at cgroups?
pub(crate) fn needed(rules: &[ClassRule]) -> bool {
    let by_path = |entry: &ClassRule| {
        matches!(
            entry.rule.matcher,
            Matcher::Cgroup(_) | Matcher::Unit { .. }
        )
    };
    rules.iter().any(by_path) || labelled(rules)
}

/// Does any rule look at labels?
pub(crate) fn labelled(rules: &[ClassRule]) -> bool {
    let by_label = |entry: &ClassRule| matches!(entry.rule.matcher, Matcher::Label(_));
    rules.iter().any(by_label)
}

/// What [`allot`] changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Allotted {
    /// Slots that are of other cgroups now.
    pub begun: Vec<usize>,
    /// How many found no slot.
    pub left_out: usize,
}

/// Puts what was found, in its order, into the slots of a table for cgroups that come and go: each cgroup, by `path`, keeps
/// the slot that it has, and new ones take the first that are free.
pub(crate) fn allot<T>(
    slots: &mut [Option<T>],
    found: Vec<T>,
    path: impl Fn(&T) -> &String,
) -> Allotted {
    let there: HashSet<&String> = found.iter().map(&path).collect();
    let mut taken = HashMap::new();
    for (slot, entry) in slots.iter_mut().enumerate() {
        entry.take_if(|old| !there.contains(path(old)));
        taken.extend(entry.as_ref().map(|old| (path(old).clone(), slot)));
    }
    let free = |slot: &usize| slots[*slot].is_none();
    let free: Vec<usize> = (0..slots.len()).filter(free).collect();
    let mut free = free.into_iter();
    let (mut begun, mut left_out) = (Vec::new(), 0);
    for new in found {
        let slot = taken.get(path(&new)).copied().or_else(|| {
            let slot = free.next()?;
            begun.push(slot);
            Some(slot)
        });
        match slot {
            Some(slot) => slots[slot] = Some(new),
            None => left_out += 1,
        }
    }
    Allotted { begun, left_out }
}

/// What the scheduler is to know of a cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Its `cpu.weight`; none without the cpu controller, or if nobody asks.
    pub weight: Option<u32>,
    /// The nearest cgroup that has one: it, or an ancestor; 0: none.
    pub group: u64,
    /// If it has one: the nearest ancestor that has one; 0: none.
    pub parent: u64,
}

/// The facts of cgroups by their paths; `weight` tells that of a path.
pub(crate) fn facts(
    cgroups: &HashMap<u64, String>,
    weight: impl Fn(&str) -> Option<u32>,
) -> HashMap<u64, Facts> {
    let by_path: HashMap<&str, (u64, Option<u32>)> = cgroups
        .iter()
        .map(|(&id, path)| (path.as_str(), (id, weight(path))))
        .collect();
    let weighted = |path: &&str| {
        by_path
            .get(path)
            .is_some_and(|(_, weight)| weight.is_some())
    };
    let id_of = |path: &str| by_path.get(path).map_or(0, |(id, _)| *id);
    let facts = |(&id, path): (&u64, &String)| {
        let mut nearest = up(path).filter(weighted).map(id_of);
        let group = nearest.next().unwrap_or(0);
        let facts = Facts {
            weight: by_path.get(path.as_str()).and_then(|(_, weight)| *weight),
            group,
            parent: if group == id {
                nearest.next().unwrap_or(0)
            } else {
                0
            },
        };
        (id, facts)
    };
    cgroups.iter().map(facts).collect()
}

/// What a cgroup weighs if nobody says otherwise.
const WEIGHT_USUAL: u32 = 100;

/// How many of the cgroups at these paths weigh more or less than usual.
pub(crate) fn weighed<'a>(mount: &Path, paths: impl Iterator<Item = &'a String>) -> usize {
    let unusual = |path: &&String| weight(mount, path).is_some_and(|it| it != WEIGHT_USUAL);
    paths.filter(unusual).count()
}

/// The `cpu.weight` of the cgroup at `path` below `mount`.
pub(crate) fn weight(mount: &Path, path: &str) -> Option<u32> {
    let file = folder(mount, path).join("cpu.weight");
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Class;

    fn rules(texts: &[&str]) -> Vec<ClassRule> {
        let rule = |t: &&str| ClassRule {
            class: Class::Batch,
            rule: t.parse().unwrap(),
            budget: None,
        };
        texts.iter().map(rule).collect()
    }

    #[test]
    fn the_first_rule_that_matches_is_found_wherever_it_stands() {
        let mut texts = vec!["user:root"; 100];
        texts.extend(["cgroup:/a", "unit:b.service", "cgroup:/**"]);
        let rules = rules(&texts);
        let none = Labels::new();
        let first = |path| first_rule(&rules, path, &none);
        assert_eq!(
            [first("/a/x"), first("/b.service"), first("/c")],
            [101, 102, 103]
        );
        assert_eq!(first_rule(&rules[..101], "/c", &none), 0);
        assert!(needed(&rules) && !labelled(&rules));
        assert!(!needed(&rules[..100]));
    }

    #[test]
    fn the_nearest_label_counts() {
        let rules = rules(&["label:batch", "cgroup:/b", "label:critical"]);
        let labels = [
            ("/a", "critical"),
            ("/a/b", "batch"),
            ("/b", "critical"),
            ("/c", "batches"),
        ];
        let labels = labels.map(|(path, label)| (path.to_owned(), Label::new(label)));
        let labels = Labels::from(labels);
        let first = |path| first_rule(&rules, path, &labels);
        assert_eq!(["/a", "/a/x/y", "/a/b", "/a/b/c"].map(first), [3, 3, 1, 1]);
        assert_eq!(["/b/x", "/c", "/", "/ab"].map(first), [2, 0, 0, 0]);
        assert!(needed(&rules[..1]) && labelled(&rules) && !labelled(&rules[1..2]));
    }

    #[test]
    fn cgroups_without_a_weight_are_part_of_those_around_them() {
        let paths = ["/", "/a", "/a/b", "/a/b/c", "/d"].map(str::to_owned);
        let cgroups: HashMap<u64, String> = (1..).zip(paths).collect();
        let weight = |path: &str| ["/a", "/a/b/c"].contains(&path).then_some(200);
        let facts = facts(&cgroups, weight);
        let of = |id| (facts[&id].weight, facts[&id].group, facts[&id].parent);
        assert_eq!(of(1), (None, 0, 0));
        assert_eq!(of(2), (Some(200), 2, 0));
        assert_eq!(of(3), (None, 2, 0));
        assert_eq!(of(4), (Some(200), 4, 2));
        assert_eq!(of(5), (None, 0, 0));
    }
}
