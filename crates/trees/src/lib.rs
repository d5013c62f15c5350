//! For tests: what sysfs holds on machines of several kinds, generated from short descriptions, and captured on
//! real machines.
//!
//! To look at one: `cargo run -p sidelane-trees --example tree -- NAME FOLDER`, then
//! `sidelane topology --root FOLDER`.
//!
//! # Trees of real machines, in `captured/`
//!
//! What `/sys/devices/system` told of topology, caches, capacities and frequencies on machines of several kinds: the
//! files that Sidelane reads, and no other.
//!
//! | Archive | Machine | Taken from |
//! | --- | --- | --- |
//! | `epyc-7451` | 2 AMD EPYC 7451: 16 last-level caches, 48 cores, 96 lanes | util-linux 2.38.1, `tests/ts/lscpu/dumps/x86_64-epyc_7451` |
//! | `lakefield` | Intel Lakefield: one fast core, four slow ones, no SMT | hwloc 2.9.0, `tests/hwloc/x86+linux/5intel64-hybrid-lakefield` |
//! | `laptop-2-cores` | a laptop, captured in 2011: 2 cores of 2 lanes | util-linux 2.38.1, `tests/ts/lscpu/dumps/x86_64-dell_e4310` |
//! | `power7` | POWER7 partition: 4 cores of 4 lanes, no package told | util-linux 2.38.1, `tests/ts/lscpu/dumps/ppc64-POWER7` |
//! | `xeon-2-packages` | 2 Intel Xeon: 16 cores, 32 lanes, 2 nodes | hwloc 2.9.0, `tests/hwloc/linux/32intel64-2p8co2t+8ve` |
//! | `zvm` | guest of z/VM: 4 processors | util-linux 2.38.1, `tests/ts/lscpu/dumps/s390-zvm` |
//!
//! An archive is made of a captured folder by
//! `tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf - sys | gzip -9n`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)] // a failure here is a test's

pub mod machines;

use sidelane_topology::CpuList;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

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

    /// The tree in a folder of its own.
    pub fn folder(&self) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        self.write(folder.path());
        folder
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

/// The generated machine of this name, in a folder.
///
/// # Panics
/// If [`machines::all`] has none of this name.
pub fn generated(name: &str) -> TempDir {
    let all = machines::all();
    let found = all.iter().find(|(known, _)| *known == name);
    let (_, machine) = found.unwrap_or_else(|| panic!("no machine is called {name}"));
    machine.tree().folder()
}

/// Names of the captured machines; the crate's page says what they are.
pub const CAPTURED: [&str; 6] = [
    "epyc-7451",
    "lakefield",
    "laptop-2-cores",
    "power7",
    "xeon-2-packages",
    "zvm",
];

/// The captured machine of this name, in a folder.
///
/// # Panics
/// If there is no such archive.
pub fn captured(name: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    unpack(name, folder.path());
    folder
}

/// Writes the captured machine of this name below `folder`.
///
/// # Panics
/// If there is no such archive.
pub fn unpack(name: &str, folder: &Path) {
    let archives = Path::new(env!("CARGO_MANIFEST_DIR")).join("captured");
    let path = archives.join(format!("{name}.tar.gz"));
    let archive =
        fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let archive = flate2::read::GzDecoder::new(archive);
    tar::Archive::new(archive).unpack(folder).unwrap();
}
