//! Settings as the scheduler reads them.

use super::Settings;
use crate::{LANES_MAX, intf};
use sidelane_model::ThreadPerf;

/// Lanes of a core that batch work may use, of cores with at most `widest`: as many as are worth it, all
/// where nothing is known of them.
pub fn batch_lanes(thread_perf: &[f64], widest: u32) -> u32 {
    let known = ThreadPerf::new(thread_perf.to_vec()).ok();
    let fewer = known.and_then(|known| {
        let worthwhile = known.lanes_worthwhile();
        // if all of those are, so are further ones, which are as fast as the last
        (worthwhile < known.lanes()).then_some(worthwhile as u32)
    });
    fewer.unwrap_or(widest)
}

/// Speeds of a lane as the scheduler reads them; beyond those given, the last.
pub fn speeds(thread_perf: &[f64]) -> [u32; LANES_MAX] {
    let one = f64::from(intf::SPEED_ONE);
    let last = thread_perf.last().copied().unwrap_or(0.0);
    std::array::from_fn(|i| {
        let speed = thread_perf.get(i).copied().unwrap_or(last);
        (speed * one).clamp(0.0, one) as u32
    })
}

impl Settings {
    /// Lanes of a core that batch may use, of cores with at most `widest`.
    pub fn lanes_for_batch(&self, widest: u32) -> u32 {
        match self.batch_lanes {
            0 => batch_lanes(&self.thread_perf, widest),
            lanes => lanes,
        }
    }

    /// As the scheduler reads them, on a machine with so many lanes a core at most, but for what is found
    /// there: numbers of rules and pools, cores, and counters that could be opened.
    pub fn native(&self, widest: u32) -> intf::settings {
        intf::settings {
            slice_ns: [self.slice_ns, self.slice_ns, self.batch_slice_ns],
            starvation_bound_ns: [0, self.normal_bound_ns, self.starvation_bound_ns],
            overdue_slice_ns: self.overdue_slice_ns,
            keep_slice: self.keep_slice.into(),
            promote: self.promote.into(),
            promote_after_ns: self.promote_after_ns,
            smt_level: match self.smt_level {
                0 => widest,
                level => level,
            },
            batch_lanes: self.lanes_for_batch(widest),
            thread_perf: speeds(&self.thread_perf),
            budget: self.budget.native(),
            retain: self.retain.into(),
            retain_start_ns: self.retention.start_ns,
            retain_min_ns: self.retention.min_ns,
            retain_max_ns: self.retention.max_ns,
            retain_period_ns: self.retention.period_ns,
            retain_switches_ns: self.retention.switches_ns,
            retain_exclusive: self.retention.exclusive.into(),
            pair: self.pair.into(),
            pair_period_ns: self.pairing.period_ns,
            pair_uniform: self.pairing.uniform_rate(),
            symbiotic: self.symbiotic.into(),
            miss_cycles: self.symbiosis.miss_cycles,
            symbiosis_waits: self.symbiosis.waits(intf::SPEED_ONE),
            vertical: self.polarization.native(),
            steal_min_queued: [
                1,
                self.steal_min_queued.cache,
                self.steal_min_queued.node,
                self.steal_min_queued.remote,
            ],
            steal_patience_ns: self.steal_patience_ns,
            cgroup_weights: self.cgroup_weights.into(),
            trace: self.trace.into(),
            cores_awake: 0,
            counters: 0,
            nr_pools: 0,
            nr_rules: 0,
            has_cgroup_rules: 0,
        }
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
    fn batch_lanes_follow_the_speeds_unless_they_are_given() {
        let lanes = |thread_perf: &[f64], batch_lanes, widest| {
            let settings = Settings {
                thread_perf: thread_perf.to_vec(),
                batch_lanes,
                ..Settings::default()
            };
            settings.native(widest).batch_lanes
        };
        assert_eq!(lanes(&[], 0, 8), 8);
        assert_eq!(lanes(&[1.0, 0.6], 0, 4), 4);
        assert_eq!(lanes(&[1.0, 0.5], 0, 2), 1);
        assert_eq!(lanes(&[1.0, 0.5], 2, 2), 2);
        assert_eq!(lanes(&[], 1, 2), 1);
    }
}
