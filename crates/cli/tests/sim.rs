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
    let output = sidelane(&["sim", DEMO, "--seconds", "1", "--replications", "2"]);
    assert!(output.status.success(), "{}", stderr(&output));
    for line in stdout(&output).lines() {
        assert!(line.chars().count() <= 100, "{line}");
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
fn a_published_result_is_judged() {
    let list = sidelane(&["reproduce"]);
    assert!(stdout(&list).contains("elfen-one-core"));
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
        "4 cores with 2 lanes",
        "8 batch tasks",
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
    for part in [
        "16 cores with 2 lanes",
        "32 batch tasks",
        "only their number",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let without_smt = sidelane_trees::generated("smt-off");
    let like = format!("--like-this={}", without_smt.path().display());
    let shown = sidelane(&["sim", &like, "--load", "0.3", "--show-scenario"]);
    assert!(stdout(&shown).contains("no SMT to compare"), "{shown:?}");
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
        "of the recording (5 s)",
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
