//! Readings as OpenMetrics, and a small HTTP server that hands them out.
//!
//! Cardinality is bounded: cores and lanes are as many as the machine has, cgroups at most
//! [`SERIES_MAX`] (those that ran most of late; the others are summed), and tasks are not exported.

mod encode;
mod series;
mod serve;

pub use encode::{plain, text};
pub use series::{SERIES_MAX, Series};
pub use serve::{ServeError, Server};
