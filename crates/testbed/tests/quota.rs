//! Quotas on real cgroups: this machine's, and version 2 inside a booted guest, which has nothing
//! else.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::{shell, spec, turn};
use sidelane_testbed::Machine;
use sidelane_testbed::belongings::{Belongings, Process};
use sidelane_testbed::quota::{LaneGroups, LaneThread, Shares};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Run time so far, s.
fn run_time_s(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    text.split_whitespace()
        .next()
        .unwrap()
        .parse::<f64>()
        .unwrap()
        / 1e9
}

/// A busy process gets the share of a CPU that its quota and that of its core allow, and nothing stays of their
/// groups.
#[test]
fn a_quota_holds_on_this_machine() {
    let name = format!("sidelane-test-{}", std::process::id());
    let place = LaneGroups::find(Path::new("/"), &name).unwrap();
    let mut busy = Command::new("sh")
        .args(["-c", "while :; do :; done"])
        .spawn()
        .unwrap();
    let mut belongings = Belongings {
        process: Process::of(busy.id()),
        ..Belongings::default()
    };
    let lanes = [LaneThread {
        tid: busy.id() as i32,
        core: 0,
    }];
    let shares = Shares {
        lane: 0.6,
        core: 0.5,
    };
    place.belongings(&lanes, shares, &mut belongings);
    assert_eq!(belongings.cgroups.len(), 3);
    let applied = place.apply(busy.id(), &lanes, shares);
    let (start, before) = (Instant::now(), run_time_s(busy.id()));
    std::thread::sleep(Duration::from_secs(2));
    let share = (run_time_s(busy.id()) - before) / start.elapsed().as_secs_f64();
    let collect = std::thread::spawn(move || busy.wait());
    let left = belongings.remove();
    collect.join().unwrap().unwrap();
    applied.unwrap();
    assert!(left.is_empty(), "{left:?}");
    assert!(belongings.cgroups.iter().all(|group| !group.exists()));
    // Never more; less where others want the CPU too.
    assert!((0.15..0.36).contains(&share), "0.6 of 0.5 gave {share}");
}

#[test]
fn version_2_works_in_a_guest() {
    let _turn = turn();
    let me = std::env::current_exe().unwrap();
    let mut spec = spec();
    spec.add = vec![me.clone()];
    let mut machine = Machine::boot(&spec).unwrap();
    let switch = "/sys/fs/cgroup/cgroup.subtree_control";
    let test = format!("{} --exact a_quota_holds_on_this_machine", me.display());
    let passed = |text: String| assert!(text.contains("1 passed"), "{text}");
    passed(shell(&mut machine, &test));
    // Where nobody handed the controller down it is switched on, and off again afterwards.
    passed(shell(
        &mut machine,
        &format!("echo -cpu > {switch}; {test}; ! grep -w cpu {switch}"),
    ));
}
