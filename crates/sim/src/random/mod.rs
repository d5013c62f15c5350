//! Portable random numbers and distributions: a seed gives the same numbers on every machine.
//!
//! The generator's sequence is fixed by its specification, and everything after it uses only
//! arithmetic that IEEE 754 defines to the bit, or the `libm` crate instead of the platform's.

mod distribution;
mod normal;
#[cfg(test)]
mod tests;

pub use distribution::Distribution;

use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

/// 2^64 divided by the golden ratio: the step of SplitMix64.
pub(crate) const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of random numbers: PCG XSL RR 128/64 (O'Neill 2014, "PCG: A Family of Simple Fast
/// Space-Efficient Statistically Good Algorithms for Random Number Generation").
///
/// A stream for each use keeps uses apart: what one draws does not shift what another gets, so that
/// two configurations meet the same arrivals and demands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    generator: Pcg64,
}

impl Stream {
    /// The stream of a seed for a purpose, such as (replication, workload, what for).
    ///
    /// Different seeds or purposes give independent streams. All words and their number are mixed
    /// with the function of SplitMix64 (Steele, Lea, Flood 2014) into 64 bits, from which it makes
    /// the generator's start and increment.
    pub fn new(seed: u64, purpose: &[u64]) -> Stream {
        let mut hash = mix(seed.wrapping_add(GOLDEN));
        for &word in purpose.iter().chain([&(purpose.len() as u64)]) {
            // Mixed first, so that no simple change of one word undoes that of another.
            hash = mix(hash.wrapping_add(GOLDEN) ^ mix(word.wrapping_add(GOLDEN)));
        }
        let mut next = || {
            hash = hash.wrapping_add(GOLDEN);
            u128::from(mix(hash))
        };
        let start = next() << 64 | next();
        let increment = next() << 64 | next();
        Stream {
            generator: Pcg64::new(start, increment),
        }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// Uniform in the open interval (0, 1): the odd multiples of 2^-53, all equally likely, so that
    /// neither the number nor 1 minus it is ever 0.
    pub fn uniform(&mut self) -> f64 {
        let odd = (self.next_u64() >> 12) * 2 + 1;
        odd as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `0..n`, without bias (Lemire 2019, "Fast Random Integer Generation in an
    /// Interval"); 0 if n is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        let surplus = n.wrapping_neg() % n; // 2^64 mod n
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            if product as u64 >= surplus {
                return (product >> 64) as u64;
            }
        }
    }
}

/// The mixing function of SplitMix64: a bijection in which each input bit flips about half of the
/// output bits.
pub(crate) fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}
