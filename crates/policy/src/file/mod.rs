//! Files of tables: what they may hold, how times in them become ns, and where a mistake in them is.

mod limits;
mod reader;

pub use limits::Limits;
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
