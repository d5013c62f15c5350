//! Retention: how long lanes are held, as the scheduler finds it.

use super::native;
use super::settings::Settings;

/// For how long lanes are held, and from whom, ns; the defaults are those of `sidelane run`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// Of each core, to begin with.
    pub start_ns: u64,
    /// It is never shorter.
    pub min_ns: u64,
    /// Nor longer.
    pub max_ns: u64,
    /// After so long it may change; 0: it never does.
    pub period_ns: u64,
    /// What switching to another task and back costs.
    pub switches_ns: u64,
    /// Whether an I/O lane is held from other I/O-bound tasks, too.
    pub exclusive: bool,
}

impl Default for Retention {
    fn default() -> Retention {
        Retention {
            start_ns: 3_000_000,
            min_ns: 200_000,
            max_ns: 10_000_000,
            period_ns: 40_000_000,
            switches_ns: 50_000,
            exclusive: false,
        }
    }
}

/// The scheduler's search for a core's time-out alone (Algorithm 1 of vSMT-IO), for any response.
pub struct TimeoutSearch {
    settings: native::settings,
    retain: native::retain,
}

impl TimeoutSearch {
    /// Begins at the start.
    pub fn new(retention: &Retention) -> TimeoutSearch {
        let settings = Settings {
            retention: Some(retention.clone()),
            ..Settings::default()
        };
        TimeoutSearch {
            settings: settings.native(1),
            retain: native::retain {
                desired_ns: retention.start_ns,
                now_ns: retention.start_ns,
                ..native::retain::default()
            },
        }
    }

    /// The time-out that is in force, ns.
    pub fn now_ns(&self) -> u64 {
        self.retain.now_ns
    }

    /// The best one so far, ns.
    pub fn desired_ns(&self) -> u64 {
        self.retain.desired_ns
    }

    /// A period ends in which others did so much work and so many tasks came back to a held lane.
    pub fn step(&mut self, work: u64, returns: u64) {
        // SAFETY: both are this search's own; besides it writes this thread's settings, which a
        // simulation sets again when it is made.
        unsafe { native::native_retain_step(&mut self.retain, &self.settings, work, returns) }
    }
}
