//! Lanes that are busy with no work: they switch tasks, or their task polls for a device.
#![allow(clippy::unwrap_used, missing_docs)]

use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

const MS: u64 = 1_000_000;
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
