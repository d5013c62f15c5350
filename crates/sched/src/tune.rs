//! Changes settings of the running scheduler.

use crate::charge::{ChargeState, Charges};
use crate::error::Error;
use crate::running::{Tuning, scope};
use serde::Serialize;
use sidelane_kernel::pools::{PoolState, Pools};
use sidelane_policy::settings::{SLO_NEEDS_ALL, Scope, check_speeds, no_effect};
use sidelane_policy::{Borrow, Budget, Objective, Polarization};
use std::fmt;

/// What to change; what is none stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// How long batch may run beside critical work.
    pub borrow: Option<Borrow>,
    /// The budget, ms; alone, of the policy in force.
    pub budget_ms: Option<f64>,
    /// With the policy slo: what the tail of critical jobs is to keep to.
    pub objective: Option<Objective>,
    /// Speeds of a lane when 1, 2, ... lanes of its core run, for the dynamic policy.
    pub thread_perf: Option<Vec<f64>>,
    /// Which cores normal and batch work uses.
    pub polarization: Option<Polarization>,
    /// What a pool may use.
    pub pool: Option<PoolChange>,
}

/// What a pool may use from its next period on.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolChange {
    /// Its cgroup, as the configuration has it.
    pub cgroup: String,
    /// Cores, or lanes with `charge = "raw"`, above 0; none: without a limit.
    pub cores: Option<f64>,
}

/// The settings in force that can be changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tuned {
    /// Which tasks the scheduler has.
    pub scope: Scope,
    /// Lanes of a core that critical and normal work may keep busy.
    pub smt_level: u32,
    /// How long batch may run beside critical work.
    pub borrow: Borrow,
    /// The budget, ms; 0 with a policy that has none.
    pub budget_ms: f64,
    /// With slo: the objective.
    pub objective: Option<String>,
    /// Which cores normal and batch work uses.
    pub polarization: Polarization,
    /// How many these are.
    pub cores_awake: u32,
    /// With dynamic: by what the budget is charged.
    pub charge: Option<ChargeState>,
    /// The pools.
    pub pools: Vec<PoolState>,
}

impl Changes {
    /// The budget that results.
    fn budget(&self, before: &Budget) -> Budget {
        let borrow = self.borrow.unwrap_or(before.borrow);
        // another policy's budget says nothing, unless both have one
        let kept_ns = if borrow.is_limited() {
            before.budget_ns
        } else {
            0
        };
        let wanted = self.budget_ms.map(|ms| (ms * 1e6).round() as u64);
        let kept = before.objective.filter(|_| borrow == Borrow::Slo);
        Budget {
            borrow,
            budget_ns: wanted.unwrap_or(kept_ns),
            objective: self.objective.or(kept),
        }
    }

    /// The budget that results, if these changes are sound.
    fn check(&self, before: &Budget, knows_speeds: bool, scope: Scope) -> Result<Budget, String> {
        self.budget_ms.map_or(Ok(()), Budget::check_ms)?;
        let budget = self.budget(before);
        budget.check()?;
        let speeds = self.thread_perf.as_deref();
        check_speeds(speeds.unwrap_or_default())?;
        if scope == Scope::Batch && self.polarization.is_some() {
            return Err(no_effect("polarization"));
        }
        if scope == Scope::Batch && budget.borrow == Borrow::Slo {
            return Err(SLO_NEEDS_ALL.to_owned());
        }
        if budget.borrow == Borrow::Dynamic && !knows_speeds && speeds.is_none() {
            return Err("dynamic needs thread_perf, the speeds of 'sidelane calibrate'".to_owned());
        }
        Ok(budget)
    }
}

/// Applies the changes to the running scheduler, all or none, until its loader ends: they stay when
/// it is attached again because lanes came or went. The settings then in force.
///
/// # Errors
/// [`Error::Tune`] if they are not sound; else as [`Tuning::open`].
pub fn tune(changes: &Changes) -> Result<Tuned, Error> {
    let tuning = Tuning::open()?;
    let scope = scope();
    let budget = changes.check(&tuning.budget(), tuning.knows_speeds(), scope);
    let budget = budget.map_err(Error::Tune)?;
    let charges = Charges::open()?;
    let pools = Pools::open()?;
    // the one change that the kernel may refuse comes first
    if let Some(PoolChange { cgroup, cores }) = &changes.pool
        && !pools.set(cgroup, *cores)?
    {
        let none = format!("there is no pool for cgroup {cgroup:?}");
        return Err(Error::Tune(none));
    }
    if let Some(thread_perf) = &changes.thread_perf {
        tuning.set_speeds(thread_perf);
    }
    tuning.set_budget(&budget);
    if let Some(polarization) = changes.polarization {
        tuning.set_polarization(polarization);
    }
    let budget = tuning.budget();
    let charges = charges.read()?;
    Ok(Tuned {
        scope,
        charge: charges.into_iter().find(|charge| charge.rule == 0),
        polarization: tuning.polarization(),
        cores_awake: tuning.cores_awake(),
        smt_level: tuning.smt_level(),
        borrow: budget.borrow,
        budget_ms: budget.budget_ms(),
        objective: budget.objective.map(|objective| objective.to_string()),
        pools: pools.read()?,
    })
}

impl fmt::Display for Tuned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.scope == Scope::All;
        if all {
            writeln!(f, "smt_level = {}", self.smt_level)?;
        } else {
            writeln!(f, "scope = \"{}\"", self.scope.name())?;
        }
        writeln!(f, "borrow = \"{}\"", self.borrow.name())?;
        match &self.objective {
            Some(objective) => writeln!(f, "objective = \"{objective}\"")?,
            None => writeln!(f, "budget_ms = {}", self.budget_ms)?,
        }
        if let Some(charge) = &self.charge {
            writeln!(f, "# charged by {charge}")?;
        }
        if all {
            writeln!(f, "polarization = \"{}\"", self.polarization.name())?;
        }
        if self.polarization == Polarization::Vertical {
            writeln!(f, "# {} cores awake", self.cores_awake)?;
        }
        for pool in &self.pools {
            let cores = (pool.capacity_cores).map_or("off".to_owned(), |cores| cores.to_string());
            let (cgroup, charge) = (&pool.cgroup, pool.charge.name());
            writeln!(
                f,
                "# pool {cgroup}: capacity_cores {cores}, charge \"{charge}\""
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_stays() {
        let before = Budget {
            borrow: Borrow::Fixed,
            budget_ns: 5_000_000,
            objective: None,
        };
        let after = |borrow, budget_ms| {
            let changes = Changes {
                borrow,
                budget_ms,
                ..Changes::default()
            };
            changes
                .check(&before, false, Scope::All)
                .map(|b| (b.borrow, b.budget_ms()))
        };
        assert_eq!(after(None, None), Ok((Borrow::Fixed, 5.0)));
        assert_eq!(after(None, Some(8.0)), Ok((Borrow::Fixed, 8.0)));
        assert_eq!(
            after(Some(Borrow::Refresh), None),
            Ok((Borrow::Refresh, 5.0))
        );
        assert_eq!(after(Some(Borrow::Off), None), Ok((Borrow::Off, 0.0)));
        assert!(after(Some(Borrow::Off), Some(8.0)).is_err());
        for beyond in [0.0, -1.0, f64::NAN, 20_000.0] {
            assert!(after(Some(Borrow::Off), Some(beyond)).is_err(), "{beyond}");
            assert!(after(None, Some(beyond)).is_err(), "{beyond}");
        }
        assert!(after(Some(Borrow::Dynamic), None).is_err(), "no speeds");
        assert!(after(Some(Borrow::Slo), None).is_err(), "no objective");
    }

    #[test]
    fn a_scheduler_of_batch_alone_refuses_what_it_does_not_ask_for() {
        let before = Budget {
            borrow: Borrow::Off,
            budget_ns: 0,
            objective: None,
        };
        let refused = |changes: &Changes| changes.check(&before, true, Scope::Batch).unwrap_err();
        let polarized = Changes {
            polarization: Some(Polarization::Vertical),
            ..Changes::default()
        };
        assert_eq!(refused(&polarized), no_effect("polarization"));
        let objective = Changes {
            borrow: Some(Borrow::Slo),
            objective: Some("p99 < 20 ms".parse().unwrap()),
            ..Changes::default()
        };
        assert_eq!(refused(&objective), SLO_NEEDS_ALL);
        assert!(objective.check(&before, true, Scope::All).is_ok());
    }
}
