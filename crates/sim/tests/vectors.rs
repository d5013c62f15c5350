//! Slices that a task keeps, steal barriers that change with load, ticks that see to work that waits while lanes idle,
//! and wake no lane in vain, and critical work that comes while a lane wakes.

use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

const MS: u64 = 1_000_000;

fn simulation(shape: &Regular, settings: Settings) -> Simulation {
    let topology = Topology::regular(shape).unwrap();
    let interference = Interference::ThreadPerf(vec![1.0; shape.lanes_per_core as usize]);
    let costs = Costs {
        tick_ns: MS,
        ..Costs::none()
    };
    let machine = Machine::new(&topology, interference, costs).unwrap();
    let mut sim = Simulation::new(machine, &Kind::from(settings)).unwrap();
    sim.keep_records();
    sim
}

fn normal(name: &str) -> TaskSpec {
    TaskSpec::new(name, Class::Normal)
}

/// How long a task runs at a stretch, ms, after it has used so much of a slice of 10 ms and slept
/// for so long, beside one without an end on the same lane.
fn second_run_ms(keep_slice: bool, used_ms: u64, sleeps_ms: u64) -> f64 {
    let settings = Settings {
        keep_slice,
        ..Settings::default()
    };
    let mut sim = simulation(&Regular::one_package(1, 1), settings);
    let id = sim.create(&normal("sleeper")).unwrap();
    let other = sim.create(&normal("other")).unwrap();
    sim.give(id, (used_ms * MS) as f64).unwrap();
    sim.set_timer(MS / 2, 1);
    while let Some(occurrence) = sim.next(200 * MS).unwrap() {
        match occurrence {
            Occurrence::Done(done) if done == id => {
                sim.set_timer(sim.now_ns() + sleeps_ms * MS, 0);
            }
            Occurrence::Timer(0) => sim.give(id, 50.0 * MS as f64).unwrap(),
            Occurrence::Timer(_) => sim.give(other, f64::INFINITY).unwrap(),
            Occurrence::Done(_) => {}
        }
    }
    let of_it = |step: &Step| {
        matches!(step, Step::Run { task, .. } | Step::Preempt { task, .. } | Step::Sleep { task, .. }
            if *task == id)
    };
    let records = sim.take_records();
    let at_ns: Vec<u64> = (records.iter())
        .filter(|record| of_it(&record.step))
        .map(|record| record.at_ns)
        .collect();
    (at_ns[3] - at_ns[2]) as f64 / MS as f64
}

#[test]
fn a_slice_is_kept_for_a_moment_unless_half_is_used() {
    for (keep_slice, used_ms, sleeps_ms, runs_ms) in [
        (false, 3, 1, 10.0),
        (true, 3, 1, 7.0),
        (true, 5, 1, 10.0),
        (true, 8, 1, 10.0),
        (true, 3, 12, 10.0),
    ] {
        let ran_ms = second_run_ms(keep_slice, used_ms, sleeps_ms);
        assert!(
            (runs_ms..runs_ms + 1.1).contains(&ran_ms),
            "{used_ms} ms used, {sleeps_ms} ms slept: ran for {ran_ms} ms"
        );
    }
}

/// When the one task that waits in the vector of a busy core is stolen by the lane of another
/// package, which falls idle at 20 ms; none: not at all.
fn stolen_ms(steal_patience_ns: u64) -> Option<f64> {
    // nothing else moves it
    let settings = Settings {
        steal_patience_ns,
        slice_ns: 1000 * MS,
        normal_bound_ns: 1000 * MS,
        ..Settings::default()
    };
    let shape = Regular {
        packages: 2,
        ..Regular::one_package(1, 1)
    };
    let mut sim = simulation(&shape, settings);
    let ids = ["first", "ends", "waits"].map(|name| sim.create(&normal(name)).unwrap());
    sim.give(ids[0], f64::INFINITY).unwrap();
    sim.give(ids[1], 20.0 * MS as f64).unwrap();
    while sim.next(MS).unwrap().is_some() {}
    sim.give(ids[2], f64::INFINITY).unwrap();
    while sim.next(100 * MS).unwrap().is_some() {}
    let runs = sim
        .take_records()
        .into_iter()
        .find(|record| record.at_ns > 20 * MS && matches!(record.step, Step::Run { lane: 1, .. }));
    assert_eq!(
        runs.is_some(),
        sim.counters().steals.iter().sum::<u64>() > 0
    );
    runs.map(|record| record.at_ns as f64 / MS as f64)
}

#[test]
fn a_barrier_falls_for_a_lane_that_idles() {
    // one task is not enough for another package, but after three times the patience
    assert_eq!(stolen_ms(0), None);
    for patience_ms in [1, 5] {
        let at_ms = stolen_ms(patience_ms * MS).unwrap();
        let from_ms = (20 + 3 * patience_ms) as f64;
        assert!(
            (from_ms..from_ms + 2.0).contains(&at_ms),
            "stolen at {at_ms} ms with a patience of {patience_ms} ms"
        );
    }
}

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

/// Which share of runs of five tasks without an end was on another lane than the run before, and how far their times are
/// apart, slices.
fn lanes_changed(keep_lane: bool) -> (f64, f64) {
    let settings = Settings {
        keep_lane,
        ..Settings::default()
    };
    let slice_ns = settings.slice_ns as f64;
    let mut sim = simulation(&Regular::one_package(1, 2), settings);
    let ids: Vec<TaskId> = (0..5)
        .map(|number| sim.create(&normal(&number.to_string())).unwrap())
        .collect();
    for id in &ids {
        sim.give(*id, f64::INFINITY).unwrap();
    }
    while sim.next(4000 * MS).unwrap().is_some() {}
    let ran_ns = ids.iter().map(|id| sim.task_totals(*id).lane_ns as f64);
    let (least, most) = ran_ns.fold((f64::INFINITY, 0.0f64), |(least, most), ns| {
        (least.min(ns), most.max(ns))
    });
    let mut last = std::collections::BTreeMap::new();
    let runs = sim.take_records().into_iter().filter_map(|record| {
        let Step::Run { task, lane, .. } = record.step else {
            return None;
        };
        Some(last.insert(task, lane)? != lane)
    });
    let changes: Vec<bool> = runs.collect();
    let changed = changes.iter().filter(|changed| **changed).count() as f64;
    (changed / changes.len() as f64, (most - least) / slice_ns)
}

#[test]
fn a_lane_takes_what_ran_there_last_within_a_slice() {
    let [(usual, _), (kept, apart)] = [false, true].map(lanes_changed);
    assert!(
        usual > 0.3 && kept < usual / 2.0,
        "{usual} of runs on another lane, {kept}"
    );
    assert!(apart <= 2.0, "{apart} slices apart");
}

/// One lane, which takes 100 us to wake: it does so for normal work when critical work comes, 50 us later.
#[test]
fn critical_work_that_comes_while_a_lane_wakes_waits_for_no_tick() {
    const US: u64 = 1_000;
    let topology = Topology::regular(&Regular::one_package(1, 1)).unwrap();
    let costs = Costs {
        idle_exit_ns: 100 * US,
        ..Costs::default()
    };
    let machine = Machine::new(&topology, Interference::ThreadPerf(vec![1.0]), costs).unwrap();
    let mut sim = Simulation::new(machine, &Kind::from(Settings::default())).unwrap();
    sim.keep_records();
    let normal = sim.create(&normal("normal")).unwrap();
    let critical = sim
        .create(&TaskSpec::new("critical", Class::Critical))
        .unwrap();
    let comes_ns = MS / 2 + 50 * US;
    sim.set_timer(MS / 2, 0);
    sim.set_timer(comes_ns, 1);
    while let Some(occurrence) = sim.next(20 * MS).unwrap() {
        match occurrence {
            Occurrence::Timer(0) => sim.give(normal, f64::INFINITY).unwrap(),
            Occurrence::Timer(_) => sim.give(critical, (10 * US) as f64).unwrap(),
            Occurrence::Done(_) => {}
        }
    }
    let records = sim.take_records();
    let mut begins = records
        .iter()
        .filter(|record| matches!(record.step, Step::Run { task, .. } if task == critical));
    let waited_ns = begins.next().unwrap().at_ns - comes_ns;
    assert!(waited_ns < 200 * US, "{waited_ns} ns");
}
