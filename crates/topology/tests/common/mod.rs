//! Test trees: what sysfs would hold on machines of several kinds, generated from short
//! descriptions. The trees are also kept in `tests/fixtures/`, so that they can be looked at and
//! read by hand (`sidelane topology --root crates/topology/tests/fixtures/NAME`).

#![allow(dead_code)] // each test program uses its part

pub mod machines;

use sidelane_topology::CpuList;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder that stands for `sys/devices/system`.
const SYSTEM: &str = "sys/devices/system";

/// Files by path below the root of a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree(pub BTreeMap<String, String>);

/// A core of the machine to describe. All its caches but the last-level one are its own.
#[derive(Clone)]
pub struct Core {
    /// Lanes by CPU number, offline ones included.
    pub cpus: Vec<u32>,
    /// `core_id`, which repeats across packages.
    pub id: u32,
    pub package: i32,
    pub node: Option<u32>,
    /// Level and sharers (offline CPUs included) of the last-level cache.
    pub cache: Option<(u32, CpuList)>,
    pub capacity: Option<u64>,
    pub frequency_max_khz: Option<u64>,
}

/// A machine to describe.
#[derive(Clone)]
pub struct Machine {
    pub cores: Vec<Core>,
    pub offline: CpuList,
    /// CPUs that could be plugged in, beside those that are.
    pub pluggable: CpuList,
    /// `smt/control` and `smt/active`.
    pub smt: Option<(&'static str, u32)>,
    /// Whether siblings are listed in `core_cpus_list`, else in `thread_siblings_list`.
    pub new_names: bool,
}

impl Tree {
    pub fn set(&mut self, path: impl Into<String>, content: impl ToString) -> &mut Self {
        self.0.insert(path.into(), content.to_string() + "\n");
        self
    }

    pub fn remove(&mut self, path: &str) -> &mut Self {
        assert!(self.0.remove(path).is_some(), "{path} is not in the tree");
        self
    }

    /// Removes every file below a folder.
    pub fn remove_folder(&mut self, folder: &str) -> &mut Self {
        let before = self.0.len();
        self.0
            .retain(|path, _| !path.starts_with(&format!("{folder}/")));
        assert!(self.0.len() < before, "{folder} is not in the tree");
        self
    }

    /// Writes the tree below a folder.
    pub fn write(&self, root: &Path) {
        for (path, content) in &self.0 {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
    }

    /// Reads the tree below a folder.
    pub fn read(root: &Path) -> Tree {
        let mut tree = Tree::default();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path
                        .strip_prefix(root)
                        .unwrap()
                        .to_str()
                        .unwrap()
                        .to_owned();
                    tree.0.insert(name, fs::read_to_string(&path).unwrap());
                }
            }
        }
        tree
    }
}

impl Machine {
    /// The files that sysfs would hold. As in the kernel, an offline CPU has no topology and no
    /// caches, and no list of sharers, siblings or node members names it.
    pub fn tree(&self) -> Tree {
        let mut tree = Tree::default();
        let present: CpuList = self
            .cores
            .iter()
            .flat_map(|core| core.cpus.clone())
            .collect();
        let possible: CpuList = present.iter().chain(self.pluggable.iter()).collect();
        tree.set(format!("{SYSTEM}/cpu/possible"), &possible);
        tree.set(format!("{SYSTEM}/cpu/present"), &present);
        tree.set(
            format!("{SYSTEM}/cpu/online"),
            present.difference(&self.offline),
        );
        tree.set(
            format!("{SYSTEM}/cpu/offline"),
            possible.difference(&present.difference(&self.offline)),
        );
        if let Some((control, active)) = self.smt {
            tree.set(format!("{SYSTEM}/cpu/smt/control"), control);
            tree.set(format!("{SYSTEM}/cpu/smt/active"), active);
        }
        self.describe_nodes(&mut tree);
        for core in &self.cores {
            for &cpu in &core.cpus {
                match self.offline.contains(cpu) {
                    true => drop(tree.set(format!("{SYSTEM}/cpu/cpu{cpu}/online"), 0)),
                    false => self.describe_cpu(&mut tree, core, cpu),
                }
            }
        }
        tree
    }

    fn online_of(&self, cpus: &CpuList) -> CpuList {
        cpus.difference(&self.offline)
    }

    fn describe_nodes(&self, tree: &mut Tree) {
        let mut nodes: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for core in &self.cores {
            if let Some(node) = core.node {
                nodes.entry(node).or_default().extend(&core.cpus);
            }
        }
        for (node, cpus) in nodes {
            let cpus = self.online_of(&cpus.into_iter().collect());
            tree.set(format!("{SYSTEM}/node/node{node}/cpulist"), cpus);
        }
    }

    fn describe_cpu(&self, tree: &mut Tree, core: &Core, cpu: u32) {
        let folder = format!("{SYSTEM}/cpu/cpu{cpu}");
        let siblings = self.online_of(&core.cpus.iter().copied().collect());
        tree.set(format!("{folder}/topology/core_id"), core.id);
        tree.set(
            format!("{folder}/topology/physical_package_id"),
            core.package,
        );
        let list = if self.new_names {
            "core_cpus_list"
        } else {
            "thread_siblings_list"
        };
        tree.set(format!("{folder}/topology/{list}"), &siblings);
        if let Some(capacity) = core.capacity {
            tree.set(format!("{folder}/cpu_capacity"), capacity);
        }
        if let Some(frequency) = core.frequency_max_khz {
            tree.set(format!("{folder}/cpufreq/cpuinfo_max_freq"), frequency);
        }
        if let Some((level, sharers)) = &core.cache {
            let sharers = self.online_of(sharers);
            let mut cache = |index: u32, kind: &str, level: u32, sharers: &CpuList| {
                tree.set(format!("{folder}/cache/index{index}/type"), kind);
                tree.set(format!("{folder}/cache/index{index}/level"), level);
                tree.set(
                    format!("{folder}/cache/index{index}/shared_cpu_list"),
                    sharers,
                );
            };
            cache(0, "Data", 1, &siblings);
            cache(1, "Unified", *level, &sharers);
        }
    }
}

/// The folder of a kept tree.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

/// Whether kept files are to be rewritten instead of compared.
pub fn update() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1")
}

/// Compares `actual` with the kept file `tests/golden/NAME`, or rewrites that.
pub fn golden(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if update() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, actual).unwrap();
        return;
    }
    let expected = fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; UPDATE_GOLDEN=1 writes it", path.display()));
    assert_eq!(
        actual,
        expected,
        "{} differs; UPDATE_GOLDEN=1 rewrites it",
        path.display()
    );
}
