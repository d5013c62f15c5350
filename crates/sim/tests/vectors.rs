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
        dispatching: Dispatching::Slices,
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
        (true, 3, 12, 20.0), // behind by more than a slice, it goes on with another
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
        fair_slice_ns: 1000 * MS,
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

/// Which lanes but the first were asked to look for work in a tenth of a second, while so many such tasks have no end.
fn kicked(cores: u32, smt_level: u32, spec: &TaskSpec, tasks: usize) -> Vec<u32> {
    let topology = Topology::regular(&Regular::one_package(cores, 2)).unwrap();
    let interference = Interference::ThreadPerf(vec![1.0, 0.6]);
    let costs = Costs {
        tick_ns: MS,
        ..Costs::none()
    };
    let machine = Machine::new(&topology, interference, costs).unwrap();
    let settings = Settings {
        smt_level,
        ..Settings::default()
    };
    let mut sim = Simulation::new(machine, &Kind::from(settings)).unwrap();
    sim.keep_records();
    for _ in 0..tasks {
        let id = sim.create(spec).unwrap();
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
            let bound = TaskSpec {
                cpus: Some(vec![0]),
                ..TaskSpec::new("bound", class)
            };
            let lanes = kicked(cores, 0, &bound, 3);
            assert!(
                lanes.is_empty(),
                "{cores} cores, {class:?}: {} kicks, of {lanes:?}",
                lanes.len()
            );
        }
    }
}

#[test]
fn critical_work_wakes_no_lane_that_the_smt_level_does_not_allow() {
    let lanes = kicked(1, 1, &TaskSpec::new("free", Class::Critical), 3);
    assert!(lanes.is_empty(), "{} kicks, of {lanes:?}", lanes.len());
}

#[test]
fn a_search_follows_what_a_task_may_use() {
    // beyond 64 cores several share a bit of what a task may use
    for cores in [2, 80, 130] {
        let mut sim = simulation(&Regular::one_package(cores, 1), Settings::default());
        let mut create = |cpus: &[u32]| {
            let spec = TaskSpec {
                cpus: Some(cpus.to_vec()),
                ..TaskSpec::new("critical", Class::Critical)
            };
            sim.create(&spec).unwrap()
        };
        let (busy, moves) = (create(&[0]), create(&[0]));
        sim.give(busy, f64::INFINITY).unwrap();
        let last = cores - 1;
        for cpus in [Some(vec![0, last]), Some(vec![0, last / 2 + 1]), None] {
            sim.set_cpus(moves, cpus.as_deref()).unwrap();
            let from_ns = sim.now_ns();
            sim.give(moves, MS as f64 / 10.0).unwrap();
            assert_eq!(sim.next(u64::MAX).unwrap(), Some(Occurrence::Done(moves)));
            let took_ns = sim.now_ns() - from_ns;
            assert!(took_ns < MS / 5, "{cores} cores, {cpus:?}: {took_ns} ns");
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

const US: u64 = 1_000;
/// When critical work comes.
const COMES_NS: u64 = MS / 2;

/// How long each of so many critical tasks waits that come to a core at once, ns. Normal ones without an end have come so long
/// before, us. The critical ones may use the lanes from the `first` on. A lane takes 100 us to wake.
fn waits_ns(
    (first, lanes): (u32, u32),
    smt_level: u32,
    normal_us: &[u64],
    critical: usize,
) -> Vec<u64> {
    let topology = Topology::regular(&Regular::one_package(1, lanes)).unwrap();
    let costs = Costs {
        idle_exit_ns: 100 * US,
        ..Costs::default()
    };
    let interference = Interference::ThreadPerf(vec![1.0; lanes as usize]);
    let settings = Settings {
        smt_level,
        ..Settings::default()
    };
    let machine = Machine::new(&topology, interference, costs).unwrap();
    let mut sim = Simulation::new(machine, &Kind::from(settings)).unwrap();
    sim.keep_records();
    let mut create = |class, cpus: std::ops::Range<u32>, count: usize| -> Vec<TaskId> {
        let spec = TaskSpec {
            cpus: Some(cpus.collect()),
            ..TaskSpec::new("task", class)
        };
        (0..count).map(|_| sim.create(&spec).unwrap()).collect()
    };
    let normal = create(Class::Normal, 0..lanes, normal_us.len());
    let critical = create(Class::Critical, first..lanes, critical);
    for (index, before_us) in (0..).zip(normal_us) {
        sim.set_timer(COMES_NS - before_us * US, index);
    }
    sim.set_timer(COMES_NS, u64::MAX);
    while let Some(occurrence) = sim.next(20 * MS).unwrap() {
        match occurrence {
            Occurrence::Timer(u64::MAX) => {
                for id in &critical {
                    sim.give(*id, MS as f64).unwrap();
                }
            }
            Occurrence::Timer(index) => sim.give(normal[index as usize], f64::INFINITY).unwrap(),
            Occurrence::Done(_) => {}
        }
    }
    let records = sim.take_records();
    let begins_ns = |id: &TaskId| {
        let begins = |step: &Step| matches!(step, Step::Run { task, .. } if task == id);
        let record = records.iter().find(|record| begins(&record.step));
        record.unwrap().at_ns - COMES_NS
    };
    critical.iter().map(begins_ns).collect()
}

#[test]
fn critical_work_that_comes_while_a_lane_wakes_waits_for_no_tick() {
    assert!(waits_ns((0, 1), 0, &[50], 1)[0] < 200 * US);
    assert!(waits_ns((0, 1), 0, &[50; 2], 1)[0] < 200 * US);
}

/// The first takes the lane over, the second is next. More would keep critical work waiting, and be in the order in which they came.
#[test]
fn of_tasks_that_wake_at_once_for_one_lane_two_need_no_vector() {
    let mut sim = simulation(&Regular::one_package(1, 1), Settings::default());
    let tasks = [(); 4].map(|()| sim.create(&normal("task")).unwrap());
    sim.set_timer(COMES_NS, 0);
    while let Some(occurrence) = sim.next(20 * MS).unwrap() {
        if let Occurrence::Timer(_) = occurrence {
            tasks
                .iter()
                .for_each(|task| sim.give(*task, MS as f64).unwrap());
        }
    }
    let records = sim.take_records();
    let in_vector = |id: &TaskId| {
        records
            .iter()
            .any(|record| matches!(record.step, Step::Queue { task, .. } if task == *id))
    };
    assert_eq!(tasks.each_ref().map(in_vector), [false, false, true, true]);
    let order: Vec<TaskId> = records
        .iter()
        .filter_map(|record| match record.step {
            Step::Run { task, .. } => Some(task),
            _ => None,
        })
        .collect();
    assert_eq!(order, tasks);
}

#[test]
fn critical_work_takes_the_lane_of_normal_work_where_the_smt_level_allows_no_other() {
    assert!(waits_ns((0, 2), 1, &[300], 1)[0] < 200 * US);
}

/// Normal work leaves the core at the end of its slice.
#[test]
fn critical_work_that_may_use_one_lane_has_it_where_normal_work_uses_up_the_smt_level() {
    assert!(waits_ns((1, 2), 1, &[300], 1)[0] < 200 * US);
}

/// They all find the same lane best.
#[test]
fn critical_tasks_that_come_at_once_have_a_lane_each() {
    let waits_ns = waits_ns((0, 4), 0, &[300; 4], 4);
    assert!(waits_ns.iter().all(|wait| *wait < 200 * US), "{waits_ns:?}");
}

/// The longest time that work of `class` waits to run, ns: on CPU 0 and, until the CPU begins to leave, CPU 1, over critical work
/// without a pause.
fn longest_wait_beside_a_lane_that_leaves_ns(class: Class) -> u64 {
    let mut sim = simulation(&Regular::one_package(2, 1), Settings::default());
    let create = |sim: &mut Simulation, class| sim.create(&TaskSpec::new("task", class)).unwrap();
    let hotplug = TaskSpec {
        cpus: Some(vec![1]),
        kernel_thread: true,
        ..TaskSpec::new("cpuhp/1", Class::Normal)
    };
    let mut often = vec![sim.create(&hotplug).unwrap()];
    often.extend((0..4).map(|_| create(&mut sim, class)));
    let mut longest_ns = 0;
    sim.set_timer(MS, 0);
    while let Some(occurrence) = sim.next(5_000 * MS).unwrap() {
        if !matches!(occurrence, Occurrence::Timer(_)) {
            continue;
        }
        match sim.now_ns() / MS {
            100 => (0..3).for_each(|_| {
                let critical = create(&mut sim, Class::Critical);
                sim.give(critical, f64::INFINITY).unwrap();
            }),
            110 => sim.begin_offline(1).unwrap(),
            _ => {}
        }
        for id in &often {
            longest_ns = longest_ns.max(sim.waiting_ns(*id));
            if sim.state(*id) == State::Sleeping {
                sim.give(*id, (MS / 3) as f64).unwrap();
            }
        }
        sim.set_timer(sim.now_ns() + MS, 0);
    }
    longest_ns
}

/// It is one that the kernel needs to let the CPU go, such as the thread that ends grace periods of RCU.
#[test]
fn what_waits_for_a_lane_that_leaves_is_taken_by_others() {
    let [normal_ns, batch_ns] =
        [Class::Normal, Class::Batch].map(longest_wait_beside_a_lane_that_leaves_ns);
    assert!(normal_ns < 200 * MS, "{normal_ns}");
    assert!(batch_ns < 1_200 * MS, "{batch_ns}");
}
