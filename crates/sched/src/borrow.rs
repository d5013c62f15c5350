//! How long batch may run beside critical work: settings of `bpf/budget.bpf.h`.

use crate::bpf::intf;
use serde::{Deserialize, Serialize};
use sidelane_model::{Objective, ThreadPerf};

/// The policy, `borrow` in the `[scheduler]` table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
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
    /// As refresh; the budget follows the tail of the critical jobs.
    Slo,
    /// Batch never leaves.
    Off,
}

/// Lanes of a core of which a speed can be told.
const LANES_MAX: usize = intf::limits_MAX_LANES_PER_CORE as usize;
/// 1 in the BPF side's fixed point.
const SPEED_ONE: f64 = 1024.0;

/// How long batch may run beside some critical work.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Budget {
    /// The policy.
    pub borrow: Borrow,
    /// The budget of those policies that have one, above 0 to 10000 ms; else 0.
    pub budget_ms: f64,
    /// With [`Borrow::Slo`]: what the tail is to keep to.
    pub objective: Option<Objective>,
}

impl Budget {
    /// Refuses a budget without a policy that uses it, and the other way round.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Budget {
            borrow,
            budget_ms,
            objective,
        } = self;
        if (*borrow == Borrow::Slo) != objective.is_some() {
            return Err(
                "objective stands with borrow = \"slo\", and only there: such as \"p99 < 20 ms\""
                    .to_owned(),
            );
        }
        if borrow.is_limited() != (*budget_ms > 0.0) {
            return Err(format!(
                "borrow = \"{}\" with budget_ms = {budget_ms}: fixed, refresh and dynamic need a \
                 budget above 0, the others none",
                borrow.name()
            ));
        }
        if !(0.0..=10_000.0).contains(budget_ms) {
            return Err(format!("budget_ms = {budget_ms}: expected at most 10000"));
        }
        Ok(())
    }

    pub(crate) fn native(&self) -> intf::budget {
        intf::budget {
            policy: self.borrow.policy(),
            beyond: self.objective.map_or(0, |objective| objective.beyond),
            budget_ns: (self.budget_ms * 1e6) as u64,
            objective_ns: self.objective.map_or(0, |objective| objective.latency_ns),
        }
    }
}

/// Refuses what is not threadPerf; none at all is right.
pub(crate) fn check_speeds(thread_perf: &[f64]) -> Result<(), String> {
    if thread_perf.is_empty() {
        return Ok(());
    }
    let wrong = match ThreadPerf::new(thread_perf.to_vec()) {
        Ok(speeds) if speeds.lanes() <= LANES_MAX => return Ok(()),
        Ok(speeds) => sidelane_model::Error::Lanes(speeds.lanes()),
        Err(wrong) => wrong,
    };
    Err(format!("thread_perf = {thread_perf:?}: {wrong}"))
}

impl std::str::FromStr for Borrow {
    type Err = String;

    fn from_str(text: &str) -> Result<Borrow, String> {
        let known = Borrow::ALL.into_iter().find(|borrow| borrow.name() == text);
        known.ok_or_else(|| {
            let names = Borrow::ALL.map(Borrow::name).join(", ");
            format!("expected one of {names}")
        })
    }
}

impl Borrow {
    /// All policies.
    pub const ALL: [Borrow; 6] = [
        Borrow::BorrowIdle,
        Borrow::Fixed,
        Borrow::Refresh,
        Borrow::Dynamic,
        Borrow::Slo,
        Borrow::Off,
    ];

    /// The word used in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Borrow::BorrowIdle => "borrow-idle",
            Borrow::Fixed => "fixed",
            Borrow::Refresh => "refresh",
            Borrow::Dynamic => "dynamic",
            Borrow::Slo => "slo",
            Borrow::Off => "off",
        }
    }

    /// Has it a budget that is set?
    pub fn is_limited(self) -> bool {
        matches!(self, Borrow::Fixed | Borrow::Refresh | Borrow::Dynamic)
    }

    /// The policy of this number; unknown ones are the default.
    pub(crate) fn of_policy(policy: u32) -> Borrow {
        let known = |borrow: &Borrow| borrow.policy() == policy;
        Self::ALL.into_iter().find(known).unwrap_or_default()
    }

    pub(crate) fn policy(self) -> u32 {
        match self {
            Borrow::BorrowIdle => intf::budget_policy_BUDGET_NONE,
            Borrow::Fixed => intf::budget_policy_BUDGET_FIXED,
            Borrow::Refresh => intf::budget_policy_BUDGET_REFRESH,
            Borrow::Dynamic => intf::budget_policy_BUDGET_DYNAMIC,
            Borrow::Slo => intf::budget_policy_BUDGET_OBJECTIVE,
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
        for (borrow, budget_ms, right) in [
            (Borrow::BorrowIdle, 0.0, true),
            (Borrow::BorrowIdle, 5.0, false),
            (Borrow::Fixed, 5.0, true),
            (Borrow::Fixed, 0.0, false),
            (Borrow::Refresh, 20_000.0, false),
            (Borrow::Refresh, f64::NAN, false),
            (Borrow::Dynamic, 5.0, true),
            (Borrow::Off, 0.0, true),
        ] {
            let budget = |objective| Budget {
                borrow,
                budget_ms,
                objective,
            };
            let verdict = budget(None).check();
            assert_eq!(
                verdict.is_ok(),
                right,
                "{borrow:?} {budget_ms}: {verdict:?}"
            );
            let objective = "p99 < 20 ms".parse().ok();
            assert!(budget(objective).check().is_err(), "{borrow:?}");
        }
    }

    #[test]
    fn speeds_begin_with_one_and_do_not_increase() {
        for (speeds, right) in [
            (&[][..], true),
            (&[1.0, 0.6], true),
            (&[1.0; 16], true),
            (&[1.0; LANES_MAX + 1], false),
            (&[0.6, 1.0], false),
            (&[1.0, 0.6, 0.7], false),
            (&[1.0, 0.0], false),
            (&[1.0, f64::NAN], false),
        ] {
            assert_eq!(check_speeds(speeds).is_ok(), right, "{speeds:?}");
        }
    }

    #[test]
    fn speeds_beyond_those_given_are_the_last() {
        let speeds = speeds(&[1.0, 0.5]);
        assert_eq!((speeds[0], speeds[1], speeds[63]), (1024, 512, 512));
    }
}
