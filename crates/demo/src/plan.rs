//! What is measured: how long, how often, and under which load.

use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::machine::Machine;
use crate::message::Message;
use crate::setups::{Configuration, Workload};
use crate::sys::find_program;
use crate::turns::rotated;
use crate::{batch, redis};
use serde::{Deserialize, Serialize};
use sidelane_topology::Topology;
use std::path::{Path, PathBuf};

/// Everything the measuring part is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Start of all random numbers: same seed, same arrivals and demands.
    pub seed: u64,
    /// How often each workload is measured under each configuration.
    pub repetitions: u32,
    /// What is compared; always with `alone`.
    pub configurations: Vec<Configuration>,
    /// What is measured.
    pub workloads: Vec<Workload>,
    /// The computing server.
    pub compute: ComputePlan,
    /// The redis server.
    pub redis: RedisPlan,
    /// Length of the measurement of a core's speed before each configuration, ms.
    pub reference_ms: u64,
    /// Pause after each change of the configuration, ms.
    pub settle_ms: u64,
    /// Length of the traced runs of the computing server, ms; none skips them.
    pub trace_ms: Option<u64>,
    /// Speeds of a lane when 1, 2, ... lanes of its core run, which Sidelane is told; empty: not known.
    pub thread_perf: Vec<f64>,
}

/// The computing server's load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComputePlan {
    /// Length of a run, ms.
    pub run_ms: u64,
    /// Offered load as a share of all cores, in (0, 1).
    pub load: f64,
    /// Mean demand of a request, ms of a whole core.
    pub mean_demand_ms: f64,
    /// Worker threads; none is one for each lane.
    pub workers: Option<usize>,
}

/// The redis server's load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RedisPlan {
    /// Length of a run, ms.
    pub run_ms: u64,
    /// Offered load as a share of one core (redis executes commands in one thread), in (0, 1).
    pub load: f64,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            seed: 1,
            repetitions: 7,
            configurations: Configuration::ALL.to_vec(),
            workloads: Workload::ALL.to_vec(),
            compute: ComputePlan {
                run_ms: 3500,
                load: 0.24,
                mean_demand_ms: 8.0,
                workers: None,
            },
            redis: RedisPlan {
                run_ms: 1500,
                load: 0.3,
            },
            reference_ms: 930,
            settle_ms: 150,
            trace_ms: Some(4000),
            thread_perf: Vec::new(),
        }
    }
}

impl Plan {
    /// The configurations in the order of one repetition (from 0).
    pub fn order(&self, repetition: u32) -> Vec<Configuration> {
        rotated(self.configurations.clone(), repetition)
    }

    /// The seed of one workload's random numbers in one repetition: the same for all
    /// configurations, another one for each repetition.
    pub fn run_seed(&self, workload: Workload, repetition: u32) -> u64 {
        let workload = workload as u64 + 1;
        self.seed
            .wrapping_mul(1_000_003)
            .wrapping_add(workload << 32)
            .wrapping_add(repetition.into())
    }
}

impl Experiment for Plan {
    type Message = Message;
    const COMMAND: &'static [&'static str] = &["demo"];

    fn validate(&self) -> Result<()> {
        let bad = |text: &str| Err(Error::BadPlan(text.to_owned()));
        let share = |load: f64| load > 0.0 && load < 1.0;
        if self.repetitions == 0 {
            return bad("--repetitions must be at least 1");
        }
        if self.workloads.is_empty() {
            return bad("--workloads must name at least one of compute, redis");
        }
        if !self.configurations.contains(&Configuration::Alone) {
            return bad("--configurations must contain alone: the others are compared with it");
        }
        if !share(self.compute.load) || !share(self.redis.load) {
            return bad("--load and --redis-load must lie between 0 and 1 (both excluded)");
        }
        if !(0.01..=1000.0).contains(&self.compute.mean_demand_ms) {
            return bad("--mean-ms must lie between 0.01 and 1000");
        }
        if self.compute.run_ms < 100 || self.redis.run_ms < 100 || self.reference_ms < 50 {
            return bad("runs must last at least 0.1 s, reference measurements at least 50 ms");
        }
        if self.compute.workers == Some(0) {
            return bad("--workers must be at least 1");
        }
        Ok(())
    }

    /// How long measuring takes at least, seconds: the sum of the parts that have a given length.
    fn seconds(&self, _lanes: usize) -> f64 {
        let run_ms: u64 = self
            .workloads
            .iter()
            .map(|workload| match workload {
                Workload::Compute => self.compute.run_ms,
                Workload::Redis => self.redis.run_ms,
            })
            .sum();
        let configuration_ms = run_ms + self.reference_ms + 3 * self.settle_ms;
        let count = u64::from(self.repetitions) * self.configurations.len() as u64;
        (count * configuration_ms + 2 * self.trace_ms.unwrap_or(0)) as f64 / 1000.0
    }

    fn programs(&self) -> Result<Vec<PathBuf>> {
        let mut programs = vec![find_program("gzip").ok_or(batch::MISSING)?];
        if self.workloads.contains(&Workload::Redis) {
            programs.push(find_program("redis-server").ok_or(redis::MISSING)?);
        }
        Ok(programs)
    }

    fn check_native(&self) -> Result<()> {
        if !nix::unistd::geteuid().is_root() {
            return Err(Error::Unsupported(
                "--native needs root: for cgroups, SMT control, tracing".into(),
            ));
        }
        let needs_smt = self
            .configurations
            .iter()
            .any(|c| *c != Configuration::Alone);
        if needs_smt && !Machine::of(&Topology::read(Path::new("/"))?).has_smt() {
            return Err(Error::Unsupported(
                "no core of this machine has more than one lane online: nothing to show; leave out \
                 --native to use the emulated machine"
                    .into(),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_configuration_comes_at_each_place() {
        let plan = Plan::default();
        for place in 0..4 {
            let seen: HashSet<_> = (0..4).map(|r| plan.order(r)[place]).collect();
            assert_eq!(seen.len(), 4);
        }
        assert_eq!(plan.order(4), plan.order(0));
        assert_eq!(plan.order(1)[0], Configuration::Default);
    }

    #[test]
    fn seeds_differ_by_repetition_and_workload() {
        let plan = Plan::default();
        let mut seen = HashSet::new();
        for workload in Workload::ALL {
            for repetition in 0..50 {
                assert!(seen.insert(plan.run_seed(workload, repetition)));
            }
        }
    }

    #[test]
    fn the_default_plan_fits_its_time() {
        let plan = Plan::default();
        plan.validate().unwrap();
        // Second calls of `make demo` have 300 s, boot, calibration and switching included.
        assert!(plan.seconds(2) < 250.0, "{}", plan.seconds(2));
    }

    #[test]
    fn senseless_plans_are_refused_by_name() {
        let refused = |change: &dyn Fn(&mut Plan)| {
            let mut plan = Plan::default();
            change(&mut plan);
            plan.validate().unwrap_err().to_string()
        };
        assert!(refused(&|p| p.repetitions = 0).contains("--repetitions"));
        assert!(refused(&|p| p.workloads.clear()).contains("--workloads"));
        assert!(refused(&|p| p.configurations = vec![Configuration::Default]).contains("alone"));
        assert!(refused(&|p| p.compute.load = 1.0).contains("--load"));
        assert!(refused(&|p| p.compute.load = f64::NAN).contains("--load"));
        assert!(refused(&|p| p.compute.mean_demand_ms = 0.0).contains("--mean-ms"));
        assert!(refused(&|p| p.compute.workers = Some(0)).contains("--workers"));
        assert!(refused(&|p| p.redis.run_ms = 10).contains("0.1 s"));
    }

    #[test]
    fn names_are_read_back() {
        for configuration in Configuration::ALL {
            assert_eq!(
                configuration.name().parse::<Configuration>().unwrap(),
                configuration
            );
            let json = serde_json::to_string(&configuration).unwrap();
            assert_eq!(json, format!("\"{}\"", configuration.name()));
        }
        for workload in Workload::ALL {
            assert_eq!(workload.name().parse::<Workload>().unwrap(), workload);
        }
        assert!(
            "smt"
                .parse::<Configuration>()
                .unwrap_err()
                .to_string()
                .contains("smt-off")
        );
    }

    #[test]
    fn the_programs_are_real_files() {
        let plan = Plan {
            workloads: vec![Workload::Compute],
            ..Plan::default()
        };
        let programs = plan.programs().unwrap();
        assert!(programs.iter().all(|path| path.is_file()));
    }
}
