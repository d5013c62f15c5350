//! What this machine tells of its lanes, and a place where others read it.
//!
//! - [`collector`]: totals from which SMT metrics follow, by tracing or sampling, beside any scheduler.
//! - [`watch`]: intervals of it, one after the other; [`record`]: in a file; [`export`]: for Prometheus.
//! - [`tasks`]: what retention and pairing know of each task.
//! - [`lanes`]: what the lanes of the running scheduler do.
//! - [`proc_stat`]: how busy each lane is, by the kernel's own account.
//! - [`counters`]: instructions of each lane, by hardware counters.

mod bpf;
pub mod collector;
pub mod counters;
mod error;
pub mod export;
pub mod lanes;
pub mod proc_stat;
pub mod record;
pub mod tasks;
pub mod watch;

pub use error::Error;
