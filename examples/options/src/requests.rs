//! How much requests ask for, and what a part of the answer is worth.

use rand::Rng;
use rand_distr::{Distribution, StandardUniform};

/// A Pareto distribution that is cut off at both ends.
///
/// By default FOF's stand-in for the published demands of a search service: α = 3 on 130 to 1,000 units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoundedPareto {
    /// Above 0.
    pub alpha: f64,
    /// Least value, above 0.
    pub min: f64,
    /// Greatest value, above `min`.
    pub max: f64,
}

impl Default for BoundedPareto {
    fn default() -> BoundedPareto {
        BoundedPareto {
            alpha: 3.0,
            min: 130.0,
            max: 1000.0,
        }
    }
}

impl BoundedPareto {
    /// The mean; α is not 1.
    pub fn mean(&self) -> f64 {
        let BoundedPareto { alpha, min, max } = *self;
        let cut = 1.0 - (min / max).powf(alpha);
        let sum = min.powf(1.0 - alpha) - max.powf(1.0 - alpha);
        min.powf(alpha) * alpha / (alpha - 1.0) * sum / cut
    }
}

impl Distribution<f64> for BoundedPareto {
    fn sample<R: Rng + ?Sized>(&self, random: &mut R) -> f64 {
        let BoundedPareto { alpha, min, max } = *self;
        let uniform: f64 = StandardUniform.sample(random);
        let cut = 1.0 - (min / max).powf(alpha);
        min * (1.0 - uniform * cut).powf(-1.0 / alpha)
    }
}

/// Quality of incomplete answers as a function of the paths done.
///
/// FOF's profile: concave, as the first paths narrow the price down most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Profile {
    /// Above 0: how much more the first paths are worth than the last ones.
    pub concavity: f64,
    /// Paths that are worth 1.
    pub full: f64,
}

impl Profile {
    /// Worth of an answer that rests on `done` of the paths asked for, 0 to 1: 1 if complete, else
    /// (1 − e^(−c·x)) ÷ (1 − e^(−c)) with x the part of [`full`](Profile::full) that was done.
    pub fn quality(&self, done: u64, of: u64) -> f64 {
        if done >= of {
            return 1.0;
        }
        let x = (done as f64 / self.full).min(1.0);
        (-self.concavity * x).exp_m1() / (-self.concavity).exp_m1()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    #[test]
    fn the_stand_in_has_the_published_mean() {
        assert!((BoundedPareto::default().mean() - 192.0).abs() < 1.0);
    }

    #[test]
    fn samples_have_the_mean_and_the_bounds() {
        let demand = BoundedPareto::default();
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let samples: Vec<f64> = (0..200_000).map(|_| demand.sample(&mut random)).collect();
        assert!(samples.iter().all(|x| (130.0..=1000.0).contains(x)));
        let mean = samples.iter().sum::<f64>() / samples.len() as f64;
        assert!((mean / demand.mean() - 1.0).abs() < 0.005, "{mean}");
        // above x: ((L/x)^α − (L/H)^α) / (1 − (L/H)^α); 0.0217 at 450
        let above = samples.iter().filter(|x| **x > 450.0).count() as f64 / 200_000.0;
        assert!((above - 0.0219).abs() < 0.002, "{above}");
    }

    #[test]
    fn the_published_profile() {
        // q(x) = (1 − e^(−0.003x)) / (1 − e^(−3)), x of 1,000 units
        let profile = Profile {
            concavity: 3.0,
            full: 1000.0,
        };
        let q = |x: f64| (1.0 - (-0.003 * x).exp()) / (1.0 - (-3.0f64).exp());
        for done in [0, 1, 130, 378, 999] {
            assert!((profile.quality(done, 1000) - q(done as f64)).abs() < 1e-12);
        }
        assert_eq!(profile.quality(130, 130), 1.0);
        assert!((profile.quality(2000, 3000) - 1.0).abs() < 1e-12);
    }
}
