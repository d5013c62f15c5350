//! `sidelane control`: what it says where it cannot work.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
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

/// A machine in files, with a `/proc/stat`.
fn machine(name: &str, stat: &str) -> tempfile::TempDir {
    let folder = sidelane_trees::generated(name);
    fs::create_dir_all(folder.path().join("proc")).unwrap();
    fs::write(folder.path().join("proc/stat"), stat).unwrap();
    folder
}

const STAT: &str = "\
cpu  8 8 8 8
cpu0 1 1 1 1
cpu1 1 1 1 1
cpu2 1 1 1 1
cpu3 1 1 1 1
cpu4 1 1 1 1
cpu5 1 1 1 1
cpu6 1 1 1 1
cpu7 1 1 1 1
";
const SMT: &str = "two-packages-apart";

#[test]
fn machines_without_smt_have_nothing_to_control() {
    for (name, why) in [
        ("smt-off", "SMT is switched off"),
        ("virtual-machine", "more than one lane"),
    ] {
        let root = machine(name, STAT);
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
        (&["--thread-perf", "1.1,0.6"], 4, "begins with 1.1"),
        (&["--thread-perf", "0,0.6"], 4, "begins with 0;"),
        (&["--hysteresis", "1.5"], 4, "hysteresis 1.5"),
        (&["--interval", "0"], 2, "expected 0.1 to 86400"),
        (&["--window", "-1"], 2, "expected 0 to 86400"),
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
fn a_root_that_is_no_folder_is_bad_input() {
    for option in ["--dry-run", "--restore"] {
        let output = super::sidelane(&["control", "--root", "/dev/null", option]);
        let (code, text) = says(&output);
        assert_eq!(code, Some(4), "{text}");
        assert!(text.contains("/dev/null: no folder"), "{text}");
    }
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
    // SAFETY: only asks
    if unsafe { libc::geteuid() } != 0 {
        return; // nobody else to become
    }
    let readable = |folder: &Path, mode| {
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
    };
    let root = machine(SMT, STAT);
    readable(root.path(), 0o755);
    let state = tempfile::tempdir().unwrap();
    readable(state.path(), 0o777);
    // others may not reach the folder in which it was built
    let program = state.path().join("sidelane");
    fs::copy(env!("CARGO_BIN_EXE_sidelane"), &program).unwrap();
    for (state, place) in [
        (root.path().join("run/control.json"), "run"),
        (state.path().join("control.json"), "smt/control"),
    ] {
        let mut command = Command::new(&program);
        command.args(["control", "--root"]).arg(root.path());
        command.arg("--state").arg(state).uid(65534).gid(65534);
        let (code, text) = says(&command.output().unwrap());
        assert!(
            code == Some(3) && text.contains("run as root") && text.contains(place),
            "{code:?} {text}"
        );
    }
}

#[test]
fn lanes_that_kubelet_counts_on_are_not_taken() {
    let root = machine(SMT, STAT);
    let state = root.path().join("var/lib/kubelet/cpu_manager_state");
    fs::create_dir_all(state.parent().unwrap()).unwrap();
    let text = r#"{"policyName":"static","defaultCpuSet":"0,2-4,6-7","entries":{"p":{"c":"1,5"}}}"#;
    fs::write(&state, text).unwrap();
    let (code, text) = says(&control(root.path(), &[]));
    assert_eq!(code, Some(3), "{text}");
    for part in [
        "cpu_manager_state",
        "must stay online",
        "--actuator scheduler",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!root.path().join("run/control.json").exists());
}
