//! Every file but the list of CPUs online, spoiled in every way: the machine keeps its cores and lanes.

#![allow(clippy::unwrap_used)] // Clippy spares test functions, but not their helpers.

use sidelane_topology::Topology;
use sidelane_topology::render::{WIDTH, text};
use sidelane_trees::{Tree, machines};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What a file may hold instead of what it should.
const SPOILT: [&[u8]; 18] = [
    b"",
    b"\n",
    b"0",
    b"-1",
    b"-99999999999999999999",
    b"4294967295",
    b"18446744073709551616",
    b"1e9",
    b"<unknown>",
    b"(null)",
    b"\0",
    b"3500000\0\0",
    b"\xff\xfe\x80 \x1b[2J",
    b"0-4294967295",
    b"3-1",
    b"0,,1",
    b"65535",
    b"0-3 4-7",
];

/// A folder for many small writes: in memory, if the host has that.
fn scratch() -> tempfile::TempDir {
    let memory = tempfile::tempdir_in("/dev/shm");
    memory.or_else(|_| tempfile::tempdir()).unwrap()
}

/// The online lanes of each core.
fn cores(machine: &Topology) -> BTreeSet<Vec<u32>> {
    machine.online_by_core().into_iter().collect()
}

/// Asserts that the machine below `root`, of which `file` is spoilt, has these cores.
#[track_caller]
fn check(root: &Path, right: &BTreeSet<Vec<u32>>, spoilt: &str) {
    let machine = Topology::read(root).unwrap_or_else(|error| panic!("{spoilt}: {error}"));
    assert_eq!(&cores(&machine), right, "{spoilt}: {:?}", machine.notes());
    for line in text(&machine).lines() {
        assert!(line.chars().count() <= WIDTH, "{spoilt}: {line}");
        assert!(!line.contains(char::is_control), "{spoilt}: {line}");
    }
}

#[test]
fn no_single_file_but_the_cpus_online_changes_lanes_and_cores() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for (name, machine) in machines::all() {
                    no_file_matters(name, &machine.tree(), |nth| nth % threads == thread);
                }
            });
        }
    });
}

/// Spoils those files of a machine that are `chosen` by their place in the order of names, one at a time.
fn no_file_matters(name: &str, tree: &Tree, chosen: impl Fn(usize) -> bool) {
    let folder = scratch();
    let root = folder.path();
    tree.write(root);
    let right = cores(&Topology::read(root).unwrap());
    for (nth, (file, content)) in tree.0.iter().enumerate() {
        if file.ends_with("/cpu/online") || !chosen(nth) {
            continue;
        }
        let path = root.join(file);
        for spoilt in SPOILT {
            fs::write(&path, spoilt).unwrap();
            let what = format!("{name}: {file} = {:?}", spoilt.escape_ascii().to_string());
            check(root, &right, &what);
        }
        fs::remove_file(&path).unwrap();
        check(root, &right, &format!("{name}: {file} is missing"));
        fs::create_dir(&path).unwrap();
        check(root, &right, &format!("{name}: {file} is a folder"));
        fs::remove_dir(&path).unwrap();
        fs::write(&path, content).unwrap();
    }
}

#[test]
fn no_kind_of_file_but_siblings_and_the_cpus_online_changes_lanes_and_cores() {
    const NEEDED: [&str; 3] = ["online", "core_cpus_list", "thread_siblings_list"];
    for (name, machine) in machines::all() {
        let folder = scratch();
        let (root, tree) = (folder.path(), machine.tree());
        tree.write(root);
        let right = cores(&Topology::read(root).unwrap());
        for spoilt in SPOILT {
            for file in tree.0.keys() {
                if NEEDED
                    .iter()
                    .all(|needed| !file.ends_with(&format!("/{needed}")))
                {
                    fs::write(root.join(file), spoilt).unwrap();
                }
            }
            check(
                root,
                &right,
                &format!("{name}: all = {:?}", spoilt.escape_ascii().to_string()),
            );
        }
    }
}
