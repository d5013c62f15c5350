//! What the program says of a machine, as it is typed: `sidelane topology`, `doctor`, `calibrate`, `model`, and of a
//! service `advise` and `trial`.

use super::{document, sidelane, stderr};
use sidelane_calibrate::Calibration;
use sidelane_topology::{Topology, render};
use std::fs;
use std::os::unix::fs::PermissionsExt;
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
        // what it is called may be wrong
        assert!(text.contains("nginx.service"), "{text}");
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
        (&["advise", "./no-file"], "there is no file of that name"),
        (&["advise", "build.rec.1"], "there is no file of that name"),
        (&["trial", "nginx", "--batch", "cgroup:/b"], "nginx.service"),
    ] {
        let output = sidelane(args);
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(part), "{said}");
    }
    // what is asked for is checked before the machine is
    for (flag, value) in [
        ("--guard", "0.5"),
        ("--slot", "0"),
        ("--minutes", "x"),
        ("--without", "default"),
    ] {
        let output = sidelane(&["trial", "a.service", "--batch", "cgroup:/b", flag, value]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
}

fn model(arguments: &str) -> Output {
    let arguments = arguments.split_whitespace();
    sidelane(&["model"].into_iter().chain(arguments).collect::<Vec<_>>())
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

const XEON: &str = "--cores 16 --thread-perf 1,0.6";

#[test]
fn a_load_as_table_and_json() {
    let output = model(&format!("{XEON} --utilization 1.05"));
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    assert!(
        text.contains("cannot do the work") && text.contains("best"),
        "{text}"
    );
    assert!(text.lines().all(|line| line.chars().count() <= 100));

    let output = model(&format!("{XEON} --utilization 1.05 --format json"));
    let json = document(&output);
    let keys = |value: &serde_json::Value| -> Vec<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(keys(&json), ["best", "levels", "schema"]);
    let level = &json["levels"][0];
    assert_eq!(
        keys(level),
        ["level", "response", "service", "stable", "wait"]
    );
    assert_eq!(
        (&level["stable"], &level["response"]),
        (&false.into(), &().into())
    );
    assert!(json["levels"][1]["response"].as_f64().unwrap() > 1.5);
    assert_eq!(json["best"], 2);
}

#[test]
fn a_sweep_finds_the_crossover_and_draws() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("figure.svg");
    let output = model(&format!("{XEON} --sweep --svg {}", path.display()));
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    assert!(
        text.contains("Best: level 1, from 0.914 level 2."),
        "{text}"
    );
    assert!(std::fs::read_to_string(path).unwrap().starts_with("<svg"));
    let swept = document(&model(&format!("{XEON} --sweep --format json")));
    assert_eq!(swept["crossovers"][0]["to"], 2);
    assert!(swept["points"].as_array().unwrap().len() > 100);
}

#[test]
fn bad_input_says_what_is_allowed() {
    for (arguments, said) in [
        (
            "--cores 0 --thread-perf 1,0.6 --utilization 0.3",
            "1 to 16384",
        ),
        (
            "--cores 4 --thread-perf 1,1.2 --utilization 0.3",
            "at most 1",
        ),
        (
            "--cores 4 --thread-perf 1,0.4,0.5 --utilization 0.3",
            "may not increase",
        ),
        (
            "--cores 4 --thread-perf 1,0.6 --utilization -0.3",
            "at least 0",
        ),
        (
            "--cores 4 --thread-perf 1,0.6 --utilization NaN",
            "at least 0",
        ),
        (
            "--cores 4 --thread-perf 1 --utilization 0.3 --iterations 0",
            "at least 1",
        ),
        (
            "--cores 4 --thread-perf 1 --sweep --model mms --iterations 9",
            "model source",
        ),
    ] {
        let output = model(arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{arguments}: {message}");
        assert!(message.contains(said), "{arguments}: {message}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn one_load_is_not_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("x.svg");
    let one = "--cores 4 --thread-perf 1,0.6 --utilization 0.3 --svg";
    let output = model(&format!("{one} {}", picture.display()));
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(!picture.exists());
}

#[test]
fn an_address_that_is_none_is_wrong_usage() {
    for address in ["nonsense", ":99999", ":9754", "localhost:99999"] {
        let output = sidelane(&["export", "--listen", address]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr(&output).contains("HOST:PORT"), "{output:?}");
    }
}

#[test]
fn a_task_that_is_not_there_is_bad_input() {
    let output = sidelane(&["mark", "99999999", "batch"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(stderr(&output).contains("no task 99999999"), "{output:?}");
}

#[test]
fn a_number_below_a_range_is_told_the_range() {
    for (args, part) in [
        (&["advise", "--seconds", "-1"][..], "expected 2 to"),
        (&["stat", "-1"], "expected 0.01 to"),
        (&["tasks", "--seconds", "-1"], "expected 0.1 to"),
        (&["top", "--interval", "-1"], "expected 0.1 to"),
        (&["record", "--seconds", "-1"], "expected 0.01 to"),
        (&["report", "x", "--transactions", "-1"], "at least 0"),
        (&["calibrate", "--repetitions", "-1"], "not in 1.."),
        (&["trial", "a.service", "--slot", "-1"], "expected 1 to"),
    ] {
        let output = sidelane(args);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(stderr(&output).contains(part), "{output:?}");
    }
}

#[test]
fn what_asks_a_scheduler_says_if_the_kernel_can_have_none() {
    if fs::exists("/sys/kernel/sched_ext").unwrap() {
        return; // there it is asked for
    }
    for args in [
        &["stat", "1", "1"][..],
        &["tune"],
        &["tasks", "--seconds", "0.1"],
    ] {
        let output = sidelane(args);
        assert_eq!(output.status.code(), Some(3), "{args:?}: {output:?}");
        let said = stderr(&output);
        assert!(
            said.contains("no sched_ext") && said.contains("sidelane record"),
            "{said}"
        );
    }
}

#[test]
fn lanes_are_given_to_services_as_other_commands_name_them() {
    for (critical, code, part) in [
        (
            "unit:no-such.service",
            4,
            "'unit:no-such.service' finds no cgroup",
        ),
        ("nginx", 4, "did you mean 'unit:nginx.service'"),
        ("comm:nginx", 4, "counts by cgroups"),
    ] {
        let output = sidelane(&["lanes", "--critical", critical, "--batch", "/no-such"]);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
}

#[test]
fn the_agent_of_nodes_is_a_program_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let node = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sidelane"));
        command.args(["node", "--once", "--help", "a b"]);
        command.env("PATH", folder.path()).output().unwrap()
    };
    let output = node();
    assert_eq!(output.status.code(), Some(3));
    let said = stderr(&output);
    assert!(said.starts_with("error: 'node' is a part of sidelane-node, which does not start"));
    let program = folder.path().join("sidelane-node");
    fs::write(&program, "#!/bin/sh\nprintf '%s\\n' \"$@\"\nexit 5\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let output = node();
    assert_eq!(output.status.code(), Some(5));
    assert_eq!(output.stdout, b"--once\n--help\na b\n");
}
