//! What a switch costs, in executed instructions: on a machine whose clock counts them, so that a run repeats.

use super::support::*;
use libbpf_rs::query::ProgInfoIter;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

tests! {
    #[untimed]
    a_switch_takes_no_more_instructions_than_it_did,
}

/// What each callback took, and on which kernel: what the test prints.
const KNOWN: &str = include_str!("../../../../benchmarks/callbacks.json");

/// Of each wake-up, by callback.
type Instructions = BTreeMap<String, BTreeMap<String, u64>>;

const ROUNDS: u64 = 5_000;
/// Of what is known: so much more is as much.
const TOLERANCE: f64 = 0.03;

/// What a wake-up takes: another lane or the waker's, by how long wakers are followed that run for so long, ms, and the callbacks
/// that each switch runs then.
const WAKE_UPS: [(&str, &str, &[&str]); 2] = [
    (
        "another lane",
        "0",
        &[
            "dispatch",
            "running",
            "select_cpu",
            "stopping",
            "update_idle",
        ],
    ),
    (
        "the waker's lane",
        "0.1",
        &["running", "select_cpu", "stopping"],
    ),
];

/// Times that a callback ran, and ns, each an instruction.
type Runs = BTreeMap<String, (u64, u64)>;

fn runs(callbacks: &[&str]) -> Runs {
    let ours = ProgInfoIter::default().filter_map(|program| {
        // the kernel keeps the first 15 characters
        let begins = program.name.to_str()?.strip_prefix("sidelane_")?;
        let callback = callbacks.iter().find(|name| name.starts_with(begins))?;
        Some((
            (*callback).to_owned(),
            (program.run_cnt, program.run_time_ns),
        ))
    });
    ours.collect()
}

/// Two threads hand a byte to and fro.
fn hand_over(rounds: u64) {
    let (mut here, mut there) = UnixStream::pair().unwrap();
    let other = std::thread::spawn(move || {
        let mut byte = [0];
        for _ in 0..rounds {
            there.read_exact(&mut byte).unwrap();
            there.write_all(&byte).unwrap();
        }
    });
    let mut byte = [1];
    for _ in 0..rounds {
        here.write_all(&byte).unwrap();
        here.read_exact(&mut byte).unwrap();
    }
    other.join().unwrap();
}

/// The same of three attachments, of each callback the middle one: what else runs on the machine differs.
fn measure_thrice(follow_ms: &str, callbacks: &[&str]) -> BTreeMap<String, u64> {
    let rounds: [_; 3] = std::array::from_fn(|_| measure(follow_ms, callbacks));
    let middle = |name: &String| {
        let mut found = rounds.each_ref().map(|round| round[name]);
        found.sort_unstable();
        (name.clone(), found[1])
    };
    rounds[0].keys().map(middle).collect()
}

/// Instructions of each callback, a run.
fn measure(follow_ms: &str, callbacks: &[&str]) -> BTreeMap<String, u64> {
    let file = "/run/cost.toml";
    let text = format!("[scheduler]\nfollow_waker_ms = {follow_ms}\n");
    fs::write(file, text).unwrap();
    let scheduler = Scheduler::attach(&["--config", file]);
    fs::write("/proc/sys/kernel/bpf_stats_enabled", "1").unwrap();
    hand_over(ROUNDS / 10);
    let before = runs(callbacks);
    hand_over(ROUNDS);
    let after = runs(callbacks);
    fs::write("/proc/sys/kernel/bpf_stats_enabled", "0").unwrap();
    assert!(scheduler.stop().success(), "ejected");
    let since = |(name, (count, ns)): (String, (u64, u64))| {
        let (count_before, ns_before) = before[&name];
        let count = count - count_before;
        assert!(count >= ROUNDS, "{name} ran {count} times");
        let instructions = (ns - ns_before) as f64 / count as f64;
        (name, instructions.round() as u64)
    };
    after.into_iter().map(since).collect()
}

fn a_switch_takes_no_more_instructions_than_it_did() {
    let measured = WAKE_UPS.map(|(name, follow_ms, callbacks)| {
        let found = measure_thrice(follow_ms, callbacks);
        assert!(found.keys().eq(callbacks), "{found:?}");
        (name, found)
    });
    let found = BTreeMap::from(measured);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let found_here = serde_json::json!({"kernel": kernel.trim(), "instructions": found});
    println!("{found_here:#}");
    let known: Value = serde_json::from_str(KNOWN).unwrap();
    if known["kernel"] != kernel.trim() {
        println!("what is known is of {}: not compared", known["kernel"]);
        return;
    }
    let known: Instructions = serde_json::from_value(known["instructions"].clone()).unwrap();
    assert!(known.keys().eq(found.keys()), "{found:?}");
    for (wake_up, callbacks) in known {
        for (name, known) in callbacks {
            let found = found[&*wake_up][&name];
            assert!(
                found as f64 <= known as f64 * (1.0 + TOLERANCE),
                "{wake_up}: {name} takes {found} instructions for {known}; if that is meant: benchmarks/callbacks.json"
            );
        }
    }
}
