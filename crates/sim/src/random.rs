//! Portable random numbers and distributions.

/// A distribution of non-negative numbers.
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    /// Always the same.
    Constant(f64),
    /// Exponential, by its mean.
    Exponential(f64),
}
