//! Symbiosis: the interference model that the scheduler is told.

use super::native;

/// By how much a cycle alone grows beside a sibling, for the part that a task computes (base) or waits for memory
/// (miss), beside those of the other; the defaults are those of `sidelane run`.
#[derive(Debug, Clone, PartialEq)]
pub struct Symbiosis {
    /// Computes beside what computes.
    pub base_base: f64,
    /// Computes beside what waits for memory.
    pub base_miss: f64,
    /// Waits for memory beside what computes.
    pub miss_base: f64,
    /// Waits for memory beside what does so, too.
    pub miss_miss: f64,
    /// For how many cycles a cache miss is waited for.
    pub miss_cycles: u32,
}

impl Default for Symbiosis {
    fn default() -> Symbiosis {
        Symbiosis {
            base_base: 1.0,
            base_miss: 0.2,
            miss_base: 0.2,
            miss_miss: 0.6,
            miss_cycles: 200,
        }
    }
}

impl Symbiosis {
    /// The coefficients as the scheduler reads them.
    pub(super) fn waits(&self) -> [u32; 4] {
        [
            self.base_base,
            self.base_miss,
            self.miss_base,
            self.miss_miss,
        ]
        .map(|value| (value * f64::from(native::SPEED_ONE)) as u32)
    }
}
