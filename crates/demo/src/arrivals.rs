//! Random arrivals and demands, decided before a run starts.
//!
//! Open loop: requests come when they come, whether or not earlier ones were answered. The schedule
//! is drawn in full from a seed, so that all configurations of a repetition face the very same
//! requests at the same moments, and their differences are not differences of luck.

use rand::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;

/// One request of a schedule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arrival {
    /// When it is to be sent, ns from the start of the run.
    pub at_ns: u64,
    /// Its demand relative to the mean demand.
    pub demand: f64,
}

/// Requests with exponential gaps and exponential demands (mean 1), for `run_ns`.
///
/// Empty when `rate_per_s` is not a positive number.
pub fn schedule(rate_per_s: f64, run_ns: u64, seed: u64) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    if !(rate_per_s > 0.0 && rate_per_s.is_finite()) {
        return arrivals;
    }
    // Gaps and demands have a generator each: another rate does not change the demands.
    let mut gaps = Pcg64Mcg::seed_from_u64(seed);
    let mut demands = Pcg64Mcg::seed_from_u64(!seed);
    let mean_gap_ns = 1e9 / rate_per_s;
    let mut at_ns = 0.0;
    loop {
        let gap: f64 = Exp1.sample(&mut gaps);
        at_ns += gap * mean_gap_ns;
        if at_ns >= run_ns as f64 {
            return arrivals;
        }
        arrivals.push(Arrival {
            at_ns: at_ns as u64,
            demand: Exp1.sample(&mut demands),
        });
    }
}

/// A time of constant load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Phase {
    /// A number to which the rate is in proportion.
    pub load: f64,
    /// Length, ms.
    pub run_ms: u64,
    /// Start of the random numbers.
    pub seed: u64,
}

/// Requests of phases, one after the other; the rate is `rate_per_load` at a load of 1.
pub fn in_phases(rate_per_load: f64, phases: &[Phase]) -> Vec<Arrival> {
    let mut begin_ns = 0;
    let mut all = Vec::new();
    for Phase { load, run_ms, seed } in phases {
        let run_ns = run_ms * 1_000_000;
        let part = schedule(rate_per_load * load, run_ns, *seed).into_iter();
        all.extend(part.map(|arrival| Arrival {
            at_ns: arrival.at_ns + begin_ns,
            ..arrival
        }));
        begin_ns += run_ns;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and coefficient of variation.
    fn moments(values: &[f64]) -> (f64, f64) {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
        (mean, variance.sqrt() / mean)
    }

    #[test]
    fn gaps_and_demands_are_exponential() {
        // 60 a second for 1000 s: 60,000 requests; means are good to 0.4 %, the tolerance is 2 %.
        let arrivals = schedule(60.0, 1_000_000_000_000, 7);
        assert!(
            (arrivals.len() as f64 - 60_000.0).abs() < 1000.0,
            "{}",
            arrivals.len()
        );
        let gaps: Vec<f64> = arrivals
            .windows(2)
            .map(|w| (w[1].at_ns - w[0].at_ns) as f64 / 1e9)
            .collect();
        let (mean, variation) = moments(&gaps);
        assert!((mean * 60.0 - 1.0).abs() < 0.02 && (variation - 1.0).abs() < 0.02);
        let demands: Vec<f64> = arrivals.iter().map(|a| a.demand).collect();
        let (mean, variation) = moments(&demands);
        assert!((mean - 1.0).abs() < 0.02 && (variation - 1.0).abs() < 0.02);
        // An exponential exceeds twice its mean with probability e⁻² = 0.135.
        let large = demands.iter().filter(|&&d| d > 2.0).count() as f64 / demands.len() as f64;
        assert!((large - 0.135).abs() < 0.01, "{large}");
        // Gap and demand of a request have nothing to do with each other.
        let together: f64 = gaps
            .iter()
            .zip(&demands[1..])
            .map(|(g, d)| g * 60.0 * d)
            .sum();
        assert!((together / gaps.len() as f64 - 1.0).abs() < 0.03);
    }

    #[test]
    fn a_seed_decides_everything() {
        assert_eq!(
            schedule(60.0, 5_000_000_000, 7),
            schedule(60.0, 5_000_000_000, 7)
        );
        assert_ne!(
            schedule(60.0, 5_000_000_000, 7),
            schedule(60.0, 5_000_000_000, 8)
        );
    }

    #[test]
    fn another_rate_keeps_the_demands() {
        let slow = schedule(10.0, 5_000_000_000, 7);
        let fast = schedule(60.0, 5_000_000_000, 7);
        assert!(slow.len() > 20 && fast.len() > slow.len());
        assert!(slow.iter().zip(&fast).all(|(s, f)| s.demand == f.demand));
    }

    #[test]
    fn senseless_rates_give_no_requests() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(schedule(rate, 1_000_000_000, 1).is_empty());
        }
    }

    #[test]
    fn phases_follow_each_other() {
        let phase = |load, run_ms, seed| Phase { load, run_ms, seed };
        let all = in_phases(100.0, &[phase(0.5, 1000, 1), phase(2.0, 2000, 2)]);
        let first = schedule(50.0, 1_000_000_000, 1);
        let second = schedule(200.0, 2_000_000_000, 2);
        assert_eq!(all.len(), first.len() + second.len());
        assert_eq!(all[..first.len()], first);
        let later = all.get(first.len()).unwrap();
        assert_eq!(later.at_ns, second[0].at_ns + 1_000_000_000);
        assert!(all.is_sorted_by_key(|arrival| arrival.at_ns));
    }
}
