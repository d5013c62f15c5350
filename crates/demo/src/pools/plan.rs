//! What is measured.

use super::{Message, Setup};
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::turns::rotated;
use serde::{Deserialize, Serialize};

/// Period of the pools and slice of their processes: an emulated wake-up or switch costs about a
/// millisecond of work, the pool that shares has more of them, and they are not what is compared.
const PERIOD_MS: u32 = 250;
const SLICE_MS: u32 = 100;

/// Everything the measuring part is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PoolsPlan {
    /// Start of all random numbers.
    pub seed: u64,
    /// How often each setup is measured.
    pub repetitions: u32,
    /// Capacity limit of each pool, cores; lanes where raw time is charged.
    pub capacity_cores: f64,
    /// Length of a run, ms; in it each process is the one alone on each core once.
    pub run_ms: u64,
}

impl Default for PoolsPlan {
    /// 0.4 of a core is less than a core does however it is charged, so that the limit decides.
    fn default() -> PoolsPlan {
        PoolsPlan {
            seed: 1,
            repetitions: 5,
            capacity_cores: 0.4,
            run_ms: 12_000,
        }
    }
}

impl PoolsPlan {
    /// The setups, in an order that rotates with each repetition.
    pub fn setups(&self, repetition: u32) -> Vec<Setup> {
        rotated(Setup::ALL.to_vec(), repetition)
    }

    /// The scheduler's configuration: two pools, the cgroups given by path, and the speeds of lanes.
    pub(super) fn configuration(
        &self,
        setup: Setup,
        pools: &[String; 2],
        thread_perf: &[f64],
    ) -> String {
        let (capacity, charge) = (self.capacity_cores, setup.charge());
        let pool = |cgroup: &String| {
            format!(
                "[[pool]]\ncgroup = \"{cgroup}\"\ncapacity_cores = {capacity}\ncharge = \"{charge}\"\n\
                 period_ms = {PERIOD_MS}\n"
            )
        };
        pools.iter().map(pool).collect::<String>()
            + &format!("[scheduler]\nthread_perf = {thread_perf:?}\nslice_ms = {SLICE_MS}\n")
    }
}

impl Experiment for PoolsPlan {
    type Message = Message;
    const COMMAND: &'static [&'static str] = &["demo", "pools"];

    fn validate(&self) -> Result<()> {
        let wrong = |problem: String| Err(Error::BadPlan(problem));
        if self.repetitions == 0 {
            return wrong("at least one repetition is needed".into());
        }
        if !(self.capacity_cores > 0.0 && self.capacity_cores < 1.0) {
            return wrong(format!(
                "a capacity of {} cores; give a number above 0 and below 1: each pool has a core",
                self.capacity_cores
            ));
        }
        if !(1_000..=600_000).contains(&self.run_ms) {
            return wrong(format!("runs of {} ms; give 1 to 600 s", self.run_ms));
        }
        Ok(())
    }

    fn seconds(&self, _lanes: usize) -> f64 {
        let runs = Setup::ALL.len() as f64 * f64::from(self.repetitions);
        runs * (self.run_ms as f64 / 1000.0 + 13.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_one() {
        let pools = ["/x/alone".to_owned(), "/x/sharing".to_owned()];
        for (setup, charge) in [
            (Setup::SmtOff, "mt1"),
            (Setup::Mt1, "mt1"),
            (Setup::Raw, "raw"),
        ] {
            let text = PoolsPlan::default().configuration(setup, &pools, &[1.0, 0.6]);
            let pool = |name| {
                format!("cgroup = \"/x/{name}\"\ncapacity_cores = 0.4\ncharge = \"{charge}\"\n")
            };
            assert!(text.contains(&pool("alone")) && text.contains(&pool("sharing")));
            let speeds = "[scheduler]\nthread_perf = [1.0, 0.6]\n";
            assert!(text.contains(speeds), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let refused = |change: fn(&mut PoolsPlan)| {
            let mut plan = PoolsPlan::default();
            change(&mut plan);
            plan.validate().is_err()
        };
        assert!(!refused(|_| {}));
        assert!(refused(|plan| plan.repetitions = 0));
        assert!(refused(|plan| plan.capacity_cores = f64::NAN));
        assert!(refused(|plan| plan.capacity_cores = 1.0));
        assert!(refused(|plan| plan.run_ms = 0));
    }
}
