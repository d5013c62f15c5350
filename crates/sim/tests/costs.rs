//! What costs a task its lane, or its sibling the speed: caches that others displaced are filled again, tasks are
//! switched, and a task polls for a device.

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

const BESIDE: Beside = Beside {
    switching: 0.32,
    polling: 0.73,
};

/// One core of two lanes, with a task that always computes on the second, and one that may use the first.
fn beside(costs: Costs) -> (Simulation, TaskId, TaskId) {
    let topology = Topology::regular(&Regular::one_package(1, 2)).unwrap();
    let speeds = Interference::ThreadPerf(vec![1.0, 0.6]);
    let mut machine = Machine::new(&topology, speeds, costs).unwrap();
    machine.beside = Some(BESIDE);
    let mut sim = Simulation::new(machine, &Kind::from(Settings::default())).unwrap();
    let mut create = |cpu: u32| {
        let spec = TaskSpec {
            cpus: Some(vec![cpu]),
            ..TaskSpec::new("task", Class::Normal)
        };
        sim.create(&spec).unwrap()
    };
    let (io, computing) = (create(0), create(1));
    sim.give(computing, f64::INFINITY).unwrap();
    (sim, io, computing)
}

/// Goes on until something happens, or until then.
fn next(sim: &mut Simulation, until_ns: u64) -> Option<Occurrence> {
    let occurrence = sim.next(until_ns).unwrap();
    sim.account();
    occurrence
}

fn near(value: f64, wanted: f64) -> bool {
    (value - wanted).abs() < 1e-3 * wanted
}

#[test]
fn who_polls_slows_its_sibling_as_measured_and_does_no_work() {
    let (mut sim, io, computing) = beside(Costs::none());
    sim.set_timer(10 * MS, 0);
    assert_eq!(next(&mut sim, 10 * MS), Some(Occurrence::Timer(0)));
    let work = |sim: &Simulation| sim.task_totals(computing).work_ns;
    assert!(near(work(&sim), 10.0 * MS as f64), "alone: {}", work(&sim));
    sim.give(io, 6.0 * MS as f64).unwrap();
    assert_eq!(next(&mut sim, 100 * MS), Some(Occurrence::Done(io)));
    // both at 0.6, so 6 ms of work take 10
    assert!(
        near(sim.now_ns() as f64, 20.0 * MS as f64),
        "{}",
        sim.now_ns()
    );
    let before = work(&sim);
    sim.poll(io, 10 * MS).unwrap();
    assert_eq!(next(&mut sim, 100 * MS), Some(Occurrence::Done(io)));
    assert!(
        near(sim.now_ns() as f64, 30.0 * MS as f64),
        "{}",
        sim.now_ns()
    );
    assert!(
        near(work(&sim) - before, 7.3 * MS as f64),
        "{}",
        work(&sim) - before
    );
    assert!(sim.end_poll(io), "in vain");
    let totals = sim.task_totals(io);
    assert!(near(totals.work_ns, 6.0 * MS as f64), "{totals:?}");
    assert!(
        near(totals.polled_ns as f64, 10.0 * MS as f64),
        "{totals:?}"
    );
    assert!(totals.overhead_ns >= totals.polled_ns);
}

#[test]
fn an_answer_ends_polling_and_the_task_goes_on_without_a_switch() {
    let (mut sim, io, _) = beside(Costs::default());
    sim.give(io, MS as f64).unwrap();
    assert_eq!(next(&mut sim, 100 * MS), Some(Occurrence::Done(io)));
    let answer_ns = sim.now_ns() + MS;
    sim.set_timer(answer_ns, 7);
    sim.poll(io, 10 * MS).unwrap();
    let runs = sim.event_counts().runs;
    assert_eq!(next(&mut sim, 100 * MS), Some(Occurrence::Timer(7)));
    assert!(sim.end_poll(io) && !sim.end_poll(io));
    sim.give(io, 0.6 * MS as f64).unwrap();
    assert_eq!(next(&mut sim, 100 * MS), Some(Occurrence::Done(io)));
    let took_ns = (sim.now_ns() - answer_ns) as f64;
    assert!(
        near(took_ns, MS as f64),
        "{took_ns} ns for 0.6 ms of work beside another"
    );
    assert_eq!(sim.event_counts().runs, runs);
}

#[test]
fn who_switches_slows_its_sibling_and_who_goes_on_does_not() {
    let costs = Costs {
        switch_ns: MS,
        resume_ns: Some(MS / 2),
        ..Costs::none()
    };
    let (mut sim, io, computing) = beside(costs);
    sim.set_timer(10 * MS, 0);
    next(&mut sim, 10 * MS);
    let round = |sim: &mut Simulation| {
        let (from_ns, before) = (sim.now_ns(), sim.task_totals(computing).work_ns);
        sim.give(io, 0.6 * MS as f64).unwrap();
        assert_eq!(next(sim, 100 * MS), Some(Occurrence::Done(io)));
        let took_ns = (sim.now_ns() - from_ns) as f64;
        (took_ns, sim.task_totals(computing).work_ns - before)
    };
    // a switch of 1 ms beside which the sibling keeps 0.32, then 1 ms at 0.6
    let (took_ns, work_ns) = round(&mut sim);
    assert!(near(took_ns, 2.0 * MS as f64), "{took_ns}");
    assert!(near(work_ns, 0.92 * MS as f64), "{work_ns}");
    // nothing else ran there: half a millisecond, and no more harm than any other work
    let _ = next(&mut sim, 20 * MS);
    let (took_ns, work_ns) = round(&mut sim);
    assert!(near(took_ns, 1.5 * MS as f64), "{took_ns}");
    assert!(near(work_ns, 0.9 * MS as f64), "{work_ns}");
}
