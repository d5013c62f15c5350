//! `sidelane doctor` as a program: output and exit codes.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::{Command, Output};

fn doctor(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidelane"));
    command
        .arg("doctor")
        .args(args)
        .output()
        .expect("the program starts")
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
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
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
    assert_eq!(error, "sidelane: /dev/null is no folder\n");
}
