//! `sidelane calibrate` as it is typed.
#![allow(clippy::unwrap_used)]

use sidelane_calibrate::Calibration;
use std::fs;
use std::process::{Command, Output};

fn sidelane(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidelane"));
    command.args(args).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
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
            let printed: Calibration = serde_json::from_slice(&output.stdout).unwrap();
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
