//! Percentiles of samples, and medians over repetitions.
//!
//! Percentiles are exact and by **nearest rank**: the q-quantile of n samples is the ⌈q·n⌉-th
//! smallest, so it is always a value that occurred, and nothing is interpolated. Ranks are computed
//! in integers: 0.07 × 100 is rank 7, which floating point would make 8.

use serde::{Deserialize, Serialize};

/// A quantile as an exact fraction in (0, 1].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantile {
    parts: u32,
    of: u32,
}

impl Quantile {
    /// The median.
    pub const P50: Quantile = Quantile::percent(50);
    /// The 95th percentile.
    pub const P95: Quantile = Quantile::percent(95);
    /// The 99th percentile.
    pub const P99: Quantile = Quantile::percent(99);

    /// The quantile `percent` / 100; values outside 1..=100 are taken as the nearest of these.
    pub const fn percent(percent: u32) -> Quantile {
        let parts = if percent < 1 {
            1
        } else if percent > 100 {
            100
        } else {
            percent
        };
        Quantile { parts, of: 100 }
    }

    /// The rank, from 1 to `count`, of this quantile among `count` samples; 0 when there are none.
    pub fn rank(self, count: usize) -> usize {
        let exact = (count as u128 * u128::from(self.parts)).div_ceil(u128::from(self.of));
        // At most `count`, because parts ≤ of.
        exact as usize
    }
}

/// The quantile of samples in ascending order, by nearest rank; `None` when there are none.
pub fn quantile<T: Copy>(ascending: &[T], q: Quantile) -> Option<T> {
    ascending
        .get(q.rank(ascending.len()).checked_sub(1)?)
        .copied()
}

/// What is usually wanted of a set of durations, in nanoseconds; all zero when there are none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// How many samples.
    pub count: u64,
    /// Median, by nearest rank.
    pub p50_ns: u64,
    /// 95th percentile, by nearest rank.
    pub p95_ns: u64,
    /// 99th percentile, by nearest rank.
    pub p99_ns: u64,
    /// Largest sample.
    pub max_ns: u64,
    /// Arithmetic mean, rounded down.
    pub mean_ns: u64,
}

impl Summary {
    /// Summarises samples in any order (they are sorted in place).
    pub fn of(samples_ns: &mut [u64]) -> Summary {
        samples_ns.sort_unstable();
        let at = |q| quantile(samples_ns, q).unwrap_or(0);
        let sum: u128 = samples_ns.iter().map(|&ns| u128::from(ns)).sum();
        let count = samples_ns.len() as u64;
        Summary {
            count,
            p50_ns: at(Quantile::P50),
            p95_ns: at(Quantile::P95),
            p99_ns: at(Quantile::P99),
            max_ns: samples_ns.last().copied().unwrap_or(0),
            // A mean of u64 values fits in u64.
            mean_ns: sum.checked_div(u128::from(count)).unwrap_or(0) as u64,
        }
    }
}

/// The middle and the ends of a few repeated measurements.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Smallest value.
    pub min: f64,
    /// Middle value; the mean of the two middle ones when the count is even.
    pub median: f64,
    /// Largest value.
    pub max: f64,
}

impl Spread {
    /// The spread of values in any order; `None` when there are none or one is not a number.
    pub fn of(values: &[f64]) -> Option<Spread> {
        if values.iter().any(|value| value.is_nan()) {
            return None;
        }
        let mut ascending = values.to_vec();
        ascending.sort_by(f64::total_cmp);
        let (min, max) = (*ascending.first()?, *ascending.last()?);
        let middle = ascending.len() / 2;
        let median = if ascending.len().is_multiple_of(2) {
            f64::midpoint(
                *ascending.get(middle.checked_sub(1)?)?,
                *ascending.get(middle)?,
            )
        } else {
            *ascending.get(middle)?
        };
        Some(Spread { min, median, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nearest_rank_matches_the_textbook_example() {
        // Five values: 30 % is rank ⌈1.5⌉ = 2, 40 % rank 2, 50 % rank 3, 100 % rank 5.
        let values = [15u64, 20, 35, 40, 50];
        assert_eq!(quantile(&values, Quantile::percent(5)), Some(15));
        assert_eq!(quantile(&values, Quantile::percent(30)), Some(20));
        assert_eq!(quantile(&values, Quantile::percent(40)), Some(20));
        assert_eq!(quantile(&values, Quantile::percent(50)), Some(35));
        assert_eq!(quantile(&values, Quantile::percent(100)), Some(50));
    }

    #[test]
    fn ranks_are_exact_where_floating_point_is_not() {
        assert_eq!(Quantile::percent(7).rank(100), 7);
        assert_eq!(Quantile::P95.rank(20), 19);
        assert_eq!(Quantile::P99.rank(400), 396);
        assert_eq!(Quantile::P99.rank(401), 397);
    }

    #[test]
    fn quantiles_outside_the_range_are_clamped() {
        assert_eq!(Quantile::percent(0), Quantile::percent(1));
        assert_eq!(Quantile::percent(101), Quantile::percent(100));
    }

    #[test]
    fn no_samples_have_no_quantile_and_an_empty_summary() {
        assert_eq!(quantile::<u64>(&[], Quantile::P50), None);
        assert_eq!(Summary::of(&mut []), Summary::default());
    }

    #[test]
    fn summary_of_one_to_a_hundred() {
        let mut samples: Vec<u64> = (1..=100).rev().collect();
        let expected = Summary {
            count: 100,
            p50_ns: 50,
            p95_ns: 95,
            p99_ns: 99,
            max_ns: 100,
            mean_ns: 50,
        };
        assert_eq!(Summary::of(&mut samples), expected);
    }

    #[test]
    fn means_of_huge_values_do_not_overflow() {
        assert_eq!(Summary::of(&mut [u64::MAX, u64::MAX]).mean_ns, u64::MAX);
    }

    #[test]
    fn spread_of_odd_and_even_counts() {
        let odd = Spread::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!(
            odd,
            Spread {
                min: 1.0,
                median: 2.0,
                max: 3.0
            }
        );
        let even = Spread::of(&[4.0, 1.0, 2.0, 8.0]).unwrap();
        assert_eq!(
            even,
            Spread {
                min: 1.0,
                median: 3.0,
                max: 8.0
            }
        );
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[1.0, f64::NAN]), None);
    }

    proptest! {
        #[test]
        fn a_quantile_has_its_share_of_samples_at_or_below(
            mut values in prop::collection::vec(0u64..50, 1..200),
            percent in 1u32..=100,
        ) {
            values.sort_unstable();
            let value = quantile(&values, Quantile::percent(percent)).unwrap();
            let needed = values.len() as u64 * u64::from(percent);
            let at_or_below = values.iter().filter(|&&v| v <= value).count() as u64;
            let below = values.iter().filter(|&&v| v < value).count() as u64;
            prop_assert!(at_or_below * 100 >= needed);
            prop_assert!(below * 100 < needed);
        }
    }
}
