//! The scheduler's source drives a small machine.
#![allow(clippy::unwrap_used, missing_docs)]

use sidelane_sim::*;
use sidelane_topology::{Numbering, Regular, Topology};

fn machine(cores: u32, lanes: u32, perf: &[f64]) -> Machine {
    let topology = Topology::regular(&Regular {
        packages: 1,
        caches_per_package: 1,
        cores_per_cache: cores,
        lanes_per_core: lanes,
        numbering: Numbering::Adjacent,
    })
    .unwrap();
    Machine::new(
        &topology,
        Interference::ThreadPerf(perf.to_vec()),
        Costs::default(),
    )
    .unwrap()
}

const MS: u64 = 1_000_000;

#[test]
fn critical_work_is_alone_on_its_core() {
    let kind = Kind::Sidelane(Settings::default());
    let mut sim = Simulation::new(machine(2, 2, &[1.0, 0.5]), &kind).unwrap();
    for n in 0..4 {
        let batch = sim
            .create(&TaskSpec::new(format!("batch{n}"), Class::Batch))
            .unwrap();
        sim.give(batch, f64::INFINITY).unwrap();
    }
    let server = sim
        .create(&TaskSpec::new("server", Class::Critical))
        .unwrap();
    sim.set_timer(10 * MS, 0);
    let mut latencies = Vec::new();
    let mut sent_ns = 0;
    while let Some(occurrence) = sim.next(1000 * MS).unwrap() {
        match occurrence {
            Occurrence::Timer(_) => {
                sent_ns = sim.now_ns();
                sim.give(server, 8e6).unwrap();
            }
            Occurrence::Done(_) => {
                latencies.push(sim.now_ns() - sent_ns);
                sim.set_timer(sim.now_ns() + 12_345_678, 0);
            }
        }
    }
    assert!(latencies.len() > 40, "{}", latencies.len());
    for latency in &latencies {
        assert!((8 * MS..8 * MS + 20_000).contains(latency), "{latency}");
    }
    sim.account();
    for core in sim.core_totals() {
        eprintln!("{core:?}");
        assert_eq!(core.density_ns.iter().sum::<u64>(), 1000 * MS);
    }
    eprintln!("{:?}", sim.counters());
}
