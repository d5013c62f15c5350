//! Symbiosis: who shares a core, by what cycles go into.
#![allow(clippy::unwrap_used, missing_docs)]

use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

const MS: u64 = 1_000_000;
/// Kinds of tasks: one computes, the other mostly waits for memory.
const COMPUTES: usize = 0;
const WAITS: usize = 1;

/// Speeds as the default model has them, with miss shares 0 and 1.
fn machine(lanes: u32) -> Machine {
    let topology = Topology::regular(&Regular::one_package(1, lanes)).unwrap();
    let model = Symbiosis::default();
    let speed = |waits: f64| 1.0 / (1.0 + waits);
    let table = vec![
        vec![speed(model.base_base), speed(model.base_miss)],
        vec![speed(model.miss_base), speed(model.miss_miss)],
    ];
    let mut machine = Machine::new(&topology, Interference::Kinds(table), Costs::none()).unwrap();
    machine.misses = vec![0.0, 1.0];
    machine
}

/// Two tasks of each kind, in this order, which have each had the core to themselves before all of them
/// always compute. What each did within two seconds, ms, and how many were chosen.
fn run(lanes: u32, symbiosis: Option<Symbiosis>, kinds: [usize; 4]) -> ([f64; 4], u64) {
    let settings = Settings {
        symbiotic: symbiosis.is_some(),
        symbiosis: symbiosis.unwrap_or_default(),
        ..Settings::default()
    };
    let mut sim = Simulation::new(machine(lanes), &Kind::from(settings)).unwrap();
    let ids = kinds.map(|kind| {
        let spec = TaskSpec {
            kind,
            ..TaskSpec::new("task", Class::Normal)
        };
        sim.create(&spec).unwrap()
    });
    for id in ids {
        sim.give(id, 50.0 * MS as f64).unwrap();
        assert_eq!(sim.next(u64::MAX).unwrap(), Some(Occurrence::Done(id)));
    }
    let before = ids.map(|id| sim.task_totals(id).work_ns);
    for id in ids {
        sim.give(id, f64::INFINITY).unwrap();
    }
    let until_ns = sim.now_ns() + 2000 * MS;
    assert_eq!(sim.next(until_ns).unwrap(), None);
    sim.account();
    let mut done = ids.map(|id| sim.task_totals(id).work_ns);
    for (done, before) in done.iter_mut().zip(before) {
        *done = (*done - before) / MS as f64;
    }
    (done, sim.counters().symbiotic)
}

fn work(lanes: u32, symbiosis: Option<Symbiosis>, kinds: [usize; 4]) -> [f64; 4] {
    run(lanes, symbiosis, kinds).0
}

#[test]
fn who_computes_shares_a_core_with_who_waits_for_memory() {
    let kinds = [COMPUTES, COMPUTES, WAITS, WAITS];
    let plain = work(2, None, kinds);
    let symbiotic = work(2, Some(Symbiosis::default()), kinds);
    let sum = |work: [f64; 4]| work.iter().sum::<f64>();
    println!(
        "{plain:?} {}, symbiotic {symbiotic:?} {}",
        sum(plain),
        sum(symbiotic)
    );
    // 2 x 1/1.2 at best
    assert!(sum(symbiotic) > 0.97 * 2000.0 * 2.0 / 1.2);
    assert!(sum(symbiotic) > 1.1 * sum(plain));
    // nobody pays for that with turns
    let least = symbiotic.into_iter().fold(f64::INFINITY, f64::min);
    assert!(least > 0.9 * sum(symbiotic) / 4.0);
}

#[test]
fn tasks_that_are_alike_are_served_as_without() {
    let plain = work(2, None, [COMPUTES; 4]);
    let symbiotic = work(2, Some(Symbiosis::default()), [COMPUTES; 4]);
    assert_eq!(plain, symbiotic);
}

#[test]
fn more_than_two_lanes_and_one_go_too() {
    let kinds = [COMPUTES, WAITS, COMPUTES, WAITS];
    for lanes in [1, 3] {
        let (symbiotic, chosen) = run(lanes, Some(Symbiosis::default()), kinds);
        println!("{lanes} lanes: {symbiotic:?}, {chosen} chosen");
        let sum = symbiotic.iter().sum::<f64>();
        assert!(symbiotic.iter().all(|work| *work > 0.1 * sum));
        assert_eq!(
            chosen > 0,
            lanes > 1,
            "beside nobody there is nothing to choose by"
        );
    }
}

#[test]
fn another_model_is_another_choice() {
    // told that like tasks bear each other best, it pairs those
    let contrary = Symbiosis {
        base_base: 0.0,
        base_miss: 1.0,
        miss_base: 1.0,
        miss_miss: 0.0,
        ..Symbiosis::default()
    };
    let kinds = [COMPUTES, COMPUTES, WAITS, WAITS];
    let told = work(2, Some(contrary), kinds);
    let symbiotic = work(2, Some(Symbiosis::default()), kinds);
    assert!(told.iter().sum::<f64>() < 0.9 * symbiotic.iter().sum::<f64>());
}
