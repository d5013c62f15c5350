//! Which numbers make sense, and how times become ns.

use super::error::Result;
use super::reader::Value;
use std::fmt;

/// ns of a ms.
pub(super) const MS: f64 = 1e6;
/// ns of a µs.
pub(super) const US: f64 = 1e3;
/// ns of a second.
pub(super) const SECOND: f64 = 1e9;

/// Longest time in a file, ms: some eleven days, so that no sum of times overflows.
pub(super) const LONGEST_MS: f64 = 1e9;

/// A range of numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    min: f64,
    max: f64,
    /// Whether the minimum itself is outside.
    open: bool,
}

impl Limits {
    /// From `min` to `max`, both included.
    pub const fn from(min: f64, max: f64) -> Limits {
        Limits {
            min,
            max,
            open: false,
        }
    }

    /// Above `min`, up to `max`.
    pub const fn above(min: f64, max: f64) -> Limits {
        Limits {
            min,
            max,
            open: true,
        }
    }

    /// Whether a number is inside; NaN never is.
    pub fn allow(&self, number: f64) -> bool {
        number <= self.max && (number > self.min || !self.open && number == self.min)
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.open {
            true => write!(f, "a number above {} and at most {}", self.min, self.max),
            false => write!(f, "a number from {} to {}", self.min, self.max),
        }
    }
}

/// A duration in a file, rounded to whole ns.
pub(super) fn time_ns(value: Value, unit_ns: f64, limits: Limits) -> Result<u64> {
    Ok((value.number(limits)? * unit_ns).round() as u64)
}
