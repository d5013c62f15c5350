//! Trees that are wrong in one place: the error or the note names the file and what was expected of it.

#![allow(clippy::unwrap_used)] // Clippy spares test functions, but not their helpers.

use sidelane_topology::render::{WIDTH, text};
use sidelane_topology::{CapacitySource, CpuList, Topology};
use sidelane_trees::{Tree, machines};
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

/// The notes of reading `tree`, with the root folder removed.
fn notes(tree: &Tree) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    tree.write(folder.path());
    let machine = Topology::read(folder.path()).unwrap();
    let root = format!("{}/", folder.path().display());
    machine
        .notes()
        .iter()
        .map(|note| note.replace(&root, ""))
        .collect()
}

/// The only note of reading `tree`.
fn note(tree: &Tree) -> String {
    let notes = notes(tree);
    assert_eq!(notes.len(), 1, "{notes:?}");
    notes[0].clone()
}

#[test]
fn a_good_tree_has_no_notes() {
    for (name, machine) in machines::all() {
        assert!(notes(&machine.tree()).is_empty(), "{name}");
    }
}

#[test]
fn without_cpus_online_there_is_no_machine() {
    let a_list = "expected a list of CPUs such as 0-3,8";
    let path = format!("{CPU}/online");
    for content in ["3-0", "", "x", "0-4294967295"] {
        let message = error(good().set(&path, content));
        let start = format!("{path}: holds \"{content}\"; {a_list}");
        assert!(message.starts_with(&start), "{message}");
    }
    let message = error(good().remove(&path));
    assert!(
        message.starts_with(&format!("{path}: missing; {a_list}")),
        "{message}"
    );
}

#[test]
fn a_wrong_file_is_noted_with_what_was_expected() {
    let a_list = "expected a list of CPUs such as 0-3,8";
    let siblings = "expected the list of the CPUs of one core, the CPU itself included";
    let sharers = "expected the list of the CPUs that share the cache, the CPU itself included";
    let package = "expected the number of the package";
    let capacity = "expected a capacity from 1 to 1024";
    let frequency = "expected a frequency in kHz";
    let cases: &[(&str, &str, &str)] = &[
        ("possible", "none", a_list),
        ("possible", "0-6", "CPU 7 is online and not in the list"),
        ("present", "0-", a_list),
        ("present", "0", "CPU 1 is online and not in the list"),
        (
            "present",
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
        ("cpu3/topology/physical_package_id", "one", package),
        ("cpu3/topology/physical_package_id", "-2", package),
        ("cpu3/topology/physical_package_id", "99999999999", package),
        ("cpu3/cpu_capacity", "fast", capacity),
        ("cpu3/cpu_capacity", "0", capacity),
        ("cpu3/cpu_capacity", "18446744073709551615", capacity),
        ("cpu3/cpufreq/cpuinfo_max_freq", "3.2 GHz", frequency),
        ("cpu3/cpufreq/cpuinfo_max_freq", "0", frequency),
        ("cpu3/cpufreq/cpuinfo_max_freq", "<unknown>", frequency),
        ("cpu3/cpufreq/cpuinfo_max_freq", "3500000000", frequency),
        (
            "cpu3/cache/index1/level",
            "L3",
            "expected the level of the cache, a number",
        ),
        (
            "cpu3/cache/index1/level",
            "",
            "expected the level of the cache, a number",
        ),
        (
            "cpu3/cache/index1/level",
            "0",
            "expected the level of the cache, a number",
        ),
        (
            "cpu3/cache/index1/type",
            "Trace",
            "expected Data, Instruction or Unified",
        ),
        ("cpu3/cache/index1/shared_cpu_list", "2-", sharers),
        ("cpu3/cache/index1/shared_cpu_list", "", sharers),
        (
            "cpu3/cache/index1/shared_cpu_list",
            "2,6",
            "CPU 3 is not in the list",
        ),
        (
            "cpu3/cache/index1/shared_cpu_list",
            "0-7",
            "other CPUs say 2-3,6-7",
        ),
    ];
    for (file, content, expected) in cases {
        let path = format!("{CPU}/{file}");
        let note = note(good().set(&path, content));
        let start = format!("{path}: holds \"{content}\"; ");
        assert!(note.starts_with(&start), "{note}");
        assert!(note.contains(expected), "{file} = {content:?}: {note}");
    }
}

#[test]
fn a_missing_file_that_every_machine_has_is_noted() {
    for (file, expected) in [
        ("possible", "a list of CPUs such as 0-3,8"),
        (
            "cpu3/topology/physical_package_id",
            "the number of the package",
        ),
    ] {
        let path = format!("{CPU}/{file}");
        let note = note(good().remove(&path));
        let start = format!("{path}: missing; expected {expected}");
        assert!(note.starts_with(&start), "{note}");
    }
    let note = note(good().remove(&format!("{CPU}/cpu3/topology/core_cpus_list")));
    let start = format!("{CPU}/cpu3/topology/thread_siblings_list: missing");
    assert!(note.starts_with(&start), "{note}");
}

#[test]
fn a_package_that_the_kernel_does_not_know_is_unknown_without_a_note() {
    for unknown in ["-1", "4294967295"] {
        let mut tree = good();
        for cpu in 0..8 {
            let file = format!("{CPU}/cpu{cpu}/topology/physical_package_id");
            tree.set(file, unknown);
        }
        let machine = read(&tree);
        let packages: Vec<i32> = machine.packages().iter().map(|p| p.id).collect();
        assert_eq!(
            (packages, machine.notes()),
            (vec![-1], &[][..]),
            "{unknown}"
        );
    }
}

#[test]
fn nodes_that_lack_cpus_are_noted() {
    const NODE: &str = "sys/devices/system/node/node1/cpulist";
    let lacking = "sys/devices/system/node/node*/cpulist lacks CPUs";
    let one = note(good().set(NODE, "2,6-7"));
    assert!(one.ends_with(&format!("{lacking} 3")), "{one}");
    let all = notes(good().set(NODE, "x"));
    assert!(
        all[0].starts_with(&format!("{NODE}: holds \"x\"")),
        "{all:?}"
    );
    assert!(all[1].ends_with(&format!("{lacking} 2-3,6-7")), "{all:?}");
    let missing = notes(
        good()
            .remove(NODE)
            .set("sys/devices/system/node/node1/distance", 10),
    );
    assert!(
        missing[0].starts_with(&format!("{NODE}: missing")),
        "{missing:?}"
    );
}

#[test]
fn a_core_of_unknown_place_is_where_all_others_are() {
    let mut tree = machines::one_package_adjacent().tree();
    for cpu in 0..2 {
        tree.set(format!("{CPU}/cpu{cpu}/topology/physical_package_id"), "?");
    }
    tree.set("sys/devices/system/node/node0/cpulist", "2-7");
    let machine = read(&tree);
    assert_eq!((machine.packages().len(), machine.nodes().len()), (1, 1));
    assert_eq!(machine.notes().len(), 3, "{:?}", machine.notes());
}

/// The online lanes of each core.
fn cores(tree: &Tree) -> String {
    let cores = read(tree).online_by_core();
    let lists = cores
        .into_iter()
        .map(|cpus| cpus.into_iter().collect::<CpuList>().to_string());
    lists.collect::<Vec<_>>().join(" ")
}

#[test]
fn of_siblings_that_contradict_each_other_the_others_decide() {
    let file = format!("{CPU}/cpu4/topology/core_cpus_list");
    for wrong in ["4", "0-7", "3-5", "4,7"] {
        let mut tree = good();
        tree.set(&file, wrong);
        assert_eq!(cores(&tree), "0,4 1,5 2,6 3,7", "{wrong}");
        let note = notes(&tree).join("\n");
        assert!(
            note.contains(&format!("{file}: holds \"{wrong}\"")),
            "{note}"
        );
        assert!(note.contains("_list says "), "{note}");
    }
}

#[test]
fn the_older_file_of_siblings_stands_in_for_a_wrong_newer_one() {
    let mut tree = good();
    for cpu in 0..8 {
        let folder = format!("{CPU}/cpu{cpu}/topology");
        tree.set(format!("{folder}/core_cpus_list"), "<unknown>");
        tree.set(
            format!("{folder}/thread_siblings_list"),
            format!("{},{}", cpu % 4, cpu % 4 + 4),
        );
    }
    assert_eq!(cores(&tree), "0,4 1,5 2,6 3,7");
    assert_eq!(notes(&tree).len(), 8);
}

#[test]
fn siblings_that_nothing_tells_are_refused() {
    let file = |cpu: u32| format!("{CPU}/cpu{cpu}/topology/core_cpus_list");
    let mut tree = machines::virtual_machine().tree();
    tree.set(file(2), "x");
    assert_eq!(cores(&tree), "0 1 2 3", "of one CPU the others tell");
    let message = error(tree.set(file(3), "y"));
    assert!(
        message.starts_with(&format!("{}: holds \"x\"", file(2))),
        "{message}"
    );
    let mut tree = good();
    tree.remove(&file(1)).remove(&file(5));
    let message = error(&tree);
    assert!(
        message.contains("cpu1/topology/thread_siblings_list: missing"),
        "{message}"
    );
    let ring = [(1, "1,5"), (5, "5-6"), (6, "2,6"), (2, "1-2")];
    let mut tree = good();
    for (cpu, list) in ring {
        tree.set(file(cpu), list);
    }
    let message = error(&tree);
    assert!(
        message.starts_with(&format!("{}: holds \"1,5\"", file(1))),
        "{message}"
    );
}

#[test]
fn sharers_that_nothing_tells_apart_are_unknown() {
    let mut tree = machines::one_package_adjacent().tree();
    for cpu in 0..8 {
        let list = if cpu < 4 { "0-5" } else { "2-7" };
        tree.set(format!("{CPU}/cpu{cpu}/cache/index1/shared_cpu_list"), list);
    }
    let machine = read(&tree);
    assert!(machine.caches().iter().all(|cache| cache.level.is_none()));
    assert_eq!(machine.notes().len(), 8, "{:?}", machine.notes());
}

#[test]
fn long_and_unprintable_content_is_shortened() {
    let message = error(good().set(format!("{CPU}/online"), "x\u{7}".repeat(1000)));
    assert!(message.contains(r"x\x07x"), "{message}");
    assert!(message.contains("…"), "{message}");
    assert!(message.len() < 1000);
}

#[test]
fn a_root_that_is_no_folder_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = Topology::read(file.path()).unwrap_err().to_string();
    assert!(error.contains(": cannot read it: "), "{error}");
    assert!(error.contains("sys/devices/system/cpu/online"), "{error}");
}

#[test]
fn an_unreadable_file_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    good().write(folder.path());
    let file = folder.path().join(CPU).join("cpu3/cpu_capacity");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let machine = Topology::read(folder.path()).unwrap();
    let start = format!("{}: cannot read it: ", file.display());
    assert!(
        machine.notes()[0].starts_with(&start),
        "{:?}",
        machine.notes()
    );
}

#[test]
fn the_picture_tells_the_first_notes_and_how_many_more() {
    let mut tree = good();
    for cpu in 0..8 {
        tree.set(format!("{CPU}/cpu{cpu}/cpufreq/cpuinfo_max_freq"), 0);
    }
    let picture = text(&read(&tree));
    assert!(
        picture.contains("cpu3/cpufreq/cpuinfo_max_freq: holds \"0\""),
        "{picture}"
    );
    assert!(!picture.contains("cpu4/"), "{picture}");
    assert!(picture.contains("unknown   4 more; "), "{picture}");
    assert!(
        picture.lines().all(|line| line.chars().count() <= WIDTH),
        "{picture}"
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
