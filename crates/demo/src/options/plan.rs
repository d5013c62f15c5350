//! What is measured.

use super::{Message, Setup};
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::turns::rotated;
use serde::{Deserialize, Serialize};

/// Everything the measuring part is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OptionsPlan {
    /// Start of all random numbers.
    pub seed: u64,
    /// How often each setup is measured.
    pub repetitions: u32,
    /// Loads, in rising order: shares of all cores, if one lane of each did all the work.
    pub loads: Vec<f64>,
    /// Length of a run at one load, ms.
    pub run_ms: u64,
    /// Its beginning that does not count, ms.
    pub settle_ms: u64,
    /// Mean demand of a request, ms of a whole core.
    pub mean_demand_ms: f64,
    /// Deadline of a request, ms after its arrival.
    pub deadline_ms: f64,
    /// Qualities at which the schedulers are compared, above 0 and below 1.
    pub targets: Vec<f64>,
}

impl Default for OptionsPlan {
    /// Demand and deadline are in the proportion of the stand-in for FOF's search service on a core of
    /// speed 4: a mean of 192 units of 4,000 a second, a deadline of 150 ms. Both are assumptions.
    fn default() -> OptionsPlan {
        OptionsPlan {
            seed: 1,
            repetitions: 5,
            loads: vec![0.5, 0.65, 0.8, 0.95, 1.1],
            run_ms: 6_000,
            settle_ms: 500,
            mean_demand_ms: 16.0,
            deadline_ms: 50.0,
            targets: vec![0.99, 0.995],
        }
    }
}

impl OptionsPlan {
    /// The setups, in an order that alternates with each repetition.
    pub fn setups(&self, repetition: u32) -> Vec<Setup> {
        rotated(Setup::ALL.to_vec(), repetition)
    }
}

impl Experiment for OptionsPlan {
    type Message = Message;
    const COMMAND: &'static [&'static str] = &["demo", "options"];

    fn validate(&self) -> Result<()> {
        let wrong = |problem: String| Err(Error::BadPlan(problem));
        if self.repetitions == 0 {
            return wrong("at least one repetition is needed".into());
        }
        let rising = self.loads.is_sorted_by(|a, b| a < b);
        if self.loads.len() < 2 || !rising || self.loads.iter().any(|l| !(0.01..=4.0).contains(l)) {
            return wrong("give two or more loads from 0.01 to 4, in rising order".into());
        }
        if self.run_ms <= self.settle_ms || self.run_ms > 600_000 {
            return wrong(format!(
                "runs of {} ms, of which {} do not count; make them longer, at most 600 s",
                self.run_ms, self.settle_ms
            ));
        }
        for (name, ms) in [
            ("mean demand", self.mean_demand_ms),
            ("deadline", self.deadline_ms),
        ] {
            if !(ms > 0.0 && ms <= 10_000.0) {
                return wrong(format!(
                    "a {name} of {ms} ms; give a number above 0, at most 10000"
                ));
            }
        }
        match self.targets.iter().find(|t| !(**t > 0.0 && **t < 1.0)) {
            Some(target) => wrong(format!("quality {target}; give numbers between 0 and 1")),
            None => Ok(()),
        }
    }

    fn seconds(&self, _lanes: usize) -> f64 {
        let run_s = self.run_ms as f64 / 1000.0 + 0.2;
        let runs = Setup::ALL.len() as f64 * f64::from(self.repetitions);
        runs * (run_s * self.loads.len() as f64 + 3.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setups_take_turns() {
        let plan = OptionsPlan::default();
        assert_eq!(plan.setups(0), [Setup::Default, Setup::Sidelane]);
        assert_eq!(plan.setups(1), [Setup::Sidelane, Setup::Default]);
        assert_eq!(plan.setups(2), plan.setups(0));
    }

    #[test]
    fn nonsense_is_refused() {
        let refused = |change: fn(&mut OptionsPlan)| {
            let mut plan = OptionsPlan::default();
            change(&mut plan);
            plan.validate().is_err()
        };
        assert!(!refused(|_| {}));
        assert!(refused(|plan| plan.loads = vec![0.5]));
        assert!(refused(|plan| plan.loads = vec![0.5, 0.4]));
        assert!(refused(|plan| plan.loads = vec![0.5, f64::NAN]));
        assert!(refused(|plan| plan.deadline_ms = 0.0));
        assert!(refused(|plan| plan.mean_demand_ms = f64::INFINITY));
        assert!(refused(|plan| plan.targets = vec![1.0]));
        assert!(refused(|plan| plan.settle_ms = 60_000));
        assert!(refused(|plan| plan.repetitions = 0));
    }
}
