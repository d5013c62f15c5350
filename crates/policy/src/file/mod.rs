//! Files of tables: what they may hold, how times in them become ns, and where a mistake in them is.

mod reader;

pub use reader::{Section, Shape, Source, Value, alternatives, similar, with_keys};

use std::fmt;

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

/// A place in a file. Printed as `file:line:column`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, as it was named.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// A mistake in a file. Printed as `file:line:column: what`, with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct Mistake {
    /// Where it is.
    pub place: Place,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// What is read, or the first mistake.
pub type Result<T> = std::result::Result<T, Mistake>;

/// A range of numbers.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    min: f64,
    max: f64,
    /// Whether the minimum itself is outside.
    open: bool,
    /// Whether 0 is inside, too.
    zero: bool,
}

impl Limits {
    /// From `min` to `max`, both included.
    pub const fn from(min: f64, max: f64) -> Limits {
        Limits {
            min,
            max,
            open: false,
            zero: false,
        }
    }

    /// Above `min`, up to `max`.
    pub const fn above(min: f64, max: f64) -> Limits {
        Limits {
            min,
            max,
            open: true,
            zero: false,
        }
    }

    /// The same, and 0.
    pub const fn or_zero(self) -> Limits {
        Limits { zero: true, ..self }
    }

    /// Whether a number is inside; NaN never is.
    pub fn allow(&self, number: f64) -> bool {
        let above = number > self.min || !self.open && number == self.min;
        above && number <= self.max || self.zero && number == 0.0
    }

    /// The least number that is inside but for 0, or what all of them are above.
    pub const fn min(&self) -> f64 {
        self.min
    }

    /// The greatest.
    pub const fn max(&self) -> f64 {
        self.max
    }

    /// Whether the minimum itself is outside.
    pub const fn is_open(&self) -> bool {
        self.open
    }

    /// Whether 0 is inside although it is below the minimum.
    pub const fn has_zero(&self) -> bool {
        self.zero
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.open {
            true => write!(f, "a number above {} and at most {}", self.min, self.max)?,
            false => write!(f, "a number from {} to {}", self.min, self.max)?,
        }
        f.write_str(if self.zero { ", or 0" } else { "" })
    }
}
