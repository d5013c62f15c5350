//! What the agent of a Kubernetes node tells other programs there: a file with its mode, what it offers to batch, and the names
//! of pods, whose cgroups have UIDs for names.

use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;

const SCHEMA: &str = "sidelane.node-state/1";

/// What the file holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeState {
    schema: String,
    /// The word of the node's label; none: not heard yet.
    pub mode: Option<String>,
    /// What the node offers to batch, in thousandths of an MT1-equivalent core; none: nothing.
    pub batch_cpu: Option<u64>,
    /// Its pods, and those that ended of late, by UID.
    pub pods: Vec<PodName>,
}

/// A pod by its UID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodName {
    /// As in the names of its cgroups, with dashes.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What it says of its class; none: nothing.
    pub class: Option<String>,
}

impl NodeState {
    /// What is to be told.
    pub fn new(mode: Option<String>, batch_cpu: Option<u64>, pods: Vec<PodName>) -> NodeState {
        NodeState {
            schema: SCHEMA.to_owned(),
            mode,
            batch_cpu,
            pods,
        }
    }

    /// Reads the file.
    ///
    /// # Errors
    /// There is none, or it is none of this version.
    pub fn read(file: &Path) -> io::Result<NodeState> {
        let state: NodeState = serde_json::from_slice(&fs::read(file)?)?;
        match state.schema == SCHEMA {
            true => Ok(state),
            false => Err(io::Error::other(format!(
                "{} is not {SCHEMA}",
                state.schema
            ))),
        }
    }

    /// Writes the file, at once for whoever reads it.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        let beside = file.with_extension("new");
        fs::write(&beside, serde_json::to_vec(self)?)?;
        fs::rename(&beside, file)
    }
}

/// What may be below a cgroup on the way to those of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Those that the kubelet makes for the classes of service. So may the root.
    Kubelet,
    /// Those of pods, too.
    Pods,
}

/// What a cgroup is, by the name that the kubelet gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// That of the pod with this UID.
    Pod(String),
    /// One on the way to those of pods.
    Folder(Holds),
}

impl Holds {
    /// What the cgroup `name` directly below is; none: nothing of the kubelet's.
    ///
    /// With the driver cgroupfs a pod's cgroup is `kubepods/burstable/pod<UID>`, with systemd
    /// `kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<UID>.slice`, where the UID has underscores for
    /// dashes. Guaranteed pods stand one folder higher. The kubelet's own `--cgroup-root /kubelet` may be before.
    pub fn below(self, name: &str) -> Option<Named> {
        if let (Holds::Pods, Some(uid)) = (self, uid(name)) {
            return Some(Named::Pod(uid));
        }
        let stem = name.strip_suffix(".slice").unwrap_or(name);
        match stem.rsplit('-').next()? {
            "kubelet" => Some(Named::Folder(Holds::Kubelet)),
            "kubepods" | "burstable" | "besteffort" => Some(Named::Folder(Holds::Pods)),
            _ => None,
        }
    }
}

/// The UID of the pod whose cgroup has this name, with dashes.
fn uid(name: &str) -> Option<String> {
    let uid = match name.strip_suffix(".slice") {
        Some(stem) => stem.rsplit('-').next()?.strip_prefix("pod")?,
        None => name.strip_prefix("pod")?,
    };
    let digits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (!uid.is_empty() && uid.chars().all(digits)).then(|| uid.replace('_', "-"))
}

/// The UID of the pod to which the cgroup at `path` belongs: it is the pod's, or below that.
pub fn pod_of(path: &str) -> Option<String> {
    let mut holds = Holds::Kubelet;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        match holds.below(name)? {
            Named::Pod(uid) => return Some(uid),
            Named::Folder(below) => holds = below,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str, class: Option<&str>) -> PodName {
        PodName {
            uid: uid.to_owned(),
            namespace: "shop".to_owned(),
            name: format!("web-{uid}"),
            class: class.map(str::to_owned),
        }
    }

    #[test]
    fn a_cgroup_names_its_pod() {
        let uid = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0";
        let below = uid.replace('-', "_");
        for path in [
            format!("/kubepods/pod{uid}"),
            format!("/kubepods/burstable/pod{uid}/0123456789abcdef"),
            format!("/kubelet/kubepods/besteffort/pod{uid}/c/init"),
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{below}.slice/crio-1.scope"
            ),
            format!("/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{below}.slice"),
        ] {
            assert_eq!(pod_of(&path).as_deref(), Some(uid), "{path}");
        }
        for path in [
            "/",
            "/podman.slice/podx",
            "/system.slice/pod1",
            "/kubepods",
            "/kubepods/burstable",
            "/a/kubepods/pod1",
        ] {
            assert_eq!(pod_of(path), None, "{path}");
        }
    }

    #[test]
    fn the_file_is_replaced_at_once_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run/node.json");
        assert!(NodeState::read(&file).is_err());
        for batch_cpu in [Some(1500), None] {
            let state = NodeState::new(
                Some("enforce".to_owned()),
                batch_cpu,
                vec![pod("1", None), pod("2", Some("batch"))],
            );
            state.write(&file).unwrap();
            assert_eq!(NodeState::read(&file).unwrap(), state);
        }
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
        fs::write(
            &file,
            r#"{"schema": "sidelane.node-state/2", "mode": null, "pods": []}"#,
        )
        .unwrap();
        let said = NodeState::read(&file).unwrap_err().to_string();
        assert!(said.contains("node-state/2 is not"), "{said}");
        fs::write(&file, "enforce\n").unwrap();
        assert!(NodeState::read(&file).is_err());
    }
}
