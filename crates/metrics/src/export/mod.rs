//! Readings as OpenMetrics, and a small HTTP server that hands them out.
//!
//! Cardinality is bounded: cores and lanes are as many as the machine has, cgroups at most
//! [`CGROUPS_MAX`] (those that ran most; the others are summed), and tasks are not exported.

mod encode;
mod serve;

pub use encode::{plain, text};
pub use serve::{ServeError, Server};

/// Cgroups that are exported by name.
pub const CGROUPS_MAX: usize = 100;
