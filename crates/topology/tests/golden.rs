//! Machines, generated, captured and built, rendered, against kept output. `UPDATE_GOLDEN=1 cargo test`
//! rewrites that; look at the difference before committing it.

#![allow(clippy::unwrap_used)] // Clippy spares test functions, but not their helpers.

use sidelane_topology::render::{WIDTH, text};
use sidelane_topology::{Builder, CoreSpec, Numbering, Regular, Topology};
use sidelane_trees::{CAPTURED, captured, machines};
use std::fs;
use std::path::Path;

/// Compares `actual` with the kept file `tests/golden/NAME`, or rewrites that.
fn golden(name: &str, actual: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let path = folder.join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        fs::create_dir_all(folder).unwrap();
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

/// A document of pieces, each below its name.
fn pieces<'a>(pieces: impl Iterator<Item = (&'a str, String)>) -> String {
    pieces
        .map(|(name, piece)| format!("== {name}\n{piece}\n"))
        .collect()
}

#[test]
fn every_generated_machine_is_described_as_kept() {
    let all = machines::all();
    let read =
        |machine: &sidelane_trees::Machine| Topology::read(machine.tree().folder().path()).unwrap();
    let json = |machine| serde_json::to_string_pretty(&read(machine)).unwrap() + "\n";
    let documents = all.iter().map(|(name, machine)| (*name, json(machine)));
    golden("generated.json.txt", &pieces(documents));
}

/// Two servers, which are folded.
fn large_machines() -> [Topology; 2] {
    let server = Regular {
        packages: 2,
        caches_per_package: 12,
        cores_per_cache: 8,
        lanes_per_core: 2,
        numbering: Numbering::Apart,
    };
    let packages = Regular {
        packages: 64,
        caches_per_package: 1,
        cores_per_cache: 1,
        ..server
    };
    [server, packages].map(|shape| Topology::regular(&shape).unwrap())
}

/// Runs with uneven steps are not folded together.
fn uneven_steps() -> Topology {
    // CPU numbers advance by 2, then leap, then advance by 3.
    let first = |core: u32| if core < 20 { 2 * core } else { 100 + 3 * core };
    let cores = (0..40).map(|core| CoreSpec::new([first(core), first(core) + 1]).cache(3, 0));
    cores.fold(Builder::new(), Builder::core).build().unwrap()
}

/// Offline lanes whose core is known are marked.
fn offline_lanes() -> Topology {
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
    machine.unwrap()
}

#[test]
fn every_machine_is_rendered_as_kept() {
    let generated = machines::all().into_iter().map(|(name, machine)| {
        let machine = Topology::read(machine.tree().folder().path()).unwrap();
        (name, machine)
    });
    let captured = CAPTURED.map(|name| (name, Topology::read(captured(name).path()).unwrap()));
    let [cores, packages] = large_machines();
    let built = [
        ("192-cores", cores),
        ("64-packages", packages),
        ("uneven-steps", uneven_steps()),
        ("offline-lanes", offline_lanes()),
    ];
    let all = generated.chain(captured).chain(built);
    let texts = all.map(|(name, machine)| (name, picture(name, &machine)));
    golden("texts.txt", &pieces(texts));
}

/// Its text, of which no line is too wide.
fn picture(name: &str, machine: &Topology) -> String {
    let picture = text(machine);
    for line in picture.lines() {
        assert!(
            line.chars().count() <= WIDTH,
            "{name}: wider than {WIDTH}: {line}"
        );
    }
    picture
}
