//! `sidelane run --check` as a program: reads a configuration and attaches nothing.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::{Command, Output};

fn check(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidelane"));
    command.args(["run", "--check"]).args(args);
    command.output().expect("the program starts")
}

#[test]
fn the_example_passes() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/sidelane.toml");
    let output = check(&["--config", example, "--critical", "exe:/no/such/server"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let first = text.lines().next().unwrap();
    assert!(first.contains("exe:/no/such/server") && first.ends_with("no such file now"));
    assert!(text.contains("unit:nginx.service"), "{text}");
}

#[test]
fn the_result_is_to_be_had_as_json() {
    let output = check(&["--batch", "user:0", "--format", "json"]);
    let check: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(check["rules"][0]["class"], "batch");
    assert_eq!(check["rules"][0]["finds"]["user"], 0);
}

#[test]
fn a_malformed_file_is_named_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    std::fs::write(&file, "[scheduler]\nslize_ms = 3\n").unwrap();
    let output = check(&["--config", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(4));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("bad.toml:2:1:") && said.contains("slize_ms"),
        "{said}"
    );
}
