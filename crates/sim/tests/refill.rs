//! Caches that others displaced are filled again.
#![allow(clippy::unwrap_used, missing_docs)]

use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

const MS: u64 = 1_000_000;
const FULL_NS: u64 = 2 * MS;

/// Two cores of two lanes, nothing but filling costs anything; tasks on the given CPUs.
fn tasks<const N: usize>(cpus: [&[u32]; N]) -> (Simulation, [TaskId; N]) {
    let topology = Topology::regular(&Regular::one_package(2, 2)).unwrap();
    let costs = Costs {
        refill_ns: FULL_NS,
        ..Costs::none()
    };
    let speeds = Interference::ThreadPerf(vec![1.0, 0.6]);
    let machine = Machine::new(&topology, speeds, costs).unwrap();
    let mut sim = Simulation::new(machine, &Kind::from(Settings::default())).unwrap();
    let ids = cpus.map(|cpus| {
        let spec = TaskSpec {
            cpus: Some(cpus.to_vec()),
            ..TaskSpec::new("task", Class::Normal)
        };
        sim.create(&spec).unwrap()
    });
    (sim, ids)
}

/// For how long a task has a lane until so much work is done, ns.
fn takes_ns(sim: &mut Simulation, id: TaskId, work_ns: u64) -> u64 {
    let from_ns = sim.now_ns();
    sim.give(id, work_ns as f64).unwrap();
    assert_eq!(sim.next(u64::MAX).unwrap(), Some(Occurrence::Done(id)));
    sim.now_ns() - from_ns
}

#[test]
fn for_as_long_as_others_ran_there_and_no_longer_than_in_full() {
    let (mut sim, [one, other]) = tasks([&[0], &[0]]);
    assert_eq!(takes_ns(&mut sim, one, MS), MS + FULL_NS, "the first time");
    assert_eq!(takes_ns(&mut sim, one, MS), MS, "nobody else was there");
    // the other one's first run fills its own, and that displaces, too
    assert_eq!(takes_ns(&mut sim, other, MS / 2), MS / 2 + FULL_NS);
    assert_eq!(takes_ns(&mut sim, one, MS / 2), MS / 2 + FULL_NS);
    assert_eq!(takes_ns(&mut sim, other, MS / 4), MS / 4 + FULL_NS);
    assert_eq!(takes_ns(&mut sim, one, 0), FULL_NS);
}

#[test]
fn a_moment_displaces_no_more_than_it_lasted() {
    let (mut sim, [one, other]) = tasks([&[0], &[0]]);
    takes_ns(&mut sim, other, MS);
    takes_ns(&mut sim, one, MS);
    // what the other one had is gone: 2 ms, and then it does a quarter of one
    assert_eq!(takes_ns(&mut sim, other, MS / 4), FULL_NS + MS / 4);
    // its next quarter is at once there
    assert_eq!(takes_ns(&mut sim, other, MS / 4), MS / 4);
    takes_ns(&mut sim, one, 10 * MS);
    takes_ns(&mut sim, other, MS);
    sim.set_timer(sim.now_ns() + 50 * MS, 0);
    assert_eq!(sim.next(u64::MAX).unwrap(), Some(Occurrence::Timer(0)));
    // idle time displaces nothing
    assert_eq!(takes_ns(&mut sim, other, MS), MS);
}

#[test]
fn in_full_on_another_core() {
    let (mut sim, [roams]) = tasks([&[0, 1]]);
    let lanes = |sim: &mut Simulation, cpus: &[u32]| {
        sim.set_cpus(roams, Some(cpus)).unwrap();
        takes_ns(sim, roams, MS)
    };
    assert_eq!(lanes(&mut sim, &[0]), MS + FULL_NS);
    assert_eq!(lanes(&mut sim, &[0]), MS);
    // lanes 0 and 1 are siblings here; 2 is another core
    assert_eq!(
        lanes(&mut sim, &[1]),
        MS,
        "the same core, and it was not away"
    );
    assert_eq!(lanes(&mut sim, &[2]), MS + FULL_NS);
}

#[test]
fn who_is_stopped_while_it_fills_goes_on_with_that() {
    let (mut sim, [one, critical]) = tasks([&[0], &[0]]);
    sim.set_class(critical, Class::Critical).unwrap();
    takes_ns(&mut sim, critical, MS);
    // half of its 2 ms of filling are over when it has to leave
    sim.give(one, MS as f64).unwrap();
    sim.set_timer(sim.now_ns() + FULL_NS / 2, 0);
    assert_eq!(sim.next(u64::MAX).unwrap(), Some(Occurrence::Timer(0)));
    let from_ns = sim.now_ns();
    sim.give(critical, MS as f64 / 4.0).unwrap();
    assert_eq!(
        sim.next(u64::MAX).unwrap(),
        Some(Occurrence::Done(critical))
    );
    let taken_ns = sim.now_ns() - from_ns;
    assert_eq!(sim.next(u64::MAX).unwrap(), Some(Occurrence::Done(one)));
    // what was left, and what the other one displaced, at most all
    let left_ns = FULL_NS.min(FULL_NS / 2 + taken_ns);
    assert_eq!(sim.now_ns() - from_ns - taken_ns, MS + left_ns);
}
