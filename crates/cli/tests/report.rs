//! `sidelane report` on recordings made here.

use super::sidelane;
use sidelane_smt::recording::{Frame, Header, Writer};
use sidelane_smt::snapshot::{CoreTotals, Interval, LaneTotals, RateSource, Rates};
use std::path::Path;
use std::process::{Command, Output};

const SECOND_NS: u64 = 1_000_000_000;

/// A recording of three seconds on a core of two lanes.
fn recording(both_ns: u64) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), Header::default()).unwrap();
    let lane = |cpu| LaneTotals {
        cpu,
        online: true,
        busy_ns: both_ns,
        instructions: None,
    };
    for second in 0..3 {
        let interval = Interval {
            from_ns: second * SECOND_NS,
            to_ns: (second + 1) * SECOND_NS,
            rates: Rates {
                source: RateSource::Given,
                thread_perf: vec![1.0, 0.6],
            },
            cores: vec![CoreTotals {
                core: 0,
                elapsed_ns: SECOND_NS,
                by_density_ns: vec![SECOND_NS - both_ns, both_ns],
                lanes: vec![lane(0), lane(1)],
                ..CoreTotals::default()
            }],
            ..Interval::default()
        };
        writer.write(&Frame::Interval(interval)).unwrap();
    }
    writer.finish(None).unwrap()
}

fn report(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sidelane"))
        .arg("report")
        .args(args)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("off.rec"), recording(0)).unwrap();
    std::fs::write(folder.path().join("on.rec"), recording(SECOND_NS / 2)).unwrap();
    folder
}

#[test]
fn one_recording_as_text_json_and_page() {
    let folder = folder();
    let output = report(folder.path(), &["on.rec", "--html", "on.html"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert!(
        text.contains("1.500") && text.contains("as given"),
        "{text}"
    );
    let page = std::fs::read_to_string(folder.path().join("on.html")).unwrap();
    assert!(page.contains("<svg"));
    let output = report(folder.path(), &["on.rec", "--format", "json"]);
    let value = super::document(&output);
    assert_eq!(value["metrics"]["thread_density"], 1.5);
    assert_eq!(value["elapsed_s"], 3.0);
}

/// Whatever keeps it from starting: no BPF here, or no such command.
#[test]
fn what_was_recorded_stays_if_nothing_new_can_be() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old.rec"), folder.path().join("new.rec"));
    std::fs::write(&old, "recorded before").unwrap();
    for file in [&old, &new] {
        let output = sidelane(&["record", file.to_str().unwrap(), "--", "/nonexistent"]);
        assert!(!output.status.success(), "{output:?}");
    }
    assert_eq!(std::fs::read_to_string(&old).unwrap(), "recorded before");
    assert!(!new.exists());
}

#[test]
fn two_recordings_are_compared() {
    let folder = folder();
    let args = ["off.rec", "on.rec", "--transactions", "300,330"];
    let text = String::from_utf8(report(folder.path(), &args).stdout).unwrap();
    let line = |what: &str| text.lines().find(|line| line.starts_with(what)).unwrap();
    let words: Vec<&str> = line("ETR").split_whitespace().collect();
    assert_eq!(words[2..], ["100.00", "110.00", "10.00", "10.0"]);
    assert!(
        line("Avg thread density").contains("1.000") && text.contains("50.0"),
        "{text}"
    );
    let args = ["off.rec", "on.rec", "--format", "json"];
    let compared = super::document(&report(folder.path(), &args));
    assert_eq!(compared["names"]["second"], "on.rec");
}

#[test]
fn what_is_cut_or_no_recording_is_said() {
    let folder = folder();
    let whole = recording(0);
    std::fs::write(folder.path().join("cut.rec"), &whole[..whole.len() - 50]).unwrap();
    let output = report(folder.path(), &["cut.rec"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    assert!(
        text.contains("ends within a frame") && text.contains("its end is missing"),
        "{text}"
    );
    std::fs::write(folder.path().join("text"), "text").unwrap();
    for (file, said) in [
        ("text", "no recording"),
        ("none", "(os error 2); check the path"),
    ] {
        let output = report(folder.path(), &[file]);
        assert_eq!(output.status.code(), Some(4));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains(file) && error.contains(said), "{error}");
    }
}
