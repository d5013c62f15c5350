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
/// Attachments at most.
const ATTACHMENTS_MAX: usize = 9;
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

/// Of each callback the middle one of several attachments: which lanes take turns differs from one to the next.
fn middle(attachments: &[BTreeMap<String, u64>]) -> BTreeMap<String, u64> {
    let middle = |name: &String| {
        let mut found: Vec<_> = attachments.iter().map(|one| one[name]).collect();
        found.sort_unstable();
        (name.clone(), found[found.len() / 2])
    };
    attachments[0].keys().map(middle).collect()
}

/// The same of three attachments, or, while one is above what is known, of six or nine.
fn measure_often(
    follow_ms: &str,
    callbacks: &[&str],
    known: Option<&BTreeMap<String, u64>>,
) -> BTreeMap<String, u64> {
    let mut attachments = Vec::new();
    loop {
        attachments.extend((0..3).map(|_| measure(follow_ms, callbacks)));
        let found = middle(&attachments);
        let all_are = known.is_none_or(|known| {
            known
                .keys()
                .all(|name| is_as_known(found[name], known[name]))
        });
        if all_are || attachments.len() == ATTACHMENTS_MAX {
            return found;
        }
    }
}

fn is_as_known(found: u64, known: u64) -> bool {
    found as f64 <= known as f64 * (1.0 + TOLERANCE)
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
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let known: Value = serde_json::from_str(KNOWN).unwrap();
    let known_here = (known["kernel"] == kernel.trim()).then(|| -> Instructions {
        serde_json::from_value(known["instructions"].clone()).unwrap()
    });
    let measured = WAKE_UPS.map(|(name, follow_ms, callbacks)| {
        let known = known_here.as_ref().map(|known| &known[name]);
        let found = measure_often(follow_ms, callbacks, known);
        assert!(found.keys().eq(callbacks), "{found:?}");
        (name, found)
    });
    let found = BTreeMap::from(measured);
    let found_here = serde_json::json!({"kernel": kernel.trim(), "instructions": found});
    println!("{found_here:#}");
    let Some(known) = known_here else {
        println!("what is known is of {}: not compared", known["kernel"]);
        return;
    };
    assert!(known.keys().eq(found.keys()), "{found:?}");
    for (wake_up, callbacks) in known {
        for (name, known) in callbacks {
            let found = found[&*wake_up][&name];
            assert!(
                is_as_known(found, known),
                "{wake_up}: {name} takes {found} instructions for {known}; if that is meant: benchmarks/callbacks.json"
            );
        }
    }
}
