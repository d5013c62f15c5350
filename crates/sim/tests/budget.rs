//! The budget policies on hand-made schedules: one core, nothing costs anything.
#![allow(clippy::unwrap_used, missing_docs)]

use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};
use std::ops::Range;

const MS: u64 = 1_000_000;
const SPEEDS: [f64; 3] = [1.0, 0.8, 0.6];
/// Batch is put on lanes from 0 on, long before.
const BATCH_FROM: u64 = 0;

/// A critical job: when it comes, ms, and how much it is, ms of an unshared lane.
type Job = (u64, f64);

/// When the first of `batch` batch tasks ran, ms, on a core of three lanes with these critical jobs,
/// each of a task of its own.
fn batch_runs(budget: Budget, batch: usize, jobs: &[Job]) -> Vec<Range<f64>> {
    batch_runs_beside(&spec("server", Class::Critical), budget, batch, jobs)
}

fn spec(name: &str, class: Class) -> TaskSpec {
    TaskSpec::new(name.to_owned(), class)
}

/// The same with this kind of server.
fn batch_runs_beside(
    server: &TaskSpec,
    budget: Budget,
    batch: usize,
    jobs: &[Job],
) -> Vec<Range<f64>> {
    let topology = Topology::regular(&Regular::one_package(1, 3)).unwrap();
    let interference = Interference::ThreadPerf(SPEEDS.to_vec());
    let machine = Machine::new(&topology, interference, Costs::none()).unwrap();
    let settings = Settings {
        budget,
        thread_perf: match budget.borrow {
            Borrow::Dynamic => SPEEDS.to_vec(),
            _ => Vec::new(),
        },
        counters: UseCounters::Off,
        starvation_bound_ns: 10_000 * MS,
        ..Settings::default()
    };
    let mut sim = Simulation::new(machine, &Kind::from(settings)).unwrap();
    sim.keep_records();
    let batch: Vec<TaskId> = (0..batch)
        .map(|_| sim.create(&spec("batch", Class::Batch)).unwrap())
        .collect();
    let servers: Vec<TaskId> = jobs.iter().map(|_| sim.create(server).unwrap()).collect();
    for id in &batch {
        sim.give(*id, f64::INFINITY).unwrap();
    }
    for (index, (at_ms, _)) in jobs.iter().enumerate() {
        sim.set_timer(at_ms * MS, index as u64);
    }
    while let Some(occurrence) = sim.next(400 * MS).unwrap() {
        if let Occurrence::Timer(index) = occurrence {
            let index = index as usize;
            sim.give(servers[index], jobs[index].1 * MS as f64).unwrap();
        }
    }
    runs(&sim.take_records(), batch[0])
}

/// When a task ran, ms; gaps of no time are none.
fn runs(records: &[Record], id: TaskId) -> Vec<Range<f64>> {
    let mut runs: Vec<Range<f64>> = Vec::new();
    let mut began = None;
    for record in records {
        let at_ms = record.at_ns as f64 / MS as f64;
        match record.step {
            Step::Run { task, .. } if task == id => began = Some(at_ms),
            Step::Preempt { task, .. } if task == id => {
                let from = began.take().unwrap();
                match runs.last_mut() {
                    Some(last) if last.end == from => last.end = at_ms,
                    _ => runs.push(from..at_ms),
                }
            }
            _ => {}
        }
    }
    runs.extend(began.map(|from| from..400.0));
    runs
}

fn close(actual: &[Range<f64>], expected: &[Range<f64>]) {
    let near = |a: f64, b: f64| (a - b).abs() < 0.1;
    let all = actual.iter().zip(expected);
    let same = actual.len() == expected.len()
        && all
            .clone()
            .all(|(a, e)| near(a.start, e.start) && near(a.end, e.end));
    assert!(
        same,
        "batch ran at {actual:?} ms instead of {expected:?} ms"
    );
}

const BATCH_ALWAYS: Range<f64> = BATCH_FROM as f64..400.0;

#[test]
fn without_a_budget_batch_leaves_at_once() {
    // 50 ms alone
    let runs = batch_runs(Budget::default(), 1, &[(100, 50.0)]);
    close(&runs, &[0.0..100.0, 150.0..400.0]);
}

#[test]
fn without_a_limit_batch_stays() {
    let off = Budget {
        borrow: Borrow::Off,
        ..Budget::default()
    };
    let runs = batch_runs(off, 1, &[(100, 50.0), (120, 20.0)]);
    close(&runs, &[BATCH_ALWAYS]);
}

#[test]
fn a_fixed_budget_counts_from_the_first_overlap_once_a_busy_period() {
    // 10 ms at 0.8, then 42 ms alone; the next period has all of it again.
    let runs = batch_runs(
        Budget::limited(Borrow::Fixed, 10 * MS),
        1,
        &[(100, 50.0), (200, 8.0)],
    );
    close(&runs, &[0.0..110.0, 152.0..400.0]);
    // The second job finds the budget used up, and it counts while the first goes on.
    // First: 8 by 110, 8 more by 118, then both at 0.8: second done at 128, first has 50 - 24.
    let runs = batch_runs(
        Budget::limited(Borrow::Fixed, 10 * MS),
        1,
        &[(100, 50.0), (118, 8.0)],
    );
    close(&runs, &[0.0..110.0, 154.0..400.0]);
}

#[test]
fn a_refreshed_budget_begins_anew_with_a_job_that_need_not_wait() {
    // The second job comes 6 ms into the budget: 10 ms more, with three lanes at 0.6.
    // First: 4.8 by 106, 10.8 by 116. Second: 6 by 116, then both at 0.8: second done at 121,
    // first has 14.8, and 35.2 alone: 156.2.
    let jobs = [(100, 50.0), (106, 10.0)];
    let runs = batch_runs(Budget::limited(Borrow::Refresh, 10 * MS), 1, &jobs);
    close(&runs, &[0.0..116.0, 156.2..400.0]);
    // A fixed one goes on: 4.8 by 106, 7.2 by 110, both at 0.8 until the second is done.
    // Second: 2.4 by 110, 7.6 at 0.8: 119.5. First: 14.8, and 35.2 alone: 154.7.
    let runs = batch_runs(Budget::limited(Borrow::Fixed, 10 * MS), 1, &jobs);
    close(&runs, &[0.0..110.0, 154.7..400.0]);
}

#[test]
fn a_budget_that_is_used_up_is_not_refreshed() {
    let runs = batch_runs(
        Budget::limited(Borrow::Refresh, 10 * MS),
        1,
        &[(100, 50.0), (111, 8.0)],
    );
    // 8 by 110, 9 by 111, both at 0.8 for 10 ms: 17, then 33 alone.
    close(&runs, &[0.0..110.0, 154.0..400.0]);
}

#[test]
fn a_dynamic_budget_is_charged_by_what_is_lost() {
    let dynamic = |budget_ns| Budget::limited(Borrow::Dynamic, budget_ns);
    // One batch task: 0.2 lost, 4 ms last 20. The job: 16 by 120, 34 alone.
    let runs = batch_runs(dynamic(4 * MS), 1, &[(100, 50.0)]);
    close(&runs, &[0.0..120.0, 154.0..400.0]);
    // Two: 0.4 lost, 10 ms. The job: 6 by 110, 44 alone.
    let runs = batch_runs(dynamic(4 * MS), 2, &[(100, 50.0)]);
    close(&runs, &[0.0..110.0, 154.0..400.0]);
    // What is not lost is not charged: the job is done before.
    let runs = batch_runs(dynamic(11 * MS), 1, &[(100, 40.0), (150, 40.0)]);
    close(&runs, &[BATCH_ALWAYS]);
}

#[test]
fn where_no_timer_could_be_set_a_tick_closes_the_core() {
    let pinned = TaskSpec {
        cpus: Some(vec![1]),
        ..spec("server", Class::Critical)
    };
    // As with a timer: 8 by 110, then 42 alone; at most a tick later, which loses a fifth of it.
    let runs = batch_runs_beside(
        &pinned,
        Budget::limited(Borrow::Fixed, 10 * MS),
        1,
        &[(100, 50.0)],
    );
    let tick_ms = Costs::none().tick_ns as f64 / MS as f64;
    assert_eq!(runs.len(), 2, "{runs:?}");
    assert!((110.0..=110.0 + tick_ms).contains(&runs[0].end), "{runs:?}");
    assert!(
        (152.0..=152.0 + 0.2 * tick_ms + 0.1).contains(&runs[1].start),
        "{runs:?}"
    );
}
