//! From findings to figures: medians over repetitions, ratios, batch shares.
//!
//! The **batch share** of a run is the batch work done, as a share of what the machine could have done
//! in the capacity that the critical work left:
//!
//! ```text
//!                 bytes compressed / elapsed
//! share = ───────────────────────────────────────────────────────────────────
//!         (bytes/s of one whole core) × (cores − core-time of critical work per second)
//! ```
//!
//! The speed of a whole core is the mean of the reference measurements of the run's repetition: before
//! and after each of its configurations. (Single ones scatter by a tenth on a virtual machine with
//! neighbours, and its speed drifts over minutes.) The core-time of the computing server is units of
//! work / (units/s of one whole core), by the same references; that of redis is the time its process
//! spends on lanes for the same commands in `alone`. The share can exceed 1 a little where the
//! references met slow moments. Nothing else (the kernel, the load generator) is taken off the capacity.

use crate::error::{Error, Result};
use crate::figures::{Facts, ms};
use crate::lines::MachineFacts;
use crate::plan::{Calibration, Finding, Reference, Run, TraceRun};
use crate::plan::{Configuration, Workload};
use serde::Serialize;
use sidelane_smt::histogram::LogHistogram;
use sidelane_smt::latency::{Spread, Summary};

/// All figures of a demonstration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Results {
    /// Whether lanes are emulated: then the figures are ratios, not silicon.
    pub emulated_smt: bool,
    /// Speed of a lane when 1, 2, … lanes of its core run, as asked of the emulation; empty on real
    /// SMT.
    pub thread_perf: Vec<f64>,
    /// The critical workloads.
    pub workloads: Vec<WorkloadResults>,
    /// What traces of scheduling events say.
    pub traces: Vec<TraceRun>,
    /// The machine.
    pub machine: MachineFacts,
    /// What the work was made of at the start.
    pub calibration: Calibration,
    /// The reference speeds of one whole core over the time of all measurements.
    pub reference: ReferenceSpread,
    /// Every run, in the order in which they were made.
    pub runs: Vec<RunResults>,
    /// Every reference measurement, in the order in which they were made.
    pub references: Vec<Reference>,
}

/// One run: what the medians are of.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RunResults {
    /// What was measured.
    pub workload: Workload,
    /// Under which configuration.
    pub configuration: Configuration,
    /// In which repetition, from 0.
    pub repetition: u32,
    /// Latencies.
    pub latency: Summary,
    /// How late requests were sent (contained in their latency).
    pub late: Summary,
    /// From sending until a worker took the request; empty for redis.
    pub wait: Summary,
    /// From taking the request until its result was there; empty for redis.
    pub service: Summary,
    /// Core-time per second that the critical work needed on whole cores.
    pub critical_cores: f64,
    /// Batch work done, bytes/s.
    pub batch_bytes_per_s: f64,
    /// That as a share of what the capacity left by the critical work could have done.
    pub batch_share: f64,
}

/// How the speed of one whole core varied.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ReferenceSpread {
    /// At batch work, bytes/s.
    pub batch_bytes_per_core_s: Spread,
    /// At the computing server's work, units/s.
    pub units_per_core_s: Spread,
}

/// One workload under all configurations.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkloadResults {
    /// Its name.
    pub name: Workload,
    /// In the order of the report.
    pub configurations: Vec<ConfigurationResults>,
}

/// One workload under one configuration: medians over repetitions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConfigurationResults {
    /// Its name.
    pub name: Configuration,
    /// Median latency, ms.
    pub p50_ms: f64,
    /// 95th percentile of the latency, ms.
    pub p95_ms: f64,
    /// 99th percentile of the latency, ms.
    pub p99_ms: f64,
    /// Batch work done, as a share of the capacity that the critical work leaves; 0 without batch.
    pub batch_share: f64,
    /// How many runs the medians are of.
    pub repetitions: usize,
    /// The medians as multiples of those of `alone`.
    pub over_alone: Ratios,
    /// Smallest, middle and largest value over the repetitions.
    pub spread: Spreads,
    /// 99th percentile of how late requests were sent, ms (contained in their latency).
    pub late_p99_ms: f64,
    /// Where the mean latency goes.
    pub parts: Parts,
    /// Requests in all runs.
    pub requests: u64,
    /// Latencies of all runs, ns: pairs of bucket and count.
    pub histogram: LogHistogram,
}

/// The parts of the mean latency, each the median over the repetitions. Without the last two for
/// redis, which does not say when it took a command.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Parts {
    /// From the intended moment until the request was sent, ms.
    pub late_ms: f64,
    /// From sending until a worker took it, ms.
    pub wait_ms: Option<f64>,
    /// From taking it until its result was there, ms.
    pub service_ms: Option<f64>,
}

/// Percentiles as multiples of the same percentiles of `alone`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratios {
    /// Of the medians.
    pub p50: f64,
    /// Of the 95th percentiles.
    pub p95: f64,
    /// Of the 99th percentiles.
    pub p99: f64,
}

/// Spreads over the repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spreads {
    /// Median latency, ms.
    pub p50_ms: Spread,
    /// 95th percentile, ms.
    pub p95_ms: Spread,
    /// 99th percentile, ms.
    pub p99_ms: Spread,
    /// Batch share.
    pub batch_share: Spread,
}

/// A run and the speed of a whole core in its repetition.
#[derive(Debug, Clone, Copy)]
struct Measured<'a> {
    run: &'a Run,
    speed: Reference,
}

impl Results {
    /// Makes figures of all findings.
    ///
    /// # Errors
    /// [`Error::Incomplete`].
    pub fn new(facts: Facts, findings: &[Finding]) -> Result<Results> {
        let calibration = findings.iter().find_map(|finding| match finding {
            Finding::Calibration(calibration) => Some(*calibration),
            _ => None,
        });
        let measured = pair_with_references(findings)?;
        let cores = facts.machine.cores.len() as f64;
        let runs = measured.iter().map(|run| one_run(run, &measured, cores));
        let runs: Vec<RunResults> = runs.collect::<Result<_>>()?;
        let traces = findings.iter().filter_map(|finding| match finding {
            Finding::Trace(trace) => Some(trace.clone()),
            _ => None,
        });
        let references = all_references(findings);
        Ok(Results {
            emulated_smt: facts.emulated.is_some(),
            thread_perf: facts.emulated.unwrap_or_default(),
            workloads: all_workloads(&runs, findings)?,
            traces: traces.collect(),
            machine: facts.machine,
            calibration: calibration.ok_or_else(|| incomplete("no calibration"))?,
            reference: reference_spread(&references)?,
            runs,
            references,
        })
    }
}

fn incomplete(text: &str) -> Error {
    Error::Incomplete(text.to_owned())
}

/// Gives each run the mean of the references of its repetition: from the last one before the
/// repetition's first run to the first one after its last run.
fn pair_with_references(findings: &[Finding]) -> Result<Vec<Measured<'_>>> {
    let mut references: Vec<Reference> = Vec::new();
    // Each run with the number of references before it.
    let mut runs: Vec<(&Run, usize)> = Vec::new();
    for finding in findings {
        match finding {
            Finding::Reference(reference) => references.push(*reference),
            Finding::Run(run) => runs.push((run, references.len())),
            _ => {}
        }
    }
    let speed_in = |repetition: u32| -> Option<Reference> {
        let before = runs
            .iter()
            .filter(|(run, _)| run.repetition == repetition)
            .map(|run| run.1);
        let first = before.clone().min()?.checked_sub(1)?;
        mean(references.get(first..=before.max()?)?)
    };
    let measured = runs.iter().map(|&(run, _)| {
        let speed = speed_in(run.repetition);
        let speed = speed.ok_or_else(|| incomplete("no reference before or after a run"))?;
        Ok(Measured { run, speed })
    });
    measured.collect()
}

fn mean(references: &[Reference]) -> Option<Reference> {
    let count = references.len() as f64;
    let of = |speed: fn(&Reference) -> f64| references.iter().map(speed).sum::<f64>() / count;
    (!references.is_empty()).then(|| Reference {
        batch_bytes_per_core_s: of(|reference| reference.batch_bytes_per_core_s),
        units_per_core_s: of(|reference| reference.units_per_core_s),
    })
}

fn all_references(findings: &[Finding]) -> Vec<Reference> {
    let references = findings.iter().filter_map(|finding| match finding {
        Finding::Reference(reference) => Some(*reference),
        _ => None,
    });
    references.collect()
}

fn reference_spread(references: &[Reference]) -> Result<ReferenceSpread> {
    let speeds = references
        .iter()
        .map(|r| (r.batch_bytes_per_core_s, r.units_per_core_s));
    let (bytes, units): (Vec<f64>, Vec<f64>) = speeds.unzip();
    match (Spread::of(&bytes), Spread::of(&units)) {
        (Some(batch_bytes_per_core_s), Some(units_per_core_s)) => Ok(ReferenceSpread {
            batch_bytes_per_core_s,
            units_per_core_s,
        }),
        _ => Err(incomplete("no reference measurement")),
    }
}

fn all_workloads(runs: &[RunResults], findings: &[Finding]) -> Result<Vec<WorkloadResults>> {
    let mut workloads = Vec::new();
    for &name in Workload::ALL {
        let mut configurations = Vec::new();
        for &configuration in Configuration::ALL {
            let of_both =
                |run: &&RunResults| run.workload == name && run.configuration == configuration;
            let runs: Vec<&RunResults> = runs.iter().filter(of_both).collect();
            if !runs.is_empty() {
                let histogram = merged_histogram(findings, name, configuration);
                configurations.push(one_configuration(configuration, &runs, histogram)?);
            }
        }
        if !configurations.is_empty() {
            compare_with_alone(&mut configurations)?;
            workloads.push(WorkloadResults {
                name,
                configurations,
            });
        }
    }
    Ok(workloads)
}

/// The latencies of all runs of a workload under a configuration.
fn merged_histogram(
    findings: &[Finding],
    workload: Workload,
    configuration: Configuration,
) -> LogHistogram {
    let mut histogram = LogHistogram::default();
    for finding in findings {
        if let Finding::Run(run) = finding
            && (run.workload, run.configuration) == (workload, configuration)
        {
            histogram.merge(&run.histogram);
        }
    }
    histogram
}

/// The figures of the runs of one workload under one configuration; ratios are still 1.
fn one_configuration(
    name: Configuration,
    runs: &[&RunResults],
    histogram: LogHistogram,
) -> Result<ConfigurationResults> {
    let spread = |figure: fn(&RunResults) -> f64| {
        let values: Vec<f64> = runs.iter().map(|run| figure(run)).collect();
        Spread::of(&values).ok_or_else(|| incomplete("a figure is not a number"))
    };
    let told = runs.iter().all(|run| run.service.count > 0);
    let spreads = Spreads {
        p50_ms: spread(|run| ms(run.latency.p50_ns))?,
        p95_ms: spread(|run| ms(run.latency.p95_ns))?,
        p99_ms: spread(|run| ms(run.latency.p99_ns))?,
        batch_share: spread(|run| run.batch_share)?,
    };
    Ok(ConfigurationResults {
        name,
        p50_ms: spreads.p50_ms.median,
        p95_ms: spreads.p95_ms.median,
        p99_ms: spreads.p99_ms.median,
        batch_share: spreads.batch_share.median,
        repetitions: runs.len(),
        over_alone: Ratios {
            p50: 1.0,
            p95: 1.0,
            p99: 1.0,
        },
        spread: spreads,
        late_p99_ms: spread(|run| ms(run.late.p99_ns))?.median,
        parts: Parts {
            late_ms: spread(|run| ms(run.late.mean_ns))?.median,
            wait_ms: told.then_some(spread(|run| ms(run.wait.mean_ns))?.median),
            service_ms: told.then_some(spread(|run| ms(run.service.mean_ns))?.median),
        },
        requests: histogram.count(),
        histogram,
    })
}

/// The figures of one run; for the batch share see the module's documentation.
fn one_run(measured: &Measured<'_>, all: &[Measured<'_>], cores: f64) -> Result<RunResults> {
    let Measured { run, speed } = measured;
    let elapsed_s = run.elapsed_ns as f64 / 1e9;
    let critical_cores = match run.workload {
        Workload::Compute => run.units as f64 / speed.units_per_core_s / elapsed_s,
        Workload::Redis => {
            let alone = all.iter().map(|other| other.run).find(|other| {
                other.workload == run.workload
                    && other.configuration == Configuration::Alone
                    && other.repetition == run.repetition
            });
            let alone = alone.ok_or_else(|| incomplete("a repetition has no run alone"))?;
            alone.server_lane_ns as f64 / alone.elapsed_ns as f64
        }
    };
    let batch_bytes_per_s = run.batch_bytes as f64 / elapsed_s;
    let batch_share = batch_bytes_per_s / (speed.batch_bytes_per_core_s * (cores - critical_cores));
    if !(batch_share.is_finite() && batch_share >= 0.0) {
        let configuration = run.configuration;
        let text = format!("a batch share of {batch_share} in a run under {configuration}");
        return Err(incomplete(&text));
    }
    Ok(RunResults {
        workload: run.workload,
        configuration: run.configuration,
        repetition: run.repetition,
        latency: run.latency,
        late: run.late,
        wait: run.wait,
        service: run.service,
        critical_cores,
        batch_bytes_per_s,
        batch_share,
    })
}

fn compare_with_alone(configurations: &mut [ConfigurationResults]) -> Result<()> {
    let alone = configurations
        .iter()
        .find(|c| c.name == Configuration::Alone);
    let alone = alone.ok_or_else(|| incomplete("no runs under alone"))?;
    let (p50_ms, p95_ms, p99_ms) = (alone.p50_ms, alone.p95_ms, alone.p99_ms);
    for configuration in configurations {
        configuration.over_alone = Ratios {
            p50: configuration.p50_ms / p50_ms,
            p95: configuration.p95_ms / p95_ms,
            p99: configuration.p99_ms / p99_ms,
        };
    }
    Ok(())
}
