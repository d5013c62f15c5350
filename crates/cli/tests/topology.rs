//! `sidelane topology` as a program: output, errors and exit codes.

#![allow(clippy::unwrap_used)] // Clippy spares test functions, but not their helpers.

use sidelane_topology::{Topology, render};
use std::process::{Command, Output, Stdio};

fn topology(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sidelane"))
        .arg("topology")
        .args(args)
        .output()
        .unwrap()
}

#[test]
fn a_captured_tree_is_printed_in_both_formats() {
    let root = sidelane_trees::captured("xeon-2-packages");
    let machine = Topology::read(root.path()).unwrap();
    let json = serde_json::to_string_pretty(&machine).unwrap() + "\n";
    for (format, expected) in [("text", render::text(&machine)), ("json", json)] {
        let output = topology(&["--root", root.path().to_str().unwrap(), "--format", format]);
        assert!(output.status.success());
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
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
