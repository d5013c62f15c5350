//! The invariants, and what the scheduler's source allows for each.
//!
//! `reach` is kick + idle exit; everything else is a setting or a cost of the machine.
//!
//! * **Closed core.** A core is closed while a critical task runs there or waits for one of its lanes
//!   (borrow.bpf.h). Batch is asked to leave when the core closes, or when it begins there: it is gone
//!   within kick. A run that began after a wait of at least the bound may last overdue_slice + tick
//!   (a slice ends at a tick).
//! * **Starvation.** A task is due its bound after it began to wait, and stays due until it sleeps or runs for an
//!   overdue slice; a kernel thread of one lane is due at once. A lane of its core that it may use does not
//!   go on with higher classes, or idle beside a busy lane, for longer than: the account's (OVERDUE_PARTS - 1)
//!   longest overdue runs (a slice and a tick); a quarter of the bound, after which the source looks
//!   again; the ticks that end what runs and that notice; and reach, for a lane that idles. A task that was
//!   due before it and runs on any lane of the core begins that time anew: how many go first is for
//!   `tests/starvation.rs`.
//! * **Idle lane.** Work conservation: no lane idles beside a task that it could take by the rules
//!   (class, affinity, SMT level, steal barrier). Nothing is said before [`Watch::patience_ns`]: what
//!   is missed is found by a tick. While every lane idles there are no ticks: only reach, twice.
//!   It is held for a nap (nap.bpf.h) until the core opens, or the first tick after the starvation bound of batch.
//!   With vertical polarization: only of its own core, since others may be parked. With retention a lane is
//!   held for its longest time-out at most.
//! * **Level.** More lanes of a core than the SMT level run critical or normal work only until slices end, also those of what is due.
//! * **Pools.** See `pools.rs`.
//! * **Age.** See `age.rs`.
//! * **Precedence.** Critical work does not wait for lower work on a lane of its core that it may use, but for what runs because it
//!   is due, and where the SMT level allows it. It asks for the lane at once; what both miss a tick finds. Two ticks and kick.
//! * **Shares.** See `shares.rs`.
//! * **Batch alone.** With `scope = "batch"` the kernel's own scheduler has all other tasks, and they are held to none of
//!   this. They close cores as critical ones do if they began to run since batch wanted to.
//! * **Class change.** A running task is queued anew within its slice and two ticks.

use super::verdict::{Broken, Rule, Verdict};
use super::watch::{Lane, Place, Task, Watch};
use crate::task::{Class, State, TaskId};
use sidelane_policy::{Polarization, intf};

/// Overdue work has one part in so many of a lane (`OVERDUE_PARTS`).
const OVERDUE_PARTS: u64 = intf::OVERDUE_PARTS as u64;
/// Steal barriers: the greatest distance.
const DISTANCES: u64 = intf::distance_DISTANCE_REMOTE as u64;

/// Rules that are looked at as lanes change.
impl Watch {
    /// Of all lanes of a core, up to now.
    pub fn check_core(&self, core: usize) -> Verdict {
        for &cpu in &self.machine.cores[core].lanes {
            self.check_lane(cpu)?;
        }
        Ok(())
    }

    fn check_lane(&self, cpu: u32) -> Verdict {
        let lane = &self.lanes[cpu as usize];
        let Some(id) = lane.task else {
            return Ok(());
        };
        let (core, task) = (&self.cores[lane.core], self.task(id));
        let tick_ns = self.machine.costs.tick_ns;
        let closed_ns = self.batch_until_ns(lane.core);
        if let Some(closed_ns) = closed_ns.filter(|_| task.known == Class::Batch) {
            let from_ns = task.since_ns.max(task.came_ns).max(closed_ns);
            let mut until_ns = from_ns + self.machine.costs.kick_ns;
            if task.spec.naps && self.holds_naps() {
                // it may step aside by itself until the first tick at which the core is closed
                until_ns = until_ns.max(core.open_ns) + tick_ns;
            }
            if task.overdue {
                until_ns = until_ns.max(task.since_ns + self.settings.overdue_slice_ns + tick_ns);
            }
            if self.now_ns > until_ns {
                let what = format!(
                    "{id} runs on lane {cpu} since {} ns; its core is closed since {closed_ns} ns, \
                     so it should have left by {until_ns} ns",
                    task.since_ns
                );
                return Broken::because(Rule::ClosedCore, what);
            }
        }
        let patience_ns = self.slice_ns() + 2 * tick_ns + self.machine.costs.kick_ns;
        let late = |from_ns: u64| self.now_ns > task.since_ns.max(from_ns) + patience_ns;
        // critical work comes to a core also while work goes on there because it is due
        let crowded = |from_ns: u64| late(from_ns + self.settings.overdue_slice_ns);
        if self.lanes[cpu as usize].foreground && core.crowded_ns.is_some_and(crowded) {
            let what = format!(
                "{id} runs on lane {cpu} of a core with {} lanes of critical and normal work",
                core.foreground
            );
            return Broken::because(Rule::Level, what);
        }
        if task.changed_ns.is_some_and(late) {
            let what = format!("{id} on lane {cpu} still counts as {}", task.known.name());
            return Broken::because(Rule::ClassChange, what);
        }
        Ok(())
    }

    /// Is a task in a vector due, while a lane that it may use has gone on without it?
    pub fn check_wait(&self, id: TaskId) -> Verdict {
        let task = self.task(id);
        let (Place::Vector { core, class }, Some(due_ns)) = (task.place, task.due_ns) else {
            return Ok(());
        };
        let (tick_ns, bound_ns) = (self.machine.costs.tick_ns, self.bound_ns(class));
        let slack_ns = (OVERDUE_PARTS - 1) * (self.settings.overdue_slice_ns + tick_ns)
            + bound_ns.unwrap_or(0) / 4
            + 3 * tick_ns
            + self.reach_ns();
        for &cpu in &self.machine.cores[core].lanes {
            let lane = &self.lanes[cpu as usize];
            if !lane.online || !task.may_use(cpu) {
                continue;
            }
            let Some(from_ns) = self.passes_over_ns(cpu, class) else {
                continue;
            };
            let waits_ns = due_ns.max(task.queued_ns).max(self.attached_ns);
            let waits_ns = waits_ns.max(task.preceded_ns);
            let until_ns = waits_ns.max(from_ns) + slack_ns;
            if self.now_ns > until_ns {
                let what = format!(
                    "{id} waits in the {} vector of core {core} since {} ns and is due since \
                     {due_ns} ns; lane {cpu} does without it since {from_ns} ns, and should have \
                     taken it by {until_ns} ns",
                    class.name(),
                    task.queued_ns
                );
                return Broken::because(Rule::Starvation, what);
            }
        }
        Ok(())
    }

    /// Since when the lane has run nothing but higher classes than this, or idled beside a busy lane.
    fn passes_over_ns(&self, cpu: u32, class: Class) -> Option<u64> {
        let lane = &self.lanes[cpu as usize];
        let core = &self.cores[lane.core];
        let ticks_ns = match lane.task {
            Some(id) if self.task(id).known >= class || self.task(id).overdue => return None,
            Some(id) if !self.has(self.task(id)) => return None, // the kernel gives it the lane
            Some(_) => 0,
            None if core.busy == 0 => return None,
            None if self.settings.only_batch() => core.busy_ns.max(lane.idle_ns),
            None => core.busy_ns,
        };
        Some(lane.served_ns[class as usize].max(ticks_ns))
    }
}

/// Rules that are looked at from time to time.
impl Watch {
    /// All that can be seen at this moment.
    pub fn sample(&mut self, now_ns: u64) -> Verdict {
        self.pass_periods(now_ns)?;
        for core in 0..self.cores.len() {
            self.check_core(core)?;
        }
        for index in 0..self.tasks.len() {
            let id = TaskId(index as u32);
            if self.task(id).state == State::Waiting {
                self.check_wait(id)?;
                self.check_idle(id)?;
                self.check_held(id)?;
                self.check_turns(id)?;
                self.check_precedence(id)?;
            }
        }
        Ok(())
    }

    /// A lane may idle for so long beside a task that it could take.
    fn patience_ns(&self) -> u64 {
        // a barrier that is higher by one for a while, at the greatest distance, and comes down by one at a time
        let barriers = &self.settings.steal_min_queued;
        let most = (barriers.cache).max(barriers.node).max(barriers.remote);
        let barrier_ns = u64::from(most) * DISTANCES * self.settings.steal_patience_ns;
        2 * (self.machine.costs.tick_ns + self.reach_ns()) + barrier_ns + self.held_ns()
    }

    /// A lane may be held for so long; a kick releases it.
    fn held_ns(&self) -> u64 {
        match self.settings.retain {
            true => self.settings.retention.max_ns,
            false => 0,
        }
    }

    /// Are lanes held for naps?
    pub(super) fn holds_naps(&self) -> bool {
        self.settings.hold_naps && !self.settings.only_batch()
    }

    /// Until when the lane may be held for the nap of a task.
    fn nap_until_ns(&self, lane: &Lane) -> u64 {
        let bound_ns = self.settings.starvation_bound_ns + self.machine.costs.tick_ns;
        match (lane.nap_ns, self.cores[lane.core].closed_ns) {
            (Some(nap_ns), Some(closed_ns)) if closed_ns <= nap_ns => nap_ns + bound_ns,
            (Some(_), _) => self.cores[lane.core].open_ns,
            (None, _) => 0,
        }
    }

    /// Is there a lane that has been idle for too long while it could have taken the task?
    fn check_idle(&self, id: TaskId) -> Verdict {
        let task = self.task(id);
        if !self.has(task) {
            return Ok(());
        }
        let rests_ns = match self.busy {
            0 => self.rests_since_ns + 2 * self.reach_ns() + 1 + self.held_ns(),
            _ => u64::MAX,
        };
        let waits_ns = task.queued_ns.max(self.attached_ns);
        for (cpu, lane) in (0_u32..).zip(&self.lanes) {
            if !lane.online || lane.task.is_some() || !task.may_use(cpu) {
                continue;
            }
            let Some(could_ns) = self.could_take(task, cpu) else {
                continue;
            };
            let from_ns = could_ns.max(waits_ns).max(lane.idle_ns);
            let from_ns = match task.known {
                Class::Critical => from_ns,
                _ => from_ns.max(self.nap_until_ns(lane)),
            };
            let until_ns = (from_ns + self.patience_ns())
                .min(rests_ns.max(from_ns + 2 * self.reach_ns() + 1 + self.held_ns()));
            if self.now_ns > until_ns {
                let what = format!(
                    "{id} ({}) waits in {:?}; since {from_ns} ns idle lane {cpu} of core {} could \
                     have taken it, at the latest at {until_ns} ns; {} lanes are busy",
                    task.known.name(),
                    task.place,
                    lane.core,
                    self.busy
                );
                return Broken::because(Rule::IdleLane, what);
            }
        }
        Ok(())
    }

    /// Does lower work go on on a lane of its core that the task, which is critical and waits, may use?
    fn check_precedence(&self, id: TaskId) -> Verdict {
        let task = self.task(id);
        let Place::Vector {
            core: index,
            class: Class::Critical,
        } = task.place
        else {
            return Ok(());
        };
        if task.changed_ns.is_some() || !self.has(task) {
            return Ok(());
        }
        let core = &self.cores[index];
        let patience_ns = 2 * self.machine.costs.tick_ns + self.machine.costs.kick_ns;
        for &cpu in &self.machine.cores[index].lanes {
            let lane = &self.lanes[cpu as usize];
            let Some(running) = lane.task.map(|id| self.task(id)) else {
                continue;
            };
            let others = core.foreground - usize::from(lane.foreground);
            if !task.may_use(cpu)
                || running.known == Class::Critical
                || running.overdue
                || running.is_pinned_kthread()
                || running.changed_ns.is_some()
                || others >= self.level(index)
            {
                continue;
            }
            let from_ns = task.queued_ns.max(running.since_ns).max(self.attached_ns);
            let until_ns = from_ns.max(core.room_ns) + patience_ns;
            if self.now_ns > until_ns {
                let what = format!(
                    "{id} waits in {:?} since {} ns, while lane {cpu} runs {} work since {} ns; it should have had the lane by \
                     {until_ns} ns",
                    task.place,
                    task.queued_ns,
                    running.known.name(),
                    running.since_ns
                );
                return Broken::because(Rule::Precedence, what);
            }
        }
        Ok(())
    }

    /// Since when the rules let the lane, which is idle, take the task.
    fn could_take(&self, task: &Task, cpu: u32) -> Option<u64> {
        let index = self.lanes[cpu as usize].core;
        let core = &self.cores[index];
        let (from, class) = match task.place {
            Place::Nowhere => return Some(0),
            Place::Held(_) => return None, // see pools.rs
            Place::Local(own) => return (own == cpu).then_some(0),
            Place::Vector { core, class } => (core, class),
        };
        if self.settings.polarization == Polarization::Vertical
            && class != Class::Critical
            && from != index
        {
            return None; // the core may be parked
        }
        let mut since_ns = 0;
        if class == Class::Batch {
            if core.closed_ns.is_some() || !self.is_for_batch(cpu) || self.may_be_closed(index) {
                return None;
            }
            since_ns = core.open_ns.max(since_ns);
        } else {
            if core.foreground >= self.level(index) {
                return None;
            }
            since_ns = core.room_ns.max(since_ns);
        }
        Some(since_ns.max(self.long_since_ns(from, index, class)?))
    }

    /// Where batch is alone: may it have to stay away from the core? A task that runs there is followed since before batch
    /// came, or is not.
    fn may_be_closed(&self, core: usize) -> bool {
        let lanes = self.machine.cores[core].lanes.iter();
        let mut running = lanes.filter_map(|&cpu| self.lanes[cpu as usize].task);
        self.settings.only_batch() && running.any(|id| self.task(id).known == Class::Critical)
    }

    /// How many tasks have to wait at a core so that another one takes one.
    pub(super) fn barrier(&self, from: usize, to: usize) -> usize {
        let barriers = &self.settings.steal_min_queued;
        let least = match self.distance(from, to) {
            intf::distance_DISTANCE_CORE => 1,
            intf::distance_DISTANCE_CACHE => barriers.cache,
            intf::distance_DISTANCE_NODE => barriers.node,
            _ => barriers.remote,
        };
        least.max(1) as usize
    }

    /// Since when the vector of a core is long enough for another core to take from; none if it is not.
    pub(super) fn long_since_ns(&self, from: usize, to: usize, class: Class) -> Option<u64> {
        let vector = &self.cores[from].vectors[class as usize];
        vector.longer_ns.get(self.barrier(from, to) - 1).copied()
    }

    /// How far apart two cores are (`enum distance`).
    pub(super) fn distance(&self, from: usize, to: usize) -> intf::distance {
        let [one, other] = [from, to].map(|index| &self.machine.cores[index]);
        match () {
            () if from == to => intf::distance_DISTANCE_CORE,
            () if one.cache == other.cache => intf::distance_DISTANCE_CACHE,
            () if one.node == other.node => intf::distance_DISTANCE_NODE,
            () => intf::distance_DISTANCE_REMOTE,
        }
    }
}
