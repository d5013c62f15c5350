//! How long batch may run beside critical work, from the recorded steps alone.
//!
//! A bound from above: where the scheduler may close a core sooner, as when a period of critical work
//! ends and the next begins within a moment, nothing is said.

use super::watch::Watch;
use crate::sched_ext::Budget;
use crate::task::{Class, TaskId};

/// Timers of a dynamic budget are not set for less (`BUDGET_GRAIN_NS`).
const GRAIN_NS: u64 = 20_000;

/// The clock of a core's busy period.
#[derive(Debug, Default, Clone)]
pub(super) struct Clock {
    /// When batch ran beside critical work first, or when the clock was set anew since.
    start_ns: Option<u64>,
    /// Used up to `from_ns`, ns; of a dynamic budget.
    charged_ns: f64,
    /// Since when it is charged at `rate`; none while they do not run at once.
    from_ns: Option<u64>,
    rate: f64,
    /// A timer was set in this period: not by a task that has one lane only.
    timed: bool,
}

impl Watch {
    /// Batch has to have left the core by then; none: it may stay.
    pub fn batch_until_ns(&self, core: usize) -> Option<u64> {
        let core = &self.cores[core];
        let closed_ns = core.closed_ns?;
        let clock = &core.clock;
        let spent_ns = match &self.settings.budget {
            Budget::BorrowIdle => return Some(closed_ns),
            Budget::Off => return None,
            Budget::Fixed(ns) | Budget::Refresh(ns) => clock.start_ns? + ns,
            Budget::Dynamic { budget_ns, .. } => {
                let left = *budget_ns as f64 - clock.charged_ns;
                match clock.from_ns {
                    // the scheduler rounds each charge down
                    _ if left <= -(GRAIN_NS as f64) => clock.start_ns?,
                    Some(from_ns) if clock.rate > 0.0 => {
                        from_ns.saturating_add((left.max(0.0) / clock.rate) as u64 + GRAIN_NS)
                    }
                    _ => return None,
                }
            }
        };
        let late_ns = if clock.timed {
            0
        } else {
            self.machine.costs.tick_ns
        };
        Some(spent_ns.max(closed_ns).saturating_add(late_ns))
    }

    /// A period of critical work begins on the core.
    pub fn begin_period(&mut self, core: usize) {
        self.cores[core].clock = Clock::default();
    }

    /// A critical task wakes for the core.
    pub fn refresh(&mut self, core: usize, id: TaskId) {
        let several = self.task(id).cpus_allowed(self.lanes.len() as u32) > 1;
        let spent = self
            .batch_until_ns(core)
            .is_some_and(|until_ns| until_ns <= self.now_ns);
        let refreshes = matches!(
            self.settings.budget,
            Budget::Refresh(_) | Budget::Dynamic { .. }
        );
        let now_ns = self.now_ns;
        let clock = &mut self.cores[core].clock;
        clock.timed |= several;
        if !refreshes || spent || clock.start_ns.is_none() {
            return;
        }
        (clock.start_ns, clock.charged_ns) = (Some(now_ns), 0.0);
        clock.from_ns = clock.from_ns.map(|_| now_ns);
    }

    /// What runs on the core has changed.
    pub fn charge(&mut self, core: usize) {
        let lanes = &self.machine.cores[core].lanes;
        let running = |class: Class| {
            let tasks = lanes
                .iter()
                .filter_map(|&cpu| self.lanes[cpu as usize].task);
            tasks.filter(|id| self.task(*id).known == class).count()
        };
        let overlap = running(Class::Critical) > 0 && running(Class::Batch) > 0;
        let loss = match &self.settings.budget {
            Budget::Dynamic { thread_perf, .. } => {
                let index = self.cores[core].busy.max(1) - 1;
                let speed = thread_perf.get(index).or(thread_perf.last());
                1.0 - speed.copied().unwrap_or(0.0)
            }
            _ => 0.0,
        };
        let now_ns = self.now_ns;
        let clock = &mut self.cores[core].clock;
        if let Some(from_ns) = clock.from_ns {
            clock.charged_ns += (now_ns - from_ns) as f64 * clock.rate;
        }
        clock.from_ns = overlap.then_some(now_ns);
        clock.rate = loss;
        if overlap {
            clock.start_ns.get_or_insert(now_ns);
        }
    }
}
