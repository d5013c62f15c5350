//! Partitions of cgroup v2: cpusets whose CPUs no task outside may use.

use super::Reserved;
use crate::CpuList;
use crate::sysfs::tree::Tree;
use std::path::Path;

/// Where cgroup v2 is mounted: alone, or beside version 1.
const MOUNTS: [&str; 2] = ["sys/fs/cgroup", "sys/fs/cgroup/unified"];

/// The CPUs of all valid partitions below the root cgroup. `cpuset.cpus.isolated` (Linux 6.7) lists those
/// of isolated ones; older kernels, and partitions of the kind `root`, only say so in their own folder.
pub(super) fn read(tree: &Tree, found: &mut Reserved) -> CpuList {
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
