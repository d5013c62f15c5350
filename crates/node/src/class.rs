//! Which class a pod has, and who says so.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Annotation or label of a pod: its class.
pub const CLASS: &str = "sidelane.dev/class";
/// Annotation of a pod: the latency that few jobs of its critical tasks may exceed.
pub const OBJECTIVE: &str = "sidelane.dev/objective";
/// Label of a pod: the class of service that koordinator gives it.
const KOORDINATOR: &str = "koordinator.sh/qosClass";

/// The class of a pod's tasks, as rules `label:WORD` of the scheduler have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Somebody waits for it.
    Critical,
    /// Neither.
    Normal,
    /// It may wait.
    Batch,
}

impl Class {
    /// The word of the attribute.
    pub fn word(self) -> &'static str {
        match self {
            Class::Critical => "critical",
            Class::Normal => "normal",
            Class::Batch => "batch",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Class {
    type Err = String;

    fn from_str(word: &str) -> Result<Class, String> {
        [Class::Critical, Class::Normal, Class::Batch]
            .into_iter()
            .find(|class| class.word() == word)
            .ok_or_else(|| format!("{word:?} is no class: critical, normal or batch"))
    }
}

/// What a pod says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// `metadata.annotations`.
    pub annotations: &'a BTreeMap<String, String>,
    /// `metadata.labels`.
    pub labels: &'a BTreeMap<String, String>,
    /// `spec.priorityClassName`.
    pub priority_class: Option<&'a str>,
    /// `status.qosClass`.
    pub qos_class: Option<&'a str>,
}

/// What the administrator says of pods that say nothing of Sidelane.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Classes by the names of PriorityClasses.
    pub priority_classes: BTreeMap<String, Class>,
    /// Whether pods of the QoS class BestEffort are batch.
    pub best_effort_batch: bool,
}

/// The class of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// None: nobody says anything. Then no attribute is written, and tasks are normal unless a rule for their path, or
    /// their scheduling policy, says otherwise.
    pub class: Option<Class>,
    /// Of a critical pod, as the pod says it; the scheduler tells if it is none.
    pub objective: Option<String>,
    /// Who says so.
    pub why: String,
    /// What is wrong with what the pod says.
    pub fault: Option<String>,
}

impl Rules {
    /// The class of a pod. What it says of Sidelane comes first, then what it says to koordinator, then the table of
    /// PriorityClasses, then its QoS class. An objective is for critical pods.
    pub fn class_of(&self, pod: Facts<'_>) -> Verdict {
        let mut verdict = self.class_alone(pod);
        match (pod.annotations.get(OBJECTIVE), verdict.class) {
            (None, _) => {}
            (Some(text), Some(Class::Critical)) => verdict.objective = Some(text.trim().to_owned()),
            (Some(_), _) => {
                let fault =
                    format!("annotation {OBJECTIVE}: the pod is not critical; it does not count");
                verdict.fault.get_or_insert(fault);
            }
        }
        verdict
    }

    fn class_alone(&self, pod: Facts<'_>) -> Verdict {
        let said = [("annotation", pod.annotations), ("label", pod.labels)];
        for (kind, words) in said {
            if let Some(word) = words.get(CLASS) {
                return of_word(kind, word);
            }
        }
        let koordinator = pod.labels.get(KOORDINATOR);
        if let Some((word, class)) =
            koordinator.and_then(|word| Some((word, of_koordinator(word)?)))
        {
            return found(class, format!("{KOORDINATOR} {word}"));
        }
        let priority = pod.priority_class;
        if let Some((name, class)) =
            priority.and_then(|name| self.priority_classes.get_key_value(name))
        {
            return found(*class, format!("PriorityClass {name}"));
        }
        if self.best_effort_batch && pod.qos_class == Some("BestEffort") {
            return found(Class::Batch, "BestEffort".to_owned());
        }
        Verdict {
            class: None,
            objective: None,
            why: "nothing says more".to_owned(),
            fault: None,
        }
    }
}

fn found(class: Class, why: String) -> Verdict {
    Verdict {
        class: Some(class),
        objective: None,
        why,
        fault: None,
    }
}

fn of_word(kind: &str, word: &str) -> Verdict {
    match word.parse() {
        Ok(class) => found(class, format!("{kind} {CLASS}")),
        Err(fault) => Verdict {
            fault: Some(format!("{kind} {CLASS}: {fault}; it is normal")),
            ..found(Class::Normal, format!("bad {kind} {CLASS}"))
        },
    }
}

/// Of its latency-sensitive classes, its best-effort one, and that of the system's own pods.
fn of_koordinator(word: &str) -> Option<Class> {
    match word {
        "LSE" | "LSR" | "LS" => Some(Class::Critical),
        "BE" => Some(Class::Batch),
        "SYSTEM" => Some(Class::Normal),
        _ => None,
    }
}

/// Reads a row of the table of PriorityClasses: `NAME=CLASS`.
///
/// # Errors
/// What is wrong with it.
pub fn priority_class(row: &str) -> Result<(String, Class), String> {
    match row.split_once('=') {
        Some((name, class)) if !name.is_empty() => Ok((name.to_owned(), class.parse()?)),
        _ => Err(format!("{row:?}: expected NAME=CLASS")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = |(key, word): &(&str, &str)| ((*key).to_owned(), (*word).to_owned());
        words.iter().map(owned).collect()
    }

    fn rules() -> Rules {
        Rules {
            priority_classes: [priority_class("web=critical"), priority_class("idle=batch")]
                .into_iter()
                .collect::<Result<_, _>>()
                .unwrap(),
            best_effort_batch: true,
        }
    }

    /// Class and reason of a pod with these annotations and labels, PriorityClass and QoS class.
    fn of(
        annotations: &[(&str, &str)],
        labels: &[(&str, &str)],
        priority_class: Option<&str>,
        qos_class: &str,
    ) -> (Option<Class>, String) {
        let (annotations, labels) = (words(annotations), words(labels));
        let verdict = rules().class_of(Facts {
            annotations: &annotations,
            labels: &labels,
            priority_class,
            qos_class: Some(qos_class),
        });
        (verdict.class, verdict.why)
    }

    #[test]
    fn who_says_more_of_a_pod_wins() {
        let (annotation, label) = ([(CLASS, "normal")], [(CLASS, "critical")]);
        let koordinator = [(KOORDINATOR, "BE")];
        let both = [label[0], koordinator[0]];
        let all = of(&annotation, &both, Some("web"), "BestEffort");
        assert_eq!(
            all,
            (Some(Class::Normal), "annotation sidelane.dev/class".into())
        );
        let (class, why) = of(&[], &both, Some("web"), "BestEffort");
        assert_eq!(
            (class, why.as_str()),
            (Some(Class::Critical), "label sidelane.dev/class")
        );
        let (class, why) = of(&[], &koordinator, Some("web"), "BestEffort");
        assert_eq!(
            (class, why.as_str()),
            (Some(Class::Batch), "koordinator.sh/qosClass BE")
        );
        let (class, why) = of(&[], &[], Some("web"), "BestEffort");
        assert_eq!(
            (class, why.as_str()),
            (Some(Class::Critical), "PriorityClass web")
        );
        let (class, why) = of(&[], &[], Some("other"), "BestEffort");
        assert_eq!((class, why.as_str()), (Some(Class::Batch), "BestEffort"));
        assert_eq!(of(&[], &[], Some("other"), "Burstable").0, None);
    }

    #[test]
    fn koordinator_s_words_have_classes() {
        let class = |word| of(&[], &[(KOORDINATOR, word)], None, "Burstable").0;
        for word in ["LSE", "LSR", "LS"] {
            assert_eq!(class(word), Some(Class::Critical), "{word}");
        }
        assert_eq!(class("SYSTEM"), Some(Class::Normal));
        assert_eq!(class("be"), None);
    }

    #[test]
    fn best_effort_is_batch_only_if_asked() {
        let none = BTreeMap::new();
        let facts = Facts {
            annotations: &none,
            labels: &none,
            priority_class: None,
            qos_class: Some("BestEffort"),
        };
        assert_eq!(Rules::default().class_of(facts).class, None);
        assert_eq!(rules().class_of(facts).class, Some(Class::Batch));
    }

    #[test]
    fn a_word_that_is_no_class_is_told_and_normal() {
        let (annotations, none) = (words(&[(CLASS, "Critical")]), BTreeMap::new());
        let verdict = rules().class_of(Facts {
            annotations: &annotations,
            labels: &none,
            priority_class: Some("web"),
            qos_class: None,
        });
        assert_eq!(verdict.class, Some(Class::Normal));
        let fault = verdict.fault.unwrap();
        assert!(fault.contains("\"Critical\" is no class"), "{fault}");
    }

    #[test]
    fn critical_pods_may_have_an_objective() {
        let of = |class: &str| {
            let annotations = words(&[(CLASS, class), (OBJECTIVE, "p99 < 20 ms ")]);
            let none = BTreeMap::new();
            rules().class_of(Facts {
                annotations: &annotations,
                labels: &none,
                priority_class: None,
                qos_class: None,
            })
        };
        let verdict = of("critical");
        assert_eq!(verdict.objective.as_deref(), Some("p99 < 20 ms"));
        assert_eq!(verdict.fault, None);
        let verdict = of("batch");
        assert_eq!(verdict.objective, None);
        let fault = verdict.fault.unwrap();
        assert!(
            fault.contains("sidelane.dev/objective: the pod is not critical"),
            "{fault}"
        );
    }

    #[test]
    fn rows_of_the_table_are_read() {
        assert_eq!(
            priority_class("a=batch"),
            Ok(("a".to_owned(), Class::Batch))
        );
        for bad in ["a", "=batch", "a=", "a=slow"] {
            assert!(priority_class(bad).is_err(), "{bad}");
        }
    }
}
