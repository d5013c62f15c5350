//! Objectives that labels of cgroups have (`user.sidelane.objective`): each takes an entry of the scheduler's rules, beyond
//! those of the configuration, that matches nothing and whose budget tasks of the cgroup have.

use crate::Config;
use crate::bpf::{intf, zeroed};
use crate::cgroups::{Labels, allot, first_rule, labelled_at};
use crate::rules::{Class, ClassRule, Matcher};
use sidelane_policy::{Budget, Objective};
use std::collections::HashMap;

/// Most of them.
pub(crate) const MOST: usize = 1024;

/// An objective, and of which cgroup it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Labelled {
    pub objective: Objective,
    /// The cgroup's path.
    pub path: String,
    /// The cgroup's id.
    pub cgroup: u64,
}

/// What labels say of objectives.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// Ascending by the paths of the cgroups.
    pub objectives: Vec<Labelled>,
    /// What is wrong with others, a sentence each, ascending.
    pub faults: Vec<String>,
}

/// Does the rule that decides, [`first_rule`], leave it to labels what is critical?
fn is_by_label(rules: &[ClassRule], decides: u32) -> bool {
    let rule = rules.get((decides as usize).wrapping_sub(1));
    rule.is_some_and(|entry| {
        entry.class == Class::Critical && matches!(entry.rule.matcher, Matcher::Label(_))
    })
}

/// Do objectives of labels count, if there are any?
pub(crate) fn counts(config: &Config) -> bool {
    let by_label = |decides| is_by_label(&config.rules, decides);
    !config.scheduler.only_batch() && (1..=config.rules.len() as u32).any(by_label)
}

/// What the labels of these cgroups, ids and paths, say. An objective counts where a rule `label:WORD` makes its cgroup
/// critical.
pub(crate) fn said<'a>(
    rules: &[ClassRule],
    cgroups: impl Iterator<Item = (u64, &'a String)>,
    labels: &Labels,
) -> Said {
    let mut said = Said::default();
    for (cgroup, path) in cgroups {
        let Some(text) = labels.get(path).and_then(|label| label.objective.as_ref()) else {
            continue;
        };
        match text.parse() {
            Err(fault) => said
                .faults
                .push(format!("the label of the cgroup {path:?}: {fault}")),
            Ok(objective) if is_by_label(rules, first_rule(rules, path, labels)) => {
                said.objectives.push(Labelled {
                    objective,
                    path: path.clone(),
                    cgroup,
                });
            }
            Ok(_) => said.faults.push(format!(
                "the label of the cgroup {path:?}: its objective does not count: no rule such as 'label:critical' \
                 makes it critical"
            )),
        }
    }
    said.objectives.sort_by(|a, b| a.path.cmp(&b.path));
    said.faults.sort();
    said
}

/// The entries.
pub(crate) struct LabelledTable {
    /// How many rules the configuration has.
    rules: usize,
    entries: Vec<Option<Labelled>>,
    /// Their numbers by the paths of cgroups.
    by_path: HashMap<String, usize>,
}

/// What [`LabelledTable::set`] changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Changed {
    /// Entries that are others now.
    pub entries: Vec<usize>,
    /// Objectives for which there is no room.
    pub left_out: usize,
}

impl LabelledTable {
    /// Behind so many rules, with room for so many objectives.
    pub fn new(rules: usize, room: usize) -> LabelledTable {
        LabelledTable {
            rules,
            entries: vec![None; room],
            by_path: HashMap::new(),
        }
    }

    /// How many it has room for.
    pub fn room(&self) -> usize {
        self.entries.len()
    }

    /// Takes over what labels say now. What stays keeps its entry.
    pub fn set(&mut self, found: Vec<Labelled>) -> Changed {
        let before = self.entries.clone();
        let allotted = allot(&mut self.entries, found, |labelled| &labelled.path);
        let numbered = self.entries.iter().enumerate();
        let of_path =
            |(entry, of): (usize, &Option<Labelled>)| Some((of.as_ref()?.path.clone(), entry));
        self.by_path = numbered.filter_map(of_path).collect();
        let differs = |&entry: &usize| self.entries[entry] != before[entry];
        Changed {
            entries: (0..self.room()).filter(differs).collect(),
            left_out: allotted.left_out,
        }
    }

    /// The key of an entry among the scheduler's rules, what stands there, and whose it is: the cgroup's id, 0: nobody's.
    pub fn entry(&self, entry: usize) -> (usize, intf::rule, u64) {
        let labelled = self.entries[entry].as_ref();
        let budget = labelled.map(|it| Budget::slo(it.objective).native());
        let rule = intf::rule {
            kind: intf::rule_kind_RULE_CGROUP,
            class: intf::task_class_CLASS_CRITICAL,
            budget: budget.unwrap_or(crate::resolve::INHERIT),
            ..zeroed()
        };
        (self.rules + entry, rule, labelled.map_or(0, |it| it.cgroup))
    }

    /// The budget of tasks in the cgroup at `path`, for which this rule decides, as the scheduler counts: 1 for that of the first
    /// rule; 0: none by a label.
    pub fn budget(&self, rules: &[ClassRule], decides: u32, path: &str, labels: &Labels) -> u32 {
        if !is_by_label(rules, decides) {
            return 0;
        }
        let entry = labelled_at(labels, path).and_then(|at| self.by_path.get(at));
        entry.map_or(0, |entry| (self.rules + entry) as u32 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroups::Label;

    fn rules() -> Vec<ClassRule> {
        let rules = [
            (Class::Batch, "cgroup:/a/batch"),
            (Class::Critical, "label:critical"),
            (Class::Batch, "label:batch"),
        ];
        rules
            .map(|(class, text)| ClassRule::new(class, text.parse().unwrap()))
            .into()
    }

    fn labels(of: &[(&str, &str, &str)]) -> Labels {
        let label = |&(path, word, objective): &(&str, &str, &str)| {
            let objective = Some(objective.to_owned()).filter(|text| !text.is_empty());
            (
                path.to_owned(),
                Label {
                    objective,
                    ..Label::new(word)
                },
            )
        };
        of.iter().map(label).collect()
    }

    fn said(paths: &[&str], labels: &Labels) -> Said {
        let paths: Vec<String> = paths.iter().map(|&path| path.to_owned()).collect();
        super::said(&rules(), (1..).zip(&paths), labels)
    }

    #[test]
    fn an_objective_counts_where_a_label_makes_its_cgroup_critical() {
        let labels = labels(&[
            ("/a", "critical", "p99 < 20 ms"),
            ("/b", "batch", "p99 < 20 ms"),
            ("/c", "critical", "20 ms"),
            ("/d", "critical", ""),
            ("/a/batch", "critical", "p99 < 20 ms"),
        ]);
        let said = said(&["/a", "/b", "/c", "/d", "/a/batch"], &labels);
        let paths: Vec<&String> = said.objectives.iter().map(|of| &of.path).collect();
        assert_eq!(paths, ["/a"]);
        let [batch, other, wrong] = &said.faults[..] else {
            panic!("{:?}", said.faults)
        };
        assert!(batch.contains("\"/a/batch\": its objective does not count"));
        assert!(other.contains("\"/b\": its objective does not count"));
        assert!(wrong.contains("\"/c\": objective \"20 ms\": expected a percentile"));
    }

    #[test]
    fn tasks_have_the_objective_of_the_nearest_label() {
        let labels = labels(&[
            ("/a", "critical", "p99 < 20 ms"),
            ("/b", "critical", "p90 < 5 ms"),
            ("/a/c", "critical", ""),
        ]);
        let (rules, mut table) = (rules(), LabelledTable::new(3, 4));
        let said = said(&["/a", "/b", "/a/c"], &labels);
        assert_eq!(table.set(said.objectives).entries, [0, 1]);
        let budget = |path| table.budget(&rules, first_rule(&rules, path, &labels), path, &labels);
        assert_eq!(["/a", "/a/x/y", "/b"].map(budget), [4, 4, 5]);
        // another rule decides, another label is nearer, no label
        assert_eq!(["/a/batch", "/a/c", "/z"].map(budget), [0; 3]);
        let (key, rule, cgroup) = table.entry(1);
        assert_eq!((key, rule.budget.objective_ns, cgroup), (4, 5_000_000, 2));
        assert_eq!(rule.budget.beyond, 100);
        assert_eq!(rule.budget.policy, intf::budget_policy_BUDGET_OBJECTIVE);
    }

    #[test]
    fn what_stays_keeps_its_entry() {
        let labelled = |&(path, objective, cgroup): &(&str, &str, u64)| Labelled {
            objective: objective.parse().unwrap(),
            path: path.to_owned(),
            cgroup,
        };
        let mut table = LabelledTable::new(1, 2);
        let mut set = |found: &[(&str, &str, u64)]| {
            let Changed { entries, left_out } = table.set(found.iter().map(labelled).collect());
            (entries, left_out)
        };
        let (x, y) = ("p99 < 1 ms", "p99 < 2 ms");
        assert_eq!(set(&[("/b", x, 2)]), (vec![0], 0));
        assert_eq!(set(&[("/a", x, 1), ("/b", x, 2)]), (vec![1], 0));
        assert_eq!(set(&[("/a", x, 1), ("/b", y, 2)]), (vec![0], 0));
        assert_eq!(
            set(&[("/a", x, 1), ("/b", y, 2), ("/c", x, 3)]),
            (vec![], 1)
        );
        // /b is another cgroup by that path now
        assert_eq!(set(&[("/a", x, 1), ("/b", y, 4)]), (vec![0], 0));
        assert_eq!(set(&[]), (vec![0, 1], 0));
        let (key, rule, cgroup) = table.entry(0);
        assert_eq!((key, cgroup), (1, 0));
        assert_eq!(rule.budget.policy, intf::budget_policy_BUDGET_INHERIT);
    }
}
