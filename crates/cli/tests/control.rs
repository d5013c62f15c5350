//! `sidelane control`: what it says where it cannot work.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs it on a machine in files.
fn control(root: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sidelane"))
        .args(["control", "--interval", "0.1", "--root"])
        .arg(root)
        .arg("--state")
        .arg(root.join("run/control.json"))
        .args(args)
        .output()
        .unwrap()
}

fn says(output: &Output) -> (Option<i32>, String) {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), text)
}

/// A copy of a captured tree, with a `/proc/stat`.
fn machine(fixture: &str, stat: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../topology/tests/fixtures");
    copy(&fixtures.join(fixture), folder.path());
    fs::create_dir_all(folder.path().join("proc")).unwrap();
    fs::write(folder.path().join("proc/stat"), stat).unwrap();
    folder
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

const STAT: &str = "cpu  1 1 1 1\ncpu0 1 1 1 1\ncpu1 1 1 1 1\n";
const SMT: &str = "two-packages-apart";

#[test]
fn machines_without_smt_have_nothing_to_control() {
    for (fixture, why) in [
        ("smt-off", "SMT is switched off"),
        ("virtual-machine", "more than one lane"),
    ] {
        let root = machine(fixture, STAT);
        let (code, text) = says(&control(root.path(), &[]));
        assert!(
            code == Some(0) && text.contains("nothing to do") && text.contains(why),
            "{text}"
        );
        assert!(!root.path().join("run/control.json").exists());
    }
}

#[test]
fn garbage_is_named_with_its_place() {
    let root = machine(SMT, "cpu0 1 2 three 4\n");
    let (code, text) = says(&control(root.path(), &["--dry-run"]));
    assert_eq!(code, Some(4), "{text}");
    assert!(
        text.contains("proc/stat:1: \"three\" is no number of ticks"),
        "{text}"
    );
    let root = machine(SMT, STAT);
    fs::create_dir_all(root.path().join("run")).unwrap();
    fs::write(root.path().join("run/control.json"), "garbage").unwrap();
    let (code, text) = says(&control(root.path(), &[]));
    assert!(code == Some(4) && text.contains("no state file"), "{text}");
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let root = machine(SMT, STAT);
    for (args, code, problem) in [
        (&["--thread-perf", "1,1.2"][..], 4, "at most 1"),
        (&["--thread-perf", "1"], 4, "lanes"),
        (&["--thread-perf", "0.9,0.6"], 4, "that is 1"),
        (&["--hysteresis", "1.5"], 4, "hysteresis 1.5"),
        (&["--interval", "0"], 2, "expected 0.1 to 86400"),
        (&["--window", "-1"], 2, "unexpected argument"),
        (&["--published", "--dwell", "3"], 2, "cannot be used with"),
    ] {
        // a later --interval would be given twice
        let output = match args[0] {
            "--interval" => Command::new(env!("CARGO_BIN_EXE_sidelane"))
                .arg("control")
                .args(args)
                .output()
                .unwrap(),
            _ => control(root.path(), args),
        };
        let (actual, text) = says(&output);
        assert!(
            actual == Some(code) && text.contains(problem),
            "{args:?}: {actual:?} {text}"
        );
    }
    assert!(!root.path().join("run/control.json").exists());
}

#[test]
fn there_is_nothing_to_restore_twice() {
    let root = machine(SMT, STAT);
    let (code, text) = says(&control(root.path(), &["--restore"]));
    assert!(
        code == Some(0) && text.contains("nothing to restore"),
        "{text}"
    );
}

#[test]
fn without_privilege_nothing_is_changed() {
    if !nix_is_root() {
        return;
    }
    let root = machine(SMT, STAT);
    // somebody who may read everything here, and write nothing
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(env!("CARGO_BIN_EXE_sidelane"))
        .args(["control", "--root"])
        .arg(root.path())
        .output()
        .unwrap();
    let (code, text) = says(&output);
    assert!(
        code == Some(3) && text.contains("run as root"),
        "{code:?} {text}"
    );
}

fn nix_is_root() -> bool {
    // SAFETY: only asks
    unsafe { libc::geteuid() == 0 }
}
