//! The plain demonstration: what is compared, its plan (how long, how often, and under which load), and what it finds.

use crate::arguments::seconds_as_ms;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use sidelane_smt::histogram::LogHistogram;
use sidelane_smt::latency::Summary;
use sidelane_smt::trace::Analysis;
use std::path::PathBuf;
use std::str::FromStr;

/// A type of setups: the name of each in tables, and `ALL` of them. In JSON they have their names in kebab case.
macro_rules! setups {
    ($(#[$about:meta])* pub enum $Setup:ident { $($(#[$doc:meta])* $Name:ident = $name:literal,)+ }) => {
        $(#[$about])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
        )]
        #[serde(rename_all = "kebab-case")]
        pub enum $Setup {
            $($(#[$doc])* $Name,)+
        }

        impl $Setup {
            /// All of them, in the order of the report.
            pub const ALL: &'static [$Setup] = &[$($Setup::$Name,)+];

            /// The name in tables.
            pub fn name(self) -> &'static str {
                match self {
                    $($Setup::$Name => $name,)+
                }
            }
        }

        impl std::fmt::Display for $Setup {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
pub(crate) use setups;

setups! {
    /// How the machine is set up while the critical work is measured.
    pub enum Configuration {
        /// No batch, the kernel's default scheduler: what the others are compared with.
        Alone = "alone",
        /// Batch as `SCHED_IDLE`, the kernel's default scheduler.
        Default = "default",
        /// As `default`, with all lanes but the first of each core switched off.
        SmtOff = "smt-off",
        /// Batch beside the critical work, scheduled by Sidelane.
        Sidelane = "sidelane",
        /// Batch scheduled by Sidelane alone, all else by the kernel's default scheduler.
        BatchOnly = "batch-only",
    }
}

setups! {
    /// A critical workload.
    pub enum Workload {
        /// A server whose requests are milliseconds of real computation.
        Compute = "compute",
        /// redis-server with short and longer commands.
        Redis = "redis",
    }
}

impl Configuration {
    /// Whether batch runs.
    pub fn has_batch(self) -> bool {
        self != Configuration::Alone
    }
}

impl FromStr for Configuration {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        named(Configuration::ALL, "configuration", text)
    }
}

impl FromStr for Workload {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        named(Workload::ALL, "workload", text)
    }
}

/// The one that is called so.
fn named<S: Copy + ToString>(all: &[S], kind: &str, text: &str) -> Result<S> {
    let found = all.iter().find(|one| one.to_string() == text);
    found.copied().ok_or_else(|| {
        let names: Vec<String> = all.iter().map(S::to_string).collect();
        let names = names.join(", ");
        Error::BadPlan(format!("no {kind} is called {text:?}; there are {names}"))
    })
}

/// What is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, clap::Args)]
pub struct Plan {
    /// How often each workload is measured under each configuration.
    #[arg(long, default_value_t = 7, value_name = "N")]
    pub repetitions: u32,
    // always with `alone`
    /// What is compared.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", default_values_t = Configuration::ALL.to_vec())]
    pub configurations: Vec<Configuration>,
    /// What is measured.
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", default_values_t = Workload::ALL.to_vec())]
    pub workloads: Vec<Workload>,
    /// Length of a run of the computing server.
    #[arg(long = "seconds", default_value = "3.5", value_parser = seconds_as_ms, value_name = "S")]
    pub compute_ms: u64,
    /// Offered load of the computing server, as a share of all cores.
    #[arg(long, default_value_t = 0.24, value_name = "SHARE")]
    pub load: f64,
    /// Mean demand of a request to the computing server, ms of a whole core.
    #[arg(long = "mean-ms", default_value_t = 8.0, value_name = "MS")]
    pub mean_demand_ms: f64,
    /// Worker threads of the computing server [default: one for each lane].
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Length of a run of redis.
    #[arg(long = "redis-seconds", default_value = "1.5", value_parser = seconds_as_ms, value_name = "S")]
    pub redis_ms: u64,
    // redis executes commands in one thread
    /// Offered load of redis, as a share of one core.
    #[arg(long, default_value_t = 0.3, value_name = "SHARE")]
    pub redis_load: f64,
    /// Length of the traced runs at the end; 0 leaves them out.
    #[arg(long = "trace-seconds", default_value = "4", value_parser = seconds_as_ms, value_name = "S")]
    pub trace_ms: u64,
    /// Start of all random numbers: same seed, same requests.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Where the drawing of the latency distributions goes.
    #[arg(long, default_value = "sidelane-demo.svg", value_name = "FILE")]
    pub svg: PathBuf,
    // speeds of lanes that the scheduler is told; empty: not known
    #[arg(skip)]
    pub(crate) thread_perf: Vec<f64>,
}

impl Plan {
    /// The seed of one workload's random numbers in one repetition: the same for all
    /// configurations, another one for each repetition.
    pub(crate) fn run_seed(&self, workload: Workload, repetition: u32) -> u64 {
        let workload = workload as u64 + 1;
        self.seed
            .wrapping_mul(1_000_003)
            .wrapping_add(workload << 32)
            .wrapping_add(repetition.into())
    }

    /// Mean demand of a request, s of a whole core.
    pub(crate) fn mean_demand_s(&self) -> f64 {
        self.mean_demand_ms / 1000.0
    }
}

/// What measuring finds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// What the machine can do, measured once, when nothing else runs on it.
    Calibration(Calibration),
    /// What the machine can do now.
    Reference(Reference),
    /// One measured run.
    Run(Run),
    /// A traced run.
    Trace(TraceRun),
}

/// What the work was made of at the start. Rates stay; units of work a second are measured again before each
/// repetition, so that within it all configurations do the same work, and requests are as long in each.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Units of work that one whole core does in a second.
    pub units_per_core_s: f64,
    /// Mean demand of a request, units of work.
    pub mean_units: f64,
    /// Requests offered to the computing server, 1/s.
    pub compute_rate_per_s: f64,
    /// Mean time on a lane of a command to redis, ns; 0 when redis is not measured.
    pub redis_service_ns: f64,
    /// Commands offered to redis, 1/s; 0 when redis is not measured.
    pub redis_rate_per_s: f64,
}

/// The speed of one whole core: repeated all along, because a machine's speed may drift.
///
/// All cores are busy while it is measured, each with one thread on its first lane.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// Batch work: input bytes compressed in a second by one whole core.
    pub batch_bytes_per_core_s: f64,
    /// The computing server's work: units in a second by one whole core.
    pub units_per_core_s: f64,
}

/// A critical workload under one configuration, once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// What was measured.
    pub workload: Workload,
    /// Under which configuration.
    pub configuration: Configuration,
    /// In which repetition, from 0.
    pub repetition: u32,
    /// From the start to the last answer, ns.
    pub elapsed_ns: u64,
    /// Latencies of the requests.
    pub latency: Summary,
    /// How late requests were sent.
    pub late: Summary,
    /// From sending until a worker took the request; empty for redis.
    pub wait: Summary,
    /// From taking the request until its result was there; empty for redis.
    pub service: Summary,
    /// Distribution of the latencies, ns.
    pub histogram: LogHistogram,
    /// Batch work done meanwhile, bytes of input.
    pub batch_bytes: u64,
    /// Units of work of all requests; 0 for redis.
    pub units: u64,
    /// Time that the server spent on lanes, ns.
    pub server_lane_ns: u64,
}

/// A traced run of the computing server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TraceRun {
    /// Under which configuration.
    pub configuration: Configuration,
    /// Events read.
    pub events: u64,
    /// Events that the kernel had no room for.
    pub lost: u64,
    /// What they say.
    pub analysis: Analysis,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use crate::experiment::testing::{plan, plans_make_sense};
    use std::collections::HashSet;

    #[test]
    fn seeds_differ_by_repetition_and_workload() {
        let plan: Plan = plan("");
        let mut seen = HashSet::new();
        for workload in Workload::ALL {
            for repetition in 0..50 {
                assert!(seen.insert(plan.run_seed(*workload, repetition)));
            }
        }
    }

    #[test]
    fn the_default_plan_fits_its_time() {
        // Second calls of `make demo` have 300 s, boot, calibration and switching included.
        let needed_s = plan::<Plan>("").seconds(2);
        assert!(needed_s < 250.0, "{needed_s}");
    }

    #[test]
    fn senseless_plans_are_refused_by_name() {
        plans_make_sense::<Plan>(&[
            "--configurations default",
            "--load 1",
            "--load nan",
            "--redis-load 0",
            "--mean-ms 0",
            "--workers 0",
            "--seconds 0.01",
            "--redis-seconds 0.01",
            "--seconds inf",
        ]);
    }

    #[test]
    fn names_are_read_back() {
        for configuration in Configuration::ALL {
            let read = configuration.name().parse::<Configuration>().unwrap();
            assert_eq!(read, *configuration);
            let json = serde_json::to_string(configuration).unwrap();
            assert_eq!(json, format!("\"{}\"", configuration.name()));
        }
        for workload in Workload::ALL {
            assert_eq!(workload.name().parse::<Workload>().unwrap(), *workload);
        }
        let unknown = "smt".parse::<Configuration>().unwrap_err().to_string();
        assert!(unknown.contains("smt-off"), "{unknown}");
    }
}
