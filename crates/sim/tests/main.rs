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
mod spread;
mod timeouts;
mod vectors;
mod waker;

use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

const MS: u64 = 1_000_000;

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
        sim.set_timer((at_ms * MS as f64) as u64, token as u64);
    }
    let mut done_ms = vec![f64::NAN; ids.len()];
    while let Some(occurrence) = sim.next(end_ms * MS).unwrap() {
        match occurrence {
            Occurrence::Timer(token) => happen(&mut sim, jobs, changes, &ids, token as usize),
            Occurrence::Done(id) => {
                let index = ids.iter().position(|job| *job == id).unwrap();
                done_ms[index] = sim.now_ns() as f64 / MS as f64;
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
        Some(job) => sim.give(ids[token], job.1 * MS as f64).unwrap(),
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
        Step::Run { task, lane } if task == id => Some((record.at_ns as f64 / MS as f64, lane)),
        _ => None,
    })
}

fn lanes(records: &[Record], id: TaskId) -> Vec<(f64, u32)> {
    let mut lanes: Vec<(f64, u32)> = runs(records, id).collect();
    lanes.dedup_by_key(|(_, lane)| *lane);
    lanes
}

/// Numbers without a library's generator, by Knuth's for MMIX: the same everywhere.
pub struct Lcg(u64);

impl Lcg {
    pub fn below(&mut self, bound: u64) -> u64 {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

// The scheduler's source drives a small machine.

fn machine(cores: u32, lanes: u32, perf: &[f64]) -> Machine {
    let topology = Topology::regular(&Regular::one_package(cores, lanes)).unwrap();
    Machine::new(
        &topology,
        Interference::ThreadPerf(perf.to_vec()),
        Costs::default(),
    )
    .unwrap()
}

#[test]
fn critical_work_is_alone_on_its_core() {
    let kind = Kind::from(Settings::default());
    let mut sim = Simulation::new(machine(2, 2, &[1.0, 0.5]), &kind).unwrap();
    for n in 0..4 {
        let batch = sim
            .create(&TaskSpec::new(format!("batch{n}"), Class::Batch))
            .unwrap();
        sim.give(batch, f64::INFINITY).unwrap();
    }
    let server = sim
        .create(&TaskSpec::new("server", Class::Critical))
        .unwrap();
    sim.set_timer(10 * MS, 0);
    let mut latencies = Vec::new();
    let mut sent_ns = 0;
    while let Some(occurrence) = sim.next(1000 * MS).unwrap() {
        match occurrence {
            Occurrence::Timer(_) => {
                sent_ns = sim.now_ns();
                sim.give(server, 8e6).unwrap();
            }
            Occurrence::Done(_) => {
                latencies.push(sim.now_ns() - sent_ns);
                sim.set_timer(sim.now_ns() + 12_345_678, 0);
            }
        }
    }
    assert!(latencies.len() > 40, "{}", latencies.len());
    for latency in &latencies {
        assert!((8 * MS..8 * MS + 20_000).contains(latency), "{latency}");
    }
    sim.account();
    for core in sim.core_totals() {
        eprintln!("{core:?}");
        assert_eq!(core.density_ns.iter().sum::<u64>(), 1000 * MS);
    }
    eprintln!("{:?}", sim.counters());
}

/// Core time at each density under an SMT level, of a workload on 4 cores of 2 lanes.
fn density(workload: &str, level: u32) -> Vec<f64> {
    let text = format!(
        "[machine]\ncores = 4\nlanes = 2\nthread_perf = [1, 0.6]\n[run]\nreplications = 2\nseconds = 10\n\
         [[workload]]\nname = \"work\"\n{workload}\n[[configuration]]\nname = \"capped\"\n\
         scheduler = \"sidelane\"\n[configuration.settings]\nsmt_level = {level}\n"
    );
    let scenario = Scenario::parse(&text, "level.toml").unwrap();
    let outcomes = run(&scenario, &|| ()).unwrap();
    let summary = Summary::new(&scenario, &outcomes);
    summary.configurations[0].core_time_by_density.clone()
}

/// The SMT level caps the lanes of critical work, also of such that is sent to a lane directly.
#[test]
fn the_smt_level_is_a_cap() {
    let server = "class = \"critical\"\nopen = { load = 0.8 }\ndemand_ms = { exponential = 1 }";
    let shared = |level| density(server, level)[2];
    assert!(shared(2) > 0.1, "{}", shared(2));
    assert_eq!(shared(1), 0.0);
}

/// Batch goes by its own rule.
#[test]
fn the_smt_level_is_no_cap_for_batch() {
    let shared = density("class = \"batch\"\nbatch = { tasks = 8 }", 1)[2];
    assert!(shared > 0.99, "{shared}");
}

#[test]
fn requests_that_come_faster_than_they_are_served_end_the_simulation() {
    let text = "[machine]\ncores = 1\nlanes = 1\n[run]\nseconds = 1\n\
                [[workload]]\nname = \"flood\"\nclass = \"normal\"\nworkers = 1\n\
                open = { interarrival_ms = 0.000001 }\ndemand_ms = 1\n\
                [[configuration]]\nscheduler = \"fifo\"\n";
    let scenario = Scenario::parse(text, "flood.toml").unwrap();
    let error = run(&scenario, &|| {}).unwrap_err();
    assert!(matches!(error, Error::BadWorkload(_)), "{error}");
    let told = error.to_string();
    assert!(
        told.starts_with("workload \"flood\": 1000000 requests"),
        "{told}"
    );
    assert!(told.contains("deadline_ms"), "{told}");
}

/// How long tasks that wait for devices sleep in a round, ms, where others receive so much of the answers. The
/// device takes 1 ms.
fn asleep_ms(relayed: f64) -> f64 {
    let text = format!(
        "[machine]\ncores = 1\nlanes = 1\n[run]\nreplications = 2\nseconds = 10\n\
         [[workload]]\nname = \"io\"\nclass = \"normal\"\n\
         io = {{ tasks = 4, burst_ms = {{ exponential = 1 }}, wait_ms = 1, relayed = {relayed} }}\n\
         [[configuration]]\nscheduler = \"fifo\"\n"
    );
    let scenario = Scenario::parse(&text, "relayed.toml").unwrap();
    let outcomes = run(&scenario, &|| ()).unwrap();
    let of = |metric| outcomes[0].values(Some("io"), metric).unwrap();
    let states = ["run_ms", "ready_ms", "asleep_ms", "cycle_ms"].map(|name| of(name)[0]);
    assert!(
        (states[0] + states[1] + states[2] - states[3]).abs() < 1e-6,
        "{states:?}"
    );
    states[2]
}

#[test]
fn an_answer_waits_with_the_task_that_passes_it_on() {
    let itself = asleep_ms(0.0);
    assert!((itself - 1.0).abs() < 0.01, "{itself}");
    let relayed = asleep_ms(1.0);
    assert!(relayed > 1.2, "{relayed}");
}
