//! Trees that are wrong in one place: the error names the file and what was expected of it.

#![allow(clippy::unwrap_used)] // Clippy spares test functions, but not their helpers.

mod common;

use common::{Tree, machines};
use sidelane_topology::{CapacitySource, Topology};
use std::fs;

const CPU: &str = "sys/devices/system/cpu";

/// The message of reading `tree`, with the root folder removed.
fn error(tree: &Tree) -> String {
    let folder = tempfile::tempdir().unwrap();
    tree.write(folder.path());
    let error = Topology::read(folder.path()).unwrap_err().to_string();
    let root = format!("{}/", folder.path().display());
    assert!(error.contains(&root), "the error names no file: {error}");
    error.replace(&root, "")
}

fn read(tree: &Tree) -> Topology {
    let folder = tempfile::tempdir().unwrap();
    tree.write(folder.path());
    Topology::read(folder.path()).unwrap()
}

fn good() -> Tree {
    machines::two_packages_apart().tree()
}

#[test]
fn a_malformed_file_is_named_with_what_was_expected() {
    let a_list = "expected a list of CPUs such as 0-3,8";
    let siblings = "expected the list of the CPUs of one core, the CPU itself included";
    let sharers = "expected the list of the CPUs that share the cache, the CPU itself included";
    let cases: &[(&str, &str, &str)] = &[
        ("possible", "none", a_list),
        ("present", "0-", a_list),
        ("online", "3-0", a_list),
        (
            "online",
            "",
            "expected a list of at least one CPU, all of them possible",
        ),
        (
            "online",
            "0-9",
            "CPU 8 is not in sys/devices/system/cpu/possible",
        ),
        (
            "smt/control",
            "perhaps",
            "expected the state of SMT control",
        ),
        ("smt/active", "2", "expected 0 or 1"),
        ("smt/active", "yes", "expected 0 or 1"),
        ("cpu3/topology/core_cpus_list", "3;7", siblings),
        ("cpu3/topology/core_cpus_list", "", siblings),
        (
            "cpu3/topology/core_cpus_list",
            "7",
            "CPU 3 is not in the list",
        ),
        (
            "cpu3/topology/core_cpus_list",
            "3,9",
            "CPU 9 is not in sys/devices",
        ),
        (
            "cpu3/topology/physical_package_id",
            "one",
            "expected the number of the package",
        ),
        (
            "cpu3/cpu_capacity",
            "fast",
            "expected a capacity, at least 1",
        ),
        ("cpu3/cpu_capacity", "0", "expected a capacity, at least 1"),
        (
            "cpu3/cpufreq/cpuinfo_max_freq",
            "3.2 GHz",
            "expected a frequency in kHz, at least 1",
        ),
        (
            "cpu3/cache/index1/level",
            "L3",
            "expected the level of the cache, a number",
        ),
        (
            "cpu3/cache/index1/type",
            "Trace",
            "expected Data, Instruction or Unified",
        ),
        ("cpu3/cache/index1/shared_cpu_list", "2-", sharers),
        (
            "cpu3/cache/index1/shared_cpu_list",
            "2,6",
            "CPU 3 is not in the list",
        ),
        ("../node/node1/cpulist", "x", a_list),
    ];
    for (file, content, expected) in cases {
        let path = format!("{CPU}/{file}").replace("cpu/../", "");
        let message = error(good().set(&path, content));
        assert!(
            message.starts_with(&format!("{path} holds \"{content}\"; ")),
            "{message}"
        );
        assert!(
            message.contains(expected),
            "{file} = {content:?}: {message}"
        );
    }
}

#[test]
fn a_missing_file_is_named_with_what_was_expected() {
    for (file, expected) in [
        ("possible", "a list of CPUs such as 0-3,8"),
        ("online", "a list of CPUs such as 0-3,8"),
        (
            "cpu3/topology/physical_package_id",
            "the number of the package",
        ),
    ] {
        let path = format!("{CPU}/{file}");
        let message = error(good().remove(&path));
        assert!(
            message.starts_with(&format!("{path} is missing; expected {expected}")),
            "{message}"
        );
    }
    let message = error(good().remove(&format!("{CPU}/cpu3/topology/core_cpus_list")));
    assert!(message.starts_with(&format!(
        "{CPU}/cpu3/topology/thread_siblings_list is missing"
    )));
    let message = error(
        good()
            .remove("sys/devices/system/node/node1/cpulist")
            .set("sys/devices/system/node/node1/distance", "10"),
    );
    assert!(
        message.starts_with("sys/devices/system/node/node1/cpulist is missing"),
        "{message}"
    );
}

#[test]
fn an_online_cpu_without_node_is_refused() {
    let message = error(good().set("sys/devices/system/node/node1/cpulist", "2,6-7"));
    let expected = "node*/cpulist is missing; expected every online CPU in the list of a NUMA node";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn siblings_that_contradict_each_other_are_refused() {
    let message = error(good().set(format!("{CPU}/cpu4/topology/core_cpus_list"), "4"));
    assert!(
        message.contains("cpu4/topology/core_cpus_list holds \"4\""),
        "{message}"
    );
    assert!(
        message.contains("cpu0/topology/core_cpus_list says 0,4"),
        "{message}"
    );
}

#[test]
fn long_and_unprintable_content_is_shortened() {
    let message = error(good().set(format!("{CPU}/possible"), "x\u{7}".repeat(1000)));
    assert!(message.contains("x\\u{7}x"), "{message}");
    assert!(message.contains("…"), "{message}");
    assert!(message.len() < 4000);
}

#[test]
fn a_root_that_is_no_folder_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = Topology::read(file.path()).unwrap_err().to_string();
    assert!(error.starts_with("cannot read "), "{error}");
    assert!(error.contains("sys/devices/system/cpu/online"), "{error}");
}

#[test]
fn an_unreadable_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    good().write(folder.path());
    let file = folder.path().join(CPU).join("cpu3/cpu_capacity");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let error = Topology::read(folder.path()).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("cannot read {}: ", file.display())),
        "{error}"
    );
}

#[test]
fn what_some_kernels_lack_is_not_needed() {
    let mut tree = good();
    tree.remove(&format!("{CPU}/present"));
    tree.remove_folder(&format!("{CPU}/smt"));
    tree.remove_folder("sys/devices/system/node");
    let machine = read(&tree);
    assert_eq!(machine.present(), machine.possible());
    assert_eq!((machine.smt().control, machine.smt().active), (None, None));
    assert_eq!(machine.nodes().len(), 1);
}

#[test]
fn caches_that_are_half_described_count_as_unknown() {
    for file in ["type", "level", "shared_cpu_list"] {
        let mut tree = good();
        for cpu in 0..8 {
            for index in 0..2 {
                tree.remove(&format!("{CPU}/cpu{cpu}/cache/index{index}/{file}"));
            }
        }
        let machine = read(&tree);
        assert!(
            machine.caches().iter().all(|cache| cache.level.is_none()),
            "{file}"
        );
        assert_eq!(machine.caches().len(), 2, "the packages stand in");
    }
}

#[test]
fn an_instruction_cache_is_never_the_last_level() {
    let mut tree = good();
    for cpu in 0..8 {
        let folder = format!("{CPU}/cpu{cpu}/cache/index2");
        tree.set(format!("{folder}/type"), "Instruction");
        tree.set(format!("{folder}/level"), 4);
        tree.set(format!("{folder}/shared_cpu_list"), cpu);
    }
    let machine = read(&tree);
    assert_eq!(machine, read(&good()));
}

#[test]
fn a_capacity_that_some_cpus_lack_is_not_used() {
    let mut tree = good();
    tree.remove(&format!("{CPU}/cpu0/cpu_capacity"));
    tree.set(format!("{CPU}/cpu1/cpu_capacity"), 512);
    let machine = read(&tree);
    assert!(machine.capacities_equal());
    assert_eq!(machine.capacity_source(), CapacitySource::Equal);
}

#[test]
fn a_cpu_in_several_nodes_counts_to_the_first() {
    let mut tree = good();
    tree.set("sys/devices/system/node/node1/cpulist", "0-7");
    tree.set("sys/devices/system/node/node2/cpulist", "0-7");
    tree.set("sys/devices/system/node/node3/cpulist", "");
    let machine = read(&tree);
    let nodes: Vec<_> = machine
        .nodes()
        .iter()
        .map(|node| (node.id, node.cores.clone()))
        .collect();
    assert_eq!(nodes, [(0, vec![0, 1]), (1, vec![2, 3])]);
}

#[test]
fn an_offline_sibling_that_is_listed_is_a_lane() {
    let mut tree = machines::lanes_offline().tree();
    tree.set(format!("{CPU}/cpu1/topology/core_cpus_list"), "1,5");
    let machine = read(&tree);
    assert_eq!(
        machine
            .lane(5)
            .map(|lane| (lane.core, lane.index, lane.online)),
        Some((1, 1, false))
    );
    assert_eq!(machine.unplaced().to_string(), "2,6");
}
