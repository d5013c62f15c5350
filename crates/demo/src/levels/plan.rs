//! What is measured.

use super::{Message, driver};
use crate::error::{Error, Result};
use crate::experiment::{Experiment, Observer};
use crate::turns::rotated;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Everything the measuring part is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelsPlan {
    /// Start of all random numbers.
    pub seed: u64,
    /// How often each setup is measured.
    pub repetitions: u32,
    /// The load, one plateau after the other.
    pub plateaus: Vec<Plateau>,
    /// The beginning of each plateau that does not count, ms: the controller's window has to pass.
    pub settle_ms: u64,
    /// Mean demand of a request, ms of a whole core.
    pub mean_demand_ms: f64,
    /// Arguments of `sidelane control`.
    pub control: Vec<String>,
}

/// A time of constant load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Plateau {
    /// Share of all cores, if one lane of each did all the work.
    pub load: f64,
    /// Length, ms.
    pub run_ms: u64,
}

/// How the machine is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Setup {
    /// Sidelane's scheduler, or the kernel's default one.
    pub sidelane: bool,
    /// How many lanes of each core may run.
    pub level: Level,
}

/// How many lanes of each core may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Always so many.
    Fixed(usize),
    /// `sidelane control` says.
    Controlled,
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheduler = if self.sidelane { "sidelane" } else { "default" };
        let text = match (self.level, self.sidelane) {
            (Level::Fixed(level), _) => format!("{scheduler}, level {level}"),
            (Level::Controlled, true) => format!("{scheduler}, controlled (cap)"),
            (Level::Controlled, false) => format!("{scheduler}, controlled (sysfs)"),
        };
        f.pad(&text)
    }
}

impl Default for LevelsPlan {
    fn default() -> LevelsPlan {
        let plateau = |load| Plateau {
            load,
            run_ms: 13_000,
        };
        LevelsPlan {
            seed: 1,
            repetitions: 3,
            plateaus: [0.1, 0.6, 0.1].map(plateau).to_vec(),
            settle_ms: 5_000,
            mean_demand_ms: 8.0,
            control: ["--interval", "0.5", "--window", "3", "--dwell", "1"]
                .map(String::from)
                .to_vec(),
        }
    }
}

impl LevelsPlan {
    /// Setups of a machine with so many lanes a core, in an order that rotates with each repetition.
    pub fn setups(&self, lanes: usize, repetition: u32) -> Vec<Setup> {
        let levels = || (1..=lanes).map(Level::Fixed).chain([Level::Controlled]);
        let of = |sidelane| move |level| Setup { sidelane, level };
        let setups = levels().map(of(false)).chain(levels().map(of(true)));
        rotated(setups.collect(), repetition)
    }
}

impl Experiment for LevelsPlan {
    type Message = Message;
    const COMMAND: &'static [&'static str] = &["demo", "levels"];

    fn validate(&self) -> Result<()> {
        let wrong = |problem: String| Err(Error::BadPlan(problem));
        if self.plateaus.is_empty() || self.repetitions == 0 {
            return wrong("at least one plateau and one repetition are needed".into());
        }
        for Plateau { load, run_ms } in &self.plateaus {
            if !(*load > 0.0 && *load < 2.0) {
                return wrong(format!("load {load}; give a number above 0 and below 2"));
            }
            if *run_ms <= self.settle_ms {
                return wrong(format!(
                    "a plateau of {run_ms} ms, of which {} do not count; make it longer",
                    self.settle_ms
                ));
            }
        }
        if !(self.mean_demand_ms > 0.0 && self.mean_demand_ms <= 10_000.0) {
            return wrong(format!("a mean demand of {} ms", self.mean_demand_ms));
        }
        Ok(())
    }

    fn seconds(&self, lanes: usize) -> f64 {
        let run_ms: u64 = self.plateaus.iter().map(|plateau| plateau.run_ms).sum();
        let runs = self.setups(lanes, 0).len() as f64 * f64::from(self.repetitions);
        runs * (run_ms as f64 / 1000.0 + 3.0)
    }

    fn measure(
        &self,
        sidelane: &Path,
        stop: &AtomicBool,
        observer: &mut dyn Observer<Message>,
    ) -> Result<()> {
        driver::measure(self, sidelane, stop, observer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_and_control_with_both_schedulers() {
        let plan = LevelsPlan::default();
        let setups = plan.setups(4, 0);
        assert_eq!(setups.len(), 10);
        assert_eq!(setups[0].to_string(), "default, level 1");
        assert_eq!(setups[9].to_string(), "sidelane, controlled (cap)");
        let mut rotated = plan.setups(4, 3);
        assert_eq!(rotated[0], setups[3]);
        rotated.sort();
        let mut sorted = setups.clone();
        sorted.sort();
        assert_eq!(rotated, sorted);
    }

    #[test]
    fn nonsense_is_refused() {
        let refused = |change: fn(&mut LevelsPlan)| {
            let mut plan = LevelsPlan::default();
            change(&mut plan);
            plan.validate().is_err()
        };
        assert!(!refused(|_| {}));
        assert!(refused(|plan| plan.plateaus.clear()));
        assert!(refused(|plan| plan.plateaus[1].load = f64::NAN));
        assert!(refused(|plan| plan.settle_ms = 60_000));
        assert!(refused(|plan| plan.mean_demand_ms = 0.0));
        assert!(refused(|plan| plan.repetitions = 0));
    }
}
