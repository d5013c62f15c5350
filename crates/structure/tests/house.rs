//! The plan of the house in CONTRIBUTING.md, held against the sources, and test files that no program has.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use sidelane_structure::{
    Headers, Module, Modules, circles, dead_links, folder_of, members, sentences, words,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The folders that the plan lists, from the top of the house to its ground.
fn plan() -> Vec<String> {
    let text = std::fs::read_to_string(workspace().join("CONTRIBUTING.md")).unwrap();
    let folders = ["crates/", "examples/"];
    let planned = |line: &&str| folders.iter().any(|folder| line.starts_with(folder));
    text.lines()
        .filter(planned)
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_plan_lists_every_crate_and_arrows_lead_down() {
    let plan = plan();
    let members = members(workspace()).unwrap();
    let floor = |folder: &str| plan.iter().position(|planned| planned == folder);
    for member in &members {
        let own = floor(&member.folder)
            .unwrap_or_else(|| panic!("CONTRIBUTING.md does not list {}", member.folder));
        for need in &member.needs {
            let needed = members.iter().find(|other| other.name == *need).unwrap();
            assert!(
                floor(&needed.folder).is_some_and(|floor| floor > own),
                "{} needs {}, which does not stand below it in CONTRIBUTING.md",
                member.folder,
                needed.folder
            );
        }
    }
    for folder in &plan {
        assert!(
            members.iter().any(|member| member.folder == *folder),
            "CONTRIBUTING.md lists {folder}, which is no crate"
        );
    }
}

/// The arrows that make a circle.
fn arrows_within(circle: &[Module], arrows: &BTreeSet<(Module, Module)>) -> Vec<String> {
    let part = |path: &Module| circle.iter().position(|module| path.starts_with(module));
    let within = |(from, to): &&(Module, Module)| match (part(from), part(to)) {
        (Some(a), Some(b)) => a != b,
        _ => false,
    };
    let shown = |(from, to): &(Module, Module)| format!("{} -> {}", from.join("::"), to.join("::"));
    arrows.iter().filter(within).map(shown).collect()
}

#[test]
fn no_modules_form_a_circle() {
    let mut found = Vec::new();
    for member in members(workspace()).unwrap() {
        let arrows = Modules::read(&member.root).unwrap().arrows();
        for circle in circles(&arrows) {
            let names: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
            let within = arrows_within(&circle, &arrows).join("\n  ");
            let names = names.join(", ");
            found.push(format!("{}: {names}\n  {within}", member.folder));
        }
    }
    assert!(
        found.is_empty(),
        "{} circles:\n{}",
        found.len(),
        found.join("\n")
    );
}

/// What asks the mechanisms of the scheduler.
const HOOKS: &str = "hooks.bpf.h";
const OPERATIONS: &str = "main.bpf.c";
/// Contexts and what they hold: anybody's.
const CONTEXTS: &str = "core/types.bpf.h";

#[test]
fn the_scheduler_s_mechanisms_know_each_other_by_hooks_only() {
    let headers = Headers::read(&workspace().join("crates/policy/bpf")).unwrap();
    let asked: Vec<&str> = headers
        .called(HOOKS)
        .iter()
        .map(|(_, file)| *file)
        .collect();
    assert!(asked.len() > 20, "{HOOKS} asks {asked:?} only");
    let mut found = Vec::new();
    for file in headers.files().filter(|file| *file != HOOKS) {
        for (function, place) in headers.called(file) {
            let own = folder_of(place) == folder_of(file);
            let core = folder_of(place) == "core";
            let mechanism = file == OPERATIONS && asked.contains(&place) && place != CONTEXTS;
            if place != HOOKS && (mechanism || !(own || core)) {
                found.push(format!("{file} calls {function} of {place}"));
            }
        }
    }
    // the tracer of lanes is a program of its own
    found.retain(|line| !line.starts_with("lanes.bpf.c"));
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Where a crate's tests are one program, a file that it does not name would not even be compiled.
#[test]
fn no_test_file_is_left_out() {
    for member in members(workspace()).unwrap() {
        let folder = workspace().join(&member.folder);
        let Ok(main) = std::fs::read_to_string(folder.join("tests/main.rs")) else {
            continue;
        };
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        for entry in std::fs::read_dir(folder.join("tests")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let name = path.file_stem().unwrap().to_str().unwrap();
            let module = main.lines().any(|line| line == format!("mod {name};"));
            let program = manifest.contains(&format!("[[test]]\nname = \"{name}\""));
            assert!(
                name == "main" || module || program,
                "{}/tests/{name}.rs is in no test program: name it in main.rs",
                member.folder
            );
        }
    }
}

/// A sentence of the guide has at most so many words.
const LONGEST_SENTENCE: usize = 40;
/// A page has at most so many, tables and code aside.
const LONGEST_PAGE: usize = 1500;

/// The README and the pages of the guide.
fn pages() -> Vec<(PathBuf, String)> {
    let docs = std::fs::read_dir(workspace().join("docs")).unwrap();
    let mut pages: Vec<PathBuf> = docs.map(|entry| entry.unwrap().path()).collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.push(workspace().join("README.md"));
    pages.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        (path, text)
    };
    pages.into_iter().map(read).collect()
}

#[test]
fn sentences_and_pages_of_the_guide_are_short_and_links_lead_somewhere() {
    let mut found = Vec::new();
    for (path, text) in pages() {
        let name = path.strip_prefix(workspace()).unwrap().display();
        for long in sentences(&text)
            .iter()
            .filter(|it| it.words > LONGEST_SENTENCE)
        {
            found.push(format!(
                "{name}:{}: {} words: {} ...",
                long.line, long.words, long.begins
            ));
        }
        if words(&text) > LONGEST_PAGE {
            found.push(format!("{name}: {} words", words(&text)));
        }
        let dead = dead_links(&path, &text).into_iter();
        found.extend(dead.map(|link| format!("{name}: nothing at {link}")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// In the BPF programs, which know tasks and lanes but no people, nothing is a person.
#[test]
fn tasks_and_lanes_are_things() {
    let person = ["who", "whom", "whoever", "nobody", "anybody", "everybody"];
    let mut pending = ["crates/policy/bpf", "crates/collect/bpf"]
        .map(|it| workspace().join(it))
        .to_vec();
    let mut found = Vec::new();
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).unwrap();
            pending.extend(entries.map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            if words.any(|word| person.contains(&word.to_lowercase().as_str())) {
                found.push(format!("{}:{}: {line}", path.display(), number + 1));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// What a newcomer sees first: a picture, figures, and a command that gives them without privilege.
#[test]
fn the_first_screen_shows_what_it_is_and_pages_lead_on() {
    let readme = std::fs::read_to_string(workspace().join("README.md")).unwrap();
    let first: Vec<&str> = readme.lines().take(30).collect();
    for part in ["![", "$ sidelane sim ", "p99 ms", "sidelane     server"] {
        assert!(first.iter().any(|line| line.contains(part)), "{part}");
    }
    for part in ["| machine | x86-64", "SysRq-S", "(docs/comparison.md)"] {
        assert!(readme.contains(part), "{part}");
    }
    let alternatives = std::fs::read_to_string(workspace().join("docs/comparison.md")).unwrap();
    assert!(alternatives.contains("\n## Words\n"));
    // it is compared with something else than itself
    let scenario = workspace().join("examples/scenarios/two-sockets.toml");
    let scenario: toml::Table = std::fs::read_to_string(scenario).unwrap().parse().unwrap();
    let compared = scenario["configuration"].as_array().unwrap().iter();
    let whole = compared.filter(|of| of.get("without").is_none());
    let schedulers: BTreeSet<&str> = whole.map(|of| of["scheduler"].as_str().unwrap()).collect();
    assert_eq!(schedulers, BTreeSet::from(["default", "sidelane"]));
}

/// Programs of any licence may be linked with the library, whose own dependency is libc; builds elsewhere than on Debian
/// find the names of packages.
#[test]
fn the_library_is_for_all_programs_and_builds_for_all_distributions() {
    let runtime = workspace().join("crates/runtime");
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
    let manifest: toml::Table = read(runtime.join("Cargo.toml")).parse().unwrap();
    assert_eq!(manifest["package"]["license"].as_str(), Some("MIT"));
    let needs: Vec<&String> = manifest["dependencies"]
        .as_table()
        .unwrap()
        .keys()
        .collect();
    assert_eq!(needs, ["libc"]);
    for file in ["LICENSE", "include/sidelane.h", "python/sidelane_jobs.py"] {
        let text = read(runtime.join(file));
        assert!(
            text.lines().take(1).any(|line| line.contains("MIT")),
            "{file}"
        );
    }
    let setup = read(workspace().join("scripts/setup"));
    for part in ["Ubuntu", "Fedora", "Arch", "BPF_CLANG"] {
        assert!(setup.contains(part), "{part}");
    }
}

#[test]
fn the_guide_s_contents_list_every_page() {
    let contents = std::fs::read_to_string(workspace().join("docs/SUMMARY.md")).unwrap();
    for (path, _) in pages() {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(
            ["SUMMARY.md", "README.md"].contains(&name) || contents.contains(&format!("]({name})")),
            "docs/SUMMARY.md does not list {name}"
        );
    }
}
