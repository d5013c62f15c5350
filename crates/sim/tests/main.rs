//! The simulator's tests: one program, in which each file is a module.
#![allow(clippy::unwrap_used, missing_docs)]

mod advise;
mod analytic;
mod baseline_eevdf;
mod batch_lanes;
mod budget;
mod capacity;
mod control;
mod costs;
mod determinism;
mod entitled;
mod experiments;
mod kthreads;
mod mixes;
mod model;
mod objective;
mod old;
mod only_batch;
mod ordinary;
mod pair;
mod polarization;
mod pools;
mod promote;
mod retain;
mod show;
mod smoke;
mod spread;
mod timeouts;
mod vectors;
mod waker;

use sidelane_sim::*;

/// So many tasks without an end in a pool, or in none.
pub fn spinners(
    sim: &mut Simulation,
    count: u32,
    class: Class,
    pool: Option<usize>,
) -> Vec<TaskId> {
    let spec = TaskSpec {
        pool,
        ..TaskSpec::new(class.name(), class)
    };
    let ids: Vec<TaskId> = (0..count).map(|_| sim.create(&spec).unwrap()).collect();
    for id in &ids {
        sim.give(*id, f64::INFINITY).unwrap();
    }
    ids
}

/// Goes on until then.
pub fn go(sim: &mut Simulation, until_ms: u64) {
    while sim.next(until_ms * 1_000_000).unwrap().is_some() {}
    sim.account();
}

/// Runs a scenario.
pub fn summarized(text: &str) -> Summary {
    let scenario = Scenario::parse(text, "test.toml").unwrap();
    let outcomes = run(&scenario, &|| ()).unwrap();
    Summary::new(&scenario, &outcomes)
}

/// The estimate of that name.
pub fn estimate(metrics: &[Metric], name: &str) -> Estimate {
    let metric = metrics.iter().find(|metric| metric.name == name);
    metric.unwrap().estimate
}

// Critical jobs on hand-made schedules: a thread for each.

/// Nanoseconds.
const MS: f64 = 1e6;

type Cpus = Option<&'static [u32]>;

/// A critical job: when it comes, ms, how much it is, ms of an unshared lane of the fastest core,
/// and the CPUs it may use.
pub struct Job(pub f64, pub f64, pub Cpus);

/// What else happens: from when on, ms, which job may use which CPUs.
pub type Change = (f64, usize, Cpus);

/// What became of the jobs.
pub struct Ran {
    /// For each job the lanes it ran on, with the moment when it began there, ms.
    pub lanes: Vec<Vec<(f64, u32)>>,
    /// How often each began or went on.
    pub runs: Vec<usize>,
    /// When each was done, ms.
    pub done_ms: Vec<f64>,
    pub counters: Counters,
}

impl Ran {
    /// When each job began first, ms.
    pub fn began_ms(&self) -> Vec<f64> {
        self.lanes.iter().map(|lanes| lanes[0].0).collect()
    }
}

pub fn run_jobs(mut sim: Simulation, jobs: &[Job], changes: &[Change], end_ms: u64) -> Ran {
    sim.keep_records();
    let ids: Vec<TaskId> = jobs.iter().map(|job| create(&mut sim, job)).collect();
    let moments = jobs.iter().map(|job| job.0);
    let moments = moments.chain(changes.iter().map(|change| change.0));
    for (token, at_ms) in moments.enumerate() {
        sim.set_timer((at_ms * MS) as u64, token as u64);
    }
    let mut done_ms = vec![f64::NAN; ids.len()];
    while let Some(occurrence) = sim.next(end_ms * MS as u64).unwrap() {
        match occurrence {
            Occurrence::Timer(token) => happen(&mut sim, jobs, changes, &ids, token as usize),
            Occurrence::Done(id) => {
                let index = ids.iter().position(|job| *job == id).unwrap();
                done_ms[index] = sim.now_ns() as f64 / MS;
            }
        }
    }
    let counters = sim.counters();
    let records = sim.take_records();
    let runs = |id| runs(&records, id).count();
    Ran {
        lanes: ids.iter().map(|id| lanes(&records, *id)).collect(),
        runs: ids.iter().map(|id| runs(*id)).collect(),
        done_ms,
        counters,
    }
}

fn happen(sim: &mut Simulation, jobs: &[Job], changes: &[Change], ids: &[TaskId], token: usize) {
    match jobs.get(token) {
        Some(job) => sim.give(ids[token], job.1 * MS).unwrap(),
        None => {
            let (_, job, cpus) = changes[token - jobs.len()];
            sim.set_cpus(ids[job], cpus).unwrap();
        }
    }
}

fn create(sim: &mut Simulation, job: &Job) -> TaskId {
    let spec = TaskSpec {
        cpus: job.2.map(<[u32]>::to_vec),
        ..TaskSpec::new("job", Class::Critical)
    };
    sim.create(&spec).unwrap()
}

/// When it began or went on, ms, and on which lane.
fn runs(records: &[Record], id: TaskId) -> impl Iterator<Item = (f64, u32)> {
    records.iter().filter_map(move |record| match record.step {
        Step::Run { task, lane } if task == id => Some((record.at_ns as f64 / MS, lane)),
        _ => None,
    })
}

fn lanes(records: &[Record], id: TaskId) -> Vec<(f64, u32)> {
    let mut lanes: Vec<(f64, u32)> = runs(records, id).collect();
    lanes.dedup_by_key(|(_, lane)| *lane);
    lanes
}
