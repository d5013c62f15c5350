//! How long a lane is held for a task that is expected back.

use serde::Deserialize;

/// The time-out of retention, and how it changes (vSMT-IO, Algorithm 1).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Retention {
    /// The time-out of each core to begin with, `min_ms` to `max_ms`.
    pub start_ms: f64,
    /// It is never shorter; at least what two switches take, 0.05 to 100 ms.
    pub min_ms: f64,
    /// Nor longer, up to 100 ms.
    pub max_ms: f64,
    /// After so long it may change, 20 to 10000 ms; 0: it never does.
    pub period_ms: f64,
    /// What switching to another task and back costs, caches that miss included, as time of a lane alone on
    /// its core, 0 to 100 ms: beside work that would make room at once, a hold saves no more.
    pub switches_ms: f64,
    /// With pairing: the I/O lane is held from other I/O-bound tasks, too, as in the source.
    pub exclusive: bool,
}

impl Default for Retention {
    /// Start and period as in the source's published code.
    fn default() -> Retention {
        Retention {
            start_ms: 3.0,
            min_ms: 0.2,
            max_ms: 10.0,
            period_ms: 40.0,
            switches_ms: 0.05,
            exclusive: false,
        }
    }
}

impl Retention {
    /// What is wrong with it, if anything is.
    pub(crate) fn check(&self) -> Result<(), String> {
        let wrong = |problem: String| Err(format!("[scheduler.retention] {problem}"));
        if !(0.05..=100.0).contains(&self.min_ms) {
            return wrong(format!("min_ms = {}: expected 0.05 to 100", self.min_ms));
        }
        if !(self.min_ms..=100.0).contains(&self.max_ms) {
            return wrong(format!(
                "max_ms = {}: expected {} (min_ms) to 100",
                self.max_ms, self.min_ms
            ));
        }
        if !(self.min_ms..=self.max_ms).contains(&self.start_ms) {
            return wrong(format!(
                "start_ms = {}: expected {} (min_ms) to {} (max_ms)",
                self.start_ms, self.min_ms, self.max_ms
            ));
        }
        if self.period_ms != 0.0 && !(20.0..=10_000.0).contains(&self.period_ms) {
            return wrong(format!(
                "period_ms = {}: expected 20 to 10000, or 0",
                self.period_ms
            ));
        }
        if !(0.0..=100.0).contains(&self.switches_ms) {
            return wrong(format!(
                "switches_ms = {}: expected 0 to 100",
                self.switches_ms
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_in_order() {
        let refused = |change: fn(&mut Retention)| {
            let mut retention = Retention::default();
            change(&mut retention);
            retention.check().is_err()
        };
        assert!(!refused(|_| {}));
        assert!(!refused(|retention| retention.period_ms = 0.0));
        assert!(refused(|retention| retention.start_ms = 0.1));
        assert!(refused(|retention| retention.start_ms = 11.0));
        assert!(refused(|retention| retention.max_ms = 0.1));
        assert!(refused(|retention| retention.min_ms = f64::NAN));
        assert!(refused(|retention| retention.period_ms = 1.0));
        assert!(!refused(|retention| retention.switches_ms = 0.0));
        assert!(refused(|retention| retention.switches_ms = f64::NAN));
    }
}
