#![allow(clippy::unwrap_used)]
use super::*;
use sidelane_smt::snapshot::CgroupTotals;
use sidelane_smt::snapshot::{LaneTotals, Rates, delta};
use std::io::Write as _;
use std::process::{Command, Stdio};

fn reading(at_s: u64, groups: u64) -> Snapshot {
    reading_with(at_s, groups, true)
}

fn reading_with(at_s: u64, groups: u64, classes: bool) -> Snapshot {
    let ns = at_s * 1_000_000_000;
    let usage = |share: u64| Usage {
        raw_ns: ns / share,
        mt1_ns: ns / share / 2,
        borrowed_ns: classes.then_some(ns / share / 4),
        forced_idle_ns: classes.then_some(ns / share / 10),
        ..Usage::default()
    };
    let group = |id: u64| CgroupTotals {
        id,
        path: (id != 1).then(|| format!("/\"{id}\"")),
        usage: usage(id),
    };
    Snapshot {
        taken_ns: ns,
        rates: Rates {
            source: RateSource::Given,
            thread_perf: vec![1.0, 0.6],
        },
        cores: vec![CoreTotals {
            core: 3,
            elapsed_ns: ns,
            by_density_ns: vec![ns / 4, ns / 4],
            lanes: vec![LaneTotals {
                cpu: 6,
                online: true,
                busy_ns: ns / 2,
                instructions: None,
            }],
            forced_idle_ns: classes.then_some(ns / 8),
        }],
        cgroups: (1..=groups).map(group).collect(),
        ..Snapshot::default()
    }
}

/// The text of a reading that is the first of its collector, or follows `before`.
fn told(now: &Snapshot, before: Option<&Snapshot>) -> String {
    let mut series = Series::default();
    series.count(None, now);
    let recent = before.map(|before| delta(before, now).unwrap());
    text(now, recent.as_ref(), &series).unwrap()
}

#[test]
fn a_reading_is_valid_text_with_units_and_labels() {
    let (before, now) = (reading(10, 3), reading(20, 3));
    let text = told(&now, Some(&before));
    for line in [
        "sidelane_core_elapsed_seconds_total{core=\"3\"} 20.0",
        "sidelane_core_busy_seconds_total{core=\"3\",lanes=\"2\"} 5.0",
        "sidelane_lane_busy_seconds_total{cpu=\"6\"} 10.0",
        "sidelane_thread_perf{lanes=\"2\",source=\"given\"} 0.6",
        "sidelane_thread_density 1.5",
        "sidelane_capacity_factor 1.1",
        "sidelane_cgroup_raw_seconds_total{cgroup=\"/\\\"2\\\"\"} 10.0",
        "sidelane_cgroup_mt1_seconds_total{cgroup=\"(others)\"} 10.0",
        "sidelane_cgroup_borrowed_seconds_total{cgroup=\"/\\\"2\\\"\"} 2.5",
        "sidelane_cgroup_forced_idle_seconds_total{cgroup=\"(others)\"} 2.0",
        "sidelane_core_forced_idle_seconds_total{core=\"3\"} 2.5",
        "# EOF",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
}

#[test]
fn without_an_earlier_reading_there_are_no_ratios() {
    let text = told(&reading(10, 0), None);
    assert!(!text.contains("thread_density") && text.contains("sidelane_core_busy_seconds"));
}

#[test]
fn what_is_unknown_is_not_told_as_0() {
    let text = told(&reading_with(10, 3, false), None);
    assert!(!text.contains("borrowed") && !text.contains("forced"));
    assert!(text.contains("sidelane_cgroup_waiting_seconds_total"));
}

#[test]
fn the_dashboard_asks_for_what_is_exported() {
    let dashboard = include_str!("../../../packaging/grafana/sidelane.json");
    let json: serde_json::Value = serde_json::from_str(dashboard).unwrap();
    let (before, now) = (reading(10, 3), reading(20, 3));
    let text = told(&now, Some(&before));
    let mut asked = 0;
    for panel in json["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            let start = query.find("sidelane_").unwrap();
            let metric = query[start..].split('{').next().unwrap();
            let sample = |line: &str| line.split(['{', ' ']).next() == Some(metric);
            assert!(text.lines().any(sample), "{metric} in\n{text}");
            asked += 1;
        }
    }
    assert!(asked > 9);
}

#[test]
fn no_name_ends_its_label() {
    let nasty = "/\x1b[31m\x07\n\t\"\\\u{202e}\u{fffd}";
    let mut now = reading(10, 2);
    now.cgroups[1].path = Some(nasty.to_owned());
    for text in [told(&now, None), plain(&told(&now, None))] {
        let mut lines = text.lines();
        let line = lines.find(|line| line.contains("31m")).unwrap();
        let (_, rest) = line.split_once("{cgroup=\"").unwrap();
        let (value, number) = rest.rsplit_once("\"} ").unwrap();
        assert_eq!(number, "5.0");
        // as a reader of the format undoes it
        let mut read = String::new();
        let mut characters = value.chars();
        while let Some(character) = characters.next() {
            read.push(match character {
                '\\' => match characters.next().unwrap() {
                    'n' => '\n',
                    other => other,
                },
                other => other,
            });
        }
        assert_eq!(read, nasty);
        assert!(!value.replace("\\\\", "").replace("\\\"", "").contains('"'));
    }
}

#[test]
fn the_older_format_names_counters_as_their_samples() {
    let (before, now) = (reading(10, 3), reading(20, 3));
    let text = plain(&told(&now, Some(&before)));
    for line in [
        "# TYPE sidelane_core_elapsed_seconds_total counter",
        "sidelane_core_elapsed_seconds_total{core=\"3\"} 20.0",
        "# TYPE sidelane_thread_density gauge",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
    assert!(!text.contains("# UNIT") && !text.contains("# EOF"));
}

/// As Prometheus' own tool sees it, where that is installed (Debian: prometheus), or named.
#[test]
fn promtool_finds_no_fault() {
    let tool = std::env::var_os("SIDELANE_PROMTOOL").unwrap_or_else(|| "promtool".into());
    let (before, now) = (reading(10, 3), reading(20, 3));
    let text = plain(&told(&now, Some(&before)));
    let started = Command::new(&tool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = started else {
        println!("left out: there is no promtool");
        return;
    };
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.is_empty(), "{said}");
}
