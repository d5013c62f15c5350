//! The budget policies on hand-made schedules: one core, nothing costs anything. And the dynamic budget by
//! counters: what critical work loses beside batch is found, whatever the scheduler was told of shared lanes.

use super::{estimate, summarized};
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
    batch_runs_beside(
        &spec("server", Class::Critical),
        &SPEEDS,
        budget,
        batch,
        jobs,
    )
}

fn spec(name: &str, class: Class) -> TaskSpec {
    TaskSpec::new(name.to_owned(), class)
}

/// The same with this kind of server, and lanes as fast as this.
fn batch_runs_beside(
    server: &TaskSpec,
    speeds: &[f64],
    budget: Budget,
    batch: usize,
    jobs: &[Job],
) -> Vec<Range<f64>> {
    let topology = Topology::regular(&Regular::one_package(1, 3)).unwrap();
    let interference = Interference::ThreadPerf(speeds.to_vec());
    let machine = Machine::new(&topology, interference, Costs::none()).unwrap();
    let settings = Settings {
        budget,
        thread_perf: match budget.borrow {
            Borrow::Dynamic => speeds.to_vec(),
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

/// A budget is for what batch takes, not for what SMT costs without it.
#[test]
fn what_smt_costs_a_lane_alone_is_not_charged() {
    let server = spec("server", Class::Critical);
    let dynamic = Budget::limited(Borrow::Dynamic, 4 * MS);
    let with =
        |batch| batch_runs_beside(&server, &[0.5, 0.375, 0.25], dynamic, batch, &[(100, 25.0)]);
    // One batch task: a quarter lost, 4 ms last 16. The job: 6 by 116, 19 alone at 0.5.
    close(&with(1), &[0.0..116.0, 154.0..400.0]);
    // Two: a half, 8 ms. The job: 2 by 108, 23 alone.
    close(&with(2), &[0.0..108.0, 154.0..400.0]);
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
        &SPEEDS,
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

const S: u64 = 1_000 * MS;
/// A job comes that often, and is so much work of an unshared lane.
const PERIOD_NS: u64 = 20 * MS;
const JOB_NS: f64 = 5e6;

/// What a run gave.
struct Run {
    counted: Option<Counted>,
    /// Work of batch, in unshared lanes.
    batch: f64,
    /// Mean response time of the jobs, ms.
    response_ms: f64,
}

/// A server with a job each period beside batch on the other lanes of one core. Kind 0 is the
/// server, kind 1 batch.
fn run(interference: Interference, settings: Settings, lanes: u32, batch: usize) -> Run {
    let topology = Topology::regular(&Regular::one_package(1, lanes)).unwrap();
    let machine = Machine::new(&topology, interference, Costs::default()).unwrap();
    let mut sim = Simulation::new(machine, &Kind::from(settings)).unwrap();
    let server = sim.create(&TaskSpec::new("server", Class::Critical));
    let server = server.unwrap();
    let spec = TaskSpec {
        kind: 1,
        ..TaskSpec::new("batch", Class::Batch)
    };
    let batch: Vec<TaskId> = (0..batch).map(|_| sim.create(&spec).unwrap()).collect();
    for id in &batch {
        sim.give(*id, f64::INFINITY).unwrap();
    }
    // by the second half it is known
    let (mut came_ns, mut response_ns, mut jobs) = (0, 0, 0);
    sim.set_timer(PERIOD_NS, 0);
    while let Some(occurrence) = sim.next(4 * S).unwrap() {
        match occurrence {
            Occurrence::Timer(_) => {
                came_ns = sim.now_ns();
                sim.give(server, JOB_NS).unwrap();
                sim.set_timer(came_ns + PERIOD_NS, 0);
            }
            Occurrence::Done(id) if id == server && came_ns > 2 * S => {
                response_ns += sim.now_ns() - came_ns;
                jobs += 1;
            }
            _ => {}
        }
    }
    sim.account();
    let work_ns: f64 = (batch.iter()).map(|id| sim.task_totals(*id).work_ns).sum();
    Run {
        counted: sim.counted(),
        batch: work_ns / (4 * S) as f64,
        response_ms: response_ns as f64 / f64::from(jobs) / MS as f64,
    }
}

/// What the scheduler was told, and a budget of 1 ms of lost time.
fn dynamic(told: &[f64], counters: bool) -> Settings {
    Settings {
        budget: Budget::limited(Borrow::Dynamic, MS),
        thread_perf: told.to_vec(),
        starvation_bound_ns: 10 * S,
        counters: match counters {
            true => UseCounters::Auto,
            false => UseCounters::Off,
        },
        ..Settings::default()
    }
}

/// A server that keeps `speed` of itself beside batch.
fn keeps(speed: f64) -> Interference {
    Interference::Kinds(vec![vec![1.0, speed], vec![0.5, 0.5]])
}

fn assert_near(found: f64, expected: f64, what: &str) {
    assert!(
        (found - expected).abs() < 0.03,
        "{what}: {found} instead of {expected}"
    );
}

#[test]
fn the_true_loss_is_found_whatever_was_told() {
    for (speed, told) in [(0.9, 0.5), (0.6, 0.9), (0.75, 0.75)] {
        let run = run(keeps(speed), dynamic(&[1.0, told], true), 2, 1);
        let counted = run.counted.unwrap();
        assert_near(counted.ipc_alone, 1.0, "alone");
        assert_near(counted.ipc_beside, speed, "beside");
        assert_near(counted.loss.unwrap(), 1.0 - speed, "lost");
    }
}

#[test]
fn the_charge_is_what_is_lost() {
    // 1 ms may be lost: at 0.9 a job of 5 ms never loses it, at 0.6 it does after 2.5 ms.
    let told = |told, counters| dynamic(&[1.0, told], counters);
    let mild = run(keeps(0.9), told(0.5, true), 2, 1);
    let wrong = run(keeps(0.9), told(0.5, false), 2, 1);
    assert!(wrong.counted.is_none());
    // told that half is lost, it closes the core after 2 ms of each job
    assert!(
        mild.batch > wrong.batch * 1.05,
        "{} and {}",
        mild.batch,
        wrong.batch
    );
    assert_near(mild.response_ms, 5.0 / 0.9, "as long as it may take");
    let harsh = run(keeps(0.6), told(0.9, true), 2, 1);
    let wrong = run(keeps(0.6), told(0.9, false), 2, 1);
    assert!(
        wrong.response_ms > 7.5,
        "told too little, it loses {} ms",
        wrong.response_ms - 5.0
    );
    assert!(
        (5.9..6.1).contains(&harsh.response_ms),
        "it loses its budget: {} ms",
        harsh.response_ms - 5.0
    );
}

#[test]
fn a_share_of_busy_periods_shows_how_it_is_alone() {
    // No job ever uses its budget up, so only those that begin closed are alone.
    let settings = Settings {
        budget: Budget::limited(Borrow::Dynamic, 100 * MS),
        ..dynamic(&[1.0, 0.5], true)
    };
    let run = run(keeps(0.8), settings, 2, 1);
    let counted = run.counted.unwrap();
    assert_near(counted.loss.unwrap_or(f64::NAN), 0.2, "lost");
}

#[test]
fn without_batch_nothing_is_known() {
    let run = run(keeps(0.8), dynamic(&[1.0, 0.5], true), 2, 0);
    let counted = run.counted.unwrap();
    assert_eq!(counted.loss, None);
    assert_near(counted.ipc_alone, 1.0, "alone");
    assert!(counted.ipc_beside.is_nan());
}

#[test]
fn any_number_of_lanes() {
    // Three siblings: it keeps 0.9 beside each of them.
    let run = run(keeps(0.9), dynamic(&[1.0], true), 4, 3);
    let counted = run.counted.unwrap();
    assert_near(counted.loss.unwrap(), 1.0 - 0.9 * 0.9 * 0.9, "lost");
}

/// Seven cores that do less than comes in while batch runs beside requests on all of them: what waits has its share of the budget
/// (elfen-budgets-seven-cores at its greatest load).
#[test]
fn what_waits_uses_up_the_budget_of_all_cores() {
    let text = "[machine]\ncores = 7\nlanes = 2\nthread_perf = [1, 0.6]\n[run]\nreplications = 2\nseconds = 20\nwarmup_seconds = 10\n\
                [[workload]]\nname = \"server\"\nclass = \"critical\"\nopen = { load = 0.84 }\nworkers = 64\ndemand_ms = { exponential = 5.43 }\n\
                [[workload]]\nname = \"batch\"\nclass = \"batch\"\nbatch = { tasks = 7 }\n\
                [[configuration]]\nscheduler = \"sidelane\"\n[configuration.settings]\nsmt_level = 1\nslice_ms = 1000\n\
                borrow = \"dynamic\"\nbudget_ms = 69.3\n";
    let summary = summarized(text);
    let of = |workload: usize, name: &str| {
        estimate(&summary.configurations[0].workloads[workload].metrics, name).mean
    };
    let (p99_ms, batch) = (of(0, "p99_ms"), of(1, "work_rate"));
    assert!(p99_ms < 60.0, "{p99_ms}");
    assert!(batch > 1.5, "{batch}"); // 1.24 without a budget
}
