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
mod experiments;
mod jobs;
mod kthreads;
mod mixes;
mod model;
mod nice;
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
mod starvation;
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
