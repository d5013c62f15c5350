//! All loads of a machine.

use crate::evaluate::{Evaluation, Options, evaluate};
use crate::machine::{Machine, Utilization};
use crate::{Error, Model, Result};
use serde::Serialize;

/// Loads between which a change of the best level is looked for.
const SCAN: u32 = 400;

/// Rounds of bisection: to a billionth of the saturation.
const BISECTIONS: u32 = 24;

/// Most points of a sweep.
const POINTS_MAX: usize = 100_000;

/// A load of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SweepPoint {
    /// Normalised utilisation.
    pub utilization: f64,
    /// The levels at it.
    #[serde(flatten)]
    pub evaluation: Evaluation,
}

/// A load at which another level becomes the best.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Crossover {
    /// Normalised utilisation.
    pub utilization: f64,
    /// The best level below.
    pub from: usize,
    /// The best level above.
    pub to: usize,
}

/// Evaluates equally spaced loads, from 0 to just below what the machine can do at its best level.
///
/// # Errors
/// Less than 2 points, or more than 100,000.
pub fn sweep(machine: &Machine, options: Options, points: usize) -> Result<Vec<SweepPoint>> {
    if !(2..=POINTS_MAX).contains(&points) {
        return Err(Error::SweepPoints(points));
    }
    let at = |index: usize| {
        let utilization = machine.saturation() * index as f64 / points as f64;
        Ok(SweepPoint {
            utilization,
            evaluation: evaluate(machine, Utilization::new(utilization)?, options),
        })
    };
    (0..points).map(at).collect()
}

/// Where the best level changes, from the lowest load to saturation. What changes and changes back
/// within a quarter of a percent of the saturation may be missed.
///
/// Load 0, at which all levels are equal, does not count.
pub fn crossovers(machine: &Machine, options: Options) -> Vec<Crossover> {
    let best = |utilization: f64| match Utilization::new(utilization) {
        Ok(utilization) => evaluate(machine, utilization, options).best,
        Err(_) => 1,
    };
    let end = match options.model() {
        Model::MMs => machine.thread_perf().lanes() as f64,
        _ => machine.saturation(),
    };
    let load = |index: u32| end * f64::from(index) / f64::from(SCAN);
    let mut found = Vec::new();
    let mut before = best(load(1));
    for index in 2..SCAN {
        let after = best(load(index));
        if after != before {
            let utilization = change(&best, load(index - 1), load(index));
            found.push(Crossover {
                utilization,
                from: before,
                to: after,
            });
        }
        before = after;
    }
    found
}

/// Where the best level is no longer that of the lower load.
fn change(best: &impl Fn(f64) -> usize, mut low: f64, mut high: f64) -> f64 {
    let before = best(low);
    for _ in 0..BISECTIONS {
        let middle = (low + high) / 2.0;
        match best(middle) == before {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}
