//! What is measured.

use super::{Message, Setup};
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::turns::rotated;
use serde::{Deserialize, Serialize};

/// Everything the measuring part is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LanesPlan {
    /// Start of all random numbers.
    pub seed: u64,
    /// How often each setup is measured.
    pub repetitions: u32,
    /// Offered load, as a share of all cores.
    pub load: f64,
    /// Mean demand of a request, ms of a whole core.
    pub mean_demand_ms: f64,
    /// Length of a run, ms.
    pub run_ms: u64,
    /// Pause after each change of the setup, ms: programs look for the lane signal every quarter of a
    /// second.
    pub settle_ms: u64,
}

impl Default for LanesPlan {
    fn default() -> LanesPlan {
        LanesPlan {
            seed: 1,
            repetitions: 8,
            load: 0.24,
            mean_demand_ms: 8.0,
            run_ms: 7_000,
            settle_ms: 1_000,
        }
    }
}

impl LanesPlan {
    /// The setups, in an order that rotates with each repetition.
    pub fn setups(&self, repetition: u32) -> Vec<Setup> {
        rotated(Setup::ALL.to_vec(), repetition)
    }
}

impl Experiment for LanesPlan {
    type Message = Message;
    const COMMAND: &'static [&'static str] = &["demo", "lanes"];
    const CONTROLLERS: &'static [&'static str] = &["cpuset"];

    fn validate(&self) -> Result<()> {
        let wrong = |problem: String| Err(Error::BadPlan(problem));
        if self.repetitions == 0 {
            return wrong("at least one repetition is needed".into());
        }
        if !(self.load > 0.0 && self.load < 1.0) {
            return wrong(format!(
                "load {}; give a number above 0 and below 1",
                self.load
            ));
        }
        if !(self.mean_demand_ms > 0.0 && self.mean_demand_ms <= 10_000.0) {
            return wrong(format!(
                "a mean demand of {} ms; give a number above 0, at most 10000",
                self.mean_demand_ms
            ));
        }
        if !(100..=600_000).contains(&self.run_ms) || self.settle_ms > 600_000 {
            return wrong(format!(
                "runs of {} ms and pauses of {} ms; give 0.1 to 600 s, and at most 600 s",
                self.run_ms, self.settle_ms
            ));
        }
        Ok(())
    }

    fn seconds(&self, _lanes: usize) -> f64 {
        let runs = Setup::ALL.len() as f64 * f64::from(self.repetitions);
        runs * ((self.run_ms + self.settle_ms) as f64 / 1000.0 + 2.5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setup_comes_at_each_place() {
        let plan = LanesPlan::default();
        assert_eq!(plan.setups(0), Setup::ALL);
        for place in 0..Setup::ALL.len() {
            let mut there: Vec<String> =
                (0..4).map(|n| plan.setups(n)[place].to_string()).collect();
            there.sort();
            assert_eq!(there, ["alone", "default", "lanes", "sidelane"]);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let refused = |change: fn(&mut LanesPlan)| {
            let mut plan = LanesPlan::default();
            change(&mut plan);
            plan.validate().is_err()
        };
        assert!(!refused(|_| {}));
        assert!(refused(|plan| plan.repetitions = 0));
        assert!(refused(|plan| plan.load = 1.0));
        assert!(refused(|plan| plan.load = f64::NAN));
        assert!(refused(|plan| plan.mean_demand_ms = 0.0));
        assert!(refused(|plan| plan.run_ms = 0));
        assert!(refused(|plan| plan.settle_ms = 6_000_000));
    }
}
