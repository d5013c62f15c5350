//! Retention: lanes that are held for tasks that are soon back, and for how long.

use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

const MS: u64 = 1_000_000;

/// A task that computes for 0.2 ms and then waits for a device for so long, beside one without an end.
struct Pair {
    sim: Simulation,
    io: TaskId,
    cpu: TaskId,
    requests: u64,
}

impl Pair {
    fn new(lanes: u32, retention: Option<Retention>, other: Class) -> Pair {
        let topology = Topology::regular(&Regular::one_package(1, lanes)).unwrap();
        let interference = Interference::ThreadPerf(vec![1.0; lanes as usize]);
        let costs = Costs {
            tick_ns: MS,
            ..Costs::none()
        };
        let machine = Machine::new(&topology, interference, costs).unwrap();
        let settings = Settings {
            retain: retention.is_some(),
            retention: retention.unwrap_or_default(),
            ..Settings::default()
        };
        let mut sim = Simulation::new(machine, &Kind::from(settings)).unwrap();
        sim.keep_records();
        let io = sim.create(&TaskSpec::new("io", Class::Normal)).unwrap();
        let cpu = sim.create(&TaskSpec::new("cpu", other)).unwrap();
        sim.give(cpu, f64::INFINITY).unwrap();
        sim.set_timer(1, 0);
        Pair {
            sim,
            io,
            cpu,
            requests: 0,
        }
    }

    /// Goes on until then; `wait_ns(n)`: how long the n-th wait is.
    fn until(&mut self, until_ns: u64, wait_ns: impl Fn(u64) -> u64) {
        while let Some(occurrence) = self.sim.next(until_ns).unwrap() {
            match occurrence {
                Occurrence::Done(_) => {
                    self.requests += 1;
                    let wakes_ns = self.sim.now_ns() + wait_ns(self.requests);
                    self.sim.set_timer(wakes_ns, 0);
                }
                Occurrence::Timer(_) => self.sim.give(self.io, 0.2 * MS as f64).unwrap(),
            }
        }
    }

    /// Times at which a task began to run.
    fn began_ns(&mut self, wanted: TaskId) -> Vec<u64> {
        let records = self.sim.take_records();
        let runs = records.iter().filter_map(|record| match record.step {
            Step::Run { task, .. } if task == wanted => Some(record.at_ns),
            _ => None,
        });
        runs.collect()
    }
}

/// Fixed: what is looked at is not the search.
fn fixed() -> Option<Retention> {
    Some(Retention {
        period_ns: 0,
        ..Retention::default()
    })
}

#[test]
fn a_lane_is_held_and_switches_are_saved() {
    let run = |retention| {
        let mut pair = Pair::new(1, retention, Class::Batch);
        pair.until(500 * MS, |_| MS);
        let cpu = pair.cpu;
        (pair.began_ns(cpu).len(), pair.requests, pair.sim.counters())
    };
    let (switched, requests, counters) = run(None);
    let (held, requests_held, counters_held) = run(fixed());
    println!(
        "{switched} switches, {requests} requests; held: {held}, {requests_held}, {counters_held:?}"
    );
    assert_eq!(counters.retentions + counters.held_ns, 0);
    // once it is known that it comes back, but for those that wait too long
    assert!(counters_held.retentions > 300, "{counters_held:?}");
    assert!(
        switched > 300 && held < switched / 4,
        "{switched}, then {held}"
    );
    assert!(
        requests_held >= requests,
        "{requests}, then {requests_held}"
    );
    // all of it was at the cost of the one that waited
    assert!(
        counters_held.held_waited_ns >= counters_held.held_ns * 9 / 10,
        "{counters_held:?}"
    );
    assert!(held > 0, "and it is not starved");
}

#[test]
fn a_lane_is_released_after_the_timeout() {
    let mut pair = Pair::new(1, fixed(), Class::Batch);
    // sixty short waits, then one for good
    pair.until(400 * MS, |n| if n < 60 { MS } else { 1000 * MS });
    let counters = pair.sim.counters();
    assert_eq!(counters.retentions_failed, 1, "{counters:?}");
    let (io, cpu) = (pair.io, pair.cpu);
    let records = pair.sim.take_records();
    let of = |wanted| {
        let begin =
            |record: &&Record| matches!(record.step, Step::Run { task, .. } if task == wanted);
        records
            .iter()
            .filter(begin)
            .map(|record| record.at_ns)
            .max()
            .unwrap()
    };
    // it ran for 0.2 ms at last, and then the lane was held for 3 ms
    let waited_ns = of(cpu) - of(io);
    assert!(
        (3_200_000..3_250_000).contains(&waited_ns),
        "{waited_ns} ns"
    );
}

#[test]
fn who_is_seldom_soon_back_is_not_waited_for() {
    let mut pair = Pair::new(1, fixed(), Class::Normal);
    pair.until(500 * MS, |_| 8 * MS);
    let counters = pair.sim.counters();
    assert_eq!(
        (counters.retentions, counters.retentions_failed),
        (0, 0),
        "{counters:?}"
    );
}

#[test]
fn a_held_lane_is_part_of_the_slice_while_normal_work_waits() {
    let mut pair = Pair::new(1, fixed(), Class::Normal);
    pair.until(1000 * MS, |_| MS);
    let totals = pair.sim.counters();
    let cpu = pair.cpu;
    let turns = pair.began_ns(cpu).len();
    println!("{turns} turns, {totals:?}");
    // a slice of 10 ms each, in turns
    assert!((40..200).contains(&turns), "{turns} turns of the other");
    assert!(totals.retentions > 100, "{totals:?}");
    assert!(totals.held_ns < 600 * MS, "{totals:?}");
}

#[test]
fn the_sibling_lane_is_left_to_others() {
    // on two lanes nobody has to wait, and nothing is taken from anybody
    let mut pair = Pair::new(2, fixed(), Class::Normal);
    pair.until(500 * MS, |_| MS);
    let counters = pair.sim.counters();
    assert!(counters.retentions > 300, "{counters:?}");
    assert_eq!(counters.held_waited_ns, 0, "{counters:?}");
    let cpu = pair.cpu;
    assert!(pair.began_ns(cpu).len() < 5);
}

#[test]
fn without_tasks_that_wait_nothing_changes() {
    let run = |retention| {
        let mut pair = Pair::new(2, retention, Class::Normal);
        let other = pair
            .sim
            .create(&TaskSpec::new("second", Class::Normal))
            .unwrap();
        pair.sim.give(other, f64::INFINITY).unwrap();
        pair.until(500 * MS, |_| 10_000 * MS);
        let cpu = pair.cpu;
        pair.began_ns(cpu)
    };
    assert_eq!(run(None), run(Some(Retention::default())));
}

/// How often in 200 ms two tasks that may use one lane only wake each other, each for 0.05 ms, beside so many others
/// without an end there.
fn turns_on_one_lane(retain: bool, others: usize) -> u64 {
    let topology = Topology::regular(&Regular::one_package(1, 2)).unwrap();
    let interference = Interference::ThreadPerf(vec![1.0, 1.0]);
    let machine = Machine::new(&topology, interference, Costs::none()).unwrap();
    let settings = Settings {
        retain,
        ..Settings::default()
    };
    let mut sim = Simulation::new(machine, &Kind::from(settings)).unwrap();
    let mut spec = TaskSpec::new("turns", Class::Normal);
    spec.cpus = Some(vec![0]);
    let ids = [0, 1].map(|_| sim.create(&spec).unwrap());
    for _ in 0..others {
        let id = sim.create(&spec).unwrap();
        sim.give(id, f64::INFINITY).unwrap();
    }
    let work = 0.05 * MS as f64;
    sim.give(ids[0], work).unwrap();
    let mut turns = 0;
    while let Some(occurrence) = sim.next(200 * MS).unwrap() {
        if let Occurrence::Done(id) = occurrence {
            turns += 1;
            sim.give(ids[usize::from(id == ids[0])], work).unwrap();
        }
    }
    turns
}

#[test]
fn no_lane_is_held_against_what_its_task_has_woken() {
    for others in [0, 1] {
        let (held, not_held) = (
            turns_on_one_lane(true, others),
            turns_on_one_lane(false, others),
        );
        assert!(
            held * 10 >= not_held * 9,
            "beside {others}: {held} turns with retention, {not_held} without"
        );
    }
}
