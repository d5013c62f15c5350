//! `sidelane topology` as a program: output, errors and exit codes.

#![allow(clippy::unwrap_used)] // Clippy spares test functions, but not their helpers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn topology(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sidelane"))
        .arg("topology")
        .args(args)
        .output()
        .unwrap()
}

fn tests_of_topology(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../topology/tests")
        .join(path)
}

#[test]
fn a_captured_tree_is_printed_in_both_formats() {
    let root = tests_of_topology("fixtures/two-packages-apart");
    for (format, kept) in [("text", "txt"), ("json", "json")] {
        let output = topology(&["--root", root.to_str().unwrap(), "--format", format]);
        assert!(output.status.success());
        let kept = tests_of_topology(&format!("golden/two-packages-apart.{kept}"));
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            fs::read_to_string(kept).unwrap()
        );
        assert!(output.stderr.is_empty());
    }
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
    assert!(error.starts_with("sidelane: "), "{error}");
    assert!(
        error.contains("sys/devices/system/cpu/online is missing; expected"),
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
