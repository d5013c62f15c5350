//! Objects of the API server, with the fields that the agent needs and no others, and what it patches.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::Resource;
use serde::Deserialize;
use serde_json::{Value, json};
use sidelane_node::batch_cpu::{RESOURCE, whole};
use sidelane_node::class::{Facts, Rules};
use sidelane_node::scheduler::Attached;
use sidelane_node::{Mode, Pod};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Label of a node: what the agent does there.
const MODE: &str = "sidelane.dev/mode";
/// Label of a node that the agent writes: lanes of a core.
const LANES: &str = "sidelane.dev/lanes-per-core";
/// Label of a node that the agent writes: threadPerf of as many lanes.
const THREAD_PERF: &str = "sidelane.dev/thread-perf";
/// Of pods that the kubelet has from a file: their UID for the kubelet, and in the names of cgroups.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// A pod, as little of it as will do.
#[derive(Clone, Debug, Deserialize)]
pub struct PodObject {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    priority_class_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodStatus {
    qos_class: Option<String>,
    phase: Option<String>,
}

impl PodObject {
    /// Its UID in the names of cgroups.
    pub fn uid(&self) -> Option<&String> {
        let annotations = self.metadata.annotations.as_ref();
        let mirror = annotations.and_then(|words| words.get(MIRROR));
        mirror.or(self.metadata.uid.as_ref())
    }

    /// What the agent keeps of it.
    pub fn pod(&self, rules: &Rules) -> Pod {
        let none = BTreeMap::new();
        let metadata = &self.metadata;
        let name = metadata.name.as_deref().unwrap_or_default();
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let facts = Facts {
            annotations: metadata.annotations.as_ref().unwrap_or(&none),
            labels: metadata.labels.as_ref().unwrap_or(&none),
            priority_class: self.spec.priority_class_name.as_deref(),
            qos_class: self.status.qos_class.as_deref(),
        };
        Pod {
            name: format!("{namespace}/{name}"),
            verdict: rules.class_of(facts),
            ended: matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed")),
        }
    }
}

/// A node, as little of it as will do.
#[derive(Clone, Debug, Deserialize)]
pub struct NodeObject {
    metadata: ObjectMeta,
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct NodeStatus {
    #[serde(default)]
    conditions: Vec<Condition>,
    #[serde(default)]
    capacity: BTreeMap<String, String>,
}

/// A condition of a node.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: Option<String>,
    message: Option<String>,
    last_transition_time: Option<String>,
}

/// Type of that condition.
const ATTACHED: &str = "SidelaneAttached";

/// What the labels of the node are to say of the machine; none: no label.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Lanes of a core.
    pub lanes_per_core: Option<u64>,
    /// threadPerf where all of them run.
    pub thread_perf: Option<f64>,
}

impl NodeObject {
    /// What its label says.
    ///
    /// # Errors
    /// What is wrong with it; the mode is [`Mode::Observe`] then.
    pub fn mode(&self) -> Result<Mode, String> {
        let word = self
            .metadata
            .labels
            .as_ref()
            .and_then(|words| words.get(MODE));
        word.map_or(Ok(Mode::Observe), |word| word.parse())
            .map_err(|fault: String| format!("label {MODE}: {fault}; it is observe"))
    }

    /// What has to change for labels to say this of the machine.
    pub fn relabelled(&self, machine: &Machine) -> Option<Value> {
        let wanted = [
            (LANES, machine.lanes_per_core.map(|lanes| lanes.to_string())),
            (
                THREAD_PERF,
                machine.thread_perf.map(|perf| format!("{perf:.2}")),
            ),
        ];
        let found = |name: &str| self.metadata.labels.as_ref()?.get(name);
        let differs = |(name, word): &(&str, Option<String>)| found(name) != word.as_ref();
        let labels: BTreeMap<_, _> = wanted.into_iter().filter(differs).collect();
        (!labels.is_empty()).then(|| json!({"metadata": {"labels": labels}}))
    }

    /// What has to change for its capacity to offer batch so much; none: nothing. The kubelet takes what may be
    /// allocated from the capacity.
    pub fn with_batch_cpu(&self, wanted: Option<u64>) -> Option<Value> {
        let found = self.status.capacity.get(RESOURCE);
        let same = match (found, wanted) {
            (Some(found), Some(wanted)) => whole(found) == Some(wanted),
            (found, wanted) => found.is_none() && wanted.is_none(),
        };
        let quantity = wanted.map(|milli| milli.to_string());
        (!same).then(|| json!({"status": {"capacity": {RESOURCE: quantity}}}))
    }

    /// What has to change for the condition to say this. Conditions are merged by type.
    pub fn with_condition(&self, attached: &Attached) -> Option<Value> {
        let found = self
            .status
            .conditions
            .iter()
            .find(|found| found.kind == ATTACHED);
        let same = |found: &&Condition| found.status == attached.status;
        let reason = Some(attached.reason);
        let equal = |found: &Condition| {
            found.reason.as_deref() == reason && found.message.as_ref() == Some(&attached.message)
        };
        if found.filter(same).is_some_and(equal) {
            return None;
        }
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let since = found
            .filter(same)
            .and_then(|found| found.last_transition_time.as_ref());
        Some(json!({"status": {"conditions": [{
            "type": ATTACHED,
            "status": attached.status,
            "reason": attached.reason,
            "message": attached.message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": since.unwrap_or(&now),
        }]}}))
    }
}

/// Makes a struct one of the core objects of the API.
macro_rules! object {
    ($object:ident, $scope:ty, $kind:literal, $plural:literal) => {
        impl Resource for $object {
            type DynamicType = ();
            type Scope = $scope;

            fn kind((): &()) -> Cow<'_, str> {
                $kind.into()
            }

            fn group((): &()) -> Cow<'_, str> {
                "".into()
            }

            fn version((): &()) -> Cow<'_, str> {
                "v1".into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

object!(PodObject, NamespaceResourceScope, "Pod", "pods");
object!(NodeObject, ClusterResourceScope, "Node", "nodes");

#[cfg(test)]
mod tests {
    use super::*;
    use sidelane_node::Class;

    fn node(value: Value) -> NodeObject {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_pod_keeps_what_names_its_cgroup_and_its_class() {
        let pod: PodObject = serde_json::from_value(json!({
            "metadata": {"name": "web-0", "namespace": "shop", "uid": "1-2", "labels": {"sidelane.dev/class": "critical"}},
            "spec": {"nodeName": "n", "containers": []},
            "status": {"phase": "Running", "qosClass": "Burstable"}
        }))
        .unwrap();
        assert_eq!(pod.uid().unwrap(), "1-2");
        let kept = pod.pod(&Rules::default());
        assert_eq!((kept.name.as_str(), kept.ended), ("shop/web-0", false));
        assert_eq!(kept.verdict.class, Some(Class::Critical));
        let of_a_file: PodObject = serde_json::from_value(json!({
            "metadata": {"uid": "1-2", "annotations": {"kubernetes.io/config.mirror": "ab12"}},
            "status": {"phase": "Failed"}
        }))
        .unwrap();
        assert_eq!(of_a_file.uid().unwrap(), "ab12");
        assert!(of_a_file.pod(&Rules::default()).ended);
    }

    #[test]
    fn a_node_says_its_mode() {
        let mode = |labels: Value| node(json!({"metadata": {"labels": labels}})).mode();
        assert_eq!(
            mode(json!({"sidelane.dev/mode": "enforce"})),
            Ok(Mode::Enforce)
        );
        assert_eq!(mode(json!(null)), Ok(Mode::Observe));
        assert!(
            mode(json!({"sidelane.dev/mode": "on"}))
                .unwrap_err()
                .contains("\"on\" is no mode")
        );
    }

    #[test]
    fn labels_are_patched_where_they_differ() {
        let found = node(
            json!({"metadata": {"labels": {"sidelane.dev/thread-perf": "0.61", "sidelane.dev/lanes-per-core": "2"}}}),
        );
        let mut machine = Machine {
            lanes_per_core: Some(2),
            thread_perf: Some(0.612),
        };
        assert_eq!(found.relabelled(&machine), None);
        machine.thread_perf = None;
        let patch = json!({"metadata": {"labels": {"sidelane.dev/thread-perf": null}}});
        assert_eq!(found.relabelled(&machine), Some(patch));
    }

    #[test]
    fn what_batch_may_count_on_is_patched_where_it_differs() {
        let of = |capacity: Value| node(json!({"metadata": {}, "status": {"capacity": capacity}}));
        let patch = |quantity: Value| {
            let patch = json!({"status": {"capacity": {"sidelane.dev/batch-cpu": quantity}}});
            Some(patch)
        };
        let none = of(json!({"cpu": "4"}));
        assert_eq!(none.with_batch_cpu(None), None);
        assert_eq!(none.with_batch_cpu(Some(1500)), patch(json!("1500")));
        // as the API server writes 2000
        let some = of(json!({"cpu": "4", "sidelane.dev/batch-cpu": "2k"}));
        assert_eq!(some.with_batch_cpu(Some(2000)), None);
        assert_eq!(some.with_batch_cpu(Some(0)), patch(json!("0")));
        assert_eq!(some.with_batch_cpu(None), patch(json!(null)));
        assert_eq!(node(json!({"metadata": {}})).with_batch_cpu(None), None);
    }

    #[test]
    fn a_condition_keeps_its_time_while_its_status_stays() {
        let of = |status: &str, reason: &str| {
            node(json!({"metadata": {}, "status": {"conditions": [{
                "type": "SidelaneAttached", "status": status, "reason": reason, "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}))
        };
        let attached = Attached {
            status: "False",
            reason: "Observing",
            message: "m".to_owned(),
        };
        assert_eq!(of("False", "Observing").with_condition(&attached), None);
        let patch = of("False", "NotAttached")
            .with_condition(&attached)
            .unwrap();
        let patched = &patch["status"]["conditions"][0];
        assert_eq!(patched["lastTransitionTime"], "2026-01-01T00:00:00Z");
        assert_eq!(patched["reason"], "Observing");
        for other in [of("True", "Attached"), node(json!({"metadata": {}}))] {
            let patch = other.with_condition(&attached).unwrap();
            let patched = &patch["status"]["conditions"][0];
            assert_ne!(patched["lastTransitionTime"], "2026-01-01T00:00:00Z");
        }
    }
}
