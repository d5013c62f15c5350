//! How long batch may run beside critical work (`budget.bpf.h`, `objective.bpf.h`), and whether hardware counters are used
//! (`counter.bpf.h`, `profile.bpf.h`).

use super::row::{Change, Kind, Needs, Row, live, word};
use crate::file::{Limits, Result, Section};
use crate::intf;
use crate::objective::Objective;
use crate::words;

words! {
    /// The policy, `borrow` in the `[scheduler]` table and in critical rules.
    #[derive(Default)]
    pub enum Borrow {
        /// Batch leaves a core at once when critical work comes.
        #[default]
        BorrowIdle = "borrow-idle",
        /// A budget a busy period, from the first overlap on.
        Fixed = "fixed",
        /// The budget starts anew with each critical task that finds nobody waiting.
        Refresh = "refresh",
        /// As refresh; only overlap counts, by what critical work loses.
        Dynamic = "dynamic",
        /// As refresh; the budget follows the tail of the critical jobs.
        Slo = "slo",
        /// Batch never leaves.
        Off = "off",
    }
}

words! {
    /// Whether to count, `counters` in the `[scheduler]` table.
    #[derive(Default)]
    pub enum UseCounters {
        /// Where they exist and are of use.
        #[default]
        Auto = "auto",
        /// Never.
        Off = "off",
        /// The kernel's clock in place of them: everything is lost or nothing. For tests on
        /// machines without hardware counters.
        Clock = "clock",
    }
}

/// How long batch may run beside some critical work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// The policy.
    pub borrow: Borrow,
    /// The budget of those policies that have one, ns; else 0.
    pub budget_ns: u64,
    /// With [`Borrow::Slo`]: what the tail is to keep to.
    pub objective: Option<Objective>,
}

const LIMITED: Needs = Needs {
    what: "borrow = \"fixed\", \"refresh\" or \"dynamic\"",
    is_met: |settings| settings.budget.borrow.is_limited(),
};

const SLO: Needs = Needs {
    what: "borrow = \"slo\"",
    is_met: |settings| settings.budget.borrow == Borrow::Slo,
};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "borrow",
        kind: word!(Borrow, budget.borrow),
        change: live!(budget, |settings| settings.budget.native()),
        needs: None,
        says: "how long batch may run beside critical work on a core",
        more: "what each word means stands under Budgets in configuration.md",
    },
    Row {
        name: "budget_ms",
        kind: Kind::Time(Budget::LIMITS_MS, |settings| &mut settings.budget.budget_ns),
        change: live!(budget, |settings| settings.budget.native()),
        needs: Some(LIMITED),
        says: "the budget of `fixed`, `refresh` and `dynamic`",
        more: "",
    },
    Row {
        name: "objective",
        kind: Kind::Objective(|settings| &mut settings.budget.objective),
        change: live!(budget, |settings| settings.budget.native()),
        needs: Some(SLO),
        says: "what the tail of critical jobs keeps to, such as `\"p99 < 20 ms\"`",
        more: "",
    },
    Row {
        name: "counters",
        kind: word!(UseCounters, counters),
        change: Change::Found,
        needs: None,
        says: "whether counters of instructions and cycles say what a `dynamic` budget is charged, and what computes while lanes are \
               held",
        more: "what is read stands under Budgets in configuration.md; `\"clock\"` is for tests",
    },
];

impl Budget {
    /// What a budget may be, ms.
    pub const LIMITS_MS: Limits = Limits::from(0.001, 10_000.0);

    /// With a policy that has a budget.
    pub fn limited(borrow: Borrow, budget_ns: u64) -> Budget {
        Budget {
            borrow,
            budget_ns,
            objective: None,
        }
    }

    /// A budget that follows the tail of the jobs.
    pub fn slo(objective: Objective) -> Budget {
        Budget {
            borrow: Borrow::Slo,
            budget_ns: 0,
            objective: Some(objective),
        }
    }

    /// The budget, ms; 0 with a policy that has none.
    pub fn budget_ms(&self) -> f64 {
        self.budget_ns as f64 / 1e6
    }

    /// Refuses a budget out of its range.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check_ms(ms: f64) -> std::result::Result<(), String> {
        match Budget::LIMITS_MS.allow(ms) {
            true => Ok(()),
            false => Err(format!(
                "budget_ms: expected {}, not {ms}",
                Budget::LIMITS_MS
            )),
        }
    }

    /// What the policy lacks, if it lacks anything.
    fn lacks(&self) -> Option<String> {
        let Budget {
            borrow,
            budget_ns,
            objective,
        } = self;
        let lacks = match borrow {
            Borrow::Slo if objective.is_none() => {
                "an objective, such as objective = \"p99 < 20 ms\""
            }
            _ if borrow.is_limited() && *budget_ns == 0 => "a budget, such as budget_ms = 5",
            _ => return None,
        };
        Some(format!("borrow = {:?} needs {lacks}", borrow.name()))
    }

    /// Refuses a budget without a policy that uses it, and the other way round.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> std::result::Result<(), String> {
        if let Some(lacks) = self.lacks() {
            return Err(lacks);
        }
        if self.objective.is_some() && self.borrow != Borrow::Slo {
            return Err(format!(
                "objective has no effect without {}; leave it out",
                SLO.what
            ));
        }
        if self.budget_ns > 0 && !self.borrow.is_limited() {
            return Err(format!(
                "budget_ms has no effect without {}; leave it out",
                LIMITED.what
            ));
        }
        match self.budget_ns {
            0 => Ok(()),
            _ => Budget::check_ms(self.budget_ms()),
        }
    }

    /// As the scheduler reads it.
    pub fn native(&self) -> intf::budget {
        intf::budget {
            policy: self.borrow.policy(),
            beyond: self.objective.map_or(0, |objective| objective.beyond),
            budget_ns: self.budget_ns,
            objective_ns: self.objective.map_or(0, |objective| objective.latency_ns),
        }
    }

    /// What the scheduler reads.
    pub fn of_native(native: &intf::budget) -> Budget {
        let borrow = Borrow::of_policy(native.policy);
        Budget {
            borrow,
            budget_ns: native.budget_ns,
            objective: (borrow == Borrow::Slo).then_some(Objective {
                beyond: native.beyond,
                latency_ns: native.objective_ns,
            }),
        }
    }
}

/// Refuses a policy that lacks what it needs, where it stands.
pub(super) fn check(section: &Section, budget: &Budget) -> Result<()> {
    match (budget.lacks(), section.get("borrow")) {
        (None, _) => Ok(()),
        (Some(lacks), Some(value)) => Err(value.error(lacks)),
        (Some(lacks), None) => Err(section.error(lacks)),
    }
}

impl Borrow {
    /// Has it a budget that is set?
    pub fn is_limited(self) -> bool {
        matches!(self, Borrow::Fixed | Borrow::Refresh | Borrow::Dynamic)
    }

    /// The policy of this number; unknown ones are the default.
    fn of_policy(policy: u32) -> Borrow {
        let known = |borrow: &Borrow| borrow.policy() == policy;
        Self::ALL.into_iter().find(known).unwrap_or_default()
    }

    fn policy(self) -> u32 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_stands_where_it_is_used() {
        const MS: u64 = 1_000_000;
        for (borrow, budget_ns, right) in [
            (Borrow::BorrowIdle, 0, true),
            (Borrow::BorrowIdle, 5 * MS, false),
            (Borrow::Fixed, 5 * MS, true),
            (Borrow::Fixed, 0, false),
            (Borrow::Refresh, 20_000 * MS, false),
            (Borrow::Refresh, 999, false),
            (Borrow::Dynamic, 5 * MS, true),
            (Borrow::Off, 0, true),
        ] {
            let budget = |objective| Budget {
                borrow,
                budget_ns,
                objective,
            };
            let verdict = budget(None).check();
            assert_eq!(
                verdict.is_ok(),
                right,
                "{borrow:?} {budget_ns}: {verdict:?}"
            );
            let objective = "p99 < 20 ms".parse().ok();
            assert!(budget(objective).check().is_err(), "{borrow:?}");
        }
        assert!(Budget::slo("p99 < 20 ms".parse().unwrap()).check().is_ok());
    }

    #[test]
    fn budgets_are_what_the_scheduler_reads() {
        let slo = Budget::slo("p99 < 20 ms".parse().unwrap());
        let limited = Borrow::ALL.map(|borrow| Budget::limited(borrow, 7));
        let limited = limited.into_iter().filter(|it| it.borrow.is_limited());
        for budget in limited.chain([slo, Budget::default()]) {
            assert_eq!(Budget::of_native(&budget.native()), budget);
        }
    }
}
