//! Results of replications as estimates.

use crate::control::LevelTotals;
use crate::machine::{Core, Interference, Machine, speed_of_lane};
use crate::results::Replication;
use crate::run::Outcome;
use crate::scenario::Scenario;
use crate::statistics::Estimate;
use crate::workload::Measured;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Confidence of all intervals.
pub const CONFIDENCE: f64 = 0.95;

/// Quantiles of latency that are reported: name and quantile.
const QUANTILES: [(&str, f64); 5] = [
    ("p50_ms", 0.5),
    ("p90_ms", 0.9),
    ("p95_ms", 0.95),
    ("p99_ms", 0.99),
    ("p999_ms", 0.999),
];

const NS_PER_MS: f64 = 1e6;
const NS_PER_S: f64 = 1e9;

/// What came out of a scenario.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the scenario.
    pub scenario: String,
    /// What it is about.
    pub about: String,
    /// Its cores and lanes that are online, in words; empty where it was read from a file.
    #[serde(skip)]
    pub cores: String,
    /// What the results rest on that nobody measured or published.
    pub assumptions: Vec<String>,
    /// Start of all random numbers.
    pub seed: u64,
    /// Replications of each configuration.
    pub replications: u32,
    /// Measured time of each, s of simulated time.
    pub seconds: f64,
    /// Of the intervals.
    pub confidence: f64,
    /// By configuration.
    pub configurations: Vec<ConfigurationSummary>,
}

/// What came out of a configuration.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ConfigurationSummary {
    /// Its name.
    pub name: String,
    /// By workload that took part.
    pub workloads: Vec<WorkloadSummary>,
    /// Of the machine and the scheduler.
    pub machine: Vec<Metric>,
    /// `[n]`: share of core time with exactly n busy lanes, over all replications.
    pub core_time_by_density: Vec<f64>,
    /// Share of the time of lanes that are online, by what it went into, over all replications.
    pub lane_time: LaneShares,
}

/// What lane time went into; the sum is 1.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the classes, and none")]
pub struct LaneShares {
    pub critical: f64,
    pub normal: f64,
    pub batch: f64,
    pub idle: f64,
}

/// What came out of a workload.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkloadSummary {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: Cow<'static, str>,
    /// What was measured.
    pub metrics: Vec<Metric>,
    /// Latency over all replications: up to so much of all answers, within so many ms. Empty at points of sweeps.
    pub latency: Vec<LatencyPoint>,
}

/// A point of a cumulative distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LatencyPoint {
    /// Share of all answers, 0 to 1.
    pub share: f64,
    /// Latency that they have at most, ms.
    pub ms: f64,
}

/// A metric over all replications.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Metric {
    /// Its name; the unit is at its end.
    pub name: Cow<'static, str>,
    /// Its estimate.
    #[serde(flatten)]
    pub estimate: Estimate,
}

/// A named value of one replication; none where it has no meaning.
type Value = (&'static str, Option<f64>);

impl Measured {
    /// All metrics of a workload in one replication. `work_rate` is the work done per time, in
    /// fastest unshared cores; the others are named by what they are and their unit.
    fn values(&self, length_ns: u64) -> Vec<Value> {
        let seconds = length_ns as f64 / NS_PER_S;
        let answered = |value: f64| (self.completed > 0).then_some(value);
        let share = |value: f64| answered(value / self.completed.max(1) as f64);
        let mut values = vec![("mean_ms", self.mean_ns().map(|ns| ns / NS_PER_MS))];
        for (name, quantile) in QUANTILES {
            let ns = self.quantile_ns(quantile);
            values.push((name, ns.map(|ns| ns as f64 / NS_PER_MS)));
        }
        let cycle_s = self.clients.map(|clients| share(clients as f64 * seconds));
        let cycle_ms = cycle_s.flatten().map(|s| s * 1e3);
        // the three states of its tasks, by request
        let run_ms = share(self.totals.lane_ns as f64 / NS_PER_MS);
        let ready_ms = share(self.totals.wait_ns as f64 / NS_PER_MS);
        let asleep_ms = cycle_ms.filter(|_| self.waits_itself);
        let asleep_ms = asleep_ms.zip(run_ms.zip(ready_ms));
        values.extend([
            ("cycle_ms", cycle_ms),
            ("run_ms", run_ms),
            ("ready_ms", ready_ms),
            (
                "asleep_ms",
                asleep_ms.map(|(all, (run, ready))| all - run - ready),
            ),
            (
                "throughput_per_s",
                answered(self.completed as f64 / seconds),
            ),
            ("quality", share(self.quality_sum)),
            ("deadline_misses", share(self.deadline_misses as f64)),
            ("work_rate", Some(self.totals.work_ns / length_ns as f64)),
            (
                "lane_rate",
                Some(self.totals.lane_ns as f64 / length_ns as f64),
            ),
            ("mt1_rate", Some(self.totals.mt1_ns / length_ns as f64)),
            (
                "prorated_rate",
                Some(self.totals.prorated_ns / length_ns as f64),
            ),
            (
                "wait_rate",
                Some(self.totals.wait_ns as f64 / length_ns as f64),
            ),
            (
                "poll_rate",
                Some(self.totals.polled_ns as f64 / length_ns as f64),
            ),
        ]);
        values
    }
}

/// Levels whose share of time is a metric.
const LEVEL_SHARES: [&str; 4] = [
    "level_1_share",
    "level_2_share",
    "level_3_share",
    "level_4_share",
];

impl LevelTotals {
    /// Metrics of the SMT level; without a control it has none.
    fn values(totals: Option<&LevelTotals>) -> Vec<Value> {
        let time_ns = |n: usize| totals.and_then(|totals| totals.time_ns.get(n)).copied();
        let all_ns = totals.map(|totals| totals.time_ns.iter().sum::<u64>().max(1) as f64);
        let share = |n: usize| Some(time_ns(n)? as f64 / all_ns?);
        let mean = |totals: &LevelTotals| {
            let levels = totals.time_ns.iter().zip(1_u64..);
            let sum: u64 = levels.map(|(time_ns, level)| time_ns * level).sum();
            Some(sum as f64 / all_ns?)
        };
        let per_min =
            |totals: &LevelTotals| Some(totals.changes as f64 * 60.0 * NS_PER_S / all_ns?);
        let shares = LEVEL_SHARES.iter().enumerate();
        let shares = shares.map(|(n, name)| (*name, share(n)));
        [
            ("smt_level", totals.and_then(mean)),
            ("level_changes_per_min", totals.and_then(per_min)),
        ]
        .into_iter()
        .chain(shares)
        .collect()
    }
}

impl Replication {
    /// All metrics of the machine in one replication.
    fn values(&self, machine: &Machine) -> Vec<Value> {
        let per_s = |count: u64| Some(count as f64 * NS_PER_S / self.length_ns as f64);
        let capacity_factor = self.capacity_factor(machine);
        let max = max_capacity_factor(machine);
        let productivity = capacity_factor.zip(max).map(|(factor, max)| factor / max);
        let (counters, share) = (&self.counters, self.batch_share());
        let completed: u64 = self
            .workloads
            .iter()
            .map(|measured| measured.completed)
            .sum();
        let etr_per_s = completed as f64 * NS_PER_S / self.length_ns as f64;
        let evict_us = counters.evict_wait_ns as f64 / counters.evictions.max(1) as f64 / 1e3;
        let mut values = vec![
            ("batch_share", share),
            (
                "batch_beside_critical",
                share.and(Some(self.batch_beside_critical())),
            ),
            // z/VM: external and internal transaction rate; see experiments/README.md.
            ("etr_per_s", Some(etr_per_s)),
            (
                "itr_per_s",
                (self.utilization() > 0.0).then(|| etr_per_s / self.utilization()),
            ),
            ("utilization", Some(self.utilization())),
            ("core_utilization", Some(self.core_utilization())),
            ("density", Some(self.thread_density())),
            ("capacity_factor", capacity_factor),
            ("max_capacity_factor", max),
            ("productivity", productivity),
            (
                "mt_utilization",
                productivity.map(|p| p * self.core_utilization()),
            ),
            ("switches_per_s", per_s(counters.switches.iter().sum())),
            ("task_switches_per_s", per_s(self.switches)),
            ("cache_moves_per_s", per_s(self.cache_moves)),
            (
                "held_lanes",
                Some(counters.held_ns as f64 / self.length_ns as f64),
            ),
            ("retentions_per_s", per_s(counters.retentions)),
            ("evictions_per_s", per_s(counters.evictions)),
            ("eviction_us", (counters.evictions > 0).then_some(evict_us)),
            ("overdue_per_s", per_s(counters.overdue.iter().sum())),
            ("steals_per_s", per_s(counters.steals.iter().sum())),
        ];
        values.extend(LevelTotals::values(self.levels.as_ref()));
        values
    }

    /// Capacity factor: work done in busy core time, relative to what the cores would have done
    /// with one busy lane each and SMT off (DESIGN "Metrics").
    fn capacity_factor(&self, machine: &Machine) -> Option<f64> {
        let (mut work_ns, mut alone_ns) = (0.0, 0.0);
        for (core, place) in self.cores.iter().zip(&machine.cores) {
            let busy_ns: u64 = core.density_ns.iter().skip(1).sum();
            work_ns += core.density_work_ns.iter().sum::<f64>();
            alone_ns += busy_ns as f64 * f64::from(place.capacity) / 1024.0;
        }
        (alone_ns > 0.0).then(|| work_ns / alone_ns)
    }
}

/// T × threadPerf[T], T being the most lanes of a core that are online; none with an interference table, where it depends on what
/// runs.
fn max_capacity_factor(machine: &Machine) -> Option<f64> {
    let online = |core: &Core| {
        let lanes = core.lanes.iter();
        lanes.filter(|cpu| machine.online[**cpu as usize]).count()
    };
    let widest = machine.cores.iter().map(online).max()?;
    match &machine.interference {
        Interference::ThreadPerf(speeds) => {
            (widest > 0).then(|| widest as f64 * speed_of_lane(speeds, widest, widest))
        }
        Interference::Kinds(_) => None,
    }
}

impl Outcome {
    /// A metric of a workload, or of the machine, by replication; none if a replication has none.
    pub fn values(&self, workload: Option<&str>, metric: &str) -> Option<Vec<f64>> {
        let of = |replication: &Replication| {
            let values = match workload {
                None => replication.values(&self.machine),
                Some(name) => {
                    let named = |measured: &&Measured| measured.name == name;
                    let measured = replication.workloads.iter().find(named)?;
                    measured.values(replication.length_ns)
                }
            };
            values.iter().find(|(name, _)| *name == metric)?.1
        };
        self.replications.iter().map(of).collect()
    }
}

/// Metrics over replications: those that all replications have.
fn estimates(replications: &[Vec<Value>]) -> Vec<Metric> {
    let Some(first) = replications.first() else {
        return Vec::new();
    };
    let metric = |(index, (name, _)): (usize, &Value)| {
        let values: Option<Vec<f64>> = replications.iter().map(|values| values[index].1).collect();
        Some(Metric {
            name: (*name).into(),
            estimate: Estimate::of(&values?, CONFIDENCE)?,
        })
    };
    first.iter().enumerate().filter_map(metric).collect()
}

/// Points of a cumulative distribution: each hundredth, and the tail.
fn distribution<'a>(all: impl Iterator<Item = &'a Measured>) -> Vec<LatencyPoint> {
    let mut merged: Option<Histogram<u64>> = None;
    for latency in all.filter_map(|measured| measured.latency.as_ref()) {
        match &mut merged {
            None => merged = Some(latency.clone()),
            Some(merged) => {
                let _ = merged.add(latency); // they grow as needed
            }
        }
    }
    let Some(merged) = merged.filter(|merged| !merged.is_empty()) else {
        return Vec::new();
    };
    let hundredths = (1..100).map(|n| f64::from(n) / 100.0);
    let point = |share: f64| LatencyPoint {
        share,
        ms: merged.value_at_quantile(share) as f64 / NS_PER_MS,
    };
    hundredths
        .chain([0.995, 0.999, 0.9999, 1.0])
        .map(point)
        .collect()
}

fn density_shares(replications: &[Replication]) -> Vec<f64> {
    let mut times_ns: Vec<u64> = Vec::new();
    for replication in replications {
        let densities = replication.densities();
        times_ns.resize(times_ns.len().max(densities.len()), 0);
        for (sum_ns, (time_ns, _)) in times_ns.iter_mut().zip(densities) {
            *sum_ns += time_ns;
        }
    }
    let all_ns: u64 = times_ns.iter().sum();
    let share = |time_ns: &u64| *time_ns as f64 / all_ns.max(1) as f64;
    times_ns.iter().map(share).collect()
}

impl LaneShares {
    fn of(replications: &[Replication]) -> LaneShares {
        let lanes = || {
            replications
                .iter()
                .flat_map(|r| &r.lanes)
                .map(|(_, lane)| lane)
        };
        let class_ns = |index: usize| lanes().map(|lane| lane.class_ns[index]).sum::<u64>() as f64;
        let idle_ns = lanes().map(|lane| lane.idle_ns).sum::<u64>() as f64;
        let [critical, normal, batch] = [0, 1, 2].map(class_ns);
        let all_ns = (critical + normal + batch + idle_ns).max(1.0);
        LaneShares {
            critical: critical / all_ns,
            normal: normal / all_ns,
            batch: batch / all_ns,
            idle: idle_ns / all_ns,
        }
    }
}

impl Summary {
    /// Summarises the outcomes of a scenario.
    pub fn new(scenario: &Scenario, outcomes: &[Outcome]) -> Summary {
        Summary {
            scenario: scenario.name.clone(),
            about: scenario.about.clone(),
            cores: scenario.machine.text(),
            assumptions: scenario.assumptions.clone(),
            seed: scenario.run.seed,
            replications: scenario.run.replications,
            seconds: scenario.run.length_ns as f64 / NS_PER_S,
            confidence: CONFIDENCE,
            configurations: outcomes.iter().map(ConfigurationSummary::new).collect(),
        }
    }

    /// A configuration by its name.
    pub fn configuration(&self, name: &str) -> Option<&ConfigurationSummary> {
        self.configurations
            .iter()
            .find(|configuration| configuration.name == name)
    }
}

impl ConfigurationSummary {
    fn new(outcome: &Outcome) -> ConfigurationSummary {
        let replications = &outcome.replications;
        let first = replications
            .first()
            .map_or(&[][..], |first| &first.workloads);
        let workload = |(index, measured): (usize, &Measured)| {
            let values: Vec<_> = replications
                .iter()
                .map(|replication| replication.workloads[index].values(replication.length_ns))
                .collect();
            WorkloadSummary {
                name: measured.name.clone(),
                class: measured.class.name().into(),
                metrics: estimates(&values),
                latency: distribution(replications.iter().map(|r| &r.workloads[index])),
            }
        };
        let values: Vec<_> = replications
            .iter()
            .map(|r| r.values(&outcome.machine))
            .collect();
        ConfigurationSummary {
            name: outcome.configuration.clone(),
            workloads: first.iter().enumerate().map(workload).collect(),
            machine: estimates(&values),
            core_time_by_density: density_shares(replications),
            lane_time: LaneShares::of(replications),
        }
    }

    /// A metric of the machine.
    pub fn metric(&self, name: &str) -> Option<&Estimate> {
        find(&self.machine, name)
    }

    /// A workload by its name.
    pub fn workload(&self, name: &str) -> Option<&WorkloadSummary> {
        self.workloads.iter().find(|workload| workload.name == name)
    }
}

impl WorkloadSummary {
    /// A metric of the workload.
    pub fn metric(&self, name: &str) -> Option<&Estimate> {
        find(&self.metrics, name)
    }
}

fn find<'a>(metrics: &'a [Metric], name: &str) -> Option<&'a Estimate> {
    let metric = metrics.iter().find(|metric| metric.name == name)?;
    Some(&metric.estimate)
}
