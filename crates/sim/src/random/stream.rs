//! Streams of random numbers.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_published_one() {
        // pcg64 of the reference implementation's demo, seeded with 42 and 54.
        let mut generator = Pcg64::new(42, 54);
        let first = [0x86b1_da1d_7206_2b68, 0x1304_aa46_c985_3d39];
        assert_eq!(first, std::array::from_fn(|_| generator.next_u64()));
    }

    #[test]
    fn the_mixing_is_that_of_splitmix64() {
        // First values of SplitMix64 from 1234567, as its descriptions list them.
        let states = [1u64, 2].map(|i| 1_234_567u64.wrapping_add(GOLDEN.wrapping_mul(i)));
        let first = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        assert_eq!(states.map(mix), first);
    }

    #[test]
    fn seeds_purposes_and_lengths_give_other_streams() {
        let mut first = Vec::new();
        for seed in 0..20 {
            first.push(Stream::new(seed, &[]).next_u64());
            for a in 0..20 {
                first.push(Stream::new(seed, &[a]).next_u64());
                first.extend((0..20).map(|b| Stream::new(seed, &[a, b]).next_u64()));
            }
        }
        let all = first.len();
        first.sort_unstable();
        first.dedup();
        assert_eq!(first.len(), all);
        assert_eq!(Stream::new(3, &[1, 2]), Stream::new(3, &[1, 2]));
    }

    /// Mean of the products of two uniform variables, in standard errors from independence.
    fn correlation(pairs: impl Iterator<Item = (f64, f64)>) -> f64 {
        let products: Vec<f64> = pairs.map(|(a, b)| (a - 0.5) * (b - 0.5)).collect();
        let n = products.len() as f64;
        products.iter().sum::<f64>() / n * 12.0 * n.sqrt()
    }

    #[test]
    fn neighbouring_streams_do_not_follow_each_other() {
        for (one, other) in [([0, 0], [0, 1]), ([0, 0], [1, 0]), ([7, 1], [7, 3])] {
            let (mut a, mut b) = (Stream::new(1, &one), Stream::new(1, &other));
            let z = correlation((0..20_000).map(|_| (a.uniform(), b.uniform())));
            assert!(z.abs() < 4.0, "{one:?} and {other:?}: {z}");
        }
        let first = |i| Stream::new(1, &[i]).uniform();
        let z = correlation((0..20_000).map(|i| (first(i), first(i + 1))));
        assert!(z.abs() < 4.0, "first values: {z}");
    }

    #[test]
    fn uniform_fills_the_interval_evenly() {
        let mut stream = Stream::new(5, &[]);
        let mut bins = [0u32; 64];
        for _ in 0..64_000 {
            let u = stream.uniform();
            assert!(u > 0.0 && u < 1.0);
            bins[(u * 64.0) as usize] += 1;
        }
        let squares = bins.map(|n| (f64::from(n) - 1000.0).powi(2) / 1000.0);
        let chi_squared: f64 = squares.iter().sum();
        assert!((30.0..110.0).contains(&chi_squared), "{chi_squared}");
    }

    #[test]
    fn below_is_even_for_numbers_that_do_not_divide_2_to_the_64() {
        let n = 3 << 62; // without rejection one of three would come up half of the time
        let mut stream = Stream::new(6, &[]);
        let mut thirds = [0u32; 3];
        for _ in 0..30_000 {
            let value = stream.below(n);
            assert!(value < n);
            thirds[(value >> 62) as usize] += 1;
        }
        assert!(
            thirds.iter().all(|t| t.abs_diff(10_000) < 400),
            "{thirds:?}"
        );
        assert_eq!((stream.below(0), stream.below(1)), (0, 0));
    }
}
