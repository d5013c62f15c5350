//! What a partial result is worth.
//!
//! Source: the quality profile of FOF: concave, as the first paths narrow the price down most.

/// Quality of incomplete answers as a function of the paths done.
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
