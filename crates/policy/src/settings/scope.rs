//! Whose tasks are scheduled at all (`core/others.bpf.h`).

use super::row::{Change, Row, word};
use super::{Borrow, Settings};
use crate::file::{Result, Section};
use crate::words;

words! {
    /// Which tasks the scheduler has, `scope` in the `[scheduler]` table.
    #[derive(Default)]
    pub enum Scope {
        /// All of the machine.
        #[default]
        All = "all",
        /// Those that rules call batch; the kernel's scheduler keeps the others.
        Batch = "batch",
    }
}

/// Settings, and tables of them, that concern critical or normal work only: with `scope = "batch"` nothing asks for them.
const OF_OTHERS: [&str; 24] = [
    "slice_ms",
    "fair_slice_ms",
    "normal_bound_ms",
    "dispatching",
    "keep_lane",
    "gather",
    "follow_waker_ms",
    "job_order",
    "promote",
    "promote_after_ms",
    "smt_level",
    "objective",
    "counters",
    "retain",
    "retention",
    "pair",
    "pairing",
    "symbiotic",
    "symbiosis",
    "polarization",
    "cgroup_weights",
    "cgroup_quotas",
    "keep_slice",
    "hold_naps",
];

pub(super) const ROWS: &[Row] = &[Row {
    name: "scope",
    kind: word!(Scope, scope),
    change: Change::Fixed(|settings, to| to.only_batch = settings.only_batch().into()),
    needs: None,
    says: "which tasks Sidelane schedules: all, or with `\"batch\"` those alone that rules call batch, while the kernel's \
           scheduler keeps the others",
    more: "",
}];

/// What is said of an objective where batch is scheduled alone.
pub const SLO_NEEDS_ALL: &str = "borrow = \"slo\" needs scope = \"all\"";

/// What is said of a setting that nothing asks for where batch is scheduled alone.
pub fn no_effect(name: &str) -> String {
    format!("{name} has no effect with scope = \"batch\"; leave it out")
}

/// An objective follows critical jobs, which only a scheduler of all tasks sees begin and end.
pub(super) fn check(section: &Section, settings: &Settings) -> Result<()> {
    match section.get("borrow") {
        Some(value) if settings.only_batch() && settings.budget.borrow == Borrow::Slo => {
            Err(value.error(SLO_NEEDS_ALL))
        }
        _ => Ok(()),
    }
}

impl Settings {
    /// Does the kernel's scheduler keep all tasks but batch?
    pub fn only_batch(&self) -> bool {
        self.scope == Scope::Batch
    }

    /// Does anything ask for this row, with the scope that they have?
    pub fn are_asked_for(&self, row: &Row) -> bool {
        let (table, key) = row.place();
        !(self.only_batch() && OF_OTHERS.contains(&table.unwrap_or(key)))
    }
}
