//! Random numbers of the swarm: SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
//! generators", OOPSLA 2014), integers only, so that a seed means the same everywhere.

use crate::random::{GOLDEN, mix};

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub(super) struct Draws(u64);

impl Draws {
    pub fn new(seed: u64) -> Draws {
        Draws(seed)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// One of 0..n; 0 if n is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// From one to another, both included.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to.saturating_sub(from).saturating_add(1))
    }

    /// True so many times in a hundred.
    pub fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }

    /// From one to another, every order of magnitude about as likely as the next.
    pub fn magnitude(&mut self, from: u64, to: u64) -> u64 {
        let (low, high) = (from.max(1), to.max(1));
        let bits = self.between(u64::from(low.ilog2()), u64::from(high.ilog2()));
        let least = 1_u64 << bits;
        let most = least.wrapping_mul(2).wrapping_sub(1);
        self.between(least.max(low), most.min(high)).max(from)
    }

    /// In (0, 1], in steps of 1/1000.
    pub fn share(&mut self, least: u64) -> f64 {
        self.between(least.max(1), 1000) as f64 / 1000.0
    }

    /// One of several; none of none.
    pub fn one<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len() as u64) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_one() {
        // First numbers of the reference implementation for seed 1234567.
        let mut draws = Draws::new(1_234_567);
        assert_eq!(draws.bits(), 6_457_827_717_110_365_317);
        assert_eq!(draws.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn draws_stay_between_their_limits() {
        let mut draws = Draws::new(1);
        for _ in 0..10_000 {
            assert!((5..=900_000).contains(&draws.magnitude(5, 900_000)));
            assert!((3..=4).contains(&draws.between(3, 4)));
            assert!(draws.share(300) >= 0.3);
        }
        assert_eq!(draws.below(0), 0);
        assert_eq!(draws.one::<u8>(&[]), None);
    }
}
