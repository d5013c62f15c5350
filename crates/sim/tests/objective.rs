//! Objectives: the budget follows the tail of the critical jobs.
#![allow(clippy::unwrap_used, missing_docs)]

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
/// Jobs a second, and what each takes of an unshared lane on average, ns.
const RATE: f64 = 1_000.0;
const DEMAND_NS: f64 = 0.5e6;
const WORKERS: usize = 64;

/// What a run gave: after `SETTLED_NS`, in parts of `PART_NS`.
struct Run {
    /// 99th percentile of the jobs that came in each part, ns.
    tails_ns: Vec<u64>,
    /// What batch got done in each part, in unshared lanes.
    batch: Vec<f64>,
    /// The budget at the end of each part, ns.
    budgets_ns: Vec<u64>,
}

const PART_NS: u64 = 10 * S;

/// Runs one core of two lanes, on which a server takes jobs at `rate(part)` and batch never ends.
fn run(budget: Budget, batch: bool, parts: usize, rate: impl Fn(usize) -> f64) -> Run {
    let topology = Topology::regular(&Regular::one_package(1, 2)).unwrap();
    let interference = Interference::ThreadPerf(vec![1.0, 0.7]);
    let machine = Machine::new(&topology, interference, Costs::default()).unwrap();
    let settings = Settings {
        budget,
        starvation_bound_ns: 10 * S,
        smt_level: Some(1),
        ..Settings::default()
    };
    let mut sim = Simulation::new(machine, &Kind::Sidelane(settings)).unwrap();
    let create = |sim: &mut Simulation, name: &str, class| {
        sim.create(&TaskSpec::new(name.to_owned(), class)).unwrap()
    };
    let workers: Vec<TaskId> = (0..WORKERS)
        .map(|_| create(&mut sim, "worker", Class::Critical))
        .collect();
    let mut idle: Vec<usize> = (0..WORKERS).collect();
    let batch: Vec<TaskId> = (0..if batch { 2 } else { 0 })
        .map(|_| create(&mut sim, "batch", Class::Batch))
        .collect();
    for id in &batch {
        sim.give(*id, f64::INFINITY).unwrap();
    }
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let mut exponential = |mean: f64| -mean * (1.0 - random.random::<f64>()).ln();
    let mut began_ns = vec![0; WORKERS];
    let mut result = Run {
        tails_ns: Vec::new(),
        batch: Vec::new(),
        budgets_ns: Vec::new(),
    };
    let mut batch_before_ns = 0.0;
    sim.set_timer(1, 0);
    for part in 0..parts {
        let mut latencies_ns = Vec::new();
        let until_ns = (part as u64 + 1) * PART_NS;
        while let Some(occurrence) = sim.next(until_ns).unwrap() {
            match occurrence {
                Occurrence::Timer(_) => {
                    let gap_ns = exponential(1e9 / rate(part)) as u64;
                    sim.set_timer(sim.now_ns() + gap_ns.max(1), 0);
                    let worker = idle.pop().unwrap();
                    began_ns[worker] = sim.now_ns();
                    sim.give(workers[worker], exponential(DEMAND_NS)).unwrap();
                }
                Occurrence::Done(id) => {
                    let worker = workers.iter().position(|worker| *worker == id).unwrap();
                    latencies_ns.push(sim.now_ns() - began_ns[worker]);
                    idle.push(worker);
                }
            }
        }
        latencies_ns.sort_unstable();
        result.tails_ns.push(latencies_ns[latencies_ns.len() * 99 / 100]);
        let batch_ns: f64 = batch.iter().map(|id| sim.task_totals(*id).work_ns).sum();
        result.batch.push((batch_ns - batch_before_ns) / PART_NS as f64);
        batch_before_ns = batch_ns;
        result.budgets_ns.push(sim.objective().map_or(0, |state| state.budget_ns));
    }
    result
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

fn alone_ns() -> f64 {
    let run = run(Budget::BorrowIdle, false, 3, |_| RATE);
    mean(run.tails_ns.iter().map(|ns| *ns as f64))
}

fn objective(objective_ns: f64) -> Budget {
    Budget::Objective {
        objective_ns: objective_ns as u64,
        beyond: 10,
    }
}

#[test]
fn the_tail_is_kept_and_batch_gets_the_slack() {
    let alone_ns = alone_ns();
    let mut last = 0.0;
    for factor in [1.2, 1.5, 2.0] {
        let run = run(objective(factor * alone_ns), true, 12, |_| RATE);
        let settled = 5..;
        let tail = mean(run.tails_ns[settled.clone()].iter().map(|ns| *ns as f64)) / alone_ns;
        let batch = mean(run.batch[settled.clone()].iter().copied());
        println!("{factor}: tail {tail:.2}, batch {batch:.3}, {:?}", run.budgets_ns);
        assert!(tail <= factor, "p99 {tail:.2} of alone, objective {factor}");
        assert!(tail > 0.7 * factor, "slack is used: {tail:.2} of {factor}");
        assert!(batch > last, "more slack, more batch: {batch:.3}, before {last:.3}");
        let budgets = &run.budgets_ns[settled];
        let (least, most) = (budgets.iter().min().unwrap(), budgets.iter().max().unwrap());
        assert!(4 * least >= *most, "it swings: {budgets:?}");
        last = batch;
    }
}

#[test]
fn twice_the_load_is_absorbed() {
    // at 500 a second the server is far from the objective, at 1000 not so
    let objective_ns = 1.5 * alone_ns();
    let step = |part| if part < 6 { RATE / 2.0 } else { RATE };
    let run = run(objective(objective_ns), true, 12, step);
    println!("{:?} {:?} {:?}", run.tails_ns, run.batch, run.budgets_ns);
    let late = |part: usize| run.tails_ns[part] as f64 > 1.1 * objective_ns;
    assert!(!(7..12).any(late), "the tail after the step: {:?} ns", run.tails_ns);
    assert!(run.budgets_ns[11] < run.budgets_ns[5], "{:?}", run.budgets_ns);
}
