//! Ticks see to work that waits while lanes idle, and wake no lane in vain.
#![allow(clippy::unwrap_used, missing_docs)]

use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

const MS: u64 = 1_000_000;

/// Which lanes were asked to look for work in a tenth of a second, while this many tasks without an end may use
/// lane 0 only and all others idle.
fn kicked(cores: u32, class: Class, tasks: usize) -> Vec<u32> {
    let topology = Topology::regular(&Regular::one_package(cores, 2)).unwrap();
    let interference = Interference::ThreadPerf(vec![1.0, 0.6]);
    let costs = Costs {
        tick_ns: MS,
        ..Costs::none()
    };
    let machine = Machine::new(&topology, interference, costs).unwrap();
    let mut sim = Simulation::new(machine, &Kind::from(Settings::default())).unwrap();
    sim.keep_records();
    let mut spec = TaskSpec::new("bound", class);
    spec.cpus = Some(vec![0]);
    for _ in 0..tasks {
        let id = sim.create(&spec).unwrap();
        sim.give(id, f64::INFINITY).unwrap();
    }
    while sim.next(100 * MS).unwrap().is_some() {}
    let records = sim.take_records();
    let lanes = records.iter().filter_map(|record| match record.step {
        Step::Kick { lane, .. } if lane > 0 => Some(lane),
        _ => None,
    });
    lanes.collect()
}

#[test]
fn work_that_can_use_no_idle_lane_wakes_none() {
    for cores in [1, 2, 80] {
        for class in [Class::Normal, Class::Batch] {
            let lanes = kicked(cores, class, 3);
            assert!(
                lanes.is_empty(),
                "{cores} cores, {class:?}: {} kicks, of {lanes:?}",
                lanes.len()
            );
        }
    }
}
