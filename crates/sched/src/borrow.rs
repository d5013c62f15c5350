//! How long batch may run beside critical work: settings of `bpf/budget.bpf.h`.

use crate::bpf::intf;
use serde::Deserialize;

/// The policy, `borrow` in the `[scheduler]` table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Borrow {
    /// Batch leaves a core at once when critical work comes.
    #[default]
    BorrowIdle,
    /// A budget a busy period, from the first overlap on.
    Fixed,
    /// The budget starts anew with each critical task that finds nobody waiting.
    Refresh,
    /// As refresh; only overlap counts, by what critical work loses.
    Dynamic,
    /// Batch never leaves.
    Off,
}

/// Lanes of a core of which a speed can be told.
const LANES_MAX: usize = intf::limits_MAX_LANES_PER_CORE as usize;
/// 1 in the BPF side's fixed point.
const SPEED_ONE: f64 = 1024.0;

impl Borrow {
    fn is_limited(self) -> bool {
        matches!(self, Borrow::Fixed | Borrow::Refresh | Borrow::Dynamic)
    }

    /// Refuses a budget without a policy that uses it, and the other way round.
    pub(crate) fn check(self, budget_ms: f64, thread_perf: &[f64]) -> Result<(), String> {
        if self.is_limited() != (budget_ms > 0.0) {
            return Err(format!(
                "[scheduler] borrow = {self:?} with budget_ms = {budget_ms}: fixed, refresh and dynamic need a \
                 budget above 0, the others none"
            ));
        }
        if !(0.0..=10_000.0).contains(&budget_ms) {
            return Err(format!(
                "[scheduler] budget_ms = {budget_ms}: expected at most 10000"
            ));
        }
        if (self == Borrow::Dynamic) == thread_perf.is_empty() {
            return Err(
                "[scheduler] thread_perf stands with borrow = \"dynamic\", and only there: the \
                 speeds of 'sidelane calibrate', such as [1, 0.6]"
                    .to_owned(),
            );
        }
        let falls = thread_perf.windows(2).all(|pair| pair[1] <= pair[0]);
        let starts = thread_perf.first().is_none_or(|first| *first == 1.0);
        let positive = thread_perf.iter().all(|speed| *speed > 0.0);
        if !(falls && starts && positive) || thread_perf.len() > LANES_MAX {
            return Err(format!(
                "[scheduler] thread_perf = {thread_perf:?}: expected 1, then speeds above 0 that do not increase"
            ));
        }
        Ok(())
    }

    pub(crate) fn policy(self) -> u32 {
        match self {
            Borrow::BorrowIdle => intf::budget_policy_BUDGET_NONE,
            Borrow::Fixed => intf::budget_policy_BUDGET_FIXED,
            Borrow::Refresh => intf::budget_policy_BUDGET_REFRESH,
            Borrow::Dynamic => intf::budget_policy_BUDGET_DYNAMIC,
            Borrow::Off => intf::budget_policy_BUDGET_OFF,
        }
    }
}

/// Speeds as the BPF side has them; beyond those given, the last.
pub(crate) fn speeds(thread_perf: &[f64]) -> [u32; LANES_MAX] {
    let last = thread_perf.last().copied().unwrap_or(0.0);
    std::array::from_fn(|i| {
        let speed = thread_perf.get(i).copied().unwrap_or(last);
        (speed * SPEED_ONE).clamp(0.0, SPEED_ONE) as u32
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_stands_where_it_is_used() {
        for (borrow, budget_ms, thread_perf, right) in [
            (Borrow::BorrowIdle, 0.0, &[][..], true),
            (Borrow::BorrowIdle, 5.0, &[], false),
            (Borrow::Fixed, 5.0, &[], true),
            (Borrow::Fixed, 0.0, &[], false),
            (Borrow::Fixed, 5.0, &[1.0, 0.6], false),
            (Borrow::Refresh, 20_000.0, &[], false),
            (Borrow::Refresh, f64::NAN, &[], false),
            (Borrow::Dynamic, 5.0, &[1.0, 0.6], true),
            (Borrow::Dynamic, 5.0, &[], false),
            (Borrow::Dynamic, 5.0, &[0.6, 1.0], false),
            (Borrow::Off, 0.0, &[], true),
        ] {
            let verdict = borrow.check(budget_ms, thread_perf);
            assert_eq!(
                verdict.is_ok(),
                right,
                "{borrow:?} {budget_ms}: {verdict:?}"
            );
        }
    }

    #[test]
    fn speeds_beyond_those_given_are_the_last() {
        let speeds = speeds(&[1.0, 0.5]);
        assert_eq!((speeds[0], speeds[1], speeds[63]), (1024, 512, 512));
    }
}
