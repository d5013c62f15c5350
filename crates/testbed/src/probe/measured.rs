//! What the guest measures and hands to the host.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The guest's lanes as its kernel sees them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layout {
    /// The CPU numbers of each core's lanes.
    pub cores: Vec<Vec<usize>>,
}

/// The guest's clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// The kernel's clock source.
    pub source: String,
    /// One reading, ns.
    pub cost_ns: f64,
    /// How far it went backwards between lanes at most, ns.
    pub backward_ns: u64,
}

/// How long a lane waits for the host CPU that it shares with its siblings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HandOver {
    /// The situation.
    pub name: String,
    /// How often it was timed.
    pub samples: usize,
    /// The median, µs.
    pub p50_us: f64,
    /// The 99th percentile, µs.
    pub p99_us: f64,
    /// The longest, µs.
    pub max_us: f64,
}

impl HandOver {
    /// Sums samples up.
    pub fn from_samples(name: &str, mut samples: Vec<Duration>) -> Self {
        samples.sort();
        let at = |share: f64| {
            let rank = (share * samples.len() as f64).ceil() as usize;
            samples
                .get(rank.max(1) - 1)
                .map_or(0.0, |d| d.as_secs_f64() * 1e6)
        };
        HandOver {
            name: name.to_string(),
            samples: samples.len(),
            p50_us: at(0.5),
            p99_us: at(0.99),
            max_us: at(1.0),
        }
    }
}

/// Everything, raw. Speeds are in chunks of integer work a second, one number a repetition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The lanes.
    pub layout: Layout,
    /// `speeds[n-1]`: the mean speed of a lane when n lanes of the first core run and nothing else
    /// does.
    pub speeds: Vec<Vec<f64>>,
    /// The mean speed of a lane when one lane of every core runs.
    pub each_core: Vec<f64>,
    /// The mean speed of a lane when all lanes of the machine run.
    pub all_lanes: Vec<f64>,
    /// Hand-over times.
    pub hand_overs: Vec<HandOver>,
    /// The clock.
    pub clock: Clock,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summed_up_by_rank() {
        let samples: Vec<Duration> = (1..=100).rev().map(Duration::from_micros).collect();
        let sum = HandOver::from_samples("x", samples);
        assert_eq!(
            (
                sum.samples,
                sum.p50_us.round(),
                sum.p99_us.round(),
                sum.max_us.round()
            ),
            (100, 50.0, 99.0, 100.0)
        );
        assert_eq!(HandOver::from_samples("x", Vec::new()).max_us, 0.0);
    }
}
