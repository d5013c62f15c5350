//! Objectives: the budget follows the tail of the critical jobs.

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

/// What a run gave, in parts of `PART_NS`.
#[derive(Default)]
struct Run {
    /// 99th percentile of the jobs that came in each part, ns.
    tails_ns: Vec<u64>,
    /// What batch got done in each part, in unshared lanes.
    batch: Vec<f64>,
    /// The budget at the end of each part, ns.
    budgets_ns: Vec<u64>,
}

const PART_NS: u64 = 10 * S;

/// A server with a worker for each job at work, and two batch tasks without an end.
struct Machinery {
    sim: Simulation,
    workers: Vec<TaskId>,
    idle: Vec<usize>,
    /// When each worker's job came.
    came_ns: Vec<u64>,
    batch: Vec<TaskId>,
    random: Pcg64Mcg,
    /// Of jobs that are all alike and come evenly, what each takes, ns.
    alike_ns: Option<f64>,
}

impl Machinery {
    /// One core of two lanes.
    fn new(budget: Budget, batch: bool) -> Machinery {
        let topology = Topology::regular(&Regular::one_package(1, 2)).unwrap();
        let interference = Interference::ThreadPerf(vec![1.0, 0.7]);
        let machine = Machine::new(&topology, interference, Costs::default()).unwrap();
        let settings = Settings {
            budget,
            starvation_bound_ns: 10 * S,
            smt_level: 1,
            ..Settings::default()
        };
        let mut sim = Simulation::new(machine, &Kind::from(settings)).unwrap();
        let mut tasks = |count: usize, class: Class| -> Vec<TaskId> {
            let spec = TaskSpec::new(class.name().to_owned(), class);
            (0..count).map(|_| sim.create(&spec).unwrap()).collect()
        };
        let workers = tasks(WORKERS, Class::Critical);
        let batch = tasks(if batch { 2 } else { 0 }, Class::Batch);
        for id in &batch {
            sim.give(*id, f64::INFINITY).unwrap();
        }
        Machinery {
            sim,
            workers,
            idle: (0..WORKERS).collect(),
            came_ns: vec![0; WORKERS],
            batch,
            random: Pcg64Mcg::seed_from_u64(7),
            alike_ns: None,
        }
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.random.random::<f64>()).ln()
    }

    /// A job comes, and the next one is announced.
    fn job(&mut self, rate: f64) {
        let mut some = |mean_ns: f64| match self.alike_ns {
            Some(_) => mean_ns,
            None => self.exponential(mean_ns),
        };
        let gap_ns = some(1e9 / rate) as u64;
        self.sim.set_timer(self.sim.now_ns() + gap_ns.max(1), 0);
        let worker = self.idle.pop().unwrap();
        self.came_ns[worker] = self.sim.now_ns();
        let demand_ns = match self.alike_ns {
            Some(alike_ns) => alike_ns,
            None => self.exponential(DEMAND_NS),
        };
        self.sim.give(self.workers[worker], demand_ns).unwrap();
    }

    /// A worker's job is done; what it took, ns.
    fn done(&mut self, id: TaskId) -> u64 {
        let worker = self.workers.iter().position(|worker| *worker == id);
        let worker = worker.unwrap();
        self.idle.push(worker);
        self.sim.now_ns() - self.came_ns[worker]
    }

    /// Latencies of the jobs done by then, sorted, with so many jobs a second, ns.
    fn latencies_ns(&mut self, until_ns: u64, rate: f64) -> Vec<u64> {
        let mut latencies_ns = Vec::new();
        while let Some(occurrence) = self.sim.next(until_ns).unwrap() {
            match occurrence {
                Occurrence::Timer(_) => self.job(rate),
                Occurrence::Done(id) => latencies_ns.push(self.done(id)),
            }
        }
        latencies_ns.sort_unstable();
        latencies_ns
    }

    fn batch_work_ns(&mut self) -> f64 {
        let work_ns = |id: &TaskId| self.sim.task_totals(*id).work_ns;
        self.batch.iter().map(work_ns).sum()
    }
}

/// A run in which jobs come at `rate(part)`.
fn run(budget: Budget, batch: bool, parts: usize, rate: impl Fn(usize) -> f64) -> Run {
    let mut machinery = Machinery::new(budget, batch);
    machinery.sim.set_timer(1, 0);
    let mut run = Run::default();
    let mut before_ns = 0.0;
    for part in 0..parts {
        let until_ns = (part as u64 + 1) * PART_NS;
        let latencies_ns = machinery.latencies_ns(until_ns, rate(part));
        let tail_ns = latencies_ns[latencies_ns.len() * 99 / 100];
        run.tails_ns.push(tail_ns);
        let work_ns = machinery.batch_work_ns();
        run.batch.push((work_ns - before_ns) / PART_NS as f64);
        before_ns = work_ns;
        let state = machinery.sim.objective();
        run.budgets_ns
            .push(state.map_or(0, |state| state.budget_ns));
    }
    run
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

fn alone_ns() -> f64 {
    let run = run(Budget::default(), false, 3, |_| RATE);
    mean(run.tails_ns.iter().map(|ns| *ns as f64))
}

fn objective(objective_ns: f64) -> Budget {
    Budget::slo(Objective {
        latency_ns: objective_ns as u64,
        beyond: 10,
    })
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
        println!(
            "{factor}: tail {tail:.2}, batch {batch:.3}, {:?}",
            run.budgets_ns
        );
        assert!(tail <= factor, "p99 {tail:.2} of alone, objective {factor}");
        assert!(tail > 0.7 * factor, "slack is used: {tail:.2} of {factor}");
        assert!(
            batch > last,
            "more slack, more batch: {batch:.3}, before {last:.3}"
        );
        let budgets = &run.budgets_ns[settled];
        let (least, most) = (budgets.iter().min().unwrap(), budgets.iter().max().unwrap());
        // close to nothing a ratio says nothing
        let objective_ns = (factor * alone_ns) as u64;
        assert!(
            4 * least >= *most || most - least < objective_ns / 10,
            "it swings, objective {objective_ns}: {budgets:?}"
        );
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
    assert!(
        !(7..12).any(late),
        "the tail after the step: {:?} ns",
        run.tails_ns
    );
    assert!(
        run.budgets_ns[11] < run.budgets_ns[5],
        "{:?}",
        run.budgets_ns
    );
}

#[test]
fn jobs_that_are_few_and_all_late_take_the_budget_back() {
    let objective_ns = 20 * MS;
    let mut machinery = Machinery::new(objective(objective_ns as f64), true);
    machinery.sim.set_timer(1, 0);
    machinery.alike_ns = Some(10e6);
    machinery.latencies_ns(10 * PART_NS, 60.0);
    let budget_ns = |machinery: &Machinery| machinery.sim.objective().unwrap().budget_ns;
    let grown_ns = budget_ns(&machinery);
    assert!(grown_ns > 6 * MS, "{grown_ns}");
    // with this budget they take more than 20 ms
    machinery.alike_ns = Some(18.5e6);
    machinery.latencies_ns(16 * PART_NS, 20.0);
    let latencies_ns = machinery.latencies_ns(19 * PART_NS, 20.0);
    let tail_ns = latencies_ns[latencies_ns.len() * 99 / 100];
    println!("{grown_ns}, then {}: {tail_ns}", budget_ns(&machinery));
    assert!(tail_ns <= objective_ns, "{tail_ns}");
}

#[test]
fn a_server_that_is_bound_to_a_lane_has_windows_too() {
    let mut machinery = Machinery::new(objective(20e6), true);
    for worker in machinery.workers.clone() {
        machinery.sim.set_cpus(worker, Some(&[0])).unwrap();
    }
    machinery.sim.set_timer(1, 0);
    machinery.latencies_ns(6 * PART_NS, RATE / 4.0);
    let state = machinery.sim.objective().unwrap();
    assert!(state.budget_ns > MS, "{state:?}");
}
