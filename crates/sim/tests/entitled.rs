//! What each task gets. The starvation bound: what is bound to a lane on which critical work never pauses. Nice values:
//! normal work shares a lane by weight, however many tasks there are.

use super::go;
use proptest::prelude::*;
use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// Overdue work has one part in so many of a lane.
const PARTS: u64 = 3;
const PAUSE_NS: u64 = MS;
const LENGTH_NS: u64 = 3_000 * MS;

/// A machine of whose lanes critical work pauses on none, and what is bound to the first one.
#[derive(Debug, Clone)]
struct Case {
    cores: u32,
    lanes: u32,
    tick_ns: u64,
    overdue_slice_ns: u64,
    normal_bound_ns: u64,
    batch_bound_ns: u64,
    /// Work of a round, ns, and whether it is batch; between rounds a task pauses.
    tasks: Vec<(u64, bool)>,
}

impl Case {
    fn bound_ns(&self, batch: bool) -> u64 {
        match batch {
            true => self.batch_bound_ns,
            false => self.normal_bound_ns,
        }
    }

    /// The longest that a task runs at a stretch when it is due.
    fn run_ns(&self, task: usize) -> u64 {
        // an overdue slice ends at a tick; work is rounded up to whole ns
        (self.tasks[task].0 + 1).min(self.overdue_slice_ns + self.tick_ns)
    }

    /// The formula of docs/scheduler-batch.md, with all other tasks of the lane ahead.
    fn longest_wait_ns(&self, task: usize) -> u64 {
        let others = (0..self.tasks.len()).filter(|other| *other != task);
        let ahead_ns: u64 = others.map(|other| self.run_ns(other)).sum();
        let served_ns = self.overdue_slice_ns + self.tick_ns;
        self.bound_ns(self.tasks[task].1)
            + PARTS * (ahead_ns + served_ns)
            + (self.tasks.len() as u64 + 2) * self.tick_ns
    }

    fn simulation(&self) -> Simulation {
        let topology = Topology::regular(&Regular::one_package(self.cores, self.lanes)).unwrap();
        let interference = Interference::ThreadPerf(vec![1.0; self.lanes as usize]);
        let costs = Costs {
            tick_ns: self.tick_ns,
            ..Costs::none()
        };
        let machine = Machine::new(&topology, interference, costs).unwrap();
        let settings = Settings {
            normal_bound_ns: self.normal_bound_ns,
            starvation_bound_ns: self.batch_bound_ns,
            overdue_slice_ns: self.overdue_slice_ns,
            ..Settings::default()
        };
        let mut sim = Simulation::new(machine, &Kind::from(settings)).unwrap();
        sim.keep_records();
        sim
    }

    /// Longest wait of each bound task, and how long the first lane ran them all in sum, ns.
    fn run(&self) -> (Vec<u64>, u64) {
        let mut sim = self.simulation();
        let mut bound = Vec::new();
        for &(_, batch) in &self.tasks {
            let class = if batch { Class::Batch } else { Class::Normal };
            let spec = TaskSpec {
                cpus: Some(vec![0]),
                ..TaskSpec::new("bound", class)
            };
            bound.push(sim.create(&spec).unwrap());
        }
        for _ in 0..self.cores * self.lanes + 1 {
            let id = sim
                .create(&TaskSpec::new("critical", Class::Critical))
                .unwrap();
            sim.give(id, f64::INFINITY).unwrap();
        }
        for (index, &id) in bound.iter().enumerate() {
            sim.give(id, self.tasks[index].0 as f64).unwrap();
        }
        while let Some(occurrence) = sim.next(LENGTH_NS).unwrap() {
            match occurrence {
                Occurrence::Done(id) => sim.set_timer(sim.now_ns() + PAUSE_NS, id.0.into()),
                Occurrence::Timer(token) => {
                    let index = token as usize;
                    sim.give(bound[index], self.tasks[index].0 as f64).unwrap();
                }
            }
        }
        waits(&sim.take_records(), bound.len())
    }
}

/// Longest wait of each of the first so many tasks, the last one up to the end; and how long they ran.
fn waits(records: &[Record], tasks: usize) -> (Vec<u64>, u64) {
    let (mut longest_ns, mut ran_ns) = (vec![0; tasks], 0);
    let (mut waits_ns, mut runs_ns) = (vec![None; tasks], vec![None; tasks]);
    for record in records {
        let (task, queued, runs) = match record.step {
            Step::Queue { task, .. } => (task, true, false),
            Step::Run { task, .. } => (task, false, true),
            Step::Preempt { task, .. } | Step::Sleep { task, .. } => (task, false, false),
            _ => continue,
        };
        let index = task.0 as usize;
        if index >= tasks {
            continue;
        }
        if queued {
            waits_ns[index] = Some(record.at_ns);
        } else if runs {
            let from_ns: u64 = waits_ns[index].take().unwrap_or(record.at_ns);
            longest_ns[index] = longest_ns[index].max(record.at_ns - from_ns);
            runs_ns[index] = Some(record.at_ns);
        } else if let Some(from_ns) = runs_ns[index].take() {
            ran_ns += record.at_ns - from_ns;
        }
    }
    for (index, from_ns) in waits_ns.into_iter().enumerate() {
        let waited_ns = from_ns.map_or(0, |from_ns| LENGTH_NS - from_ns);
        longest_ns[index] = longest_ns[index].max(waited_ns);
    }
    (longest_ns, ran_ns)
}

fn cases() -> impl Strategy<Value = Case> {
    let tasks = prop::collection::vec((50 * US..40 * MS, prop::bool::weighted(0.3)), 1..24);
    let short = prop::collection::vec((US..MS, Just(false)), 1..40);
    let tasks = prop_oneof![tasks, short];
    let tick_ns = prop::sample::select(vec![MS, 4 * MS, 10 * MS]);
    let slice_ns = 100 * US..4 * MS;
    let bounds = (5 * MS..40 * MS, 10 * MS..300 * MS);
    (1..3_u32, 1..5_u32, tick_ns, slice_ns, bounds, tasks).prop_map(
        |(cores, lanes, tick_ns, overdue_slice_ns, bounds, tasks)| Case {
            cores,
            lanes,
            tick_ns,
            overdue_slice_ns,
            normal_bound_ns: bounds.0,
            batch_bound_ns: bounds.1,
            tasks,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn what_is_bound_to_a_lane_waits_no_longer_than_is_documented(case in cases()) {
        let (waits_ns, ran_ns) = case.run();
        for (task, wait_ns) in waits_ns.into_iter().enumerate() {
            let most_ns = case.longest_wait_ns(task);
            prop_assert!(wait_ns <= most_ns, "task {task} waited {wait_ns} ns, at most {most_ns}");
        }
        // and critical work has the rest of the lane
        let most_ns = LENGTH_NS / PARTS + 3 * (case.overdue_slice_ns + case.tick_ns);
        prop_assert!(ran_ns <= most_ns, "they ran for {ran_ns} ns, at most {most_ns}");
    }
}

/// What a nice value weighs, as in the kernel's table (`sched_prio_to_weight`, kernel/sched/core.c).
fn weight(nice: i32) -> f64 {
    match nice {
        -20 => 88761.0,
        -10 => 9548.0,
        -5 => 3121.0,
        0 => 1024.0,
        5 => 335.0,
        10 => 110.0,
        19 => 15.0,
        other => unreachable!("{other} is not in this table"),
    }
}

/// Cores of one lane each.
fn simulation(lanes: u32) -> Simulation {
    let topology = Topology::regular(&Regular::one_package(lanes, 1)).unwrap();
    let interference = Interference::ThreadPerf(vec![1.0]);
    let machine = Machine::new(&topology, interference, Costs::default()).unwrap();
    Simulation::new(machine, &Kind::from(Settings::default())).unwrap()
}

/// A task of that lane that has work without an end.
fn create(sim: &mut Simulation, (lane, nice): (u32, i32)) -> TaskId {
    let spec = TaskSpec {
        nice,
        cpus: Some(vec![lane]),
        ..TaskSpec::new("task", Class::Normal)
    };
    let id = sim.create(&spec).unwrap();
    sim.give(id, f64::INFINITY).unwrap();
    id
}

/// The share of its lane that each task had, of tasks with these nice values, on `lanes` lanes, each of which has these.
fn shares(lanes: u32, nices: &[i32]) -> Vec<Vec<f64>> {
    let mut sim = simulation(lanes);
    let on = |lane| nices.iter().map(move |nice| (lane, *nice));
    let ids: Vec<TaskId> = (0..lanes)
        .flat_map(on)
        .map(|one| create(&mut sim, one))
        .collect();
    go(&mut sim, 60_000);
    let ran = ids.iter().map(|id| sim.task_totals(*id).lane_ns as f64);
    let ran: Vec<f64> = ran.collect();
    let of_lane = |ran: &[f64]| ran.iter().map(|ns| ns / ran.iter().sum::<f64>()).collect();
    ran.chunks(nices.len()).map(of_lane).collect()
}

fn check(lanes: u32, nices: &[i32]) {
    let all: f64 = nices.iter().map(|nice| weight(*nice)).sum();
    for found in shares(lanes, nices) {
        for (share, nice) in found.iter().zip(nices) {
            let wanted = weight(*nice) / all;
            assert!(
                (share - wanted).abs() < 0.03 * wanted + 0.001,
                "{lanes} lanes, nice {nices:?}: {nice} had {share:.4} of its lane, not {wanted:.4}"
            );
        }
    }
}

#[test]
fn tasks_of_a_lane_share_it_by_weight() {
    let nices = [-20, -10, -5, 0, 5, 10, 19];
    for (at, one) in nices.iter().enumerate() {
        for other in &nices[at..] {
            check(1, &[*one, *other]);
        }
    }
    check(1, &nices);
    check(1, &[0, 0, 0, 10, 10]);
}

#[test]
fn on_each_of_several_lanes() {
    check(4, &[-10, 0]);
    check(4, &[0, 0, 5]);
    check(16, &[0, 10, 19]);
}

/// The longest that a task waits for its lane, ms, after `alone_ms` in which the others had it: these come one after the other.
fn longest_wait_ms(alone_ms: u64, others: &[(u32, i32)], late: &[(u32, i32)]) -> f64 {
    const MS: u64 = 1_000_000;
    let mut sim = simulation(2);
    let mut ids: Vec<TaskId> = (others.iter()).map(|one| create(&mut sim, *one)).collect();
    go(&mut sim, alone_ms);
    ids.extend(late.iter().map(|one| create(&mut sim, *one)));
    let (mut since, mut longest) = (vec![sim.now_ns(); ids.len()], 0);
    while sim.now_ns() < (alone_ms + 20_000) * MS {
        let now_ns = sim.now_ns();
        for (id, since_ns) in ids.iter().zip(&mut since) {
            if matches!(sim.state(*id), State::Running(_)) {
                *since_ns = now_ns;
            }
            longest = longest.max(now_ns - *since_ns);
        }
        sim.next(now_ns + MS).unwrap();
    }
    longest as f64 / MS as f64
}

#[test]
fn nobody_waits_for_all_that_others_had_before() {
    // who comes after one that had its lane for long; virtual time that runs ahead on another lane; a light task that comes
    // after a heavy one: two slices by weight, and a tick each
    for (alone_ms, others, late, limit_ms) in [
        (10_000, vec![(0, 0)], vec![(0, 0)], 40.0),
        (10_000, vec![(0, 0)], vec![(0, 0); 3], 100.0),
        (10_000, vec![(0, 19), (0, 19), (1, 0), (1, 0)], vec![], 40.0),
        (10_000, vec![(0, -5), (1, 0), (1, 0)], vec![(0, 0)], 90.0),
    ] {
        let waited_ms = longest_wait_ms(alone_ms, &others, &late);
        assert!(waited_ms < limit_ms, "{others:?} {late:?}: {waited_ms} ms");
    }
}
