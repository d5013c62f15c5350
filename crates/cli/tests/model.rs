//! `sidelane model` as it is typed.

use std::process::{Command, Output};

fn model(arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sidelane"))
        .arg("model")
        .args(arguments.split_whitespace())
        .output()
        .unwrap()
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
    let json = super::document(&output);
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
    let swept = super::document(&model(&format!("{XEON} --sweep --format json")));
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
