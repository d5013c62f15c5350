//! The swarm: random machines, random loads and random faults, each scenario from one number. The
//! scheduler's own source runs in each, and what the run looks like from outside is checked against
//! the rules in `rules.rs` all the time.
//!
//! A failure names its seed; the same seed gives the same run on every machine.

mod age;
mod books;
mod budget;
mod drive;
mod faults;
mod generate;
mod moves;
mod plan;
mod pools;
mod report;
mod rules;
mod settings;
mod shares;
mod steps;
#[cfg(test)]
mod tests;
mod verdict;
mod watch;

pub use report::{Failure, Summary, Total};
pub use verdict::Rule;

use crate::Record;
use drive::Driver;
use plan::{Draws, Plan};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use verdict::Broken;

/// Runs the scenario of a seed. The calling thread must not be simulating.
///
/// # Errors
/// What was violated, with the seed, the scenario and the last steps.
pub fn run(seed: u64) -> Result<Summary, Box<Failure>> {
    start(seed, false).map(|(summary, _)| summary)
}

/// The same, with all steps.
///
/// # Errors
/// As [`run`].
pub fn run_recorded(seed: u64) -> Result<(Summary, Vec<Record>), Box<Failure>> {
    start(seed, true)
}

/// Runs the scenarios of many seeds, on all threads of rayon's pool. `progress` is told after each
/// how many are done.
pub fn run_many(seeds: Range<u64>, progress: &(dyn Fn(u64) + Sync)) -> Total {
    let total = Mutex::new(Total::default());
    let done = AtomicU64::new(0);
    seeds.into_par_iter().for_each(|seed| {
        let outcome = run(seed);
        // A thread that panicked left whole numbers behind.
        let mut total = total
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        total.add(outcome);
        drop(total);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1);
    });
    let mut total = total
        .into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    total.failures.sort_by_key(|failure| failure.seed);
    total
}

fn start(seed: u64, keep: bool) -> Result<(Summary, Vec<Record>), Box<Failure>> {
    let mut draws = Draws::new(seed);
    let plan = generate::generate(&mut draws).map_err(|error| {
        let what = error.to_string();
        let rule = Rule::Setup;
        Box::new(Failure::new(seed, Broken { rule, what }, "none".into()))
    })?;
    drive_plan(seed, &plan, draws, keep)
}

fn drive_plan(
    seed: u64,
    plan: &Plan,
    draws: Draws,
    keep: bool,
) -> Result<(Summary, Vec<Record>), Box<Failure>> {
    let failed = |broken| Failure::new(seed, broken, plan.to_string());
    let mut driver = Driver::new(plan, draws, keep).map_err(|broken| Box::new(failed(broken)))?;
    match driver.run() {
        Ok(()) => Ok((
            Summary::of(seed, &driver),
            driver.kept.take().unwrap_or_default(),
        )),
        Err(broken) => Err(Box::new(failed(broken).at(&driver))),
    }
}
