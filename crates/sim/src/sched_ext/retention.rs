//! How long lanes are held, as the scheduler finds it.

use super::native;
use sidelane_policy::{Retention, Settings};

/// The scheduler's search for a core's time-out alone (Algorithm 1 of vSMT-IO), for any response.
pub struct TimeoutSearch {
    fixed: native::fixed_settings,
    live: native::live_settings,
    retain: native::retain,
}

impl TimeoutSearch {
    /// Begins at the start.
    pub fn new(retention: &Retention) -> TimeoutSearch {
        let settings = Settings {
            retain: true,
            retention: retention.clone(),
            ..Settings::default()
        };
        TimeoutSearch {
            fixed: settings.fixed(1),
            live: settings.live(1),
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
        unsafe {
            let retain = &mut self.retain;
            native::native_retain_step(retain, &self.fixed, &self.live, work, returns)
        }
    }
}
