//! Demonstrations that are measured for a minute, on this very machine: by `make test-demos`.

use super::lanes::{STATE, text};
use super::shows::{LATENCY_COMMAND, RedisBesideBatch, trial_of_redis};
use super::support::*;
use std::fs;

tests! {
    an_entitlement_buys_the_same_work_with_smt_and_without,
    the_demonstration_measures_both_kinds_of_eviction,
    a_trial_recommends_for_redis_what_the_demonstration_measures,
}

const SMT: &str = "/sys/devices/system/cpu/smt/control";

fn an_entitlement_buys_the_same_work_with_smt_and_without() {
    let output = sidelane(&[
        "demo",
        "pools",
        "--native",
        "--repetitions=1",
        "--seconds=6",
        "--format=json",
    ]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(fs::read_to_string(SMT).unwrap().trim(), "on");
    let results = parse(str::from_utf8(&output.stdout).unwrap());
    println!("{}", results["rows"]);
    let row = |setup: &str| {
        let rows = results["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["setup"] == setup).unwrap();
        let figure = |name: &str| row[name]["median"].as_f64().unwrap();
        ["alone_lanes", "sharing_lanes", "sharing_over_alone"].map(figure)
    };
    let limit = 0.36..0.44; // of 0.4
    let [smt_off, mt1, raw] = ["smt-off", "mt1", "raw"].map(row);
    for [alone, ..] in [smt_off, mt1, raw] {
        assert!(limit.contains(&alone), "{alone}");
    }
    for [_, sharing, _] in [smt_off, raw] {
        assert!(limit.contains(&sharing), "{sharing}");
    }
    assert!(
        mt1[1] > 1.5 * mt1[0],
        "its lanes are at half speed: {mt1:?}"
    );
    for [.., of_alone] in [smt_off, mt1] {
        assert!((0.7..1.4).contains(&of_alone), "{of_alone}");
    }
    assert!(raw[2] < 0.75 * mt1[2], "{raw:?}, {mt1:?}");
}

/// One short run of each setup.
fn the_demonstration_measures_both_kinds_of_eviction() {
    let output = sidelane(&[
        "demo",
        "lanes",
        "--native",
        "--repetitions=1",
        "--seconds=2",
        "--format=json",
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document = parse(str::from_utf8(&output.stdout).unwrap());
    let rows = document["rows"].as_array().unwrap();
    let names: Vec<_> = rows
        .iter()
        .map(|row| row["setup"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["alone", "default", "lanes", "sidelane"]);
    let median = |row: &serde_json::Value, figure: &str| row[figure]["median"].as_f64();
    let shares: Vec<_> = rows.iter().map(|row| median(row, "batch_share")).collect();
    let naps_per_s: Vec<_> = rows.iter().map(|row| median(row, "naps_per_s")).collect();
    println!("batch shares {shares:?}, naps a second {naps_per_s:?}");
    assert_eq!(shares[0], None);
    assert!(
        shares[1..].iter().all(|share| share.unwrap() > 0.0),
        "{document}"
    );
    assert!(
        naps_per_s[1] == Some(0.0) && naps_per_s[2].unwrap() > 0.0,
        "{document}"
    );
    assert!(!fs::exists(STATE).unwrap() && !attached());
}

/// The tail of redis is shortest under Sidelane (docs/demo.md), which it takes more rounds than a few to tell.
fn a_trial_recommends_for_redis_what_the_demonstration_measures() {
    let load = RedisBesideBatch::start();
    let plan = [
        "--slot",
        "4",
        "--minutes",
        "5",
        "--guard",
        "off",
        "--latency-command",
        LATENCY_COMMAND,
    ];
    let output = trial_of_redis(&plan).output().unwrap();
    drop(load);
    println!("{}{}", text(&output.stderr), text(&output.stdout));
    assert!(output.status.success() && !attached());
    assert!(
        text(&output.stdout).contains("sidelane run --critical cgroup:/redis"),
        "{output:?}"
    );
}
