//! How much tasks slow each other down on a core, by what their cycles go into.

use serde::Deserialize;

/// The interference model of the scheduler (`symbiosis.bpf.h`): by how much a cycle alone grows beside a sibling, for the
/// part of a task's cycles that it computes (base) or waits for memory (miss), beside those of the other. The
/// defaults are assumed: two that only compute halve each other's speed, others less.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Symbiosis {
    /// Computes beside what computes, 0 to 10.
    pub base_base: f64,
    /// Computes beside what waits for memory.
    pub base_miss: f64,
    /// Waits for memory beside what computes.
    pub miss_base: f64,
    /// Waits for memory beside what does so, too.
    pub miss_miss: f64,
    /// For how many cycles a cache miss is waited for, 1 to 10000.
    pub miss_cycles: u32,
}

impl Default for Symbiosis {
    fn default() -> Symbiosis {
        Symbiosis {
            base_base: 1.0,
            base_miss: 0.2,
            miss_base: 0.2,
            miss_miss: 0.6,
            miss_cycles: 200,
        }
    }
}

impl Symbiosis {
    fn coefficients(&self) -> [(&'static str, f64); 4] {
        [
            ("base_base", self.base_base),
            ("base_miss", self.base_miss),
            ("miss_base", self.miss_base),
            ("miss_miss", self.miss_miss),
        ]
    }

    /// What is wrong with it, if anything is.
    ///
    /// # Errors
    /// A figure outside its range.
    pub fn check(&self) -> Result<(), String> {
        for (name, value) in self.coefficients() {
            if !(0.0..=10.0).contains(&value) {
                return Err(format!("{name} = {value}: expected 0 to 10"));
            }
        }
        match self.miss_cycles {
            1..=10_000 => Ok(()),
            cycles => Err(format!("miss_cycles = {cycles}: expected 1 to 10000")),
        }
    }

    /// The coefficients as the scheduler reads them: in parts of `one`.
    pub fn waits(&self, one: u32) -> [u32; 4] {
        self.coefficients()
            .map(|(_, value)| (value * f64::from(one)) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_checked() {
        let refused = |change: fn(&mut Symbiosis)| {
            let mut symbiosis = Symbiosis::default();
            change(&mut symbiosis);
            symbiosis.check().is_err()
        };
        assert!(!refused(|_| {}) && !refused(|symbiosis| symbiosis.miss_miss = 0.0));
        assert!(refused(|symbiosis| symbiosis.base_base = 10.1));
        assert!(refused(|symbiosis| symbiosis.base_miss = f64::NAN));
        assert!(refused(|symbiosis| symbiosis.miss_base = -0.1));
        assert!(refused(|symbiosis| symbiosis.miss_cycles = 0));
        assert_eq!(Symbiosis::default().waits(1024), [1024, 204, 204, 614]);
    }
}
