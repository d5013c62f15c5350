//! Where batch goes when no core is wholly idle: the lane that is fastest there.
#![allow(clippy::unwrap_used, missing_docs)]

use sidelane_sim::*;
use sidelane_topology::{Builder, CoreSpec};

const MS: u64 = 1_000_000;
const LANES: u32 = 4;

/// How many of `tasks` batch tasks run on each core; they come one after the other.
fn spread(capacities: &[u32], tasks: usize) -> Vec<usize> {
    let mut builder = Builder::new();
    for (core, &capacity) in (0..).zip(capacities) {
        let cpus = core * LANES..(core + 1) * LANES;
        builder = builder.core(CoreSpec::new(cpus).capacity(capacity.into()));
    }
    let speeds = vec![1.0, 0.6, 0.45, 0.35];
    let settings = Settings {
        thread_perf: speeds.clone(),
        ..Settings::default()
    };
    let interference = Interference::ThreadPerf(speeds);
    let machine = Machine::new(&builder.build().unwrap(), interference, Costs::none()).unwrap();
    let mut sim = Simulation::new(machine, &Kind::from(settings)).unwrap();
    sim.keep_records();
    for token in 0..tasks {
        sim.set_timer((token as u64 + 1) * MS, token as u64);
    }
    while let Some(occurrence) = sim.next(100 * MS).unwrap() {
        if let Occurrence::Timer(_) = occurrence {
            let id = sim.create(&TaskSpec::new("batch", Class::Batch)).unwrap();
            sim.give(id, f64::INFINITY).unwrap();
        }
    }
    let mut lanes = vec![None; tasks];
    for record in sim.take_records() {
        if let Step::Run { task, lane } = record.step {
            lanes[task.0 as usize] = Some(lane);
        }
    }
    let mut counts = vec![0; capacities.len()];
    for lane in lanes {
        counts[(lane.unwrap() / LANES) as usize] += 1;
    }
    counts
}

#[test]
fn equal_cores_fill_evenly() {
    assert_eq!(spread(&[1024, 1024], 5), [3, 2]);
    assert_eq!(spread(&[1024, 1024, 1024], 7), [3, 2, 2]);
}

#[test]
fn idle_cores_come_first_then_the_fastest_lane() {
    assert_eq!(spread(&[1024, 700], 2), [1, 1]);
    // 0.6 of 1024 is 614, 0.45 of it 461; 0.6 of 700 is 420
    assert_eq!(spread(&[1024, 700], 4), [3, 1]);
    // 0.35 of 1024 is 358
    assert_eq!(spread(&[1024, 700], 5), [3, 2]);
}
