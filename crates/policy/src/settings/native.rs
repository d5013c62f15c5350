//! Settings as the scheduler reads them.

use super::Settings;
use crate::{LANES_MAX, intf};

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
            0 => widest,
            lanes => lanes,
        }
    }

    /// Those that stay, as the scheduler reads them, on a machine with so many lanes a core at most, but for what
    /// is found there: numbers of rules and pools, and counters that could be opened.
    pub fn fixed(&self, widest: u32) -> intf::fixed_settings {
        intf::fixed_settings {
            slice_ns: [self.slice_ns, self.slice_ns, self.batch_slice_ns],
            starvation_bound_ns: [0, self.normal_bound_ns, self.starvation_bound_ns],
            overdue_slice_ns: self.overdue_slice_ns,
            keep_slice: self.keep_slice.into(),
            promote: self.promote.into(),
            promote_after_ns: self.promote_after_ns,
            batch_lanes: self.lanes_for_batch(widest),
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
            steal_min_queued: [
                1,
                self.steal_min_queued.cache,
                self.steal_min_queued.node,
                self.steal_min_queued.remote,
            ],
            steal_patience_ns: self.steal_patience_ns,
            cgroup_weights: self.cgroup_weights.into(),
            counters: 0,
            nr_pools: 0,
            nr_rules: 0,
            has_cgroup_rules: 0,
        }
    }

    /// Those that may be changed while it is attached, on a machine with so many lanes a core at most, but for the
    /// cores, which are found there.
    pub fn live(&self, widest: u32) -> intf::live_settings {
        intf::live_settings {
            smt_level: match self.smt_level {
                0 => widest,
                level => level,
            },
            budget: self.budget.native(),
            thread_perf: speeds(&self.thread_perf),
            vertical: self.polarization.native(),
            trace: self.trace.into(),
            cores_awake: 0,
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
}
