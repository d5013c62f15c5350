//! Tasks that never sleep, for several tests.
#![allow(clippy::unwrap_used, missing_docs)]

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
