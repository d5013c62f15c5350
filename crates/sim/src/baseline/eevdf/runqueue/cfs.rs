//! The rules of the completely fair scheduler (CFS), as in Linux 5.3 (`kernel/sched/fair.c`): which task runs next, for
//! how long, and when a task that wakes preempts. And groups: what share of a lane a task of a cgroup
//! has.
//!
//! Left out: buddies (`LAST_BUDDY` needs eight tasks on a lane), and queues within queues: a task of a group
//! weighs what its group would weigh on the lane for it. So tasks of a group do not preempt each other any
//! sooner than others.

use super::{Entity, Place, RunQueue};
use crate::task::TaskId;

/// The times of CFS, real ns. Defaults of Linux 5.3 (`kernel/sched/fair.c`): 6, 0.75 and 1 ms, each
/// × (1 + log2 of the online lanes, at most 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Granularity {
    /// In so long each of up to [`NR_LATENCY`] tasks has a turn.
    pub latency_ns: u64,
    /// Shortest turn of a task that others wait for.
    pub turn_ns: u64,
    /// A task that wakes has to be so far behind the current one to preempt it.
    pub wakeup_ns: u64,
}

/// From more tasks on a turn is not shorter, but the period longer.
const NR_LATENCY: u64 = 8;

impl Granularity {
    pub fn of(doublings: u32) -> Granularity {
        let factor = u64::from(1 + doublings);
        Granularity {
            latency_ns: 6_000_000 * factor,
            turn_ns: 750_000 * factor,
            wakeup_ns: 1_000_000 * factor,
        }
    }

    /// How far a task that wakes is at most behind (`GENTLE_FAIR_SLEEPERS`).
    fn credit_ns(&self) -> i64 {
        (self.latency_ns / 2) as i64
    }
}

/// The rules of CFS.
impl RunQueue {
    /// A task that slept is behind by no more than the credit, and not better off for a short sleep; a
    /// new one starts as if it had just had a turn (`START_DEBIT`).
    pub(super) fn place_cfs(&self, entity: &mut Entity, times: Granularity) {
        if std::mem::take(&mut entity.relative) {
            entity.vruntime_ns += self.least_ns;
        }
        let slept = std::mem::take(&mut entity.slept);
        if !entity.known {
            let turn_ns = self.turn_ns(entity, times, true);
            entity.vruntime_ns = self.least_ns + entity.virtual_ns(turn_ns);
        } else if slept {
            let least_ns = self.least_ns - times.credit_ns();
            entity.vruntime_ns = entity.vruntime_ns.max(least_ns);
        }
    }

    /// A task has left the queue.
    pub(super) fn left_cfs(&mut self, entity: &mut Entity, sleeps: bool) {
        entity.slept = sleeps;
        if entity.place == Place::Running {
            self.advance(None);
        }
        if !sleeps {
            self.uproot(entity);
        }
    }

    /// A task that is in no queue takes its virtual time to another one, as far as it was from the
    /// least one here.
    pub fn uproot(&self, entity: &mut Entity) {
        if self.slices.cfs.is_some()
            && entity.known
            && !std::mem::replace(&mut entity.relative, true)
        {
            entity.vruntime_ns -= self.least_ns;
        }
    }

    /// Brings the least virtual time up to date; the current task's is given.
    pub(super) fn advance(&mut self, current_ns: Option<i64>) {
        let first_ns = self.tree.first_key_value().map(|(&(ns, _), _)| ns);
        let least_ns = match (current_ns, first_ns) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => a.or(b).unwrap_or(self.least_ns),
        };
        self.least_ns = self.least_ns.max(least_ns);
    }

    /// How long the turn of a task is that `joins` or is there, real ns.
    fn turn_ns(&self, entity: &Entity, times: Granularity, joins: bool) -> u64 {
        let nr = self.nr_runnable as u64 + u64::from(joins);
        let weight = self.weight + if joins { entity.weight } else { 0 };
        let period_ns = match nr > NR_LATENCY {
            true => nr * times.turn_ns,
            false => times.latency_ns,
        };
        (u128::from(period_ns) * entity.weight as u128 / weight.max(1) as u128) as u64
    }

    /// At a tick: has the current task, which is charged, had its turn? So it has too if the first
    /// of the others is a turn behind it.
    pub fn has_had_turn(&self, current: &Entity) -> bool {
        let (Some(times), Some((&(first_ns, _), _))) =
            (self.slices.cfs, self.tree.first_key_value())
        else {
            return false;
        };
        let turn_ns = self.turn_ns(current, times, false);
        current.turn_ns > turn_ns
            || current.turn_ns >= times.turn_ns && current.vruntime_ns - first_ns > turn_ns as i64
    }

    /// Whether a task that wakes is far enough behind the current one; none: not by the rules of CFS.
    pub fn wakes_over(&self, new: &Entity, current: &Entity) -> Option<bool> {
        let times = self.slices.cfs?;
        let behind_ns = current.vruntime_ns - new.vruntime_ns;
        Some(behind_ns > new.virtual_ns(times.wakeup_ns))
    }

    pub(super) fn pick_cfs(&self, entities: &[Entity]) -> Option<TaskId> {
        let first = self.tree.first_key_value();
        match (first, self.current) {
            (Some((&(first_ns, _), &(id, _))), Some(current)) => {
                let stays = entities[current.index()].vruntime_ns < first_ns;
                Some(if stays { current } else { id })
            }
            (Some((_, &(id, _))), None) => Some(id),
            (None, current) => current,
        }
    }

    /// The current task has another weight from now on.
    pub fn reweigh(&mut self, entity: &mut Entity, weight: i64) {
        self.count(entity, -1);
        entity.weight = weight;
        self.count(entity, 1);
    }
}

/// Cgroups, all of the same weight: together their tasks weigh as much as one without a group.
#[derive(Debug, Default)]
pub(in super::super) struct Groups {
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    name: String,
    nr_tasks: usize,
    nr_runnable: usize,
    /// Of the runnable ones (`load_avg` ÷ 1024).
    average: f64,
    averaged_ns: u64,
}

/// Weight of a group by default (`cpu.shares`).
const SHARES: f64 = 1024.0;
/// The least weight of a group on a lane (`MIN_SHARES`).
const MIN_SHARES: i64 = 2;
/// After this time what was counts half in averages (PELT).
const HALF_LIFE_NS: f64 = 32e6;

impl Groups {
    /// A task of the group with this name is created: which one that is.
    pub fn add(&mut self, name: &str) -> usize {
        let index = self.groups.iter().position(|group| group.name == name);
        let index = index.unwrap_or_else(|| {
            self.groups.push(Group {
                name: name.to_owned(),
                nr_tasks: 0,
                nr_runnable: 0,
                average: 0.0,
                averaged_ns: 0,
            });
            self.groups.len() - 1
        });
        self.groups[index].nr_tasks += 1;
        index
    }

    /// One more task of a group is runnable, or one less.
    pub fn count(&mut self, index: usize, by: isize, now_ns: u64) {
        let group = &mut self.groups[index];
        group.age(now_ns);
        group.nr_runnable = group.nr_runnable.saturating_add_signed(by);
    }

    /// What a runnable task weighs: its part of the group's weight, the others counted by their average
    /// (`calc_group_shares`).
    pub fn weight(&mut self, index: usize, now_ns: u64) -> i64 {
        let group = &mut self.groups[index];
        group.age(now_ns);
        let nr_tasks = group.nr_tasks.max(1) as f64;
        let others = group.average * (nr_tasks - 1.0) / nr_tasks;
        ((SHARES / (1.0 + others)).round() as i64).max(MIN_SHARES)
    }
}

impl Group {
    fn age(&mut self, now_ns: u64) {
        let passed_ns = now_ns - std::mem::replace(&mut self.averaged_ns, now_ns);
        let kept = libm::exp2(-(passed_ns as f64) / HALF_LIFE_NS);
        self.average = self.average * kept + self.nr_runnable as f64 * (1.0 - kept);
    }
}
