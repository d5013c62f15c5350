//! How much tasks slow each other down on a core, by what their cycles go into (`symbiosis.bpf.h`).

use super::native::share;
use super::row::{Change, Kind, Needs, Row};
use crate::file::Limits;

/// The interference model: by how much a cycle alone grows beside a sibling, for the
/// part of a task's cycles that it computes (base) or waits for memory (miss), beside those of the other. The
/// defaults are assumed: two that only compute halve each other's speed, others less.
#[derive(Clone, Debug, PartialEq)]
pub struct Symbiosis {
    /// Computes beside what computes, 0 to 10.
    pub base_base: f64,
    /// Computes beside what waits for memory.
    pub base_miss: f64,
    /// Waits for memory beside what computes.
    pub miss_base: f64,
    /// Waits for memory beside what does so, too.
    pub miss_miss: f64,
    /// For how many cycles a cache miss is waited for, 1 to 10000.
    pub miss_cycles: u32,
}

impl Default for Symbiosis {
    fn default() -> Symbiosis {
        Symbiosis {
            base_base: 1.0,
            base_miss: 0.2,
            miss_base: 0.2,
            miss_miss: 0.6,
            miss_cycles: 200,
        }
    }
}

const SYMBIOTIC: Needs = Needs {
    what: "symbiotic = true",
    is_met: |settings| settings.symbiotic,
};

const COEFFICIENT: Limits = Limits::from(0.0, 10.0);

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "symbiotic",
        kind: Kind::Switch(|settings| &mut settings.symbiotic),
        change: Change::Fixed(|settings, to| to.symbiotic = settings.symbiotic.into()),
        needs: None,
        says: "of computation that waits, a lane takes what the tasks beside it bear best, by counters of cycles and \
               cache misses",
        more: "without counters nothing changes, which is said ([scheduler.md](scheduler.md))",
    },
    Row {
        name: "symbiosis.base_base",
        kind: Kind::Number(COEFFICIENT, |settings| &mut settings.symbiosis.base_base),
        change: Change::Fixed(|settings, to| {
            to.symbiosis_waits[0] = share(settings.symbiosis.base_base)
        }),
        needs: Some(SYMBIOTIC),
        says: "by how much a cycle of computation grows beside a task that computes; assumed",
        more: "",
    },
    Row {
        name: "symbiosis.base_miss",
        kind: Kind::Number(COEFFICIENT, |settings| &mut settings.symbiosis.base_miss),
        change: Change::Fixed(|settings, to| {
            to.symbiosis_waits[1] = share(settings.symbiosis.base_miss)
        }),
        needs: Some(SYMBIOTIC),
        says: "by how much a cycle of computation grows beside a task that waits for memory; assumed",
        more: "",
    },
    Row {
        name: "symbiosis.miss_base",
        kind: Kind::Number(COEFFICIENT, |settings| &mut settings.symbiosis.miss_base),
        change: Change::Fixed(|settings, to| {
            to.symbiosis_waits[2] = share(settings.symbiosis.miss_base)
        }),
        needs: Some(SYMBIOTIC),
        says: "by how much a cycle of waiting for memory grows beside a task that computes; assumed",
        more: "",
    },
    Row {
        name: "symbiosis.miss_miss",
        kind: Kind::Number(COEFFICIENT, |settings| &mut settings.symbiosis.miss_miss),
        change: Change::Fixed(|settings, to| {
            to.symbiosis_waits[3] = share(settings.symbiosis.miss_miss)
        }),
        needs: Some(SYMBIOTIC),
        says: "by how much a cycle of waiting for memory grows beside a task that waits for memory, too; assumed",
        more: "",
    },
    Row {
        name: "symbiosis.miss_cycles",
        kind: Kind::Whole(1, 10_000, |settings| &mut settings.symbiosis.miss_cycles),
        change: Change::Fixed(|settings, to| to.miss_cycles = settings.symbiosis.miss_cycles),
        needs: Some(SYMBIOTIC),
        says: "for how many cycles a cache miss is waited for",
        more: "",
    },
];
