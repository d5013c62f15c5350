//! What is measured.

use super::Setup;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

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
    /// Its beginning that does not count, ms: the scheduler has to find the budget.
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
            mean_demand_ms: 8.0,
            run_ms: 14_000,
            settle_ms: 5_000,
            step_ms: 15_000,
        }
    }
}

/// Runs alone from which the objectives are made.
pub(super) const RUNS_ALONE: u32 = 3;
/// The load of the steps' middle, as a multiple of the others.
pub(super) const STEP: f64 = 2.0;

impl ObjectivePlan {
    /// The setups, in an order that rotates with each repetition.
    pub fn setups(&self, repetition: u32) -> Vec<Setup> {
        let mut setups = vec![Setup::Alone, Setup::BorrowIdle];
        setups.extend(self.factors.iter().copied().map(Setup::Objective));
        let first = repetition as usize % setups.len();
        setups.rotate_left(first);
        setups
    }

    /// The objective under which the load steps: the middle one.
    pub fn step_factor(&self) -> f64 {
        let middle = self.factors.get(self.factors.len() / 2);
        middle.copied().unwrap_or(1.5)
    }

    /// About how long it takes, s.
    pub fn seconds(&self) -> f64 {
        let run_s = self.run_ms as f64 / 1000.0 + 1.5;
        let runs = RUNS_ALONE + self.setups(0).len() as u32 * self.repetitions;
        f64::from(runs) * run_s + self.step_ms as f64 * 3.0 / 1000.0
    }

    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// [`Error::BadPlan`].
    pub fn validate(&self) -> Result<()> {
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
        if self.run_ms <= self.settle_ms || self.run_ms > 600_000 || self.step_ms > 600_000 {
            return wrong(format!(
                "runs of {} ms, of which {} do not count; make them longer, at most 600 s",
                self.run_ms, self.settle_ms
            ));
        }
        match self.repetitions {
            0 => wrong("at least one repetition is needed".into()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setups_rotate() {
        let plan = ObjectivePlan::default();
        assert_eq!(plan.setups(0).len(), 5);
        assert_eq!(plan.setups(0)[2].to_string(), "slo 1.2 x alone");
        assert_eq!(plan.setups(1)[0], Setup::BorrowIdle);
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
        assert!(refused(|plan| plan.settle_ms = 60_000));
        assert!(refused(|plan| plan.repetitions = 0));
    }
}
