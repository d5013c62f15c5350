//! Tasks that left a lane and went straight to another, from the recorded steps alone.
//!
//! Fast old: critical work that did so was promoted.
//!
//! * Never fast to slow: the core is faster, alone, than the lane that was left; as it was shared with
//!   other critical tasks, if the speeds of shared lanes are known. Of cores as fast as each other,
//!   the one that was left is shared.
//! * At most one promotion a freed core: no lane of it runs critical or normal work at that moment, or is to. What waits may have been sent
//!   there; the job is older.
//! * Only critical work, and only jobs that are as old as the settings say.
//!
//! Spreading: normal work goes
//!
//! * To a core where nothing runs, which it may use.
//! * Away from other critical or normal work, to where it is faster; if the speeds of shared lanes are not
//!   known, to a core that is not slower.

use super::verdict::{Broken, Rule, Verdict};
use super::watch::{Place, Task, Watch};
use crate::task::{Class, TaskId};

impl Watch {
    /// A task that has left one lane is sent to another.
    pub(super) fn check_promotion(&self, id: TaskId, from: u32, to: u32) -> Verdict {
        match self.promotion_mistake(id, from, to) {
            None => Ok(()),
            Some(why) => {
                let what = format!("{id} moved from lane {from} to lane {to}: {why}");
                Broken::because(Rule::Promotion, what)
            }
        }
    }

    fn promotion_mistake(&self, id: TaskId, from: u32, to: u32) -> Option<String> {
        let task = self.task(id);
        let [old, new] = [from, to].map(|cpu| self.lanes[cpu as usize].core);
        let [slow, fast] = [old, new].map(|core| self.machine.cores[core].tier_capacity);
        let age_ns = self.now_ns - task.job_ns.unwrap_or(0);
        if !self.settings.promote {
            return Some("promotion is off".into());
        }
        if task.known != Class::Critical {
            return Some(format!("it is {}", task.known.name()));
        }
        if age_ns < self.settings.promote_after_ns {
            return Some(format!("its job is only {age_ns} ns old"));
        }
        let beside = self.critical_lanes(old);
        let gains = match fast == slow {
            true => beside > 0,
            false => f64::from(fast) > f64::from(slow) * self.known_speed(beside + 1),
        };
        if !gains {
            return Some(format!(
                "from capacity {slow} beside {beside} others to {fast} is no gain"
            ));
        }
        let sent = |other: &Task| {
            let Place::Local(cpu) = other.place else {
                return false;
            };
            other.known == Class::Critical && self.lanes[cpu as usize].core == new
        };
        let (busy, sent) = (
            self.cores[new].foreground,
            self.tasks.iter().filter(|other| sent(other)),
        );
        if busy > 0 || sent.count() > 0 {
            return Some(format!(
                "{busy} lanes of core {new} are not free, or will not be"
            ));
        }
        let older = self.older_waits(task.job_ns?, to)?;
        let (since_ns, place) = (self.task(older).order_ns, self.task(older).place);
        Some(format!(
            "{older} waits in {place:?}, and counts since {since_ns:?} ns"
        ))
    }

    /// A task that waits in a critical vector, may use the lane and its siblings, one of which looked, and is older than this.
    fn older_waits(&self, job_ns: u64, cpu: u32) -> Option<TaskId> {
        let core = self.lanes[cpu as usize].core;
        let siblings = &self.machine.cores[core].lanes;
        let waits = |other: &Task| {
            // a vector may have become long enough since
            let near = matches!(other.place, Place::Vector { core: from, .. } if self.barrier(from, core) == 1);
            let fits = near && siblings.iter().all(|cpu| other.may_use(*cpu));
            let order_ns = self.order_for(other, cpu).filter(|_| fits);
            // what comes after the job was asked to move may have to wait
            let came_ns = other.queued_ns + self.machine.costs.kick_ns;
            order_ns.is_some_and(|order_ns| order_ns < job_ns) && came_ns < self.now_ns
        };
        let index = self.tasks.iter().position(waits)?;
        Some(TaskId(index as u32))
    }

    /// How many lanes of the core run critical work.
    fn critical_lanes(&self, core: usize) -> usize {
        let lanes = self.machine.cores[core].lanes.iter();
        let tasks = lanes.filter_map(|&cpu| self.lanes[cpu as usize].task);
        tasks
            .filter(|id| self.task(*id).known == Class::Critical)
            .count()
    }

    /// A normal task that has left one lane is sent to another.
    pub(super) fn check_spread(&self, id: TaskId, from: u32, to: u32) -> Verdict {
        match self.spread_mistake(from, to) {
            None => Ok(()),
            Some(why) => {
                let what = format!("{id} moved from lane {from} to lane {to}: {why}");
                Broken::because(Rule::Spread, what)
            }
        }
    }

    fn spread_mistake(&self, from: u32, to: u32) -> Option<String> {
        let [old, new] = [from, to].map(|cpu| self.lanes[cpu as usize].core);
        let [slow, fast] = [old, new].map(|core| self.machine.cores[core].tier_capacity);
        let running = |core: usize| {
            let lanes = self.machine.cores[core].lanes.iter();
            lanes.filter_map(|&cpu| self.lanes[cpu as usize].task)
        };
        if let Some(other) = running(new).next() {
            return Some(format!("{other} runs there"));
        }
        let foreground = |id: &TaskId| self.task(*id).known != Class::Batch;
        let beside = running(old).filter(foreground).count();
        let speed = self.known_speed(beside + 1);
        let gains = match speed < 1.0 {
            true => f64::from(fast) > f64::from(slow) * speed,
            false => fast >= slow,
        };
        (beside == 0 || !gains)
            .then(|| format!("from capacity {slow} beside {beside} others to {fast} is no gain"))
    }

    /// Speed of a lane when so many of its core run, as the scheduler knows it: 1 if it does not, and
    /// in steps of 1/1024.
    fn known_speed(&self, lanes: usize) -> f64 {
        let known = &self.settings.thread_perf;
        let speed = known.get(lanes - 1).or(known.last());
        speed.map_or(1.0, |speed| (speed * 1024.0).floor() / 1024.0)
    }
}
