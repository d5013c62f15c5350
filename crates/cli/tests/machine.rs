//! What the program says of a machine, as it is typed: `sidelane topology`, `doctor`, `calibrate`, and of a service
//! `advise` and `trial`.

use super::{document, sidelane, stderr};
use sidelane_calibrate::Calibration;
use sidelane_topology::{Topology, render};
use std::fs;
use std::process::{Command, Output, Stdio};

fn topology(args: &[&str]) -> Output {
    sidelane(&[&["topology"], args].concat())
}

#[test]
fn a_captured_tree_is_printed_in_both_formats() {
    let root = sidelane_trees::captured("xeon-2-packages");
    let machine = Topology::read(root.path()).unwrap();
    let print = |format| {
        let output = topology(&["--root", root.path().to_str().unwrap(), "--format", format]);
        assert!(output.status.success() && output.stderr.is_empty());
        output
    };
    let text = String::from_utf8(print("text").stdout).unwrap();
    assert_eq!(text, render::text(&machine));
    let mut json = document(&print("json"));
    let schema = json.as_object_mut().unwrap().remove("schema").unwrap();
    assert_eq!(schema, "sidelane.topology/1");
    assert_eq!(json, serde_json::to_value(&machine).unwrap());
}

#[test]
fn this_machine_is_printed() {
    let output = topology(&[]);
    assert!(output.status.success());
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .starts_with("machine ")
    );
}

#[test]
fn a_bad_tree_is_bad_input() {
    let folder = tempfile::tempdir().unwrap();
    let output = topology(&["--root", folder.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(4));
    assert!(output.stdout.is_empty());
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with("error: "), "{error}");
    assert!(
        error.contains("sys/devices/system/cpu/online: missing; expected"),
        "{error}"
    );
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sidelane"))
        .arg("topology")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(output.stderr.is_empty());
}

#[test]
fn wrong_usage() {
    assert_eq!(topology(&["--format", "xml"]).status.code(), Some(2));
}

fn doctor(args: &[&str]) -> Output {
    sidelane(&[&["doctor"], args].concat())
}

#[test]
fn a_machine_that_cannot_run_the_scheduler_exits_with_3() {
    let empty = tempfile::tempdir().unwrap();
    let root = empty.path().to_str().unwrap();
    let output = doctor(&["--root", root]);
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("This machine cannot run the scheduler"),
        "{text}"
    );

    let output = doctor(&["--root", root, "--format", "json"]);
    assert_eq!(output.status.code(), Some(3));
    let report = document(&output);
    assert_eq!(report["runnable"], false);
    let checks = report["checks"].as_array().unwrap();
    let failed = checks
        .iter()
        .find(|check| check["name"] == "sched_ext")
        .unwrap();
    assert_eq!(failed["verdict"], "fail");
    assert!(failed["remedy"].is_string());
}

#[test]
fn this_machine_is_examined() {
    let output = doctor(&[]);
    assert!(
        matches!(output.status.code(), Some(0 | 3)),
        "{:?}",
        output.status
    );
    assert!(output.stderr.is_empty());
}

#[test]
fn a_root_that_is_no_folder_is_bad_input() {
    let output = doctor(&["--root", "/dev/null"]);
    assert_eq!(output.status.code(), Some(4));
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        error,
        "error: /dev/null: no folder; name one that holds proc/, sys/ and boot/\n"
    );
}

#[test]
fn a_machine_without_second_lanes_exits_with_3() {
    for (name, said) in [
        (
            "smt-off",
            "every core has one lane online; SMT is off: to switch it on",
        ),
        ("virtual-machine", "every core has one lane online"),
    ] {
        let root = sidelane_trees::generated(name);
        let output = sidelane(&["calibrate", "--root", root.path().to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn bad_input_is_told() {
    let empty = tempfile::tempdir().unwrap();
    let output = sidelane(&["calibrate", "--root", empty.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    for wrong in [
        ["--duration", "0"],
        ["--repetitions", "0"],
        ["--cores", "x"],
    ] {
        let output = sidelane(&["calibrate", wrong[0], wrong[1]]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
}

/// Here, this machine is measured if it has SMT, and otherwise says that it has none.
#[test]
fn this_machine_is_measured_or_says_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.json");
    let output = sidelane(&[
        "calibrate",
        "--duration=2",
        "--repetitions=1",
        "--cores=1",
        "--format=json",
        "--output",
        path.to_str().unwrap(),
        "--",
        "true",
    ]);
    match output.status.code() {
        Some(0) => {
            let printed: Calibration = serde_json::from_value(document(&output)).unwrap();
            assert_eq!(Calibration::read(&path).unwrap(), printed);
        }
        code => {
            assert_eq!(code, Some(3), "{output:?}");
            assert!(stderr(&output).contains("nothing to measure"), "{output:?}");
            assert!(!path.exists());
        }
    }
}

#[test]
fn the_model_reads_a_calibration() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.json");
    let model = |text: &str| {
        fs::write(&path, text).unwrap();
        let file = path.to_str().unwrap();
        let load = ["--cores", "16", "--utilization", "0.3", "--format", "json"];
        sidelane(&[&["model", "--calibration", file][..], &load].concat())
    };
    let read = model(r#"{"version": 1, "thread_perf": [1, 0.6]}"#);
    let given = sidelane(&[
        "model",
        "--thread-perf=1,0.6",
        "--cores=16",
        "--utilization=0.3",
        "--format=json",
    ]);
    assert_eq!(read.status.code(), Some(0), "{read:?}");
    assert_eq!(read.stdout, given.stdout);

    let wrong = model(r#"{"version": 1, "thread_perf": [1, 1.6]}"#);
    assert_eq!(wrong.status.code(), Some(4));
    assert!(
        stderr(&wrong).contains("with 2 lanes is 1.6"),
        "{}",
        stderr(&wrong)
    );
    let neither = sidelane(&["model", "--cores", "16", "--utilization", "0.3"]);
    assert_eq!(neither.status.code(), Some(2));
}

/// Whether this machine has SMT.
fn has_smt() -> bool {
    let topology = Topology::read(std::path::Path::new("/")).unwrap();
    topology
        .online_by_core()
        .iter()
        .any(|lanes| lanes.len() > 1)
}

#[test]
fn without_smt_a_service_is_told_so_and_nothing_is_tried() {
    if has_smt() {
        return; // there it would be watched, which needs root
    }
    for args in [
        &["advise", "nginx.service"][..],
        &["trial", "nginx.service", "--batch", "cgroup:/batch.slice"],
    ] {
        let output = sidelane(args);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            text.starts_with("No SMT: ") && output.stderr.is_empty(),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1, "{text}");
        let output = sidelane(&[args, &["--format", "json"]].concat());
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let schema = json["schema"].as_str().unwrap();
        assert!(
            schema.starts_with("sidelane.") && schema.ends_with("/1"),
            "{json}"
        );
        assert!(json["no_smt"].is_string(), "{json}");
    }
}

#[test]
fn a_service_that_is_none_is_bad_input_and_the_remedy_is_named() {
    for (args, part) in [
        (&["advise", "nginx"][..], "nginx.service"),
        (&["advise", "exe:/usr/bin/nginx"], "cgroup:GLOB"),
        (&["advise", "none-such.rec"], "none-such.rec"),
        (&["trial", "nginx", "--batch", "cgroup:/b"], "nginx.service"),
    ] {
        let output = sidelane(args);
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(part), "{said}");
    }
    // what is asked for is checked before the machine is
    for (flag, value) in [("--guard", "0.5"), ("--slot", "0"), ("--minutes", "x")] {
        let output = sidelane(&["trial", "a.service", "--batch", "cgroup:/b", flag, value]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
}
