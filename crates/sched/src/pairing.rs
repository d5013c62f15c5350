//! Who shares a core: how often it is looked at, and when cores swap tasks.

use crate::bpf::intf;
use serde::Deserialize;

/// How normal tasks are paired (vSMT-IO, 4.3.1 and 4.4). The source has no figures for either.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pairing {
    /// So often it is looked who is I/O-bound and which cores swap, 20 to 10000 ms.
    pub period_ms: f64,
    /// Cores swap tasks if the retention rates of their own deviate by less, 0 to 1; 0: none does.
    pub uniform: f64,
}

impl Default for Pairing {
    fn default() -> Pairing {
        Pairing {
            period_ms: 1000.0,
            uniform: 0.1,
        }
    }
}

impl Pairing {
    /// What is wrong with it, if anything is.
    pub(crate) fn check(&self) -> Result<(), String> {
        let wrong = |problem: String| Err(format!("[scheduler.pairing] {problem}"));
        if !(20.0..=10_000.0).contains(&self.period_ms) {
            return wrong(format!(
                "period_ms = {}: expected 20 to 10000",
                self.period_ms
            ));
        }
        if !(0.0..=1.0).contains(&self.uniform) {
            return wrong(format!("uniform = {}: expected 0 to 1", self.uniform));
        }
        Ok(())
    }

    /// The deviation as the scheduler reads it.
    pub(crate) fn uniform_rate(&self) -> u32 {
        (self.uniform * f64::from(intf::SPEED_ONE)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_checked() {
        let refused = |period_ms, uniform| Pairing { period_ms, uniform }.check().is_err();
        assert!(!refused(20.0, 0.0));
        assert!(!refused(10_000.0, 1.0));
        assert!(refused(19.0, 0.1) && refused(f64::NAN, 0.1));
        assert!(refused(1000.0, 1.1) && refused(1000.0, f64::NAN));
        assert_eq!(Pairing::default().uniform_rate(), 102);
    }
}
