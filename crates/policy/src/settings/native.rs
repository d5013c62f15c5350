//! Settings as the scheduler reads them.

use super::{Change, Settings, rows};
use crate::{LANES_MAX, intf};

/// Speeds of a lane as the scheduler reads them; beyond those given, the last.
pub fn speeds(thread_perf: &[f64]) -> [u32; LANES_MAX] {
    let one = f64::from(intf::SPEED_ONE);
    let Some(last) = thread_perf.last() else {
        return [0; LANES_MAX]; // not known
    };
    std::array::from_fn(|i| {
        let speed = thread_perf.get(i).unwrap_or(last);
        (speed * one).clamp(1.0, one) as u32
    })
}

/// A share, or a coefficient, as the scheduler reads it.
pub(super) fn share(value: f64) -> u32 {
    (value * f64::from(intf::SPEED_ONE)) as u32
}

impl Settings {
    /// Lanes of a core that batch may use, of cores with at most `widest`; 0: all but the first of each.
    pub fn lanes_for_batch(&self, widest: u32) -> u32 {
        match self.batch_lanes {
            0 if !self.only_batch() => widest,
            lanes => lanes,
        }
    }

    /// Those that stay, as the scheduler reads them, on a machine with so many lanes a core at most, but for what
    /// is found there: numbers of rules and pools, and counters that could be opened.
    pub fn fixed(&self, widest: u32) -> intf::fixed_settings {
        let mut fixed = intf::fixed_settings::default();
        fixed.steal_min_queued[intf::distance_DISTANCE_CORE as usize] = 1;
        for row in rows() {
            if let Change::Fixed(fill) = row.change {
                fill(self, &mut fixed);
            }
        }
        fixed.batch_lanes = self.lanes_for_batch(widest);
        fixed
    }

    /// Those that may be changed while it is attached, on a machine with so many lanes a core at most, but for the
    /// cores, which are found there.
    pub fn live(&self, widest: u32) -> intf::live_settings {
        let mut live = intf::live_settings::default();
        for row in rows() {
            if let Change::Live(_, fill) = row.change {
                fill(self, &mut live);
            }
        }
        if live.smt_level == 0 {
            live.smt_level = widest;
        }
        live
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_beyond_those_given_are_the_last() {
        let speeds = speeds(&[1.0, 0.5]);
        assert_eq!((speeds[0], speeds[1], speeds[63]), (1024, 512, 512));
    }

    #[test]
    fn a_speed_that_is_given_is_known() {
        assert_eq!(speeds(&[]), [0; LANES_MAX]);
        let slow = speeds(&[0.5, 1e-9]);
        assert_eq!((slow[0], slow[1]), (512, 1));
    }

    #[test]
    fn shares_are_in_parts_of_one() {
        let fixed = Settings::default().fixed(2);
        assert_eq!(fixed.symbiosis, [1429, 881, 283, 1470, 931]);
        assert_eq!(fixed.pair_uniform, 102);
    }

    #[test]
    fn nought_is_all_lanes() {
        let settings = Settings::default();
        assert_eq!(
            (settings.live(4).smt_level, settings.fixed(4).batch_lanes),
            (4, 4)
        );
    }
}
