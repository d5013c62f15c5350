//! The kernel's own means: `smt/control`, and the `online` files of single lanes.

use super::kernel::Kernel;
use super::{Actuator, Found, pinned};
use crate::cpusets;
use crate::{Error, Result};
use sidelane_topology::reserved::Reserved;
use sidelane_topology::{CpuList, Topology};
use std::collections::BTreeSet;
use std::path::Path;

/// Sets the SMT level through the kernel.
#[derive(Debug)]
pub struct Sysfs {
    kernel: Kernel,
    /// Lanes of each core that may be taken or are its first, ascending.
    cores: Vec<Vec<u32>>,
    /// `smt/control` at the beginning.
    control: Option<String>,
    /// `smt/control` would move no other lanes than those of `cores`.
    control_fits: bool,
    /// Lanes that pinned tasks needed when lanes were last to be taken.
    needed: CpuList,
}

impl Sysfs {
    /// The machine below a root (`/` but in tests) as it is now. Reserved CPUs are never touched.
    ///
    /// # Errors
    /// It cannot be read, or could not be changed without harm.
    pub fn new(root: &Path, topology: &Topology, reserved: &Reserved) -> Result<Sysfs> {
        let kernel = Kernel::new(root);
        let cores = cores_without(topology, &reserved.cpus());
        check_harmless(root, &cores, reserved)?;
        let second = cores.iter().flat_map(|lanes| lanes.iter().skip(1));
        kernel.check_writable(second.copied())?;
        let control = kernel.control()?;
        let all_online = topology.present().difference(topology.online()).is_empty();
        let none_reserved = reserved.cpus().is_empty();
        Ok(Sysfs {
            cores,
            control_fits: Kernel::switches(control.as_deref()) && all_online && none_reserved,
            control,
            kernel,
            needed: CpuList::new(),
        })
    }

    /// Makes online what was online at the beginning, as far as it can be.
    ///
    /// # Errors
    /// What the kernel refuses first.
    pub fn restore(root: &Path, control: Option<&str>, lanes: &[u32]) -> Result<()> {
        let kernel = Kernel::new(root);
        let controlled = control.map_or(Ok(()), |found| restore_control(&kernel, found));
        let arranged = kernel.arrange(lanes, &lanes.iter().copied().collect());
        controlled.and(arranged)
    }

    fn lanes(&self) -> Vec<u32> {
        self.cores.iter().flatten().copied().collect()
    }

    /// Lanes of a core that are still there: one that was ejected keeps no place.
    fn there(&self, core: &[u32]) -> Vec<u32> {
        let lanes = core.iter().copied();
        lanes.filter(|cpu| self.kernel.has(*cpu)).collect()
    }

    /// Lanes that a level keeps: the first of each core.
    fn kept(&self, level: usize) -> BTreeSet<u32> {
        let there = self.cores.iter().map(|core| self.there(core));
        there
            .flat_map(|core| core.into_iter().take(level))
            .collect()
    }

    /// Finds the lanes that pinned tasks need beside those `kept`; says which.
    fn find_needed(&mut self, kept: &BTreeSet<u32>) -> Result<Vec<String>> {
        self.needed = CpuList::new();
        let lanes: CpuList = self.lanes().into_iter().collect();
        let online = self.kernel.online()?;
        let taken = |cpu: &u32| lanes.contains(*cpu) && !kept.contains(cpu);
        if !online.iter().any(|cpu| taken(&cpu)) {
            return Ok(Vec::new());
        }
        let others = online.difference(&lanes);
        let left = kept.iter().copied().chain(others.iter()).collect();
        let mut says = Vec::new();
        for task in pinned::tasks_without(self.kernel.root(), &left)? {
            for cpu in task.cpus.iter().filter(|cpu| lanes.contains(*cpu)) {
                self.needed.insert(cpu);
            }
            says.push(format!(
                "task {} may run on CPUs {} only: left online",
                task.task, task.cpus
            ));
        }
        Ok(says)
    }
}

/// Makes `smt/control` what it was, where it can be changed.
fn restore_control(kernel: &Kernel, found: &str) -> Result<()> {
    match kernel.control()? {
        Some(now) if now != found && Kernel::switches(Some(&now)) => kernel.set_control(found),
        _ => Ok(()),
    }
}

/// Online lanes of each core that are not reserved; cores without any are not there.
pub fn cores_without(topology: &Topology, reserved: &CpuList) -> Vec<Vec<u32>> {
    let mut cores = topology.online_by_core();
    for lanes in &mut cores {
        lanes.retain(|cpu| !reserved.contains(*cpu));
    }
    cores.retain(|lanes| !lanes.is_empty());
    cores
}

/// Refuses where lanes could not be taken without harm to what counts on them; changes nothing.
///
/// # Errors
/// A CPU manager counts on them, cpusets would lose them for good, or tasks that may be pinned to them are hidden.
pub fn check_harmless(root: &Path, cores: &[Vec<u32>], reserved: &Reserved) -> Result<()> {
    if let Some(manager) = reserved.cpu_manager() {
        let taken = cores.iter().flat_map(|lanes| lanes.iter().skip(1).copied());
        let cpus: CpuList = taken
            .filter(|cpu| manager.counted_on.contains(*cpu))
            .collect();
        if !cpus.is_empty() {
            let path = manager.path.clone();
            return Err(Error::CpuManager { path, cpus });
        }
    }
    cpusets::check_none_of_v1(root)?;
    pinned::check_all_visible(root)
}

impl Actuator for Sysfs {
    fn found(&self) -> Option<Found> {
        Some(Found::Sysfs {
            control: self.control.clone(),
            lanes: self.lanes(),
        })
    }

    /// Lanes that stay online at every level do not count.
    fn level(&mut self) -> Result<usize> {
        let online = self.kernel.online()?;
        let counts = |cpu: u32| online.contains(cpu) && !self.needed.contains(cpu);
        let of_core = |core: &Vec<u32>| {
            let last = self.there(core).iter().rposition(|cpu| counts(*cpu));
            last.map(|i| i + 1)
        };
        Ok(self.cores.iter().filter_map(of_core).max().unwrap_or(1))
    }

    fn set(&mut self, level: usize) -> Result<Vec<String>> {
        let mut kept = self.kept(level.max(1));
        let says = self.find_needed(&kept)?;
        kept.extend(self.needed.iter());
        let lanes_max = self.cores.iter().map(Vec::len).max().unwrap_or(1);
        if self.control_fits && self.needed.is_empty() && self.kernel.set_level(level, lanes_max)? {
            return Ok(says);
        }
        self.kernel.arrange(&self.lanes(), &kept)?;
        Ok(says)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    fn try_sysfs(tree: &Tree) -> Result<Sysfs> {
        let topology = Topology::read(tree.root()).unwrap();
        Sysfs::new(tree.root(), &topology, &Reserved::read(tree.root()))
    }

    fn sysfs(tree: &Tree) -> Sysfs {
        try_sysfs(tree).unwrap()
    }

    #[test]
    fn smt_control_where_it_moves_the_right_lanes() {
        let tree = Tree::new(2, 2);
        let mut sysfs = sysfs(&tree);
        assert_eq!(sysfs.level().unwrap(), 2);
        sysfs.set(1).unwrap();
        assert_eq!(tree.read("smt/control"), "off");
        sysfs.set(2).unwrap();
        assert_eq!(tree.read("smt/control"), "on");
        assert_eq!(tree.online_files(), "1111"); // none was touched
    }

    #[test]
    fn single_lanes_where_the_kernel_has_no_control() {
        let tree = Tree::new(2, 4);
        tree.remove("smt/control");
        let mut sysfs = sysfs(&tree);
        sysfs.set(2).unwrap();
        assert_eq!(tree.online_files(), "11001100");
        tree.apply_online_files();
        assert_eq!(sysfs.level().unwrap(), 2);
        sysfs.set(3).unwrap();
        assert_eq!(tree.online_files(), "11101110");
        tree.apply_online_files();
        sysfs.set(1).unwrap();
        assert_eq!(tree.online_files(), "10001000");
        tree.apply_online_files();
        sysfs.found().unwrap().restore(tree.root()).unwrap();
        assert_eq!(tree.online_files(), "11111111");
    }

    #[test]
    fn lanes_that_were_offline_stay_so() {
        let tree = Tree::new(2, 2);
        tree.write("cpu3/online", "0");
        tree.apply_online_files();
        let mut sysfs = sysfs(&tree);
        sysfs.set(1).unwrap();
        assert_eq!(tree.read("smt/control"), "on"); // it would bring CPU 3
        assert_eq!(tree.online_files(), "1010");
        tree.apply_online_files();
        sysfs.set(2).unwrap();
        assert_eq!(tree.online_files(), "1110");
    }

    #[test]
    fn isolated_lanes_and_those_of_pinned_tasks_are_left() {
        let tree = Tree::new(3, 2);
        tree.write("isolated", "5");
        tree.task(77, "3");
        let mut sysfs = sysfs(&tree);
        let says = sysfs.set(1).unwrap();
        assert!(
            says[0].contains("77 (worker)") && says[0].contains("CPUs 3"),
            "{says:?}"
        );
        assert_eq!(tree.online_files(), "101111");
        tree.apply_online_files();
        assert_eq!(sysfs.level().unwrap(), 1);
    }

    #[test]
    fn what_could_not_be_changed_later_is_refused_at_once() {
        let tree = Tree::new(1, 2);
        tree.spoil("cpu1/online");
        let error = try_sysfs(&tree).unwrap_err();
        assert!(error.to_string().contains("cpu1/online"), "{error}");
    }

    #[test]
    fn the_sibling_of_a_reserved_lane_is_the_first_of_what_is_left() {
        let tree = Tree::new(2, 2);
        tree.write("isolated", "2");
        let mut sysfs = sysfs(&tree);
        sysfs.set(1).unwrap();
        assert_eq!(tree.online_files(), "1011");
    }

    #[test]
    fn what_a_cpu_manager_counts_on_is_not_taken() {
        let tree = Tree::new(2, 2);
        let state = r#"{"policyName":"static","defaultCpuSet":"0-3"}"#;
        tree.file("var/lib/kubelet/cpu_manager_state", state);
        let error = try_sysfs(&tree).unwrap_err();
        assert!(matches!(&error, Error::CpuManager { cpus, .. } if *cpus == CpuList::from([1, 3])));
        let text = error.to_string();
        assert!(
            text.contains("cpu_manager_state") && text.contains("--actuator scheduler"),
            "{text}"
        );
    }

    #[test]
    fn what_cannot_be_restored_holds_up_no_other_lane() {
        for spoilt in ["cpu1/online", "smt/control"] {
            let tree = Tree::new(3, 2);
            let seconds = ["cpu1/online", "cpu3/online", "cpu5/online"];
            seconds.iter().for_each(|name| tree.write(name, "0"));
            tree.apply_online_files();
            tree.spoil(spoilt);
            let lanes: Vec<u32> = (0..6).collect();
            let error = Sysfs::restore(tree.root(), Some("on"), &lanes).unwrap_err();
            assert!(error.to_string().contains(spoilt), "{error}");
            assert_eq!(
                ["cpu3/online", "cpu5/online"].map(|it| tree.read(it)),
                ["1", "1"]
            );
        }
    }

    #[test]
    fn lanes_that_were_ejected_are_nothing_to_restore_and_keep_no_place() {
        let tree = Tree::new(2, 2);
        tree.remove("smt/control");
        let mut sysfs = sysfs(&tree);
        std::fs::remove_dir_all(tree.root().join("sys/devices/system/cpu/cpu2")).unwrap();
        tree.write("online", "0-1,3");
        sysfs.set(1).unwrap();
        let online = || ["cpu0/online", "cpu1/online", "cpu3/online"].map(|it| tree.read(it));
        assert_eq!(online(), ["1", "0", "1"], "the last lane of its core stays");
        tree.write("online", "0,3");
        assert_eq!(sysfs.level().unwrap(), 1);
        sysfs.found().unwrap().restore(tree.root()).unwrap();
        assert_eq!(online(), ["1", "1", "1"]);
    }

    #[test]
    fn no_lane_is_taken_while_one_that_is_kept_does_not_come() {
        let tree = Tree::new(2, 2);
        tree.remove("smt/control");
        let mut sysfs = sysfs(&tree);
        tree.spoil("cpu2/online");
        tree.write("online", "0-1,3");
        let error = sysfs.set(1).unwrap_err().to_string();
        assert!(error.contains("cpu2/online"), "{error}");
        assert_eq!(
            ["cpu1/online", "cpu3/online"].map(|it| tree.read(it)),
            ["1", "1"]
        );
    }

    #[test]
    fn cpusets_of_cgroup_v1_are_refused_unless_they_get_their_lanes_back() {
        const CPUSETS: &str = "sys/fs/cgroup/cpuset";
        for (kind, options, child, refused) in [
            ("cgroup", "rw,cpuset", true, true),
            ("cgroup", "rw,cpuset", false, false),
            ("cgroup", "rw,cpuset,cpuset_v2_mode", true, false),
            ("cgroup", "rw,cpu,cpuacct", true, false),
            ("cgroup2", "rw", true, false),
        ] {
            let tree = Tree::new(2, 2);
            tree.file("proc/2/status", "Name:\tkthreadd\nPid:\t2\nPPid:\t0\n");
            let mount = format!("none /{CPUSETS} {kind} {options} 0 0\n");
            tree.file("proc/self/mounts", &mount);
            let file = if child {
                "docker/cpuset.cpus"
            } else {
                "cpuset.cpus"
            };
            tree.file(&format!("{CPUSETS}/{file}"), "0-3\n");
            let found = try_sysfs(&tree).map_err(|error| (error.is_machine(), error.to_string()));
            match (found, refused) {
                (Err((true, text)), true) => {
                    let remedy = ["/sys/fs/cgroup/cpuset", "--actuator scheduler", "unified"];
                    assert!(remedy.iter().all(|part| text.contains(part)), "{text}");
                }
                (found, _) => assert_eq!(found.is_err(), refused, "{mount}: {found:?}"),
            }
        }
    }

    #[test]
    fn lanes_are_given_back_but_not_taken_while_a_task_cannot_be_told() {
        let tree = Tree::new(2, 2);
        tree.remove("smt/control");
        let mut sysfs = sysfs(&tree);
        tree.file("proc/7/task/7/status", "garbage");
        assert!(matches!(sysfs.set(1), Err(Error::TaskUnknown { .. })));
        assert_eq!(tree.online_files(), "1111");
        tree.write("cpu1/online", "0");
        tree.apply_online_files();
        sysfs.set(2).unwrap();
        assert_eq!(tree.online_files(), "1111");
    }
}
