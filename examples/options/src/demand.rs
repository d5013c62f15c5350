//! How much the requests ask for.

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
}
