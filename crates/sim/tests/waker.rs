//! What becomes of a task whose waker says that it is about to sleep.

use sidelane_sim::*;
use sidelane_topology::{Builder, CoreSpec};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// Between two ticks, in the simulator.
const TICK_NS: u64 = 4 * MS;
/// When the waker wakes the other task: not at a tick.
const WOKEN_NS: u64 = 100 * MS + 300 * US;
/// When that has run for a moment, and slept, before.
const RAN_NS: u64 = 90 * MS;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Lane {
    Wakers,
    Siblings,
}

fn simulation(settings: Settings) -> Simulation {
    let builder = Builder::new().core(CoreSpec::new(0..2));
    let interference = Interference::ThreadPerf(vec![1.0, 0.6]);
    let machine = Machine::new(&builder.build().unwrap(), interference, Costs::none()).unwrap();
    let mut sim = Simulation::new(machine, &Kind::from(settings)).unwrap();
    sim.keep_records();
    sim
}

/// The lane of a task's first run from a moment on, and how long after that.
fn begins(records: &[Record], id: TaskId, from_ns: u64) -> Option<(u32, u64)> {
    records.iter().find_map(|record| match record.step {
        Step::Run { task, lane } if task == id && record.at_ns >= from_ns => {
            Some((lane, record.at_ns - from_ns))
        }
        _ => None,
    })
}

/// One core of two lanes. A waker, which runs for `burst_ns` each time, wakes a task of `class` and says
/// that it will sleep, but stays for `stays_ns`; the other lane is idle, or runs normal work. Where
/// the woken task begins to run, and how long after it was woken.
fn wake(class: Class, burst_ns: u64, stays_ns: u64, sibling_runs: bool) -> (Lane, u64) {
    wake_under(Settings::default(), class, burst_ns, stays_ns, sibling_runs)
}

/// The same with these settings.
fn wake_under(
    settings: Settings,
    class: Class,
    burst_ns: u64,
    stays_ns: u64,
    sibling_runs: bool,
) -> (Lane, u64) {
    let mut sim = simulation(settings);
    let mut create = |name: &str, class| sim.create(&TaskSpec::new(name, class)).unwrap();
    let woken = create("woken", class);
    let waker = create("waker", Class::Normal);
    let sibling = create("sibling", Class::Normal);
    if sibling_runs {
        sim.give(sibling, f64::INFINITY).unwrap();
    }
    for earlier in 0..8 {
        sim.set_timer(earlier * 10 * MS, 0);
    }
    sim.set_timer(RAN_NS, 1);
    sim.set_timer(WOKEN_NS, 0);
    let mut woken_ns = None;
    while let Some(occurrence) = sim.next(200 * MS).unwrap() {
        match occurrence {
            Occurrence::Timer(1) => sim.give(woken, (100 * US) as f64).unwrap(),
            Occurrence::Timer(_) => sim.give(waker, burst_ns as f64).unwrap(),
            Occurrence::Done(id)
                if id == waker && sim.now_ns() > WOKEN_NS && woken_ns.is_none() =>
            {
                woken_ns = Some(sim.now_ns());
                sim.give(woken, MS as f64).unwrap();
                if stays_ns > 0 {
                    sim.give(waker, stays_ns as f64).unwrap();
                }
            }
            Occurrence::Done(_) => (),
        }
    }
    let records = sim.take_records();
    let (wakers, _) = begins(&records, waker, WOKEN_NS).unwrap();
    let (lane, after_ns) = begins(&records, woken, woken_ns.unwrap()).unwrap();
    let which = if lane == wakers {
        Lane::Wakers
    } else {
        Lane::Siblings
    };
    (which, after_ns)
}

#[test]
fn a_brief_waker_is_believed_and_its_sibling_left_alone() {
    for sibling_runs in [false, true] {
        let critical = wake(Class::Critical, 200 * US, 0, sibling_runs);
        assert_eq!(critical, (Lane::Wakers, 0));
    }
}

#[test]
fn a_brief_waker_that_stays_costs_no_more_than_a_tick() {
    let cases = [(Class::Critical, 200 * US), (Class::Normal, 5 * US)];
    for ((class, burst_ns), sibling_runs) in cases
        .into_iter()
        .flat_map(|case| [(case, false), (case, true)])
    {
        let (lane, after_ns) = wake(class, burst_ns, 50 * MS, sibling_runs);
        assert!(
            (1..=TICK_NS).contains(&after_ns),
            "{class:?}: {lane:?} after {after_ns} ns"
        );
    }
}

#[test]
fn a_waker_that_runs_long_is_not_waited_for() {
    let critical = |sibling_runs| wake(Class::Critical, 5 * MS, 50 * MS, sibling_runs);
    assert_eq!(critical(false), (Lane::Siblings, 0));
    assert_eq!(critical(true), (Lane::Wakers, 0));
}

#[test]
fn normal_work_follows_a_waker_that_is_gone_sooner_than_another_lane_comes() {
    assert_eq!(wake(Class::Normal, 5 * US, 0, false), (Lane::Wakers, 0));
    assert_eq!(wake(Class::Normal, 5 * US, 0, true), (Lane::Wakers, 0));
    assert_eq!(wake(Class::Normal, 20 * US, 0, false), (Lane::Siblings, 0));
    let never = Settings {
        follow_waker_ns: 0,
        ..Settings::default()
    };
    let alone = wake_under(never, Class::Normal, 5 * US, 0, false);
    assert_eq!(alone, (Lane::Siblings, 0));
}

/// Two critical tasks that may use one lane only keep it busy; two normal tasks share the other one, in
/// which nobody of them may run. How often those take turns in a second.
fn turns_beside_bound_critical_work(critical: usize) -> usize {
    let mut sim = simulation(Settings::default());
    let mut create = |class, lane, count: usize| -> Vec<TaskId> {
        let mut spec = TaskSpec::new(format!("{class:?}"), class);
        spec.cpus = Some(vec![lane]);
        let ids: Vec<TaskId> = (0..count).map(|_| sim.create(&spec).unwrap()).collect();
        for id in &ids {
            sim.give(*id, f64::INFINITY).unwrap();
        }
        ids
    };
    create(Class::Critical, 1, critical);
    let normal = create(Class::Normal, 0, 2);
    while sim.next(1_000 * MS).unwrap().is_some() {}
    let runs =
        |record: &&Record| matches!(record.step, Step::Run { task, .. } if normal.contains(&task));
    sim.take_records().iter().filter(runs).count()
}

#[test]
fn critical_work_that_may_not_use_a_lane_takes_nothing_from_it() {
    let undisturbed = turns_beside_bound_critical_work(0);
    let disturbed = turns_beside_bound_critical_work(2);
    assert!(
        (1..=undisturbed + 1).contains(&disturbed),
        "{undisturbed} {disturbed}"
    );
}

/// On a machine of one lane a normal task wakes another one, and then, if it is to, a critical one. Where these wait
/// first, by the steps, and how long after the second wake-up the critical task begins to run.
fn wakes_two(critical_too: bool) -> (bool, Option<u64>) {
    let builder = Builder::new().core(CoreSpec::new(0..1));
    let interference = Interference::ThreadPerf(vec![1.0]);
    let machine = Machine::new(&builder.build().unwrap(), interference, Costs::none()).unwrap();
    let mut sim = Simulation::new(machine, &Kind::from(Settings::default())).unwrap();
    sim.keep_records();
    let mut create = |name: &str, class| sim.create(&TaskSpec::new(name, class)).unwrap();
    let critical = create("critical", Class::Critical);
    let waker = create("waker", Class::Normal);
    let next = create("next", Class::Normal);
    sim.set_timer(WOKEN_NS, 0);
    let mut woken_ns = 0;
    while let Some(occurrence) = sim.next(200 * MS).unwrap() {
        match occurrence {
            Occurrence::Timer(_) => sim.give(waker, 200.0 * US as f64).unwrap(),
            Occurrence::Done(id) if id == waker => {
                woken_ns = sim.now_ns();
                sim.give(next, 50.0 * MS as f64).unwrap();
                if critical_too {
                    sim.give(critical, MS as f64).unwrap();
                }
            }
            Occurrence::Done(_) => (),
        }
    }
    let records = sim.take_records();
    let straight = (records.iter())
        .any(|record| matches!(record.step, Step::QueueLocal { task, .. } if task == next));
    let after_ns = begins(&records, critical, woken_ns).map(|(_, after_ns)| after_ns);
    (straight, after_ns)
}

#[test]
fn what_is_next_in_any_case_waits_in_the_lanes_own_queue_and_behind_critical_work() {
    assert_eq!(wakes_two(false), (true, None));
    assert_eq!(wakes_two(true), (true, Some(0)));
}
