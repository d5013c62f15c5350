//! The kernel's own means: `smt/control`, and the `online` files of single lanes.

use super::kernel::Kernel;
use super::{Actuator, Found, pinned};
use crate::Result;
use sidelane_topology::{CpuList, Topology};
use std::collections::BTreeSet;
use std::path::Path;

/// Sets the SMT level through the kernel.
#[derive(Debug)]
pub struct Sysfs {
    kernel: Kernel,
    /// Lanes of each core that were online at the beginning, ascending.
    cores: Vec<Vec<u32>>,
    /// `smt/control` at the beginning.
    control: Option<String>,
    /// Never touched.
    isolated: CpuList,
    /// `smt/control` would move no other lanes than those of `cores`.
    control_fits: bool,
    /// Lanes that pinned tasks needed when lanes were last to be taken.
    needed: CpuList,
}

impl Sysfs {
    /// The machine below a root (`/` but in tests) as it is now.
    ///
    /// # Errors
    /// It cannot be read, or could not be changed.
    pub fn new(root: &Path, topology: &Topology) -> Result<Sysfs> {
        let kernel = Kernel::new(root);
        let isolated = kernel.isolated()?;
        let cores = topology.online_by_core();
        let second = cores.iter().flat_map(|lanes| lanes.iter().skip(1));
        kernel.check_writable(second.copied())?;
        let control = kernel.control()?;
        let all_online = topology.present().difference(topology.online()).is_empty();
        Ok(Sysfs {
            cores,
            control_fits: Kernel::switches(control.as_deref()) && all_online && isolated.is_empty(),
            control,
            isolated,
            kernel,
            needed: CpuList::new(),
        })
    }

    /// Lanes that are isolated (`isolcpus`, `nohz_full`, isolated cpusets), and so left alone.
    pub fn isolated(&self) -> &CpuList {
        &self.isolated
    }

    /// Makes online what was online at the beginning.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn restore(root: &Path, control: Option<&str>, lanes: &[u32]) -> Result<()> {
        let kernel = Kernel::new(root);
        if let (Some(found), Some(now)) = (control, kernel.control()?)
            && found != now
            && Kernel::switches(Some(&now))
        {
            kernel.set_control(found)?;
        }
        kernel.arrange(lanes, &lanes.iter().copied().collect())
    }

    fn lanes(&self) -> Vec<u32> {
        self.cores.iter().flatten().copied().collect()
    }

    /// Lanes that a level keeps: the first of each core, and those that are isolated.
    fn kept(&self, level: usize) -> BTreeSet<u32> {
        let first = self.cores.iter().flat_map(|core| core.iter().take(level));
        let all = self.cores.iter().flatten();
        let isolated = all.filter(|cpu| self.isolated.contains(**cpu));
        first.chain(isolated).copied().collect()
    }

    /// Finds the lanes that pinned tasks need beside those `kept`; says which.
    fn find_needed(&mut self, kept: &BTreeSet<u32>) -> Result<Vec<String>> {
        let lanes: CpuList = self.lanes().into_iter().collect();
        let others = self.kernel.online()?.difference(&lanes);
        let left = kept.iter().copied().chain(others.iter()).collect();
        self.needed = CpuList::new();
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
        let counts = |cpu: u32| {
            online.contains(cpu) && !self.isolated.contains(cpu) && !self.needed.contains(cpu)
        };
        let of_core = |core: &Vec<u32>| core.iter().rposition(|cpu| counts(*cpu)).map(|i| i + 1);
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

    fn sysfs(tree: &Tree) -> Sysfs {
        Sysfs::new(tree.root(), &Topology::read(tree.root()).unwrap()).unwrap()
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
        assert_eq!(sysfs.isolated(), &CpuList::from([5]));
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
        tree.remove("cpu1/online");
        std::fs::create_dir(tree.root().join("sys/devices/system/cpu/cpu1/online")).unwrap();
        let error = Sysfs::new(tree.root(), &Topology::read(tree.root()).unwrap()).unwrap_err();
        assert!(error.to_string().contains("cpu1/online"), "{error}");
    }
}
