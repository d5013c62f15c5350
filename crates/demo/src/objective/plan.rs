//! What is measured.

use super::{Message, Setup};
use crate::batch;
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::sys::find_program;
use crate::turns::rotated;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::PathBuf;

/// Everything the measuring part is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObjectivePlan {
    /// Start of all random numbers.
    pub seed: u64,
    /// How often each setup is measured.
    pub repetitions: u32,
    /// Objectives, as multiples of the 99th percentile alone; above 1, in rising order.
    pub factors: Vec<f64>,
    /// Offered load, as a share of all cores.
    pub load: f64,
    /// Mean demand of a request, ms of a whole core.
    pub mean_demand_ms: f64,
    /// Length of a run, ms.
    pub run_ms: u64,
    /// Load before the first run under an objective, ms: the scheduler has to find the budget.
    pub settle_ms: u64,
    /// Length of each of the three loads of the steps, ms; 0: no steps.
    pub step_ms: u64,
}

impl Default for ObjectivePlan {
    fn default() -> ObjectivePlan {
        ObjectivePlan {
            seed: 1,
            repetitions: 10,
            factors: vec![1.2, 1.5, 2.0],
            load: 0.24,
            mean_demand_ms: 5.0,
            run_ms: 10_000,
            settle_ms: 60_000,
            step_ms: 15_000,
        }
    }
}

/// The load of the steps' middle, as a multiple of the others.
pub(super) const STEP: f64 = 2.0;

impl ObjectivePlan {
    /// All setups.
    pub fn setups(&self) -> Vec<Setup> {
        let mut setups = vec![Setup::Alone, Setup::BorrowIdle];
        setups.extend(self.factors.iter().copied().map(Setup::Objective));
        setups
    }

    /// What is measured, one after the other: a setup and its repetitions. Each objective once, as it
    /// takes time to settle, and in turn with borrow-idle; the server alone half before and half after them.
    pub fn order(&self) -> Vec<(Setup, Range<u32>)> {
        let half = self.repetitions.div_ceil(2);
        let mut order = vec![(Setup::Alone, 0..half)];
        let objectives = self.factors.iter().copied().map(Setup::Objective);
        order.extend(objectives.map(|setup| (setup, 0..self.repetitions)));
        order.push((Setup::Alone, half..self.repetitions));
        order.retain(|(_, repetitions)| !repetitions.is_empty());
        order
    }

    /// The runs of a repetition under `setup`, in their order: an objective and borrow-idle take turns at
    /// being first.
    pub(super) fn runs(setup: Setup, repetition: u32) -> Vec<Setup> {
        match setup {
            Setup::Objective(_) => rotated(vec![Setup::BorrowIdle, setup], repetition),
            Setup::Alone | Setup::BorrowIdle => vec![setup],
        }
    }

    /// How many runs there are.
    pub(super) fn run_count(&self) -> usize {
        (1 + 2 * self.factors.len()) * self.repetitions as usize
    }

    /// The objective under which the load steps: the middle one.
    pub fn step_factor(&self) -> f64 {
        let middle = self.factors.get(self.factors.len() / 2);
        middle.copied().unwrap_or(1.5)
    }
}

impl Experiment for ObjectivePlan {
    type Message = Message;
    const COMMAND: &'static [&'static str] = &["demo", "objective"];

    fn validate(&self) -> Result<()> {
        let wrong = |problem: String| Err(Error::BadPlan(problem));
        let rising = self.factors.is_sorted_by(|a, b| a < b);
        if self.factors.is_empty()
            || !rising
            || self.factors.iter().any(|f| !(*f > 1.0 && *f <= 100.0))
        {
            return wrong("give objectives above 1 and at most 100, in rising order".into());
        }
        if !(self.load > 0.0 && self.load * STEP < 1.0) {
            return wrong(format!(
                "load {}; give a number above 0 and below {}: it is stepped up",
                self.load,
                1.0 / STEP
            ));
        }
        if !(self.mean_demand_ms > 0.0 && self.mean_demand_ms <= 10_000.0) {
            return wrong(format!("a mean demand of {} ms", self.mean_demand_ms));
        }
        if !(100..=600_000).contains(&self.run_ms)
            || self.settle_ms > 600_000
            || self.step_ms > 600_000
        {
            return wrong(format!(
                "runs of {} ms, {} ms before and steps of {} ms; give 0.1 to 600 s, and at most 600 s",
                self.run_ms, self.settle_ms, self.step_ms
            ));
        }
        match self.repetitions {
            0 => wrong("at least one repetition is needed".into()),
            _ => Ok(()),
        }
    }

    fn seconds(&self, _lanes: usize) -> f64 {
        let runs = self.run_count() as u64;
        let steps = u64::from(self.step_ms > 0);
        let settles = self.settle_ms * (self.factors.len() as u64 + steps);
        let all_ms = runs * self.run_ms + settles + 3 * self.step_ms;
        all_ms as f64 / 1000.0 + 1.5 * runs as f64 + 5.0 * self.order().len() as f64
    }

    fn programs(&self) -> Result<Vec<PathBuf>> {
        Ok(vec![find_program("gzip").ok_or(batch::MISSING)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setup_has_all_repetitions() {
        let plan = ObjectivePlan {
            repetitions: 3,
            ..ObjectivePlan::default()
        };
        assert_eq!(plan.setups().len(), 5);
        assert_eq!(plan.setups()[2].to_string(), "slo 1.2 x alone");
        let order = plan.order();
        assert_eq!(order.len(), 5);
        assert_eq!(order[4], (Setup::Alone, 2..3));
        let runs: Vec<(Setup, u32)> = order
            .into_iter()
            .flat_map(|(block, part)| part.map(move |repetition| (block, repetition)))
            .flat_map(|(block, repetition)| {
                let runs = ObjectivePlan::runs(block, repetition).into_iter();
                runs.map(move |setup| (setup, repetition))
            })
            .collect();
        assert_eq!(runs.len(), plan.run_count());
        for setup in plan.setups() {
            let own = runs.iter().filter(|(other, _)| *other == setup);
            let all: Vec<u32> = own.map(|(_, repetition)| *repetition).collect();
            match setup {
                // once in each objective's turn
                Setup::BorrowIdle => assert_eq!(all, [0, 1, 2].repeat(3), "{setup}"),
                _ => assert_eq!(all, [0, 1, 2], "{setup}"),
            }
        }
        let slo = Setup::Objective(1.2);
        assert_eq!(ObjectivePlan::runs(slo, 0), [Setup::BorrowIdle, slo]);
        assert_eq!(ObjectivePlan::runs(slo, 1), [slo, Setup::BorrowIdle]);
        assert!((plan.step_factor() - 1.5).abs() < 1e-9);
    }

    #[test]
    fn nonsense_is_refused() {
        let refused = |change: fn(&mut ObjectivePlan)| {
            let mut plan = ObjectivePlan::default();
            change(&mut plan);
            plan.validate().is_err()
        };
        assert!(!refused(|_| {}));
        assert!(refused(|plan| plan.factors.clear()));
        assert!(refused(|plan| plan.factors = vec![1.0]));
        assert!(refused(|plan| plan.factors = vec![2.0, 1.5]));
        assert!(refused(|plan| plan.load = 0.6));
        assert!(refused(|plan| plan.load = f64::NAN));
        assert!(refused(|plan| plan.mean_demand_ms = -1.0));
        assert!(refused(|plan| plan.settle_ms = 6_000_000));
        assert!(refused(|plan| plan.run_ms = 0));
        assert!(refused(|plan| plan.repetitions = 0));
    }
}
