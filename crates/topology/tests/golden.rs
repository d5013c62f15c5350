//! Every fixture, read and rendered, against kept output. `UPDATE_GOLDEN=1 cargo test` rewrites
//! both the trees and the output; look at the difference before committing it.

#![allow(clippy::unwrap_used)] // Clippy spares test functions, but not their helpers.

mod common;

use common::{Tree, fixture, golden, machines, update};
use sidelane_topology::render::{WIDTH, text};
use sidelane_topology::{Builder, CoreSpec, Numbering, Regular, Topology};
use std::fs;

#[test]
fn kept_trees_are_what_the_descriptions_generate() {
    for (name, machine) in machines::all() {
        let folder = fixture(name);
        if update() {
            let _ = fs::remove_dir_all(&folder);
            machine.tree().write(&folder);
        }
        assert_eq!(
            Tree::read(&folder),
            machine.tree(),
            "{name}; UPDATE_GOLDEN=1 rewrites it"
        );
    }
    let kept = fs::read_dir(fixture("")).unwrap().count();
    assert_eq!(
        kept,
        machines::all().len(),
        "a tree that no description generates"
    );
}

#[test]
fn every_fixture_is_rendered_as_kept() {
    for (name, machine) in machines::all() {
        let folder = tempfile::tempdir().unwrap();
        machine.tree().write(folder.path());
        let machine = Topology::read(folder.path()).unwrap();
        check_text(name, &machine);
        let json = serde_json::to_string_pretty(&machine).unwrap() + "\n";
        golden(&format!("{name}.json"), &json);
    }
}

#[test]
fn large_machines_are_folded() {
    let server = Regular {
        packages: 2,
        caches_per_package: 12,
        cores_per_cache: 8,
        lanes_per_core: 2,
        numbering: Numbering::Apart,
    };
    check_text("built-192-cores", &Topology::regular(&server).unwrap());
    let packages = Regular {
        packages: 64,
        caches_per_package: 1,
        cores_per_cache: 1,
        ..server
    };
    check_text("built-64-packages", &Topology::regular(&packages).unwrap());
}

#[test]
fn runs_with_uneven_steps_are_not_folded_together() {
    // CPU numbers advance by 2, then leap, then advance by 3.
    let first = |core: u32| if core < 20 { 2 * core } else { 100 + 3 * core };
    let cores = (0..40).map(|core| CoreSpec::new([first(core), first(core) + 1]).cache(3, 0));
    let machine = cores.fold(Builder::new(), Builder::core).build().unwrap();
    check_text("built-uneven-steps", &machine);
}

#[test]
fn offline_lanes_whose_core_is_known_are_marked() {
    let machine = Builder::new()
        .core(CoreSpec::new([0, 2, 4]).offline([2]).cache(3, 0))
        .core(CoreSpec::new([1, 3, 5]).cache(3, 0))
        .core(
            CoreSpec::new([10, 11])
                .capacity(300)
                .offline([10, 11])
                .cache(2, 0)
                .package(-1),
        )
        .build();
    check_text("built-offline-lanes", &machine.unwrap());
}

fn check_text(name: &str, machine: &Topology) {
    let picture = text(machine);
    for line in picture.lines() {
        assert!(
            line.chars().count() <= WIDTH,
            "{name}: wider than {WIDTH}: {line}"
        );
    }
    golden(&format!("{name}.txt"), &picture);
}
