//! What a topology answers, on generated machines and on machines built by hand; and on machines of which every file but
//! the list of CPUs online is spoiled in every way: they keep their cores and lanes.
#![allow(clippy::unwrap_used)] // Clippy spares test functions, but not their helpers.

use proptest::prelude::*;
use sidelane_topology::render::{WIDTH, text};
use sidelane_topology::{
    BuildError, Builder, CAPACITY_MAX, CPU_MAX, CapacitySource, CoreSpec, Distance, SmtControl,
    Topology, render,
};
use sidelane_trees::generated;
use sidelane_trees::{Tree, machines};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn read(name: &str) -> Topology {
    Topology::read(generated(name).path()).unwrap()
}

fn lanes_of(machine: &Topology) -> Vec<String> {
    machine
        .cores()
        .iter()
        .map(|core| core.cpus().to_string())
        .collect()
}

#[test]
fn siblings_come_from_lists_not_from_core_ids() {
    assert_eq!(
        lanes_of(&read("two-packages-apart")),
        ["0,4", "1,5", "2,6", "3,7"]
    );
    assert_eq!(
        lanes_of(&read("one-package-adjacent")),
        ["0-1", "2-3", "4-5", "6-7"]
    );
    assert_eq!(lanes_of(&read("power-8-lanes")), ["0-7", "8-15"]);
}

#[test]
fn questions_about_a_cpu() {
    let machine = read("two-packages-apart");
    assert_eq!(machine.core_of(6).map(|core| core.index), Some(2));
    assert_eq!(
        machine.siblings(6).map(|lane| lane.cpu).collect::<Vec<_>>(),
        [2]
    );
    assert_eq!(
        machine.lane(6).map(|lane| (lane.core, lane.index)),
        Some((2, 1))
    );
    assert_eq!(machine.core_of(8), None);
    assert_eq!(machine.siblings(8).count(), 0);
    assert_eq!((machine.nr_cpu_ids(), machine.lanes_per_core_max()), (8, 2));
}

#[test]
fn distances() {
    let machine = read("eight-caches");
    let distances = [0, 1, 2, 4].map(|core| machine.distance(0, core));
    assert_eq!(
        distances.map(Option::unwrap),
        [
            Distance::SameCore,
            Distance::SameCache,
            Distance::SameNode,
            Distance::OtherNode
        ]
    );
    assert_eq!(machine.distance(0, 16), None);
    assert!(distances.is_sorted());
    let packages = Builder::new()
        .core(CoreSpec::new([0]))
        .core(CoreSpec::new([1]).package(1));
    assert_eq!(
        packages.build().unwrap().distance(0, 1),
        Some(Distance::OtherNode)
    );
}

#[test]
fn capacity_from_the_kernel_or_the_frequency() {
    let capacities = |machine: &Topology| {
        machine
            .cores()
            .iter()
            .map(|c| c.capacity)
            .collect::<Vec<_>>()
    };
    let tiers = |machine: &Topology| machine.cores().iter().map(|c| c.tier).collect::<Vec<_>>();

    let machine = read("hybrid-capacity");
    assert_eq!(machine.capacity_source(), CapacitySource::CpuCapacity);
    assert_eq!(capacities(&machine), [1024, 1024, 640, 640, 640, 640]);
    assert_eq!(tiers(&machine), [0, 0, 1, 1, 1, 1]);

    // 5.2 and 5.3 GHz are one kind of core, 3.9 GHz is another.
    let machine = read("hybrid-frequency");
    assert_eq!(machine.capacity_source(), CapacitySource::MaxFrequency);
    assert_eq!(
        capacities(&machine),
        [1005, 1005, 1024, 1024, 754, 754, 754, 754]
    );
    assert_eq!(machine.tier_capacities(), [1024, 754]);
    assert_eq!(tiers(&machine), [0, 0, 0, 0, 1, 1, 1, 1]);
    assert_eq!(
        lanes_of(&machine)[..4],
        ["4-5", "6-7", "8-9", "10-11"],
        "cores of a kind stand by CPU number, whichever can turbo above its like"
    );
}

#[test]
fn offline_cpus_are_listed() {
    let machine = read("smt-off");
    assert_eq!(machine.smt().control, Some(SmtControl::Off));
    assert_eq!(machine.smt().active, Some(false));
    assert_eq!(machine.offline().to_string(), "4-7");
    assert_eq!(machine.unplaced().to_string(), "4-7");
    assert_eq!((machine.nr_cpu_ids(), machine.lanes_per_core_max()), (8, 1));
    let machine = read("virtual-machine");
    assert_eq!(machine.possible().to_string(), "0-7");
    assert!(
        machine.offline().is_empty(),
        "CPUs that are not plugged in are not offline"
    );
    assert_eq!(machine.nr_cpu_ids(), 8);
    assert_eq!(
        read("power-8-lanes-level-4").smt().control,
        Some(SmtControl::Lanes(4))
    );
}

#[test]
fn lanes_are_numbered_by_cpu_in_whatever_order_they_are_given() {
    let machine = Builder::new()
        .core(CoreSpec::new([9, 1, 5]).offline([5]))
        .build()
        .unwrap();
    let lanes: Vec<_> = machine
        .lanes()
        .map(|lane| (lane.index, lane.cpu, lane.online))
        .collect();
    assert_eq!(lanes, [(0, 1, true), (1, 5, false), (2, 9, true)]);
}

#[test]
fn this_machine_can_be_read() {
    let machine = Topology::read(Path::new("/")).unwrap();
    assert!(!machine.cores().is_empty());
    assert!(!render::text(&machine).is_empty());
}

#[test]
fn cores_that_make_no_machine_are_refused() {
    let build = |cores: &[CoreSpec]| {
        cores
            .iter()
            .cloned()
            .fold(Builder::new(), Builder::core)
            .build()
            .unwrap_err()
    };
    let core = |cpus: &[u32]| CoreSpec::new(cpus.to_vec());
    assert_eq!(build(&[]), BuildError::NoCores);
    assert_eq!(build(&[core(&[0]), core(&[])]), BuildError::NoLanes(1));
    assert_eq!(build(&[core(&[0]), core(&[1, 0])]), BuildError::CpuTwice(0));
    assert_eq!(build(&[core(&[2, 2])]), BuildError::CpuTwice(2));
    assert_eq!(
        build(&[core(&[CPU_MAX + 1])]),
        BuildError::CpuTooLarge(CPU_MAX + 1)
    );
    assert_eq!(build(&[core(&[3]).capacity(0)]), BuildError::NoCapacity(3));
    assert_eq!(
        build(&[core(&[0]).offline([1])]),
        BuildError::OfflineElsewhere(1)
    );
    assert_eq!(build(&[core(&[0]).offline([0])]), BuildError::NothingOnline);
}

/// Machines with arbitrary cores: lane counts, capacities, places and offline lanes.
fn any_machine() -> impl Strategy<Value = Topology> {
    let core = (
        1..=9_usize,
        1..5000_u64,
        -1..3_i32,
        0..3_u32,
        proptest::option::of(0..4_u32),
    );
    let cores = proptest::collection::vec((core, any::<u16>()), 1..80);
    (cores, any::<bool>(), 1..7_u32).prop_filter_map("all offline", |(cores, rising, step)| {
        let mut next = 0;
        let mut builder = Builder::new();
        for ((lanes, capacity, package, node, cache), offline) in cores {
            let cpus: Vec<u32> = (0..lanes as u32).map(|lane| next + lane * step).collect();
            next += lanes as u32 * step;
            let offline = cpus
                .iter()
                .enumerate()
                .filter(|(at, _)| offline >> at & 1 == 1);
            let mut core = CoreSpec::new(cpus.clone())
                .offline(offline.map(|(_, cpu)| *cpu))
                .package(package)
                .node(node);
            if rising {
                core = core.capacity(capacity);
            }
            if let Some(cache) = cache {
                core = core.cache(3, cache);
            }
            builder = builder.core(core);
        }
        builder.present((0..next).step_by(2).collect()).build().ok()
    })
}

proptest! {
    #[test]
    fn every_online_cpu_is_a_lane_of_exactly_one_core(machine in any_machine()) {
        for cpu in machine.online().iter() {
            let cores = machine.cores().iter().filter(|core| core.cpus().contains(cpu));
            prop_assert_eq!(cores.count(), 1);
            prop_assert!(machine.lane(cpu).unwrap().online);
        }
        for lane in machine.lanes() {
            prop_assert_eq!(machine.lane(lane.cpu), Some(lane));
            prop_assert_eq!(lane.online, machine.online().contains(lane.cpu));
            prop_assert_eq!(&machine.cores()[lane.core].lanes[lane.index], lane);
            prop_assert!((lane.cpu as usize) < machine.nr_cpu_ids());
            let siblings = machine.siblings(lane.cpu).count();
            prop_assert_eq!(siblings + 1, machine.cores()[lane.core].lanes.len());
        }
    }

    #[test]
    fn cores_stand_in_their_order(machine in any_machine()) {
        let order = machine.cores().iter().map(|core| {
            let first_cpu = core.lanes[0].cpu;
            (core.tier, core.package, core.node, core.cache, first_cpu)
        });
        prop_assert!(order.is_sorted());
        let fastest = machine.cores().iter().map(|core| core.capacity).max();
        prop_assert_eq!(fastest, Some(CAPACITY_MAX));
        for (index, core) in machine.cores().iter().enumerate() {
            prop_assert_eq!(core.index, index);
            prop_assert!((1..=CAPACITY_MAX).contains(&core.capacity));
        }
    }

    #[test]
    fn groups_partition_the_cores(machine in any_machine()) {
        let all: Vec<usize> = (0..machine.cores().len()).collect();
        let sorted = |lists: Vec<&Vec<usize>>| {
            let mut cores: Vec<usize> = lists.into_iter().flatten().copied().collect();
            cores.sort_unstable();
            cores
        };
        prop_assert_eq!(&sorted(machine.packages().iter().map(|p| &p.cores).collect()), &all);
        prop_assert_eq!(&sorted(machine.nodes().iter().map(|n| &n.cores).collect()), &all);
        prop_assert_eq!(&sorted(machine.caches().iter().map(|c| &c.cores).collect()), &all);
        for cache in machine.caches() {
            prop_assert!(!cache.cores.is_empty());
            prop_assert!(cache.cores.iter().all(|core| machine.cores()[*core].cache == cache.index));
        }
    }

    #[test]
    fn distance_is_symmetric(machine in any_machine(), a in 0..80_usize, b in 0..80_usize) {
        prop_assert_eq!(machine.distance(a, b), machine.distance(b, a));
        let same = machine.distance(a, b) == Some(Distance::SameCore);
        prop_assert_eq!(same, a == b && a < machine.cores().len());
    }

    #[test]
    fn no_line_of_the_picture_is_too_wide(machine in any_machine()) {
        for line in render::text(&machine).lines() {
            prop_assert!(line.chars().count() <= render::WIDTH, "{}", line);
        }
    }
}

#[test]
fn a_core_with_very_many_lanes_fits_the_width() {
    let lanes = (0..400).step_by(2);
    let machine = Builder::new()
        .core(CoreSpec::new(lanes).offline([4, 8]))
        .build()
        .unwrap();
    let picture = render::text(&machine);
    assert!(
        picture
            .lines()
            .all(|line| line.chars().count() <= render::WIDTH),
        "{picture}"
    );
    assert!(picture.contains("396,398"), "{picture}");
}

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
