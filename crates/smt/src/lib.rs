//! SMT metrics: what lanes that share a core really deliver.
//!
//! Pure arithmetic, which does no I/O, reads no clock and needs no privilege:
//!
//! - [`latency`]: percentiles by nearest rank, medians over repetitions.
//! - [`histogram`]: counts in logarithmic buckets, for distributions that have to travel or be drawn.
//! - [`advise`]: what to do about what was measured.
//! - [`trace`]: what a trace of scheduling events says about batch beside critical tasks.
//! - [`metrics`]: density, capacity, productivity, MT1-equivalent time.
//! - [`recording`]: a file of such intervals.
//! - [`report`]: what a recording says, and two of them compared.
//! - [`service`]: what SMT costs one service.
//! - [`snapshot`]: totals that a collector counted, and what lies between two readings.
//! - [`thread_perf`]: what makes threadPerf valid, and the nearest valid one to measured speeds.
//! - [`online`]: threadPerf from work done and time at each density, while the machine works.

pub mod advise;
pub mod histogram;
pub mod latency;
pub mod metrics;
pub mod online;
pub mod recording;
pub mod report;
pub mod service;
pub mod snapshot;
pub mod thread_perf;
pub mod trace;
