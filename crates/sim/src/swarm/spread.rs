//! Spreading, from the recorded steps alone: normal work that left a lane and went straight to another.
//!
//! * To a core where nothing runs, which it may use.
//! * Away from other critical or normal work, to where it is faster; if the speeds of shared lanes are not
//!   known, to a core that is not slower.

use super::rules::{Broken, Rule, Verdict};
use super::watch::Watch;
use crate::task::{Class, TaskId};

impl Watch {
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
}
