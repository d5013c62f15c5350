//! What has to hold on a machine of any shape: lanes, promotion and budgets for as many lanes as a
//! core has, one included.

use super::budget::{attach, batch_lanes, long_jobs};
use super::lanes::{Lanes, cpus, critical_rate, multiply, naps};
use super::support::*;
use std::collections::BTreeSet;
use std::fs;

tests! {
    every_budget_is_kept,
    critical_work_has_a_core_each_once_there_are_enough,
    batch_has_all_lanes_but_the_first_of_each_core_or_none,
}

/// The core of a lane.
fn core_of(cpu: usize) -> usize {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/topology/core_id");
    fs::read_to_string(file).unwrap().trim().parse().unwrap()
}

fn cores() -> usize {
    (0..nr_cpus()).map(core_of).collect::<BTreeSet<_>>().len()
}

fn lanes_per_core() -> usize {
    nr_cpus() / cores()
}

/// Lanes busy with batch beside a task with long jobs under this policy, all lanes wanted.
fn batch_beside(policy: &str) -> f64 {
    let (scheduler, _batch) = attach(policy);
    let _critical = long_jobs();
    let lanes = batch_lanes(policy, "2");
    assert!(scheduler.stop().success(), "ejected");
    lanes
}

fn every_budget_is_kept() {
    let (cores, lanes) = (cores() as f64, lanes_per_core() as f64);
    println!("{cores} cores of {lanes} lanes");
    let none = batch_beside("borrow = \"borrow-idle\"");
    let off = batch_beside("borrow = \"off\"");
    // the critical task pauses for a twentieth of the time, and then its whole core is lent
    let (closed, open) = ((cores - 1.0) * lanes, cores * lanes - 1.0);
    assert!(
        (closed - 0.1 * lanes - 0.2..closed + 0.15 * lanes + 0.2).contains(&none),
        "one core is closed most of the time: {none} lanes run batch"
    );
    assert!(
        (0.85 * open - 0.2..open + 0.4).contains(&off),
        "every lane but one: {off} lanes run batch"
    );
    // a core's thread_perf, the same for all that share
    let perf: Vec<String> = (0..lanes_per_core())
        .map(|n| if n == 0 { "1.0".into() } else { "0.7".into() })
        .collect();
    let dynamic = format!(
        "borrow = \"dynamic\"\nbudget_ms = 30\nthread_perf = [{}]",
        perf.join(", ")
    );
    for policy in [
        "borrow = \"fixed\"\nbudget_ms = 50",
        "borrow = \"refresh\"\nbudget_ms = 50",
        &dynamic,
    ] {
        let lent = batch_beside(policy);
        let share = (lent - none) / (off - none);
        // with one lane a core there is nothing beside critical work that could be lent
        let kept = lanes == 1.0 || (0.03..0.95).contains(&share);
        assert!(kept, "{policy}: {share:.2} of what closing cores costs");
    }
}

fn critical_work_has_a_core_each_once_there_are_enough() {
    let scheduler = Scheduler::attach(&RULES);
    let mut critical: Vec<Load> = (0..=cores()).map(|_| Load::spin_in("critical")).collect();
    let before: Vec<_> = critical.iter().map(Load::ticks).collect();
    eventually("all of them run", || {
        let mut all = critical.iter().zip(&before);
        all.all(|(load, before)| load.ticks() > before + 5)
    });
    // any of them: its core may be the one of two
    drop(critical.remove(0));
    eventually("each has a core", || {
        let held: BTreeSet<usize> = critical.iter().map(|load| core_of(load.cpu())).collect();
        held.len() == critical.len()
    });
    assert!(scheduler.stop().success(), "ejected");
}

fn batch_has_all_lanes_but_the_first_of_each_core_or_none() {
    let _ = (cgroup("critical"), cgroup("batch"));
    if lanes_per_core() == 1 {
        let output = sidelane(&["lanes", "--critical", "/critical", "--batch", "/batch"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{said}");
        assert!(said.contains("no lane for batch"), "{said}");
        return;
    }
    let lanes = Lanes::start();
    let count = |group| -> usize {
        let of = |part: &str| match part.split_once('-') {
            Some((first, last)) => {
                last.parse::<usize>().unwrap() + 1 - first.parse::<usize>().unwrap()
            }
            None => 1,
        };
        cpus(group).split(',').map(of).sum()
    };
    assert_eq!(
        (count("critical"), count("batch")),
        (cores(), nr_cpus() - cores())
    );
    let batch: Vec<_> = (cores()..nr_cpus())
        .map(|_| multiply("batch", true, "2"))
        .collect();
    assert!(critical_rate() > 0.0);
    let outputs: Vec<_> = batch
        .into_iter()
        .map(|child| child.wait_with_output().unwrap())
        .collect();
    let naps: Vec<_> = outputs.iter().map(naps).collect();
    println!("naps, and ms of them: {naps:?}");
    assert!(naps.iter().any(|(naps, _)| *naps > 0), "{naps:?}");
    lanes.stop();
}
