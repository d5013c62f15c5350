//! CPUs that kubelet hands out by number (CPU manager, policy `static`).

use super::{Reserved, StaticCpuManager};
use crate::CpuList;
use crate::sysfs::tree::Tree;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Kubelet's folder: the usual one, and those of distributions that move it.
const KUBELETS: [&str; 3] = [
    "var/lib/kubelet",
    "var/lib/k0s/kubelet",
    "var/snap/microk8s/common/var/lib/kubelet",
];
const STATE: &str = "cpu_manager_state";

/// Where cpusets are: cgroup v2, and version 1.
const MOUNTS: [&str; 2] = ["sys/fs/cgroup", "sys/fs/cgroup/cpuset"];
/// What the cgroup of all pods is named, with `.slice` behind it where systemd manages cgroups.
const PODS: &[u8] = b"kubepods";

/// What the state file says; where there is none, what the cgroups of pods show.
pub(super) fn read(tree: &Tree, found: &mut Reserved) -> Option<StaticCpuManager> {
    for folder in KUBELETS {
        let file = Path::new(folder).join(STATE);
        if let Some(text) = found.text(tree, &file) {
            return state(&text, tree.path(&file)).unwrap_or_else(|problem| {
                found.note(tree, &file, &problem);
                None
            });
        }
    }
    let online = found.list(tree, Path::new("sys/devices/system/cpu/online"));
    MOUNTS
        .iter()
        .find_map(|mount| cgroups(tree, found, Path::new(mount), &online.clone()?))
}

/// What a state file says; none if the policy is another.
fn state(text: &str, path: PathBuf) -> Result<Option<StaticCpuManager>, String> {
    let state: Value = serde_json::from_str(text).map_err(|e| format!("it is no JSON: {e}"))?;
    match state.get("policyName").and_then(Value::as_str) {
        None => return Err("it names no policy".to_owned()),
        Some("static") => {}
        Some(_) => return Ok(None),
    }
    let (mut given, mut shared) = (Vec::new(), Vec::new());
    lists(state.get("entries"), &mut given)?;
    lists(state.get("defaultCpuSet"), &mut shared)?;
    let counted_on = given.iter().chain(&shared).copied().collect();
    Ok(Some(StaticCpuManager {
        path,
        given: given.into_iter().collect(),
        counted_on,
    }))
}

/// The CPUs of all lists in a value. How deep they are nested differs: by container in older kubelets, by pod and
/// container since 1.18.
fn lists(value: Option<&Value>, cpus: &mut Vec<u32>) -> Result<(), String> {
    match value {
        Some(Value::String(list)) => {
            let list: CpuList = list.parse().map_err(|e| format!("{e}"))?;
            cpus.extend(list.iter());
        }
        Some(Value::Object(inner)) => {
            for value in inner.values() {
                lists(Some(value), cpus)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Without the state file (kubelet's folder may be elsewhere, or not be visible): a container has CPUs for itself if its
/// cpuset holds some of the machine's, and none that another container's holds.
fn cgroups(
    tree: &Tree,
    found: &mut Reserved,
    mount: &Path,
    online: &CpuList,
) -> Option<StaticCpuManager> {
    let is_pods = |folder: &PathBuf| {
        let name = folder.file_name().map(|name| name.as_encoded_bytes());
        name.is_some_and(|name| name.starts_with(PODS))
    };
    let folders = found.folders(tree, mount);
    let path = folders.iter().find(|folder| is_pods(folder))?.clone();
    let sets = cpusets(tree, found, &path, online);
    let mut holders: BTreeMap<u32, usize> = BTreeMap::new();
    for cpu in sets.iter().flat_map(CpuList::iter) {
        *holders.entry(cpu).or_default() += 1;
    }
    let alone = |set: &&CpuList| set.iter().all(|cpu| holders.get(&cpu) == Some(&1));
    let given: CpuList = sets.iter().filter(alone).flat_map(CpuList::iter).collect();
    (!given.is_empty()).then(|| StaticCpuManager {
        path: tree.path(&path),
        given,
        counted_on: holders.into_keys().collect(),
    })
}

/// Cpusets that hold some CPUs of the machine and not all, outermost ones only.
fn cpusets(tree: &Tree, found: &mut Reserved, top: &Path, online: &CpuList) -> Vec<CpuList> {
    let (mut folders, mut sets) = (vec![top.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        match found.list(tree, &folder.join("cpuset.cpus")) {
            Some(set) if !set.is_empty() && !online.is_subset(&set) => sets.push(set),
            _ => folders.extend(found.folders(tree, &folder)),
        }
    }
    sets
}
