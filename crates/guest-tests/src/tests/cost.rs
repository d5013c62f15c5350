//! What a switch costs, in executed instructions: on a machine whose clock counts them, so that a run repeats.

use super::support::*;
use libbpf_rs::query::ProgInfoIter;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

tests! {
    a_switch_takes_no_more_instructions_than_it_did,
}

/// What each callback took, and on which kernel: what the test prints.
const KNOWN: &str = include_str!("../../../../benchmarks/callbacks.json");
const ROUNDS: u64 = 5_000;
/// Of what is known: so much more is as much.
const TOLERANCE: f64 = 0.03;

/// Each switch runs these.
const CALLBACKS: [&str; 5] = [
    "select_cpu",
    "dispatch",
    "running",
    "stopping",
    "update_idle",
];

/// Times that a callback ran, and ns, each an instruction.
type Runs = BTreeMap<String, (u64, u64)>;

fn runs() -> Runs {
    let ours = ProgInfoIter::default().filter_map(|program| {
        // the kernel keeps the first 15 characters
        let begins = program.name.to_str()?.strip_prefix("sidelane_")?;
        let callback = CALLBACKS.iter().find(|name| name.starts_with(begins))?;
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

/// Instructions of each callback, a run.
fn measure() -> BTreeMap<String, f64> {
    hand_over(ROUNDS / 10);
    let before = runs();
    hand_over(ROUNDS);
    let since = |(name, (count, ns)): (String, (u64, u64))| {
        let (count_before, ns_before) = before[&name];
        let count = count - count_before;
        assert!(count >= ROUNDS, "{name} ran {count} times");
        (name, (ns - ns_before) as f64 / count as f64)
    };
    runs().into_iter().map(since).collect()
}

fn a_switch_takes_no_more_instructions_than_it_did() {
    let scheduler = Scheduler::attach(&[]);
    fs::write("/proc/sys/kernel/bpf_stats_enabled", "1").unwrap();
    let found = measure();
    fs::write("/proc/sys/kernel/bpf_stats_enabled", "0").unwrap();
    assert!(scheduler.stop().success(), "ejected");
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let rounded: BTreeMap<_, _> = found.iter().map(|(name, of)| (name, of.round())).collect();
    let found_here = serde_json::json!({"kernel": kernel.trim(), "instructions": rounded});
    println!("{found_here:#}");
    let known: Value = serde_json::from_str(KNOWN).unwrap();
    let callbacks = known["instructions"].as_object().unwrap();
    assert!(callbacks.keys().eq(found.keys()), "{known}");
    assert_eq!(found.len(), CALLBACKS.len(), "{found:?}");
    if known["kernel"] != kernel.trim() {
        println!("what is known is of {}: not compared", known["kernel"]);
        return;
    }
    for (name, known) in callbacks {
        let most = known.as_f64().unwrap() * (1.0 + TOLERANCE);
        assert!(
            found[name] <= most,
            "{name} takes {:.0} instructions for {known}; if that is meant: benchmarks/callbacks.json",
            found[name]
        );
    }
}
