//! What the agent on a Kubernetes node decides: the class of each pod, which cgroup is the pod's, and what is to be written
//! there, by comparing what is wanted with what is found; and what batch may count on. Of the API server it knows nothing; the
//! program `sidelane-node` does.

pub mod batch_cpu;
pub mod cgroups;
pub mod class;
mod restore;
pub mod scheduler;

pub use cgroups::Cgroup;
pub use class::{Class, Verdict};
use serde::Serialize;
use sidelane_label::Label;
use sidelane_label::node::PodName;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// What the agent does on its node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It tells, labels no cgroup and runs no scheduler.
    #[default]
    Observe,
    /// It labels cgroups and runs the scheduler.
    Enforce,
}

impl Mode {
    /// The word of the node's label.
    pub fn word(self) -> &'static str {
        match self {
            Mode::Observe => "observe",
            Mode::Enforce => "enforce",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(word: &str) -> Result<Mode, String> {
        [Mode::Observe, Mode::Enforce]
            .into_iter()
            .find(|mode| mode.word() == word)
            .ok_or_else(|| format!("{word:?} is no mode: observe or enforce"))
    }
}

/// What is known of a pod: as little as will do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// `NAMESPACE/NAME`.
    pub name: String,
    /// Its class, and who says so.
    pub verdict: Verdict,
    /// Whether it has ended: then it has no cgroup any more.
    pub ended: bool,
}

impl Pod {
    /// It, as other programs of the node are told.
    pub fn named(&self, uid: &str) -> PodName {
        let (namespace, name) = self.name.split_once('/').unwrap_or(("", &self.name));
        PodName {
            uid: uid.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            class: self.verdict.class.map(|class| class.word().to_owned()),
        }
    }
}

/// A pod that has ended keeps its name for so long: what its cgroups used is read at the next scrape.
const KEPT: Duration = Duration::from_secs(600);

/// Names of pods, those that have ended for a while longer.
#[derive(Debug, Default)]
pub struct Names(BTreeMap<String, (PodName, Option<Instant>)>);

impl Names {
    /// Those that an agent before kept.
    pub fn kept(pods: Vec<PodName>) -> Names {
        Names(
            pods.into_iter()
                .map(|pod| (pod.uid.clone(), (pod, None)))
                .collect(),
        )
    }

    /// Takes the pods that there are now.
    pub fn update(&mut self, pods: impl Iterator<Item = PodName>, now: Instant) {
        for (_, ended) in self.0.values_mut() {
            ended.get_or_insert(now);
        }
        for pod in pods {
            self.0.insert(pod.uid.clone(), (pod, None));
        }
        let lasts = |ended: &Instant| now.saturating_duration_since(*ended) < KEPT;
        self.0
            .retain(|_, (_, ended)| ended.as_ref().is_none_or(lasts));
    }

    /// All of them, by UID.
    pub fn all(&self) -> Vec<PodName> {
        self.0.values().map(|(pod, _)| pod.clone()).collect()
    }
}

/// What is to be done about a pod's cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Nothing: it has what it should have.
    Keep,
    /// The attribute is written.
    Write,
    /// The attribute is taken away.
    Remove,
    /// The cgroup is not there yet.
    Wait,
}

/// A pod, its class and its cgroup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// `NAMESPACE/NAME`; none: the API server knows no pod of this UID.
    pub pod: Option<String>,
    /// Its class.
    pub class: Class,
    /// Who says so.
    pub why: String,
    /// What is wrong with what the pod says.
    pub fault: Option<String>,
    /// Its cgroup.
    pub cgroup: Option<String>,
    /// The label that the cgroup has, with its objective.
    pub found: Option<String>,
    /// The class that its label should have.
    pub wanted: Option<Class>,
    /// And the objective.
    pub objective: Option<String>,
    /// What is to be done.
    pub action: Action,
}

/// The label that a cgroup should have.
fn label(class: Option<Class>, objective: &Option<String>) -> Option<Label> {
    class.map(|class| Label {
        objective: objective.clone(),
        ..Label::new(class.word())
    })
}

impl Row {
    /// Of a pod and its cgroup, as far as there are both.
    fn new(mode: Mode, pod: Option<&Pod>, cgroup: Option<&Cgroup>) -> Row {
        let verdict = pod.map(|pod| &pod.verdict);
        let said = verdict.and_then(|verdict| verdict.class);
        let wanted = said.filter(|_| mode == Mode::Enforce);
        let objective = verdict.and_then(|verdict| verdict.objective.clone());
        let objective = objective.filter(|_| wanted.is_some());
        let label = label(wanted, &objective);
        let found = cgroup.and_then(|cgroup| cgroup.label.as_ref());
        let action = match (cgroup, wanted) {
            (None, _) => Action::Wait,
            // without a pod nothing is known of what it should have
            (Some(_), None) if found.is_some() && (pod.is_some() || mode == Mode::Observe) => {
                Action::Remove
            }
            (Some(_), Some(_)) if found != label.as_ref() => Action::Write,
            _ => Action::Keep,
        };
        Row {
            pod: pod.map(|pod| pod.name.clone()),
            class: said.unwrap_or(Class::Normal),
            why: verdict.map_or("no such pod".to_owned(), |verdict| verdict.why.clone()),
            fault: verdict.and_then(|verdict| verdict.fault.clone()),
            cgroup: cgroup.map(|cgroup| cgroup.path.clone()),
            found: found.map(Label::to_string),
            wanted,
            objective,
            action,
        }
    }

    /// Does what is to be done.
    ///
    /// # Errors
    /// As [`cgroups::set_label`].
    pub fn apply(&self, root: &Path) -> io::Result<()> {
        match (&self.cgroup, self.action) {
            (Some(path), Action::Write | Action::Remove) => {
                let label = label(self.wanted, &self.objective);
                cgroups::set_label(root, path, label.as_ref())
            }
            _ => Ok(()),
        }
    }
}

/// All pods of a node beside their cgroups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// The name of the node.
    pub node: String,
    /// What its label says.
    pub mode: Mode,
    /// Its pods by their names, then cgroups of pods that the API server does not know.
    pub pods: Vec<Row>,
}

impl Comparison {
    /// Compares what pods (by UID) say with what cgroups have.
    pub fn new(
        node: &str,
        mode: Mode,
        pods: &BTreeMap<String, Pod>,
        cgroups: &BTreeMap<String, Cgroup>,
    ) -> Comparison {
        let known = pods
            .iter()
            .filter(|(uid, pod)| !pod.ended || cgroups.contains_key(*uid));
        let known = known.map(|(uid, pod)| Row::new(mode, Some(pod), cgroups.get(uid)));
        let others = cgroups.iter().filter(|(uid, _)| !pods.contains_key(*uid));
        let others = others.map(|(_, cgroup)| Row::new(mode, None, Some(cgroup)));
        let mut rows: Vec<Row> = known.chain(others).collect();
        rows.sort_by(|a, b| (a.pod.is_none(), &a.pod).cmp(&(b.pod.is_none(), &b.pod)));
        Comparison {
            node: node.to_owned(),
            mode,
            pods: rows,
        }
    }

    /// Whether a pod's cgroup is not there yet.
    pub fn waits(&self) -> bool {
        self.pods.iter().any(|row| row.action == Action::Wait)
    }

    /// The document that programs read.
    ///
    /// # Errors
    /// None that is known: all keys are words.
    pub fn json(&self) -> serde_json::Result<String> {
        #[derive(Serialize)]
        struct Document<'a> {
            schema: &'static str,
            #[serde(flatten)]
            body: &'a Comparison,
        }
        let schema = "sidelane.node/1";
        Ok(serde_json::to_string_pretty(&Document { schema, body: self })? + "\n")
    }
}

impl fmt::Display for Comparison {
    /// A table for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "node {}: {}\n", self.node, self.mode)?;
        let head = ["pod", "class", "why", "cgroup", "found", "action"].map(str::to_owned);
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let cells = |row: &Row| {
            let action = match row.action {
                Action::Keep => "keep",
                Action::Write => "write",
                Action::Remove => "remove",
                Action::Wait => "wait",
            };
            [
                or_dash(&row.pod),
                row.class.to_string(),
                row.why.clone(),
                or_dash(&row.cgroup),
                row.found
                    .as_ref()
                    .map_or("-".to_owned(), |found| found.escape_debug().to_string()),
                action.to_owned(),
            ]
        };
        let rows: Vec<[String; 6]> = std::iter::once(head)
            .chain(self.pods.iter().map(cells))
            .collect();
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..6).map(width).collect();
        for row in &rows {
            let padded = row
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!("{cell:width$}"));
            writeln!(f, "{}", padded.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        let faults = self
            .pods
            .iter()
            .filter_map(|row| Some((row.pod.as_ref()?, row.fault.as_ref()?)));
        for (pod, fault) in faults {
            writeln!(f, "note: {pod}: {fault}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidelane_label::node::NodeState;

    fn pod(name: &str, class: Option<Class>) -> Pod {
        Pod {
            name: name.to_owned(),
            verdict: Verdict {
                class,
                objective: None,
                why: "a test".to_owned(),
                fault: None,
            },
            ended: false,
        }
    }

    fn cgroup(path: &str, label: Option<&str>) -> Cgroup {
        Cgroup {
            path: path.to_owned(),
            label: label.map(Label::new),
        }
    }

    fn by_uid<T>(entries: Vec<(&str, T)>) -> BTreeMap<String, T> {
        let owned = |(uid, value): (&str, T)| (uid.to_owned(), value);
        entries.into_iter().map(owned).collect()
    }

    /// Pods and cgroups in all states.
    fn compared(mode: Mode) -> Comparison {
        let ended = Pod {
            ended: true,
            ..pod("a/ended", Some(Class::Batch))
        };
        let pods = by_uid(vec![
            ("1", pod("a/right", Some(Class::Critical))),
            ("2", pod("a/other", Some(Class::Critical))),
            ("3", pod("a/new", Some(Class::Normal))),
            ("4", pod("a/silent", None)),
            ("5", pod("a/was-batch", None)),
            ("6", pod("a/without", Some(Class::Batch))),
            ("7", ended),
        ]);
        let cgroups = by_uid(vec![
            ("1", cgroup("/1", Some("critical"))),
            ("2", cgroup("/2", Some("batch"))),
            ("3", cgroup("/3", None)),
            ("4", cgroup("/4", None)),
            ("5", cgroup("/5", Some("batch"))),
            ("8", cgroup("/8", Some("batch"))),
        ]);
        Comparison::new("n", mode, &pods, &cgroups)
    }

    fn actions(comparison: &Comparison) -> Vec<(&str, Action)> {
        let name = |row: &'_ Row| row.pod.as_deref().map_or("-", |pod| &pod[2..]).to_owned();
        let row = |row| (&*name(row).leak(), Row::clone(row).action);
        comparison.pods.iter().map(row).collect()
    }

    #[test]
    fn enforced_what_differs_is_written() {
        use Action::{Keep, Remove, Wait, Write};
        assert_eq!(
            actions(&compared(Mode::Enforce)),
            [
                ("new", Write),
                ("other", Write),
                ("right", Keep),
                ("silent", Keep),
                ("was-batch", Remove),
                ("without", Wait),
                ("-", Keep), // its pod may be one that is not known yet
            ]
        );
    }

    #[test]
    fn observed_no_attribute_stays() {
        use Action::{Keep, Remove, Wait};
        assert_eq!(
            actions(&compared(Mode::Observe)),
            [
                ("new", Keep),
                ("other", Remove),
                ("right", Remove),
                ("silent", Keep),
                ("was-batch", Remove),
                ("without", Wait),
                ("-", Remove),
            ]
        );
    }

    #[test]
    fn what_was_written_is_kept() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("kubepods/pod1");
        std::fs::create_dir_all(&path).unwrap();
        if xattr::set(&path, "user.sidelane.class", b"x").is_err() {
            eprintln!("no extended attributes where temporary files are: nothing tested");
            return;
        }
        let pods = by_uid(vec![("1", pod("a/b", Some(Class::Batch)))]);
        for (mode, action, label) in [
            (Mode::Enforce, Action::Write, Some("batch")),
            (Mode::Enforce, Action::Keep, Some("batch")),
            (Mode::Observe, Action::Remove, None),
            (Mode::Observe, Action::Keep, None),
        ] {
            let comparison = Comparison::new("n", mode, &pods, &cgroups::of_pods(root.path()));
            assert_eq!(comparison.pods[0].action, action);
            comparison.pods[0].apply(root.path()).unwrap();
            assert_eq!(
                cgroups::of_pods(root.path())["1"].label,
                label.map(Label::new)
            );
        }
        let mut critical = pod("a/b", Some(Class::Critical));
        for objective in [Some("p99 < 20 ms"), Some("p99 < 10 ms"), None] {
            critical.verdict.objective = objective.map(str::to_owned);
            let pods = by_uid(vec![("1", critical.clone())]);
            for action in [Action::Write, Action::Keep] {
                let found = cgroups::of_pods(root.path());
                let comparison = Comparison::new("n", Mode::Enforce, &pods, &found);
                assert_eq!(comparison.pods[0].action, action);
                comparison.pods[0].apply(root.path()).unwrap();
            }
            let label = cgroups::of_pods(root.path())["1"].label.clone().unwrap();
            assert_eq!(label.objective.as_deref(), objective);
        }
    }

    #[test]
    fn people_and_programs_read_it() {
        let comparison = compared(Mode::Enforce);
        let text = comparison.to_string();
        assert!(
            text.starts_with("node n: enforce\n\npod          class     why"),
            "{text}"
        );
        assert!(
            text.contains("a/other      critical  a test       /2      batch     write\n"),
            "{text}"
        );
        let document = serde_json::from_str(&comparison.json().unwrap()).unwrap();
        sidelane_interface::check::document(&document).unwrap();
        let pods = vec![
            pod("a/b", Some(Class::Batch)).named("1"),
            pod("a/c", None).named("2"),
        ];
        assert_eq!(
            (pods[0].namespace.as_str(), pods[0].name.as_str()),
            ("a", "b")
        );
        let state = NodeState::new(Some(Mode::Enforce.to_string()), Some(1500), pods);
        sidelane_interface::check::document(&serde_json::to_value(&state).unwrap()).unwrap();
    }

    fn named(uid: &str, class: Option<Class>) -> PodName {
        pod(&format!("shop/web-{uid}"), class).named(uid)
    }

    #[test]
    fn an_ended_pod_keeps_its_name_for_a_while() {
        let (begin, mut names) = (Instant::now(), Names::kept(vec![named("0", None)]));
        let uids = |names: &Names| {
            names
                .all()
                .into_iter()
                .map(|pod| pod.uid)
                .collect::<Vec<_>>()
        };
        names.update([named("1", None)].into_iter(), begin);
        assert_eq!(uids(&names), ["0", "1"], "0 was known to an agent before");
        names.update([named("2", None)].into_iter(), begin + KEPT / 2);
        assert_eq!(uids(&names), ["0", "1", "2"]);
        // what a pod says now counts
        names.update([named("2", Some(Class::Batch))].into_iter(), begin + KEPT);
        assert_eq!(uids(&names), ["1", "2"]);
        assert_eq!(names.all()[1].class.as_deref(), Some("batch"));
        names.update([].into_iter(), begin + KEPT + KEPT / 2);
        assert_eq!(uids(&names), ["2"]);
    }
}
