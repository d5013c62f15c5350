//! Old first, from the recorded steps alone (old.bpf.h).
//!
//! * A lane that takes critical work from a vector takes what has waited longest of all that it may use: nothing older waits on any
//!   core, by more than a quarter of a slice for each step of distance beyond the last-level cache.
//! * A critical task does not go on for longer than two slices, one more, and the ticks that end these, while critical work waits that
//!   may use its lane.
//!
//! A job's age counts from where its task woke, or came to be critical; after two slices of its own, from when it was queued last.
//! What runs for a moment each time counts as older.
//! Nothing is said of the first one on machines of more cores than a lane looks at, where barriers may come down with time, and of vectors that are too short to be stolen from.

use super::verdict::{Broken, Rule, Verdict};
use super::watch::{Place, Task, Watch};
use crate::task::{Class, State, TaskId};
use sidelane_policy::intf;

const SLICES: u64 = intf::OLD_SLICES as u64;
const MOVE_PARTS: u64 = intf::OLD_MOVE_PARTS as u64;
const BRIEF_NS: u64 = intf::BRIEF_NS as u64;
const OLD_BRIEF_NS: u64 = intf::OLD_BRIEF_NS as u64;
const BURST_WEIGHT: u64 = intf::BURST_WEIGHT as u64;
const LOOKS: usize = intf::OLD_LOOKS as usize;

impl Watch {
    /// The task is put into a critical vector.
    pub(super) fn ages(&mut self, id: TaskId) {
        let (now_ns, attached_ns) = (self.now_ns, self.attached_ns);
        let slices_ns = SLICES * self.settings.slice_ns;
        let task = self.task_mut(id);
        if task.job_ns.is_some_and(|job_ns| job_ns < attached_ns) {
            task.job_ns = Some(now_ns);
        }
        let burst_ns = task.totals.lane_ns - task.burst_from_ns;
        let is_brief = task.burst_mean_ns.is_some_and(|mean_ns| mean_ns < BRIEF_NS);
        task.order_ns = match burst_ns < slices_ns {
            true if is_brief && burst_ns < BRIEF_NS => task
                .job_ns
                .map(|job_ns| job_ns.saturating_sub(OLD_BRIEF_NS).max(1)),
            true => task.job_ns,
            false => Some(now_ns),
        };
    }

    /// The task sleeps.
    pub(super) fn ends_burst(&mut self, id: TaskId) {
        let task = self.task_mut(id);
        let burst_ns = task.totals.lane_ns - task.burst_from_ns;
        let before_ns = task.burst_mean_ns.filter(|mean_ns| *mean_ns > 0);
        let before_ns = before_ns.unwrap_or(burst_ns);
        task.burst_mean_ns = Some((before_ns * (BURST_WEIGHT - 1) + burst_ns) / BURST_WEIGHT);
    }

    /// A lane takes the task from a critical vector.
    pub(super) fn check_age(&self, id: TaskId, cpu: u32) -> Verdict {
        let task = self.task(id);
        let Some(order_ns) = self.order_for(task, cpu) else {
            return Ok(());
        };
        for (index, other) in self.tasks.iter().enumerate() {
            let older = self.order_for(other, cpu);
            let older = older.filter(|other_ns| *other_ns < order_ns && other.may_use(cpu));
            if older.is_none() || other.queued_ns >= self.now_ns || other.known != Class::Critical {
                continue;
            }
            let what = format!(
                "lane {cpu} takes {id} in {:?}, of {:?} ns, while {} in {:?}, of {:?} ns, waits",
                task.place,
                task.order_ns,
                TaskId(index as u32),
                other.place,
                other.order_ns
            );
            return Broken::because(Rule::Age, what);
        }
        Ok(())
    }

    /// Since when a task that waits in a critical vector is in order for the lane; none if it is in none, or its vector is too short.
    pub(super) fn order_for(&self, task: &Task, cpu: u32) -> Option<u64> {
        let Place::Vector {
            core: from,
            class: Class::Critical,
        } = task.place
        else {
            return None;
        };
        let to = self.lanes[cpu as usize].core;
        self.long_since_ns(from, to, Class::Critical)?;
        if self.cores.len() > LOOKS || self.settings.steal_patience_ns > 0 {
            return None;
        }
        let step_ns = self.settings.slice_ns / MOVE_PARTS;
        Some(task.order_ns? + self.steps(from, to) * step_ns)
    }

    /// Steps of distance beyond the last-level cache.
    fn steps(&self, from: usize, to: usize) -> u64 {
        let beyond = (self.distance(from, to)).saturating_sub(intf::distance_DISTANCE_CACHE);
        u64::from(beyond)
    }

    /// Does critical work go on for too long while this task, which waits, may use its lane?
    pub(super) fn check_turns(&self, id: TaskId) -> Verdict {
        let task = self.task(id);
        if task.known != Class::Critical || task.changed_ns.is_some() {
            return Ok(());
        }
        let Place::Vector { core: from, .. } = task.place else {
            return Ok(());
        };
        let tick_ns = self.machine.costs.tick_ns;
        let patience_ns = (SLICES + 1) * (self.settings.slice_ns + tick_ns) + self.reach_ns();
        for (cpu, lane) in (0_u32..).zip(&self.lanes) {
            let running = lane.task.map(|id| self.task(id));
            let Some(running) = running.filter(|running| {
                running.known == Class::Critical && matches!(running.state, State::Running(_))
            }) else {
                continue;
            };
            let Some(long_ns) = self.long_since_ns(from, lane.core, Class::Critical) else {
                continue;
            };
            if !task.may_use(cpu) || self.order_for(task, cpu).is_none() {
                continue;
            }
            let from_ns = running.since_ns.max(task.queued_ns).max(long_ns);
            let from_ns = from_ns.max(self.attached_ns);
            if self.now_ns > from_ns + patience_ns {
                let what = format!(
                    "{id} waits in {:?} since {} ns, while lane {cpu} runs the same critical task since {} ns",
                    task.place, task.queued_ns, running.since_ns
                );
                return Broken::because(Rule::Age, what);
            }
        }
        Ok(())
    }
}
