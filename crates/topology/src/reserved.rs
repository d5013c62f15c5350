//! CPUs that are set apart: ordinary work does not run there, or the operator gave them to some work.
//!
//! Three parties reserve CPUs: the kernel's boot parameters (`isolcpus=`, `nohz_full=`), partitions of
//! cgroup v2 (`cpuset.cpus.partition`), and Kubernetes' kubelet with the CPU manager's policy `static`.
//! [`Reserved::read`] asks all of them. What cannot be read is a note, and the answer is then
//! incomplete; it is never an error, as most machines reserve nothing.

#[cfg(test)]
mod tests;

use crate::CpuList;
use crate::sysfs::tree::Tree;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Where cgroup v2 is mounted: alone, or beside version 1.
const MOUNTS: [&str; 2] = ["sys/fs/cgroup", "sys/fs/cgroup/unified"];

/// Kubelet's folder: the usual one, and those of distributions that move it.
const KUBELETS: [&str; 3] = [
    "var/lib/kubelet",
    "var/lib/k0s/kubelet",
    "var/snap/microk8s/common/var/lib/kubelet",
];
const STATE: &str = "cpu_manager_state";

/// Where cpusets are: cgroup v2, and version 1.
const CPUSETS: [&str; 2] = ["sys/fs/cgroup", "sys/fs/cgroup/cpuset"];
/// What the cgroup of all pods is named, with `.slice` behind it where systemd manages cgroups.
const PODS: &[u8] = b"kubepods";

/// What reserves a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// `sys/devices/system/cpu/isolated`: by `isolcpus=`, on newer kernels also by a partition.
    Isolated,
    /// A valid partition of cgroup v2, `root` or `isolated`: tasks outside never run there.
    Partition,
    /// `nohz_full=`: meant for one task a CPU, without the timer tick.
    NohzFull,
    /// The static CPU manager of kubelet gave it to one container.
    StaticCpuManager,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 4] = [
        Reason::Isolated,
        Reason::Partition,
        Reason::NohzFull,
        Reason::StaticCpuManager,
    ];
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Isolated => "isolated",
            Reason::Partition => "in a cpuset partition",
            Reason::NohzFull => "nohz_full",
            Reason::StaticCpuManager => "given away by kubelet's static CPU manager",
        })
    }
}

/// A CPU manager that hands out CPUs by number, and counts on all of them to stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StaticCpuManager {
    /// Where that was read: kubelet's state file, or the folder of its cgroups.
    pub path: PathBuf,
    /// CPUs that one container has for itself.
    pub given: CpuList,
    /// All CPUs that it counts on, those given included. Kubelet does not start again with its state
    /// file when one of them is offline.
    pub counted_on: CpuList,
}

/// The reserved CPUs of a machine, by reason. A CPU may be reserved for several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reserved {
    by_reason: BTreeMap<Reason, CpuList>,
    cpu_manager: Option<StaticCpuManager>,
    notes: Vec<String>,
}

impl Reserved {
    /// Reads it below `root`; `/` is this machine.
    pub fn read(root: &Path) -> Reserved {
        let tree = Tree::new(root);
        let mut found = Reserved::default();
        for (reason, file) in [
            (Reason::Isolated, "sys/devices/system/cpu/isolated"),
            (Reason::NohzFull, "sys/devices/system/cpu/nohz_full"),
        ] {
            let cpus = found.list(&tree, Path::new(file));
            found.add(reason, cpus.unwrap_or_default());
        }
        let cpus = partitions(&tree, &mut found);
        found.add(Reason::Partition, cpus);
        found.cpu_manager = static_cpu_manager(&tree, &mut found);
        if let Some(manager) = &found.cpu_manager {
            let given = manager.given.clone();
            found.add(Reason::StaticCpuManager, given);
        }
        found
    }

    /// All reserved CPUs.
    pub fn cpus(&self) -> CpuList {
        self.by_reason.values().flat_map(CpuList::iter).collect()
    }

    /// The CPUs that are reserved for a reason.
    pub fn by(&self, reason: Reason) -> CpuList {
        self.by_reason.get(&reason).cloned().unwrap_or_default()
    }

    /// Each reason that reserves a CPU, and its CPUs.
    pub fn by_reason(&self) -> impl Iterator<Item = (Reason, &CpuList)> {
        self.by_reason.iter().map(|(reason, cpus)| (*reason, cpus))
    }

    /// Why a CPU is reserved; empty if it is not.
    pub fn reasons(&self, cpu: u32) -> impl Iterator<Item = Reason> {
        let by_reason = self.by_reason.iter();
        by_reason.filter_map(move |(reason, cpus)| cpus.contains(cpu).then_some(*reason))
    }

    /// The static CPU manager at work, also if it has given nothing away yet.
    pub fn cpu_manager(&self) -> Option<&StaticCpuManager> {
        self.cpu_manager.as_ref()
    }

    /// What could not be read, each with its file: reserved CPUs may be missing then.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    fn add(&mut self, reason: Reason, cpus: CpuList) {
        if !cpus.is_empty() {
            self.by_reason.insert(reason, cpus);
        }
    }

    /// The list in a file; none if there is no such file, or, with a note, if it tells nothing.
    fn list(&mut self, tree: &Tree, file: &Path) -> Option<CpuList> {
        let text = self.text(tree, file)?;
        match text.as_str() {
            "(null)" => Some(CpuList::new()), // what the kernel prints where no mask was allocated
            list => list
                .parse()
                .map_err(|e| self.note(tree, file, &format!("it holds no list of CPUs: {e}")))
                .ok(),
        }
    }

    /// The text of a file; none if there is no such file, or, with a note, if it cannot be read.
    fn text(&mut self, tree: &Tree, file: &Path) -> Option<String> {
        tree.text(file).unwrap_or_else(|error| {
            self.notes.push(error.to_string());
            None
        })
    }

    /// Folders in a folder; none if there is no such folder, or, with a note, if it cannot be read.
    fn folders(&mut self, tree: &Tree, folder: &Path) -> Vec<PathBuf> {
        tree.folders(folder).unwrap_or_else(|error| {
            self.notes.push(error.to_string());
            Vec::new()
        })
    }

    fn note(&mut self, tree: &Tree, file: &Path, problem: &str) {
        let path = tree.path(file);
        let path = crate::printable(path.as_os_str().as_encoded_bytes());
        self.notes.push(format!("{path}: {problem}"));
    }
}

/// The CPUs of all valid partitions below the root cgroup. `cpuset.cpus.isolated` (Linux 6.7) lists those
/// of isolated ones; older kernels, and partitions of the kind `root`, only say so in their own folder.
fn partitions(tree: &Tree, found: &mut Reserved) -> CpuList {
    let mut cpus = CpuList::new();
    for mount in MOUNTS.map(Path::new) {
        let isolated = found.list(tree, &mount.join("cpuset.cpus.isolated"));
        let mut folders = found.folders(tree, mount);
        let mut all: Vec<CpuList> = isolated.into_iter().collect();
        while let Some(folder) = folders.pop() {
            // without the file the controller is off here, and so it is below
            let Some(kind) = found.text(tree, &folder.join("cpuset.cpus.partition")) else {
                continue;
            };
            if is_valid(&kind) {
                all.extend(cpus_of(tree, found, &folder));
            }
            folders.extend(found.folders(tree, &folder));
        }
        all.iter().flat_map(CpuList::iter).for_each(|cpu| {
            cpus.insert(cpu);
        });
    }
    cpus
}

/// `root` or `isolated`; the kernel writes `root invalid (reason)` where it could not make one.
fn is_valid(kind: &str) -> bool {
    matches!(kind, "root" | "isolated")
}

/// Since Linux 6.7 a partition says which CPUs it owns; before, those it uses.
fn cpus_of(tree: &Tree, found: &mut Reserved, folder: &Path) -> Option<CpuList> {
    let owned = found.list(tree, &folder.join("cpuset.cpus.exclusive.effective"));
    let owned = owned.filter(|cpus| !cpus.is_empty());
    owned.or_else(|| found.list(tree, &folder.join("cpuset.cpus.effective")))
}

/// What the state file says; where there is none, what the cgroups of pods show.
fn static_cpu_manager(tree: &Tree, found: &mut Reserved) -> Option<StaticCpuManager> {
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
    CPUSETS
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
