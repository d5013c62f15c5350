//! By what dynamic budgets of the running scheduler are charged (`budget/counter.bpf.h`).

use crate::bpf::intf;
use crate::running::{FIXED, LIVE};
use libbpf_rs::MapHandle;
use serde::Serialize;
use sidelane_kernel::Error;
use sidelane_kernel::attached::{entry, map};
use std::fmt;

/// Maps of the running scheduler; the kernel keeps 15 bytes of a name.
const RULES: &[u8] = b"rules";
const IPC: &[u8] = b"sidelane_ipc";

/// What says how much critical work loses beside batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChargedBy {
    /// Counters of instructions and cycles.
    Counters,
    /// The speeds that the scheduler was given.
    ThreadPerf,
}

/// A dynamic budget, and what is charged to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChargeState {
    /// The rule that has the budget, from 1 in their order; 0: `[scheduler]`.
    pub rule: u32,
    /// What says how much is lost.
    pub charged_by: ChargedBy,
    /// Are there counters at all?
    pub counters: bool,
    /// By counters: what critical work loses beside batch, of 1.
    pub loss: Option<f64>,
    /// Instructions a cycle of critical work with idle siblings; none before any were counted.
    pub ipc_alone: Option<f64>,
    /// The same beside batch.
    pub ipc_beside: Option<f64>,
    /// Intervals counted with idle siblings, since attach.
    pub intervals_alone: u64,
    /// Intervals counted beside batch, since attach.
    pub intervals_beside: u64,
}

/// Handles on what the running scheduler has counted.
pub(crate) struct Charges {
    fixed: MapHandle,
    live: MapHandle,
    rules: MapHandle,
    ipc: MapHandle,
}

impl Charges {
    /// Finds the running scheduler.
    pub(crate) fn open() -> Result<Charges, Error> {
        Ok(Charges {
            fixed: map(FIXED, size_of::<intf::fixed_settings>())?,
            live: map(LIVE, size_of::<intf::live_settings>())?,
            rules: map(RULES, size_of::<intf::rule>())?,
            ipc: map(IPC, size_of::<intf::budget_ipc>())?,
        })
    }

    /// The settings in force, of those that may be changed.
    pub(crate) fn live(&self) -> Result<Option<intf::live_settings>, Error> {
        entry(&self.live, 0)
    }

    /// The dynamic budgets, that of `[scheduler]` first.
    pub(crate) fn read(&self) -> Result<Vec<ChargeState>, Error> {
        let fixed = entry::<intf::fixed_settings>(&self.fixed, 0)?;
        let (Some(fixed), Some(live)) = (fixed, self.live()?) else {
            return Ok(Vec::new());
        };
        let is_dynamic =
            |budget: &intf::budget| budget.policy == intf::budget_policy_BUDGET_DYNAMIC;
        let mut dynamic = vec![];
        dynamic.extend(is_dynamic(&live.budget).then_some(0));
        for index in 0..fixed.nr_rules {
            let rule = entry::<intf::rule>(&self.rules, index)?;
            dynamic.extend(
                rule.filter(|rule| is_dynamic(&rule.budget))
                    .map(|_| index + 1),
            );
        }
        let state = |rule| {
            let ipc = entry::<intf::budget_ipc>(&self.ipc, rule)?;
            let ipc = ipc.ok_or_else(|| Error::Running("a table is too short".to_owned()))?;
            Ok(ChargeState::of(rule, fixed.counters != 0, &ipc))
        };
        dynamic.into_iter().map(state).collect()
    }
}

impl ChargeState {
    fn of(rule: u32, counters: bool, ipc: &intf::budget_ipc) -> ChargeState {
        let sum = |company: u32| &ipc.sums[company as usize];
        let of = |company| {
            let sum = sum(company);
            (sum.cycles > 0).then(|| sum.instructions as f64 / sum.cycles as f64)
        };
        let known = counters && ipc.known != 0;
        ChargeState {
            rule,
            charged_by: match known {
                true => ChargedBy::Counters,
                false => ChargedBy::ThreadPerf,
            },
            counters,
            loss: known.then(|| f64::from(ipc.loss) / f64::from(intf::SPEED_ONE)),
            ipc_alone: of(intf::company_COMPANY_NONE),
            ipc_beside: of(intf::company_COMPANY_BATCH),
            intervals_alone: sum(intf::company_COMPANY_NONE).intervals,
            intervals_beside: sum(intf::company_COMPANY_BATCH).intervals,
        }
    }

    /// A line without its end.
    pub(crate) fn line(&self) -> String {
        match self.rule {
            0 => format!("dynamic budget: charged by {self}"),
            rule => format!("dynamic budget of rule {rule}: charged by {self}"),
        }
    }
}

impl fmt::Display for ChargeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ipc = |ipc: Option<f64>| ipc.map_or("-".to_owned(), |ipc| format!("{ipc:.2}"));
        let (alone, beside) = (ipc(self.ipc_alone), ipc(self.ipc_beside));
        match self.loss {
            Some(loss) => write!(
                f,
                "counters: {:.0} % lost, IPC {alone} alone, {beside} beside batch",
                loss * 100.0
            ),
            None if self.counters => write!(
                f,
                "thread_perf, {} intervals alone and {} beside batch counted so far",
                self.intervals_alone, self.intervals_beside
            ),
            None => write!(f, "thread_perf, no counters"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::zeroed;

    #[test]
    fn each_budget_says_by_what_it_is_charged() {
        let mut ipc: intf::budget_ipc = zeroed();
        let said = |rule, counters, ipc: &_| ChargeState::of(rule, counters, ipc).line();
        assert_eq!(
            said(0, false, &ipc),
            "dynamic budget: charged by thread_perf, no counters"
        );
        ipc.sums[0] = intf::ipc_sum {
            instructions: 120,
            cycles: 100,
            intervals: 3,
        };
        assert_eq!(
            said(2, true, &ipc),
            "dynamic budget of rule 2: charged by thread_perf, 3 intervals alone and 0 beside \
             batch counted so far"
        );
        ipc.sums[1] = intf::ipc_sum {
            instructions: 90,
            cycles: 100,
            intervals: 40,
        };
        (ipc.known, ipc.loss) = (1, 256);
        assert_eq!(
            said(0, true, &ipc),
            "dynamic budget: charged by counters: 25 % lost, IPC 1.20 alone, 0.90 beside batch"
        );
    }
}
