//! Naps: the lane of a batch task that steps aside by itself is kept for it, and not for ever.

use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

const MS: u64 = 1_000_000;

/// One core: critical work on lane 0 from 18 to `until_ms`, batch on lane 1 that works for 19 ms and then naps, and normal
/// work from 50 ms on. When that began, ms.
fn normal_begins_ms(hold_naps: bool, until_ms: u64, starvation_bound_ms: u64) -> f64 {
    let topology = Topology::regular(&Regular::one_package(1, 2)).unwrap();
    let interference = Interference::ThreadPerf(vec![1.0, 1.0]);
    let machine = Machine::new(&topology, interference, Costs::none()).unwrap();
    let settings = Settings {
        hold_naps,
        starvation_bound_ns: starvation_bound_ms * MS,
        normal_bound_ns: 10_000 * MS,
        ..Settings::default()
    };
    let mut sim = Simulation::new(machine, &settings.into()).unwrap();
    sim.keep_records();
    let create = |sim: &mut Simulation, class, cpu, naps| {
        let spec = TaskSpec {
            cpus: Some(vec![cpu]),
            naps,
            ..TaskSpec::new("task", class)
        };
        sim.create(&spec).unwrap()
    };
    let critical = create(&mut sim, Class::Critical, 0, false);
    let batch = create(&mut sim, Class::Batch, 1, true);
    let normal = create(&mut sim, Class::Normal, 1, false);
    let work = [
        (batch, 0, 19),
        (critical, 18, until_ms - 18),
        (normal, 50, 1),
    ];
    for (token, (_, at_ms, _)) in work.iter().enumerate() {
        sim.set_timer(at_ms * MS, token as u64);
    }
    while let Some(occurrence) = sim.next(3_000 * MS).unwrap() {
        if let Occurrence::Timer(token) = occurrence {
            let (id, _, work_ms) = work[token as usize];
            sim.give(id, work_ms as f64 * MS as f64).unwrap();
        }
    }
    let preempted =
        |record: &Record| matches!(record.step, Step::Preempt { task, .. } if task == batch);
    let records = sim.take_records();
    assert_eq!(
        records.iter().any(preempted),
        !hold_naps,
        "it is evicted if it is not expected to nap"
    );
    let began = records.iter().find_map(|record| match record.step {
        Step::Run { task, .. } if task == normal => Some(record.at_ns as f64 / MS as f64),
        _ => None,
    });
    began.unwrap()
}

#[test]
fn a_lane_is_kept_for_a_nap_until_the_core_opens() {
    assert_eq!(normal_begins_ms(true, 400, 1_000), 400.0);
    assert_eq!(normal_begins_ms(false, 400, 1_000), 50.0);
}

#[test]
fn a_lane_is_kept_for_no_longer_than_the_starvation_bound() {
    // it naps from 19 ms on; the tick of the critical work comes later
    let began_ms = normal_begins_ms(true, 2_000, 500);
    assert!((519.0..524.0).contains(&began_ms), "{began_ms}");
}
