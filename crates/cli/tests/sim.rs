//! `sidelane sim` and `sidelane reproduce` as they are typed.

use std::path::Path;
use std::process::{Command, Output};

/// Runs `sidelane` in the project's folder.
fn sidelane(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sidelane"))
        .args(arguments)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

const DEMO: &str = "examples/scenarios/demo.toml";

#[test]
fn a_mistake_in_a_scenario_names_place_and_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wrong.toml");
    let text = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(DEMO),
    );
    let text = text.unwrap();
    let name = path.to_str().unwrap();
    for (right, wrong, what) in [
        ("[run]", "[run]\nreplikations = 3", "replications"),
        ("load = 0.24", "load = -0.24", "load"),
        (
            "class = \"critical\"",
            "class = \"critical\"\ncpus = \"9\"",
            "9",
        ),
    ] {
        assert!(text.contains(right), "{right}");
        let broken = text.replace(right, wrong);
        let last = wrong.lines().last().unwrap();
        let line = 1 + broken.lines().position(|line| line.contains(last)).unwrap();
        std::fs::write(&path, &broken).unwrap();
        let output = sidelane(&["sim", name]);
        assert_eq!(output.status.code(), Some(4), "{wrong}");
        let message = stderr(&output);
        assert!(
            message.contains(&format!("{name}:{line}:")),
            "{wrong}: {message}"
        );
        assert!(message.contains(what), "{wrong}: {message}");
        assert!(output.stdout.is_empty());
    }
    let output = sidelane(&["sim", "does-not-exist.toml"]);
    assert_eq!(output.status.code(), Some(4));
}

#[test]
fn threads_do_not_change_results() {
    let run = |threads: &str| {
        let output = sidelane(&[
            "sim",
            DEMO,
            "--seconds",
            "2",
            "--replications",
            "4",
            "--format",
            "json",
            "--threads",
            threads,
        ]);
        assert!(output.status.success(), "{}", stderr(&output));
        super::document(&output)
    };
    let value = run("1");
    assert_eq!(value, run("3"));
    let names: Vec<_> = value["configurations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|configuration| configuration["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["alone", "default", "smt-off", "sidelane"]);
}

#[test]
fn tables_fit_the_screen() {
    let made = ["sim", "--cores", "4", "--load", "0.3", "--batch"];
    for what in [&["sim", DEMO][..], &made] {
        let output = sidelane(&[what, &["--seconds", "1", "--replications", "2"]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        for line in stdout(&output).lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
    }
    let csv = sidelane(&[
        "sim",
        DEMO,
        "--seconds",
        "1",
        "--replications",
        "2",
        "--format",
        "csv",
    ]);
    let text = stdout(&csv);
    assert!(
        text.lines().all(|line| line.split(',').count() == 6),
        "{text}"
    );
}

#[test]
fn columns_are_as_wide_as_the_longest_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.toml");
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(project.join(DEMO)).unwrap();
    let text = text.replace("name = \"smt-off\"", "name = \"one lane a core\"");
    let name = "a server whose name has 38 characters.";
    let long = text.replace("name = \"server\"", &format!("name = \"{name}\""));
    assert!(text.contains("one lane a core") && long.contains(name));
    for (text, first, most) in [(&text, "one lane a core", 100), (&long, name, usize::MAX)] {
        std::fs::write(&path, text).unwrap();
        let args = ["--seconds", "1", "--replications", "2"];
        let output = sidelane(&[&["sim", path.to_str().unwrap()], &args[..]].concat());
        let text = stdout(&output);
        assert!(text.lines().any(|line| line.contains(first)), "{output:?}");
        let tables = text.split("\n\n").skip(1).take(2);
        for table in tables {
            let widths: Vec<usize> = table.lines().map(|line| line.chars().count()).collect();
            let same = widths.iter().all(|width| *width == widths[0]);
            assert!(same && widths[0] <= most, "{widths:?}: {table}");
        }
    }
}

#[test]
fn the_machine_is_that_which_is_simulated() {
    let quick = ["--seconds", "0.1", "--replications", "1"];
    let made = [
        "sim",
        "--cores",
        "4",
        "--load",
        "0.3",
        "--set",
        "machine.cores=2",
    ];
    for what in [&made[..], &["sim", DEMO, "--set", "machine.cores=8"]] {
        let text = stdout(&sidelane(&[what, &quick[..]].concat()));
        let cores = what
            .last()
            .and_then(|set| set.split('=').next_back())
            .unwrap();
        let machine = format!("\nmachine: {cores} cores with 2 lanes each\n");
        assert!(text.contains(&machine), "{text}");
        assert!(!text.contains("4 cores"), "{text}");
    }
    let json = sidelane(&[&made[..], &quick[..], &["--format", "json"]].concat());
    let about = super::document(&json)["about"].to_string();
    assert!(!about.contains(char::is_numeric), "{about}");
}

#[test]
fn files_that_would_not_be_written_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    let file = path.to_str().unwrap();
    let made = ["sim", "--cores", "4", "--load", "0.3", "--show-scenario"];
    for option in ["--svg", "--trace", "--record"] {
        for what in [
            &made[..],
            &["sim", "--swarm", "1"],
            &["sim", "--swarm-seed", "1"],
        ] {
            let output = sidelane(&[what, &[option, file]].concat());
            assert_eq!(output.status.code(), Some(2), "{output:?}");
        }
    }
    for what in [&["reproduce"][..], &["reproduce", "--list"]] {
        for option in ["--html", "--compare"] {
            let output = sidelane(&[what, &[option, file]].concat());
            assert_eq!(output.status.code(), Some(2), "{output:?}");
        }
    }
    assert!(!path.exists());
}

#[test]
fn what_cannot_be_read_names_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.toml");
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    let file = path.to_str().unwrap();
    let plain = "demo.toml:1:1: missing field `experiment`; experiments/README.md";
    for (args, part) in [
        (&["sim", file][..], "is not UTF-8 text; save it as that"),
        (&["reproduce", file], "is not UTF-8 text; save it as that"),
        (&["sim", "none.toml"], "check the path"),
        (&["sim", "--from", "none"], "check the path"),
        (&["reproduce", "none.toml"], "check the path"),
        (
            &["reproduce", "zvm-smt2-parallel", "--compare", "none"],
            "check the path",
        ),
        (&["reproduce", DEMO], plain),
        (
            &["sim", DEMO, "--seconds", "-1"],
            "expected a number from 0.001",
        ),
    ] {
        let output = sidelane(args);
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        let said = stderr(&output);
        assert!(said.contains(part) && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn a_published_result_is_judged() {
    let list = sidelane(&["reproduce"]);
    assert!(stdout(&list).contains("elfen-one-core"));
    for line in stdout(&list).lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    let list = super::document(&sidelane(&["reproduce", "--format", "json"]));
    assert!(list["experiments"][0]["title"].is_string());
    let output = sidelane(&["reproduce", "elfen-co-runner", "--format", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let reports = &super::document(&output)["experiments"];
    let findings = reports[0]["findings"].as_array().unwrap();
    assert!(!findings.is_empty());
    assert!(
        findings
            .iter()
            .all(|finding| finding["verdict"].is_string())
    );
    assert!(!reports[0]["assumptions"].as_array().unwrap().is_empty());
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../experiments/adaptive-model.toml"
    );
    let own = super::document(&sidelane(&["reproduce", file, "--format", "json"]));
    assert_eq!(own["experiments"][0]["name"], "adaptive-model");
    let unknown = sidelane(&["reproduce", "elfen-two-cores"]);
    assert_eq!(unknown.status.code(), Some(4));
    assert!(stderr(&unknown).contains("elfen-two-cores"));
}

#[test]
fn a_run_is_recorded_for_report_and_advise() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sidelane.rec");
    let file = path.to_str().unwrap();
    let short = ["sim", DEMO, "--seconds", "2", "--replications", "1"];
    let several = sidelane(&[&short[..], &["--record", file]].concat());
    assert_eq!(several.status.code(), Some(4));
    assert!(stderr(&several).contains("--configuration"));
    assert!(!path.exists());
    let one = ["--configuration", "sidelane", "--record", file];
    let output = sidelane(&[&short[..], &one].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let report = stdout(&sidelane(&["report", file]));
    assert!(report.contains("2.000 s in 2 intervals"), "{report}");
    assert!(report.contains("scheduler sidelane"), "{report}");
    let advice = sidelane(&["advise", file]);
    assert!(advice.status.success(), "{}", stderr(&advice));
    let advice = sidelane(&["advise", file, "--format", "json"]);
    assert!(super::document(&advice)["advice"][0]["finding"].is_string());
    let report = sidelane(&["report", file, "--format", "json"]);
    assert_eq!(super::document(&report)["header"]["scheduler"], "sidelane");
}

#[test]
fn a_swarm_is_a_document_too() {
    let output = sidelane(&["sim", "--swarm", "2", "--format", "json"]);
    let total = super::document(&output);
    assert_eq!(total["passed"], 2);
    assert!(total["counters"]["run_ns"]["critical"].is_number());
}

#[test]
fn a_few_numbers_are_simulated_without_a_file() {
    let what_if = ["sim", "--cores", "4", "--load", "0.3", "--batch"];
    let quick = ["--seconds", "1", "--replications", "2"];
    let output = sidelane(&[&what_if[..], &quick].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    for part in [
        "machine: 4 cores with 2 lanes each\n",
        "and batch beside it",
        "sidelane",
        "smt off",
        "assumed: thread_perf",
        "assumed: batch is SCHED_IDLE",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let shown = sidelane(&[&what_if[..], &["--show-scenario"]].concat());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("what if.toml");
    std::fs::write(&path, stdout(&shown)).unwrap();
    let kept = sidelane(&[&["sim", path.to_str().unwrap()], &quick[..]].concat());
    assert_eq!(stdout(&kept), text); // the same scenario, to the last digit
    // as in all examples: the row of the kernel's scheduler has batch with the policy for it
    assert_eq!(stdout(&shown).matches("policy = \"idle\"").count(), 1);
    let like = sidelane_trees::captured("xeon-2-packages");
    let like = format!("--like-this={}", like.path().display());
    let shown = sidelane(&["sim", &like, "--load", "0.3", "--batch", "--show-scenario"]);
    let text = stdout(&shown);
    for part in ["cores = 16\nlanes = 2\n", "tasks = 32", "only their number"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let without_smt = sidelane_trees::generated("smt-off");
    let like = format!("--like-this={}", without_smt.path().display());
    let shown = sidelane(&["sim", &like, "--load", "0.3", "--show-scenario"]);
    assert!(stdout(&shown).contains("no SMT to compare"), "{shown:?}");
    let hybrid = sidelane_trees::generated("hybrid-capacity");
    let like = format!("--like-this={}", hybrid.path().display());
    let shown = sidelane(&["sim", &like, "--load", "0.3", "--batch", "--show-scenario"]);
    let groups =
        "[[machine.group]]\ncores = 2\nlanes = 2\n[[machine.group]]\ncores = 4\nlanes = 1\n";
    assert!(stdout(&shown).contains(groups), "{shown:?}");
    assert!(stdout(&shown).contains("tasks = 8"), "{shown:?}"); // one for each lane
    let here = ["sim", "--like-this", "--load", "0.1", "--show-scenario"];
    assert!(sidelane(&here).status.success());
    for (args, code) in [
        (&["sim", "--cores", "4"][..], 2),
        (&["sim", "--like-this"], 2),
        (&["sim", "--like-this", "--cores", "4", "--load", "0.3"], 2),
        (&["sim", "--like-this=/none-such", "--load", "0.3"], 4),
        (&["sim", "--load", "0.3"], 2),
        (&["sim", DEMO, "--cores", "4", "--load", "0.3"], 2),
        (&["sim", "--cores", "4", "--load", "-1"], 2),
        (&["sim", "--cores", "4", "--load", "0"], 2),
        (&["sim", "--cores", "4", "--load", "30"], 2),
        (&["sim", DEMO, "--threads", "0"], 2),
        (&["sim", "--from", "none-such.rec"], 4),
    ] {
        assert_eq!(sidelane(args).status.code(), Some(code), "{args:?}");
    }
}

#[test]
fn a_recording_becomes_a_scenario() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("demo.rec");
    let file = path.to_str().unwrap();
    let short = [
        "--seconds",
        "5",
        "--configuration",
        "sidelane",
        "--replications",
        "1",
    ];
    let recorded = sidelane(&[&["sim", DEMO, "--record", file], &short[..]].concat());
    assert!(recorded.status.success(), "{}", stderr(&recorded));
    let shown = stdout(&sidelane(&["sim", "--from", file, "--show-scenario"]));
    for part in [
        "cores = 2\nlanes = 2\nthread_perf = [1.0, 0.63]",
        "tasks = 4",
        "of the recording (5 s): 2 cores with 2 lanes each, load 0.",
    ] {
        assert!(shown.contains(part), "{shown}");
    }
    let output = sidelane(&[
        "sim",
        "--from",
        file,
        "--seconds",
        "1",
        "--replications",
        "2",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
}
