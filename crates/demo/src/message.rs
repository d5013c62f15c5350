//! What the plain demonstration finds.

use crate::setups::{Configuration, Workload};
use serde::{Deserialize, Serialize};
use sidelane_smt::histogram::LogHistogram;
use sidelane_smt::latency::Summary;
use sidelane_smt::trace::Analysis;

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
