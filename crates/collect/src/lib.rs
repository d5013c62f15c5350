//! What this machine tells of its lanes, and a place where others read it.
//!
//! - [`proc_stat`]: how busy each lane is.
//! - [`counters`]: instructions of each lane, by hardware counters.
//! - [`export`]: SMT metrics for Prometheus.

pub mod counters;
pub mod export;
pub mod proc_stat;
