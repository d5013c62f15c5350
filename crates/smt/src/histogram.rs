//! Counts in logarithmic buckets.
//!
//! An octave (a factor of two) is divided into 32 buckets of equal width, so a bucket is at most
//! 1/32 (3.2 %) of its value wide; values below 64 have a bucket each. Indexes are computed with
//! shifts only, hence equal on every machine. Memory and text are proportional to the number of
//! buckets in use.

use crate::latency::Quantile;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// log2 of the number of buckets in an octave.
const OCTAVE_BITS: u32 = 5;
/// Buckets in an octave.
const OCTAVE: u64 = 1 << OCTAVE_BITS;

/// A histogram of unsigned values with logarithmic buckets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(u32, u64)>", into = "Vec<(u32, u64)>")]
pub struct LogHistogram {
    /// Counts by bucket index; no bucket is empty.
    counts: BTreeMap<u32, u64>,
}

/// One step of a cumulative distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Largest value of the bucket.
    pub value: u64,
    /// Share of all values that are at most `value`, in (0, 1].
    pub at_most: f64,
}

impl LogHistogram {
    /// A histogram of the values given.
    pub fn of(values: impl IntoIterator<Item = u64>) -> LogHistogram {
        let mut histogram = LogHistogram::default();
        for value in values {
            histogram.record(value);
        }
        histogram
    }

    /// Counts one value.
    pub fn record(&mut self, value: u64) {
        *self.counts.entry(bucket_of(value)).or_default() += 1;
    }

    /// Counts a value several times.
    pub fn record_many(&mut self, value: u64, count: u64) {
        if count > 0 {
            *self.counts.entry(bucket_of(value)).or_default() += count;
        }
    }

    /// What was counted after `before`, an earlier state; none if it counted more.
    pub fn since(&self, before: &LogHistogram) -> Option<LogHistogram> {
        let mut counts = self.counts.clone();
        for (bucket, earlier) in &before.counts {
            let count = counts.get_mut(bucket)?;
            *count = count.checked_sub(*earlier)?;
        }
        counts.retain(|_, count| *count > 0);
        Some(LogHistogram { counts })
    }

    /// The q-quantile by nearest rank, as the largest value of its bucket; none of nothing.
    pub fn quantile(&self, q: Quantile) -> Option<u64> {
        let rank = q.rank(usize::try_from(self.count()).ok()?) as u64;
        let mut so_far = 0;
        let at = self.counts.iter().find(|(_, count)| {
            so_far += **count;
            so_far >= rank
        });
        at.map(|(bucket, _)| largest_in(*bucket))
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &LogHistogram) {
        for (&bucket, &count) in &other.counts {
            *self.counts.entry(bucket).or_default() += count;
        }
    }

    /// The largest value of each bucket in use, ascending, and how many values are in it.
    pub fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        let counts = self.counts.iter();
        counts.map(|(&bucket, &count)| (largest_in(bucket), count))
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.counts.values().sum()
    }

    /// The cumulative distribution, ascending; the last step has `at_most` 1. Empty when nothing
    /// was counted.
    pub fn cumulative(&self) -> Vec<Step> {
        let total = self.count() as f64;
        let mut so_far = 0;
        self.counts
            .iter()
            .map(|(&bucket, &count)| {
                so_far += count;
                Step {
                    value: largest_in(bucket),
                    at_most: so_far as f64 / total,
                }
            })
            .collect()
    }
}

impl From<Vec<(u32, u64)>> for LogHistogram {
    fn from(pairs: Vec<(u32, u64)>) -> Self {
        let mut counts = BTreeMap::new();
        for (bucket, count) in pairs.into_iter().filter(|&(_, count)| count > 0) {
            *counts.entry(bucket.min(bucket_of(u64::MAX))).or_default() += count;
        }
        LogHistogram { counts }
    }
}

impl From<LogHistogram> for Vec<(u32, u64)> {
    fn from(histogram: LogHistogram) -> Self {
        histogram.counts.into_iter().collect()
    }
}

/// The index of the bucket that holds `value`.
fn bucket_of(value: u64) -> u32 {
    let shift = (u64::BITS - (value | OCTAVE).leading_zeros()) - 1 - OCTAVE_BITS;
    // `value >> shift` is below 2 × OCTAVE, so the whole is small.
    shift * OCTAVE as u32 + (value >> shift) as u32
}

/// The largest value in a bucket.
fn largest_in(bucket: u32) -> u64 {
    let shift = (bucket / OCTAVE as u32).saturating_sub(1);
    let top = u64::from(bucket - shift * OCTAVE as u32);
    (top << shift) | ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_values_have_a_bucket_each() {
        for value in 0..64 {
            assert_eq!(bucket_of(value), value as u32);
            assert_eq!(largest_in(value as u32), value);
        }
    }

    #[test]
    fn bucket_edges() {
        // From 64 on a bucket is two wide, from 128 on four.
        assert_eq!(bucket_of(64), 64);
        assert_eq!(bucket_of(65), 64);
        assert_eq!(bucket_of(66), 65);
        assert_eq!(bucket_of(127), 95);
        assert_eq!(bucket_of(128), 96);
        assert_eq!(bucket_of(131), 96);
        assert_eq!(largest_in(96), 131);
        assert_eq!(largest_in(bucket_of(u64::MAX)), u64::MAX);
    }

    #[test]
    fn cumulative_distribution_of_four_values() {
        let histogram = LogHistogram::of([10, 10, 20, 64]);
        let steps = histogram.cumulative();
        let expected = [(10, 0.5), (20, 0.75), (65, 1.0)];
        assert_eq!(
            steps
                .iter()
                .map(|s| (s.value, s.at_most))
                .collect::<Vec<_>>(),
            expected
        );
        assert!(LogHistogram::default().cumulative().is_empty());
    }

    #[test]
    fn what_came_after_an_earlier_state() {
        let before = LogHistogram::of([10, 20]);
        let mut after = before.clone();
        after.record_many(20, 3);
        after.record_many(99, 0);
        assert_eq!(after.since(&before), Some(LogHistogram::of([20, 20, 20])));
        assert_eq!(before.since(&after), None);
        assert_eq!(before.since(&LogHistogram::of([11])), None);
        assert_eq!(before.since(&before), Some(LogHistogram::default()));
        assert_eq!(after.quantile(Quantile::P50), Some(20));
        assert_eq!(after.quantile(Quantile::percent(20)), Some(10));
        assert_eq!(LogHistogram::default().quantile(Quantile::P50), None);
    }

    #[test]
    fn it_travels_as_pairs() {
        // 1,000,000 = 61 × 2¹⁴ + …, so its bucket is 14 × 32 + 61.
        let histogram = LogHistogram::of([3, 3, 1_000_000]);
        let text = serde_json::to_string(&histogram).unwrap();
        assert_eq!(text, "[[3,2],[509,1]]");
        assert_eq!(
            serde_json::from_str::<LogHistogram>(&text).unwrap(),
            histogram
        );
    }

    #[test]
    fn hostile_pairs_do_not_break_it() {
        let histogram = LogHistogram::from(vec![(u32::MAX, 1), (5, 0), (7, 1), (7, 2)]);
        assert_eq!(histogram.count(), 4);
        assert_eq!(histogram.cumulative().len(), 2);
        assert_eq!(histogram.cumulative()[1].value, u64::MAX);
    }

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket_within_the_promised_width(value: u64) {
            let bucket = bucket_of(value);
            let largest = largest_in(bucket);
            prop_assert!(value <= largest);
            prop_assert!(largest - value <= value / OCTAVE);
            prop_assert!(bucket == 0 || largest_in(bucket - 1) < value);
        }

        #[test]
        fn merging_equals_counting_together(
            a in prop::collection::vec(any::<u64>(), 0..50),
            b in prop::collection::vec(any::<u64>(), 0..50),
        ) {
            let mut merged = LogHistogram::of(a.iter().copied());
            merged.merge(&LogHistogram::of(b.iter().copied()));
            prop_assert_eq!(merged, LogHistogram::of(a.into_iter().chain(b)));
        }
    }
}
