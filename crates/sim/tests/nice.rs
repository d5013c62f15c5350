//! Nice values: normal work shares a lane by weight, however many tasks there are.

use super::go;
use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

/// What a nice value weighs, as in the kernel's table (`sched_prio_to_weight`, kernel/sched/core.c).
fn weight(nice: i32) -> f64 {
    match nice {
        -20 => 88761.0,
        -10 => 9548.0,
        -5 => 3121.0,
        0 => 1024.0,
        5 => 335.0,
        10 => 110.0,
        19 => 15.0,
        other => unreachable!("{other} is not in this table"),
    }
}

/// Cores of one lane each.
fn simulation(lanes: u32) -> Simulation {
    let topology = Topology::regular(&Regular::one_package(lanes, 1)).unwrap();
    let interference = Interference::ThreadPerf(vec![1.0]);
    let machine = Machine::new(&topology, interference, Costs::default()).unwrap();
    Simulation::new(machine, &Kind::from(Settings::default())).unwrap()
}

/// A task of that lane that has work without an end.
fn create(sim: &mut Simulation, (lane, nice): (u32, i32)) -> TaskId {
    let spec = TaskSpec {
        nice,
        cpus: Some(vec![lane]),
        ..TaskSpec::new("task", Class::Normal)
    };
    let id = sim.create(&spec).unwrap();
    sim.give(id, f64::INFINITY).unwrap();
    id
}

/// The share of its lane that each task had, of tasks with these nice values, on `lanes` lanes, each of which has these.
fn shares(lanes: u32, nices: &[i32]) -> Vec<Vec<f64>> {
    let mut sim = simulation(lanes);
    let on = |lane| nices.iter().map(move |nice| (lane, *nice));
    let ids: Vec<TaskId> = (0..lanes)
        .flat_map(on)
        .map(|one| create(&mut sim, one))
        .collect();
    go(&mut sim, 60_000);
    let ran = ids.iter().map(|id| sim.task_totals(*id).lane_ns as f64);
    let ran: Vec<f64> = ran.collect();
    let of_lane = |ran: &[f64]| ran.iter().map(|ns| ns / ran.iter().sum::<f64>()).collect();
    ran.chunks(nices.len()).map(of_lane).collect()
}

fn check(lanes: u32, nices: &[i32]) {
    let all: f64 = nices.iter().map(|nice| weight(*nice)).sum();
    for found in shares(lanes, nices) {
        for (share, nice) in found.iter().zip(nices) {
            let wanted = weight(*nice) / all;
            assert!(
                (share - wanted).abs() < 0.03 * wanted + 0.001,
                "{lanes} lanes, nice {nices:?}: {nice} had {share:.4} of its lane, not {wanted:.4}"
            );
        }
    }
}

#[test]
fn tasks_of_a_lane_share_it_by_weight() {
    let nices = [-20, -10, -5, 0, 5, 10, 19];
    for (at, one) in nices.iter().enumerate() {
        for other in &nices[at..] {
            check(1, &[*one, *other]);
        }
    }
    check(1, &nices);
    check(1, &[0, 0, 0, 10, 10]);
}

#[test]
fn on_each_of_several_lanes() {
    check(4, &[-10, 0]);
    check(4, &[0, 0, 5]);
    check(16, &[0, 10, 19]);
}

/// The longest that a task waits for its lane, ms, after `alone_ms` in which the others had it: these come one after the other.
fn longest_wait_ms(alone_ms: u64, others: &[(u32, i32)], late: &[(u32, i32)]) -> f64 {
    const MS: u64 = 1_000_000;
    let mut sim = simulation(2);
    let mut ids: Vec<TaskId> = (others.iter()).map(|one| create(&mut sim, *one)).collect();
    go(&mut sim, alone_ms);
    ids.extend(late.iter().map(|one| create(&mut sim, *one)));
    let (mut since, mut longest) = (vec![sim.now_ns(); ids.len()], 0);
    while sim.now_ns() < (alone_ms + 20_000) * MS {
        let now_ns = sim.now_ns();
        for (id, since_ns) in ids.iter().zip(&mut since) {
            if matches!(sim.state(*id), State::Running(_)) {
                *since_ns = now_ns;
            }
            longest = longest.max(now_ns - *since_ns);
        }
        sim.next(now_ns + MS).unwrap();
    }
    longest as f64 / MS as f64
}

#[test]
fn nobody_waits_for_all_that_others_had_before() {
    // who comes after one that had its lane for long; virtual time that runs ahead on another lane; a light task that comes
    // after a heavy one: two slices by weight, and a tick each
    for (alone_ms, others, late, limit_ms) in [
        (10_000, vec![(0, 0)], vec![(0, 0)], 40.0),
        (10_000, vec![(0, 0)], vec![(0, 0); 3], 100.0),
        (10_000, vec![(0, 19), (0, 19), (1, 0), (1, 0)], vec![], 40.0),
        (10_000, vec![(0, -5), (1, 0), (1, 0)], vec![(0, 0)], 90.0),
    ] {
        let waited_ms = longest_wait_ms(alone_ms, &others, &late);
        assert!(waited_ms < limit_ms, "{others:?} {late:?}: {waited_ms} ms");
    }
}
