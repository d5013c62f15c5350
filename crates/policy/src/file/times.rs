//! How times in files become ns.

use super::limits::Limits;
use super::mistake::Result;
use super::reader::Value;

/// ns of a ms.
pub const MS: f64 = 1e6;
/// ns of a µs.
pub const US: f64 = 1e3;
/// ns of a second.
pub const SECOND: f64 = 1e9;

/// Longest time in a file, ms: some eleven days, so that no sum of times overflows.
pub const LONGEST_MS: f64 = 1e9;

/// A duration in a file, rounded to whole ns.
///
/// # Errors
/// It is no number within the limits.
pub fn time_ns(value: Value, unit_ns: f64, limits: Limits) -> Result<u64> {
    Ok((value.number(limits)? * unit_ns).round() as u64)
}
