//! Shares of normal work by weight, from the recorded steps alone.
//!
//! Two tasks that are bound to the same lane compete while both want to run. From the later of their wake-ups on neither gets
//! further ahead of the other, in virtual time, than two turns of each bring and the lag. A turn lasts for the lag and
//! until the second tick after it. That is what they may be apart by their last turns and what sleeping saves up. So shares are as
//! weights, within that, over any window; and what waits, waits for no longer than the others of its lane take to get so far ahead.
//!
//! Nothing is said where something else chooses: a lane that shares its core, weights of cgroups, pools, retention, pairing,
//! symbiosis, and ticks, where the lag is shorter: a turn then brings what the tick leaves it. And nothing over a moment at which
//! one of the two ran because it was due.

use super::verdict::{Broken, Rule, Verdict};
use super::watch::{Shares, Task, Watch};
use crate::baseline::eevdf::WEIGHTS;
use crate::task::{Class, State, TaskId};

/// Turns of each by which two tasks may be apart, and lags.
const TURNS: f64 = 2.0;
const LAGS: f64 = 1.0;

/// Virtual time that `ns` of lane time bring.
fn virtual_ns(task: &Task, ns: u64) -> f64 {
    let nice_0 = 20;
    let weight = (nice_0 + task.spec.nice) as usize;
    ns as f64 * WEIGHTS[nice_0 as usize] as f64 / WEIGHTS[weight] as f64
}

impl Watch {
    /// Something about the task is new: from now on it competes, if it does.
    pub(super) fn competes_anew(&mut self, id: TaskId) {
        let Some(cpu) = self.competes_for(id) else {
            return;
        };
        self.account(self.lanes[cpu as usize].core);
        let had = self.tasks.iter().map(|task| task.totals.lane_ns);
        self.task_mut(id).shares = Shares {
            since_ns: self.now_ns,
            had_ns: had.collect(),
        };
    }

    /// The one lane that the task may use, if there is one and this is its rule.
    fn competes_for(&self, id: TaskId) -> Option<u32> {
        let (settings, task) = (&self.settings, self.task(id));
        let by_other_rules = settings.retain
            || settings.pair
            || settings.symbiotic
            || settings.only_batch()
            || !self.limits.is_empty()
            || settings.normal_lag_ns() < self.machine.costs.tick_ns;
        let wants = matches!(task.state, State::Running(_) | State::Waiting);
        let is_normal = task.known == Class::Normal && task.changed_ns.is_none();
        if by_other_rules || !wants || !is_normal || task.spec.kernel_thread {
            return None;
        }
        let mut lanes = (0..self.machine.nr_lanes as u32).filter(|cpu| task.may_use(*cpu));
        let cpu = lanes.next().filter(|_| lanes.next().is_none())?;
        let core = &self.machine.cores[self.lanes[cpu as usize].core];
        (core.lanes.len() == 1).then_some(cpu)
    }

    /// The task leaves this lane, and is accounted for.
    pub(super) fn check_shares(&mut self, id: TaskId, cpu: u32) -> Verdict {
        if self.task(id).overdue {
            self.competes_anew(id);
        }
        if self.competes_for(id) != Some(cpu) {
            return Ok(());
        }
        for index in 0..self.tasks.len() {
            let other = TaskId(index as u32);
            if other != id && self.competes_for(other) == Some(cpu) {
                self.check_pair(id, other)?;
            }
        }
        Ok(())
    }

    fn check_pair(&self, id: TaskId, other: TaskId) -> Verdict {
        let both = [id, other].map(|id| self.task(id));
        let since_ns = both[0].shares.since_ns.max(both[1].shares.since_ns);
        let later = both.iter().find(|task| task.shares.since_ns == since_ns);
        let before = |id: TaskId| later.and_then(|later| later.shares.had_ns.get(id.index()));
        let (Some(id_before), Some(other_before)) = (before(id), before(other)) else {
            return Ok(());
        };
        let had = virtual_ns(both[0], both[0].totals.lane_ns - id_before);
        let other_had = virtual_ns(both[1], both[1].totals.lane_ns - other_before);
        let lag_ns = self.settings.normal_lag_ns();
        let turn_ns = lag_ns + 2 * self.machine.costs.tick_ns;
        let turns: f64 = both.iter().map(|task| virtual_ns(task, turn_ns)).sum();
        let most = TURNS * turns + LAGS * lag_ns as f64;
        if had - other_had <= most {
            return Ok(());
        }
        let what = format!(
            "since {since_ns} ns {id} got ahead of {other} on their lane by {:.0} ns of virtual time; it may by {most:.0}",
            had - other_had
        );
        Broken::because(Rule::Shares, what)
    }
}
