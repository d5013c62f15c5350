//! What the watch keeps of the budget of each core and of each pool; `budget.rs` and `pools.rs` keep it current.

/// The scheduler's timer rings at most so late, and first so long after it is attached.
pub(super) const LOOK_NS: u64 = 1_000_000;

/// The clock of a core's busy period.
#[derive(Debug, Default, Clone)]
pub(super) struct Clock {
    /// When batch ran beside critical work first, or when the clock was set anew since.
    pub start_ns: Option<u64>,
    /// Used up to `from_ns`, ns; of a dynamic budget.
    pub charged_ns: f64,
    /// Since when it is charged at `rate`; none while they do not run at once.
    pub from_ns: Option<u64>,
    pub rate: f64,
    /// When the charge reached the budget.
    pub spent_ns: Option<u64>,
    /// When a timer was set first in this period: not by a task that has one lane only, nor by one
    /// that waited when the scheduler was attached.
    pub timed_ns: Option<u64>,
}

impl Clock {
    /// When the charge reaches the budget, as it goes on now.
    pub fn spends_ns(&self, budget_ns: u64) -> Option<u64> {
        let left_ns = (budget_ns as f64 - self.charged_ns).max(0.0);
        let from_ns = self.from_ns.filter(|_| self.rate > 0.0)?;
        Some(from_ns.saturating_add((left_ns / self.rate) as u64))
    }
}

/// A pool of the watched machine.
pub(super) struct Account {
    /// Of the allowance, ns; negative: overdrawn.
    pub left_ns: f64,
    /// The same when this period began.
    pub began_with_ns: f64,
    pub began_ns: u64,
    pub ends_ns: u64,
    /// Its tasks, those of pools within it too.
    pub tasks: u64,
}

impl Account {
    /// As the scheduler begins when it is attached.
    pub fn new(now_ns: u64) -> Account {
        Account {
            left_ns: 0.0,
            began_with_ns: 0.0,
            began_ns: now_ns,
            ends_ns: now_ns + LOOK_NS,
            tasks: 0,
        }
    }
}
