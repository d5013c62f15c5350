//! The kernel's scheduler keeps every task but batch (`scope = "batch"`).

use crate::{go, spinners};
use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

const MS: u64 = 1_000_000;

fn machine(cores: u32) -> Machine {
    let topology = Topology::regular(&Regular::one_package(cores, 2)).unwrap();
    Machine::new(
        &topology,
        Interference::ThreadPerf(vec![1.0, 0.6]),
        Costs::default(),
    )
    .unwrap()
}

fn only_batch(cores: u32) -> Simulation {
    let settings = Settings {
        scope: Scope::Batch,
        ..Settings::default()
    };
    Simulation::new(machine(cores), &settings.into()).unwrap()
}

fn batch_ns(sim: &Simulation) -> u64 {
    let lanes = 0..sim.machine().nr_lanes as u32;
    let of = |cpu| sim.lane_totals(cpu).class_ns[Class::Batch as usize];
    lanes.map(of).sum()
}

#[test]
fn batch_gets_all_that_idles() {
    let mut sim = only_batch(2);
    spinners(&mut sim, 5, Class::Batch, None);
    go(&mut sim, 100);
    assert!(batch_ns(&sim) > 4 * 99 * MS, "{}", batch_ns(&sim));
}
