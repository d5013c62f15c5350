//! Batch on the lanes that it may use; and the lane of a batch task that steps aside by itself is kept for it, and not
//! for ever.

use crate::{go, spinners};
use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

/// Two cores with so many lanes, which are this fast, as the scheduler knows; batch may use so many of each.
fn simulation(thread_perf: &[f64], batch_lanes: u32) -> Simulation {
    let regular = Regular::one_package(2, thread_perf.len() as u32);
    let topology = Topology::regular(&regular).unwrap();
    let interference = Interference::ThreadPerf(thread_perf.to_vec());
    let machine = Machine::new(&topology, interference, Costs::default()).unwrap();
    let settings = Settings {
        thread_perf: thread_perf.to_vec(),
        batch_lanes,
        ..Settings::default()
    };
    Simulation::new(machine, &Kind::from(settings)).unwrap()
}

/// Work done by these tasks within a second of 2 cores, s.
fn work(sim: &mut Simulation, ids: &[TaskId]) -> f64 {
    go(sim, 100);
    let total = |sim: &Simulation| -> f64 {
        (ids.iter().map(|id| sim.task_totals(*id).work_ns)).sum::<f64>() / 1e9
    };
    let before = total(sim);
    go(sim, 1100);
    total(sim) - before
}

#[test]
fn batch_uses_as_many_lanes_of_a_core_as_it_may_by_default_all() {
    for (thread_perf, batch_lanes, busy, most) in [
        (&[1.0, 0.5][..], 1, 1, 2.0),
        (&[1.0, 0.5], 0, 2, 2.0),
        (&[1.0, 0.6], 0, 2, 2.4),
        (&[1.0, 0.6, 0.5, 0.35], 3, 3, 3.0),
    ] {
        let mut sim = simulation(thread_perf, batch_lanes);
        let batch = spinners(&mut sim, 8, Class::Batch, None);
        let done = work(&mut sim, &batch);
        println!("{thread_perf:?}: {done:.2} of {most}");
        assert!(done > 0.98 * most, "{thread_perf:?}: {done}");
        let lanes = thread_perf.len() as u32;
        for cpu in 0..2 * lanes {
            let ran_ns = sim.lane_totals(cpu).class_ns.iter().sum::<u64>();
            assert_eq!(ran_ns > 500_000_000, cpu % lanes >= lanes - busy, "{cpu}");
            assert!(
                !(20_000_000..=500_000_000).contains(&ran_ns),
                "{cpu}: {ran_ns}"
            );
        }
    }
}

#[test]
fn batch_that_is_bound_to_the_first_lanes_runs_there() {
    let mut sim = simulation(&[1.0, 0.5], 1);
    let bound = spinners(&mut sim, 1, Class::Batch, None);
    sim.set_cpus(bound[0], Some(&[0])).unwrap();
    let done = work(&mut sim, &bound);
    assert!(done > 0.98, "alone: {done}");
}

#[test]
fn batch_that_is_bound_to_the_first_lanes_shares_its_core_with_others() {
    let mut sim = simulation(&[1.0, 0.5], 1);
    let bound = spinners(&mut sim, 2, Class::Batch, None);
    for id in &bound {
        sim.set_cpus(*id, Some(&[0, 2])).unwrap();
    }
    spinners(&mut sim, 6, Class::Batch, None);
    let done = work(&mut sim, &bound);
    println!("beside others {done:.2} of 2");
    assert!(done > 0.3, "{done}");
}

#[test]
fn normal_work_takes_the_place_of_batch_instead_of_sharing_with_it() {
    for (thread_perf, batch_lanes, share) in [(&[1.0, 0.5][..], 1, 1.0), (&[1.0, 0.6], 0, 0.6)] {
        let mut sim = simulation(thread_perf, batch_lanes);
        spinners(&mut sim, 8, Class::Batch, None);
        go(&mut sim, 100); // batch was there before
        let normal = spinners(&mut sim, 1, Class::Normal, None);
        go(&mut sim, 200);
        let before_ns = sim.task_totals(normal[0]).work_ns;
        go(&mut sim, 1200);
        let done = (sim.task_totals(normal[0]).work_ns - before_ns) / 1e9;
        println!("{thread_perf:?}: {done:.3} of {share}");
        assert!((done - share).abs() < 0.02, "{thread_perf:?}: {done}");
    }
}

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
