//! `sidelane` as it is typed: one program, in which each file but `guest.rs` is a module.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Clippy spares test functions, but not their helpers.

use serde_json::Value;
use std::process::{Command, Output};

mod control;
mod install;
mod machine;
mod report;
mod run;
mod sim;
mod sweep;

/// Runs the program.
fn sidelane(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidelane"));
    command.args(args).output().unwrap()
}

/// What it said on standard error.
fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The JSON document that it printed, which has to be as the published schema says.
fn document(output: &Output) -> Value {
    let document = serde_json::from_slice(&output.stdout).expect("a JSON document");
    sidelane_interface::check::document(&document).unwrap();
    document
}

#[test]
fn what_it_says_may_go_nowhere() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidelane"));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = command
        .args(["sim", "nowhere.toml"])
        .stderr(writer)
        .status();
    assert_eq!(status.unwrap().code(), Some(4));
}
