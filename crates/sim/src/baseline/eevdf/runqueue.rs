//! A lane's runqueue: weighted virtual time, lag, eligibility and virtual deadlines.
//!
//! Virtual time runs at 1024 / weight of real time. A task is eligible while it has had no more than
//! its share: its virtual time is not after the weighted average of all tasks of the queue.
//!
//! By the rules of CFS the task with the least virtual time is next: there are no lags, deadlines or
//! delayed tasks.

mod cfs;

pub(super) use cfs::{Granularity, Groups};

use crate::task::{Policy, TaskId, TaskSpec};
use std::collections::BTreeMap;

/// Weight of nice 0.
const NICE_0_WEIGHT: i64 = 1024;

/// Weight of a `SCHED_IDLE` task.
const IDLE_WEIGHT: i64 = 3;

/// The kernel's weights for nice -20..=19: about a factor of 1.25 a step.
#[rustfmt::skip]
pub(crate) const WEIGHTS: [i64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
    9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277,
    1024, 820, 655, 526, 423, 335, 272, 215, 172, 137,
    110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// Where a task is to its runqueue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In none.
    Asleep,
    /// It waits for the lane.
    Waiting,
    /// It sleeps, but had more than its share: it stays, and its lag wears off (delayed dequeue).
    Delayed,
    /// It has the lane.
    Running,
}

/// A task as its runqueue sees it. Virtual times are ns on the clock of its queue.
#[derive(Debug, Clone)]
pub(super) struct Entity {
    pub policy: Policy,
    pub weight: i64,
    pub place: Place,
    /// The lane in whose queue it is or was last.
    pub lane: u32,
    pub vruntime_ns: i64,
    /// When its slice will be used up, in virtual time.
    pub deadline_ns: i64,
    /// How far it was behind the average when it left a queue.
    pub lag_ns: i64,
    /// The deadline counts from the virtual time: it is between two queues.
    relative: bool,
    /// No eligible current task gives way before this deadline (`RUN_TO_PARITY`).
    protected_ns: Option<i64>,
    /// Up to when its running is charged.
    pub charged_ns: u64,
    /// Has been in a queue before.
    pub known: bool,
    /// Orders equal deadlines.
    sequence: u64,
    /// It belongs to another scheduling class.
    pub elsewhere: bool,
    /// CFS: it sleeps, or slept until now.
    slept: bool,
    /// CFS: for how long it has run since it became the current task, ns.
    turn_ns: u64,
    /// The group by which it is weighed.
    pub group: Option<usize>,
}

impl Entity {
    pub fn new(spec: &TaskSpec, lane: u32) -> Entity {
        Entity {
            policy: spec.policy,
            weight: weight(spec),
            place: Place::Asleep,
            lane,
            vruntime_ns: 0,
            deadline_ns: 0,
            lag_ns: 0,
            relative: false,
            protected_ns: None,
            charged_ns: 0,
            known: false,
            sequence: 0,
            elsewhere: false,
            slept: false,
            turn_ns: 0,
            group: None,
        }
    }

    /// Whether its policy is `SCHED_IDLE`.
    pub fn is_idle_policy(&self) -> bool {
        self.policy == Policy::Idle
    }

    /// Ends its protection as the current task.
    pub fn expose(&mut self) {
        self.protected_ns = None;
    }

    /// Whether it is to have another policy or weight.
    pub fn would_change(&self, spec: &TaskSpec) -> bool {
        (self.policy, self.weight) != (spec.policy, weight(spec))
    }

    /// Takes a new policy and nice value; it is in no queue.
    pub fn change(&mut self, spec: &TaskSpec) {
        let old = std::mem::replace(&mut self.weight, weight(spec));
        self.policy = spec.policy;
        let scaled = |ns: i64| (i128::from(ns) * i128::from(old) / i128::from(self.weight)) as i64;
        self.lag_ns = scaled(self.lag_ns);
        if self.relative {
            self.deadline_ns = scaled(self.deadline_ns);
        }
    }

    /// What a real time is in its virtual time, ns.
    fn virtual_ns(&self, real_ns: u64) -> i64 {
        let scaled = i128::from(real_ns) * i128::from(NICE_0_WEIGHT) / i128::from(self.weight);
        i64::try_from(scaled).unwrap_or(i64::MAX)
    }
}

fn weight(spec: &TaskSpec) -> i64 {
    match spec.policy {
        Policy::Idle => IDLE_WEIGHT,
        _ => WEIGHTS[(spec.nice.clamp(-20, 19) + 20) as usize],
    }
}

/// What the queues of a machine have in common, real ns.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slices {
    pub slice_ns: u64,
    pub tick_ns: u64,
    /// The rules are those of CFS, with these times; `slice_ns` is not used then.
    pub cfs: Option<Granularity>,
}

/// The runnable tasks of a lane, the current one among them.
#[derive(Debug, Default)]
pub(super) struct RunQueue {
    pub slices: Slices,
    pub current: Option<TaskId>,
    /// The lane is to choose anew.
    pub resched: bool,
    /// Waiting and delayed tasks: by deadline (CFS: virtual time), then first in, first out; with their virtual time.
    tree: BTreeMap<(i64, u64), (TaskId, i64)>,
    sequence: u64,
    /// Sum of the weights of all tasks, delayed ones too.
    weight: i64,
    /// Sum of weight × virtual time.
    weighted: i128,
    /// The average when the queue was last empty.
    empty_average_ns: i64,
    /// Tasks that run or wait.
    pub nr_runnable: usize,
    /// Those of them with the policy `SCHED_IDLE`.
    pub nr_idle_policy: usize,
    /// Sum of the weights of those that run or wait.
    pub load: i64,
    /// CFS: the least virtual time of any task; it never falls.
    least_ns: i64,
}

impl RunQueue {
    /// Tasks that wait, the delayed ones too, by deadline.
    pub fn queued(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.tree.values().map(|&(id, _)| id)
    }

    /// Whether somebody else is there but the current task.
    pub fn has_others(&self) -> bool {
        !self.tree.is_empty()
    }

    /// The weighted average of the virtual times.
    fn average_ns(&self) -> i64 {
        match self.weight {
            0 => self.empty_average_ns,
            weight => self.weighted.div_euclid(i128::from(weight)) as i64,
        }
    }

    fn is_eligible(&self, vruntime_ns: i64) -> bool {
        i128::from(vruntime_ns) * i128::from(self.weight) <= self.weighted
    }

    /// Adds a task's weight and count, or takes them away.
    fn count(&mut self, entity: &Entity, sign: i64) {
        self.weight += sign * entity.weight;
        self.weighted += i128::from(sign * entity.weight) * i128::from(entity.vruntime_ns);
        if entity.place != Place::Delayed {
            self.count_runnable(entity, sign);
        }
    }

    fn count_runnable(&mut self, entity: &Entity, sign: i64) {
        self.nr_runnable = self.nr_runnable.wrapping_add_signed(sign as isize);
        self.load += sign * entity.weight;
        if entity.is_idle_policy() {
            self.nr_idle_policy = self.nr_idle_policy.wrapping_add_signed(sign as isize);
        }
    }

    /// Gives a task a virtual time by its lag, and a deadline. What its joining does to the
    /// average is made up for, so that its lag is the same afterwards.
    fn place(&self, entity: &mut Entity) {
        let average_ns = self.average_ns();
        let lag_ns = match self.weight {
            0 => 0,
            weight => {
                let whole = i128::from(entity.lag_ns) * i128::from(weight + entity.weight);
                (whole / i128::from(weight)) as i64
            }
        };
        entity.vruntime_ns = average_ns - lag_ns;
        if std::mem::take(&mut entity.relative) {
            entity.deadline_ns += entity.vruntime_ns;
            return;
        }
        let slice_ns = entity.virtual_ns(self.slices.slice_ns);
        // A new task competes as if it were in the middle of its slice.
        let slice_ns = if entity.known { slice_ns } else { slice_ns / 2 };
        entity.deadline_ns = entity.vruntime_ns + slice_ns;
    }

    /// How far a task is behind the average; bounded, so that no history weighs too much.
    fn lag_ns(&self, entity: &Entity) -> i64 {
        let limit_ns = entity.virtual_ns((2 * self.slices.slice_ns).max(self.slices.tick_ns));
        (self.average_ns() - entity.vruntime_ns).clamp(-limit_ns, limit_ns)
    }

    fn insert(&mut self, id: TaskId, entity: &mut Entity) {
        self.sequence += 1;
        entity.sequence = self.sequence;
        self.tree.insert(self.key(entity), (id, entity.vruntime_ns));
    }

    fn extract(&mut self, entity: &Entity) {
        self.tree.remove(&self.key(entity));
    }

    fn key(&self, entity: &Entity) -> (i64, u64) {
        let ns = match self.slices.cfs {
            Some(_) => entity.vruntime_ns,
            None => entity.deadline_ns,
        };
        (ns, entity.sequence)
    }

    /// A task that is in no queue waits here from now on.
    pub fn join(&mut self, id: TaskId, entity: &mut Entity) {
        match self.slices.cfs {
            Some(times) => self.place_cfs(entity, times),
            None => self.place(entity),
        }
        entity.known = true;
        entity.place = Place::Waiting;
        self.count(entity, 1);
        self.insert(id, entity);
    }

    /// A task leaves the queue, the current one too. It `sleeps`, or goes to another queue.
    pub fn leave(&mut self, entity: &mut Entity, sleeps: bool) {
        let average_ns = self.average_ns();
        entity.lag_ns = self.lag_ns(entity);
        if entity.place == Place::Delayed {
            entity.lag_ns = entity.lag_ns.min(0);
        }
        self.count(entity, -1);
        if self.weight == 0 {
            self.empty_average_ns = average_ns;
        }
        match entity.place {
            Place::Running => self.current = None,
            _ => self.extract(entity),
        }
        if self.slices.cfs.is_some() {
            self.left_cfs(entity, sleeps);
        } else if !sleeps {
            entity.deadline_ns -= entity.vruntime_ns;
            entity.relative = true;
        }
        entity.place = Place::Asleep;
    }

    /// The current task goes to sleep. One that had more than its share stays, as delayed.
    pub fn sleep(&mut self, id: TaskId, entity: &mut Entity) {
        if self.slices.cfs.is_some() || self.is_eligible(entity.vruntime_ns) {
            return self.leave(entity, true);
        }
        self.current = None;
        self.count_runnable(entity, -1);
        entity.place = Place::Delayed;
        self.insert(id, entity);
    }

    /// A delayed task wakes up. It is not better off for having slept.
    pub fn resume(&mut self, id: TaskId, entity: &mut Entity) {
        if self.lag_ns(entity) > 0 {
            self.leave(entity, true); // which cuts the lag
            return self.join(id, entity);
        }
        entity.place = Place::Waiting;
        self.count_runnable(entity, 1);
    }

    /// A waiting task becomes the current one, and is protected for what is left of its slice.
    pub fn start(&mut self, id: TaskId, entity: &mut Entity, now_ns: u64) {
        self.extract(entity);
        self.current = Some(id);
        entity.place = Place::Running;
        entity.protected_ns = Some(entity.deadline_ns);
        entity.charged_ns = now_ns;
        entity.turn_ns = 0;
    }

    /// The current task waits again.
    pub fn put_back(&mut self, id: TaskId, entity: &mut Entity) {
        self.current = None;
        entity.place = Place::Waiting;
        self.insert(id, entity);
    }

    /// Charges the current task; true if it has used its slice up, and has another one now.
    pub fn charge(&mut self, entity: &mut Entity, now_ns: u64) -> bool {
        let ran_ns = now_ns.saturating_sub(std::mem::replace(&mut entity.charged_ns, now_ns));
        let advance_ns = entity.virtual_ns(ran_ns);
        entity.vruntime_ns += advance_ns;
        self.weighted += i128::from(advance_ns) * i128::from(entity.weight);
        if self.slices.cfs.is_some() {
            entity.turn_ns += ran_ns;
            self.advance(Some(entity.vruntime_ns));
            return false; // turns end at ticks
        }
        let used_up = entity.vruntime_ns >= entity.deadline_ns;
        if used_up {
            entity.deadline_ns = entity.vruntime_ns + entity.virtual_ns(self.slices.slice_ns);
        }
        used_up
    }

    /// The eligible task with the earliest deadline, if the current one is not protected.
    pub fn pick(&self, entities: &[Entity]) -> Option<TaskId> {
        if self.slices.cfs.is_some() {
            return self.pick_cfs(entities);
        }
        let current = self.current.map(|id| (id, &entities[id.index()]));
        let current = current.filter(|(_, entity)| self.is_eligible(entity.vruntime_ns));
        if let Some((id, entity)) = current
            && entity.protected_ns == Some(entity.deadline_ns)
        {
            return Some(id);
        }
        let first = self
            .tree
            .iter()
            .find(|(_, (_, vruntime_ns))| self.is_eligible(*vruntime_ns));
        match (first, current) {
            (Some((&(deadline_ns, _), &(id, _))), Some((current, entity))) => {
                Some(if entity.deadline_ns < deadline_ns {
                    current
                } else {
                    id
                })
            }
            (Some((_, &(id, _))), None) => Some(id),
            (None, current) => current.map(|(id, _)| id),
        }
    }

    /// Whether the sums are those of its tasks.
    pub fn is_sound(&self, entities: &[Entity]) -> bool {
        let mut sums = RunQueue::default();
        for id in self.queued().chain(self.current) {
            sums.count(&entities[id.index()], 1);
        }
        let key = |queue: &RunQueue| {
            let counts = (queue.nr_runnable, queue.nr_idle_policy, queue.load);
            (queue.weight, queue.weighted, counts)
        };
        key(&sums) == key(self)
    }
}
