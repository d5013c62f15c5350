//! SMT metrics: pure arithmetic.
//!
//! Nothing here does I/O, reads a clock or needs a privilege: callers bring samples and events.
//!
//! - [`latency`]: percentiles by nearest rank, medians over repetitions.
//! - [`histogram`]: counts in logarithmic buckets, for distributions that have to travel or be drawn.
//! - [`trace`]: what a trace of scheduling events says about batch beside critical tasks.

pub mod histogram;
pub mod latency;
pub mod trace;
