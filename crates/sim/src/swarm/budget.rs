//! How long batch may run beside critical work, from the recorded steps alone.
//!
//! A core whose budget is used up closes at once if its timer was set, else with a tick of one of its lanes:
//! batch is gone within a kick of that. Its clock begins anew with a critical task that wakes while none waits anywhere.
//!
//! A bound from above: where the scheduler may close a core sooner, as when a period of critical work
//! ends and the next begins within a moment, nothing is said.

use super::watch::{Clock, Place, Task, Watch};
use crate::task::{Class, TaskId};
use sidelane_policy::{Borrow, UseCounters, intf};

/// Timers of a dynamic budget are not set for less (`BUDGET_GRAIN_NS`).
const GRAIN_NS: u64 = intf::BUDGET_GRAIN_NS as u64;

/// Nor more often while what waits closes the core, which the clock says is open (`BUDGET_WAITS_NS`).
const WAITS_NS: u64 = intf::BUDGET_WAITS_NS as u64;

impl Watch {
    /// Batch has to have left the core by then; none: it may stay.
    pub fn batch_until_ns(&self, core: usize) -> Option<u64> {
        let core = &self.cores[core];
        let closed_ns = core.closed_ns?;
        let clock = &core.clock;
        let budget_ns = self.settings.budget.budget_ns;
        let spent_ns = match self.settings.budget.borrow {
            Borrow::BorrowIdle => return Some(closed_ns),
            // what the controller allows, or counters show, is not seen from outside
            Borrow::Off | Borrow::Slo => return None,
            Borrow::Dynamic if self.settings.counters != UseCounters::Off => return None,
            Borrow::Fixed | Borrow::Refresh => clock.start_ns? + budget_ns,
            Borrow::Dynamic => {
                let spent_ns = clock.spent_ns.or_else(|| clock.spends_ns(budget_ns));
                spent_ns?.saturating_add(GRAIN_NS)
            }
        };
        let spent_ns = spent_ns.max(closed_ns);
        let ticked_ns = spent_ns.saturating_add(self.machine.costs.tick_ns);
        let timed_ns = (clock.timed_ns).map_or(u64::MAX, |ns| ns.max(spent_ns) + WAITS_NS);
        Some(ticked_ns.min(timed_ns))
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
            self.settings.budget.borrow,
            Borrow::Refresh | Borrow::Dynamic
        );
        let (now_ns, waits) = (self.now_ns, self.another_waits(id));
        let clock = &mut self.cores[core].clock;
        if several {
            clock.timed_ns.get_or_insert(now_ns);
        }
        if !refreshes || spent || waits || clock.start_ns.is_none() {
            return;
        }
        (clock.start_ns, clock.charged_ns, clock.spent_ns) = (Some(now_ns), 0.0, None);
        clock.from_ns = clock.from_ns.map(|_| now_ns);
    }

    /// Does critical work that may use several lanes wait in any vector, besides this task?
    fn another_waits(&self, id: TaskId) -> bool {
        let nr_lanes = self.lanes.len() as u32;
        let waits = |task: &Task| {
            let critical = matches!(
                task.place,
                Place::Vector {
                    class: Class::Critical,
                    ..
                }
            );
            critical && task.cpus_allowed(nr_lanes) > 1
        };
        let mut tasks = self.tasks.iter().enumerate();
        tasks.any(|(index, task)| index != id.index() && waits(task))
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
        let (budget_ns, loss) = match self.settings.budget.borrow {
            Borrow::Dynamic => {
                let thread_perf = &self.settings.thread_perf;
                let index = self.cores[core].busy.max(1) - 1;
                let speed = thread_perf.get(index).or(thread_perf.last());
                (
                    self.settings.budget.budget_ns,
                    1.0 - speed.copied().unwrap_or(0.0),
                )
            }
            _ => (u64::MAX, 0.0),
        };
        let now_ns = self.now_ns;
        let clock = &mut self.cores[core].clock;
        if let Some(from_ns) = clock.from_ns {
            let spends_ns = clock.spends_ns(budget_ns).filter(|ns| *ns <= now_ns);
            clock.spent_ns = clock.spent_ns.or(spends_ns);
            clock.charged_ns += (now_ns - from_ns) as f64 * clock.rate;
        }
        clock.from_ns = overlap.then_some(now_ns);
        clock.rate = loss;
        if overlap {
            clock.start_ns.get_or_insert(now_ns);
        } else if clock.start_ns == Some(now_ns) {
            clock.start_ns = None; // it was about to leave, and no time has passed
        }
    }
}
