//! Pairing: which normal tasks share a core.

/// How tasks are ranked, and when cores swap them; the defaults are those of `sidelane run`.
#[derive(Debug, Clone, PartialEq)]
pub struct Pairing {
    /// So often it is looked who is I/O-bound, and which cores swap, ns.
    pub period_ns: u64,
    /// Cores swap whose retention rates deviate by less, 0 to 1 (standard deviation of shares of
    /// time); 0: none does.
    pub uniform: f64,
}

impl Default for Pairing {
    fn default() -> Pairing {
        Pairing {
            period_ns: 1_000_000_000,
            uniform: 0.1,
        }
    }
}

impl Pairing {
    /// The deviation as the scheduler reads it.
    pub(super) fn uniform_rate(&self) -> u32 {
        const RATE_ALL: f64 = 1024.0;
        (self.uniform.clamp(0.0, 1.0) * RATE_ALL) as u32
    }
}
