//! Portable random numbers and distributions: a seed gives the same numbers on every machine.
//!
//! The generator's sequence is fixed by its specification, and everything after it uses only
//! arithmetic that IEEE 754 defines to the bit, or the `libm` crate instead of the platform's.

mod distribution;
mod normal;
mod stream;

pub use distribution::Distribution;
pub use stream::Stream;
pub(crate) use stream::{GOLDEN, mix};

#[cfg(test)]
mod tests;
