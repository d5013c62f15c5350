//! A server's load rises and falls; the SMT level is fixed, or controlled by `sidelane control`.
//!
//! Critical work alone, no batch: what is compared are the mean responses of each plateau of the load
//! under each level and under control, with the kernel's default scheduler (the level is set through
//! sysfs) and with Sidelane's (through its cap).

mod measure;
mod results;

pub use results::{Cell, Figures, Row};

use crate::arguments::seconds_as_ms;
use crate::arrivals::Phase;
use crate::figures;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The least interval of the controller, s.
const INTERVAL_S: f64 = 0.5;
/// So many requests' demands last an interval at least: else its load says little.
const DEMANDS: f64 = 20.0;
/// Intervals in a window.
const INTERVALS: f64 = 6.0;

/// How the machine is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// Sidelane's scheduler, or the kernel's default one.
    pub sidelane: bool,
    /// How many lanes of each core may run.
    pub level: Level,
}

/// How many lanes of each core may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

/// What is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, clap::Args)]
pub struct LevelsPlan {
    /// How often each setup is measured.
    #[arg(long, default_value_t = 3, value_name = "N")]
    repetitions: u32,
    /// Load of each plateau, as a share of all cores.
    #[arg(long, value_delimiter = ',', value_name = "SHARE,...", default_values_t = [0.1, 0.6, 0.1])]
    loads: Vec<f64>,
    /// Length of each plateau.
    #[arg(long = "seconds", default_value = "13", value_parser = seconds_as_ms, value_name = "S")]
    run_ms: u64,
    // the controller's window has to pass
    /// The beginning of each plateau that does not count.
    #[arg(long = "settle", default_value = "5", value_parser = seconds_as_ms, value_name = "S")]
    settle_ms: u64,
    /// Mean demand of a request, ms of a whole core.
    #[arg(long = "mean-ms", default_value_t = 8.0, value_name = "MS")]
    mean_demand_ms: f64,
    /// An argument more for `sidelane control`.
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    control: Vec<String>,
    /// Start of all random numbers: same seed, same requests.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

/// What is found in a run through all plateaus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// In their order.
    pub plateaus: Vec<Plateau>,
}

/// A plateau of a run, its beginning left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plateau {
    /// Requests.
    pub requests: u64,
    /// Mean latency from the intended moment, ns.
    pub mean_ns: f64,
    /// Its 99th percentile, ns.
    pub p99_ns: u64,
    /// The level at its end.
    pub level: usize,
    /// Times that the level changed during it, its beginning included.
    pub changes: u32,
}

type Run = figures::Run<Setup, Found>;

impl LevelsPlan {
    /// Length of the controller's interval, s.
    fn interval_s(&self) -> f64 {
        INTERVAL_S.max(DEMANDS * self.mean_demand_ms / 1000.0)
    }

    /// Arguments of `sidelane control`: its times are as short as the requests allow, instead of minutes.
    fn control_arguments(&self) -> Vec<String> {
        let interval_s = self.interval_s();
        let times = [
            ("--interval", interval_s),
            ("--window", INTERVALS * interval_s),
            ("--dwell", 2.0 * interval_s),
        ];
        let times = times.map(|(name, s)| [name.to_owned(), s.to_string()]);
        let times = times.into_iter().flatten();
        times.chain(self.control.clone()).collect()
    }

    /// The load of one repetition, the same for all setups.
    fn phases(&self, repetition: u32) -> Vec<Phase> {
        let phase = |(number, load): (u64, &f64)| Phase {
            load: *load,
            run_ms: self.run_ms,
            seed: self.seed + u64::from(repetition) * 1000 + number,
        };
        (0..).zip(&self.loads).map(phase).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use crate::experiment::testing::{plan, plans_make_sense};

    #[test]
    fn each_level_and_control_with_both_schedulers() {
        let setups = plan::<LevelsPlan>("").setups(4);
        assert_eq!(setups.len(), 10);
        assert_eq!(setups[0].to_string(), "default, level 1");
        assert_eq!(setups[9].to_string(), "sidelane, controlled (cap)");
    }

    #[test]
    fn the_controller_looks_at_many_requests() {
        let arguments = |words: &str| plan::<LevelsPlan>(words).control_arguments().join(" ");
        assert_eq!(arguments(""), "--interval 0.5 --window 3 --dwell 1");
        let long = "--interval 2 --window 12 --dwell 4 --published";
        assert_eq!(arguments("--mean-ms 100 --control --published"), long);
        let mut plan: LevelsPlan = plan("");
        plan.learn(&[1.0, 0.6], true);
        assert!(
            plan.control_arguments()
                .join(" ")
                .ends_with(" --thread-perf 1,0.6")
        );
    }

    #[test]
    fn nonsense_is_refused() {
        plans_make_sense::<LevelsPlan>(&[
            "--loads 0.1,nan",
            "--seconds 5",
            "--settle 2.9",
            "--mean-ms 0",
        ]);
        let slow = crate::experiment::validate(&plan::<LevelsPlan>("--mean-ms 100"));
        assert!(slow.unwrap_err().to_string().contains("--settle"));
    }
}
