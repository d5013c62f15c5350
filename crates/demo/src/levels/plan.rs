//! What is measured.

use super::Message;
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::turns::rotated;
use serde::{Deserialize, Serialize};
use std::fmt;

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
    /// Arguments more for `sidelane control`.
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
            control: Vec::new(),
        }
    }
}

/// The least interval of the controller, s.
const INTERVAL_S: f64 = 0.5;
/// So many requests' demands last an interval at least: else its load says little.
const DEMANDS: f64 = 20.0;
/// Intervals in a window.
const INTERVALS: f64 = 6.0;

impl LevelsPlan {
    /// Length of the controller's interval, s.
    fn interval_s(&self) -> f64 {
        INTERVAL_S.max(DEMANDS * self.mean_demand_ms / 1000.0)
    }

    /// Arguments of `sidelane control`: its times are as short as the requests allow, instead of minutes.
    pub(super) fn control_arguments(&self) -> Vec<String> {
        let interval_s = self.interval_s();
        let times = [
            ("--interval", interval_s),
            ("--window", INTERVALS * interval_s),
            ("--dwell", 2.0 * interval_s),
        ];
        let times = times.map(|(name, s)| [name.to_owned(), s.to_string()]);
        times
            .into_iter()
            .flatten()
            .chain(self.control.clone())
            .collect()
    }

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
        let window_s = INTERVALS * self.interval_s();
        if (self.settle_ms as f64) < window_s * 1000.0 {
            return wrong(format!(
                "{} s of each plateau do not count, but the controller looks back {window_s} s, for requests of \
                 {} ms; give a longer --settle",
                self.settle_ms as f64 / 1000.0,
                self.mean_demand_ms
            ));
        }
        Ok(())
    }

    fn seconds(&self, lanes: usize) -> f64 {
        let run_ms: u64 = self.plateaus.iter().map(|plateau| plateau.run_ms).sum();
        let runs = self.setups(lanes, 0).len() as f64 * f64::from(self.repetitions);
        runs * (run_ms as f64 / 1000.0 + 3.0)
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
    fn the_controller_looks_at_many_requests() {
        let mut plan = LevelsPlan::default();
        let short = ["--interval", "0.5", "--window", "3", "--dwell", "1"];
        assert_eq!(plan.control_arguments(), short);
        (plan.mean_demand_ms, plan.control) = (100.0, vec!["--published".into()]);
        let long = [
            "--interval",
            "2",
            "--window",
            "12",
            "--dwell",
            "4",
            "--published",
        ];
        assert_eq!(plan.control_arguments(), long);
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
        assert!(refused(|plan| plan.settle_ms = 2_900));
        assert!(refused(|plan| plan.mean_demand_ms = 100.0));
        assert!(refused(|plan| plan.mean_demand_ms = 0.0));
        assert!(refused(|plan| plan.repetitions = 0));
    }
}
