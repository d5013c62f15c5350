//! Fast old, from the recorded steps alone: who left a lane and went straight to another was promoted.
//!
//! * Never fast to slow: the core is faster than the one left, or as fast and the one left is shared
//!   with another critical task.
//! * At most one promotion a freed core: the core has neither critical nor normal work at that moment,
//!   and none is on its way there.
//! * Only critical work, and only jobs that are as old as the settings say.

use super::rules::{Broken, Rule, Verdict};
use super::watch::Watch;
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
        let [slow, fast] = [old, new].map(|core| self.machine.cores[core].capacity);
        let age_ns = self.now_ns - task.job_ns;
        if !self.settings.promote {
            return Some("promotion is off".into());
        }
        if task.known != Class::Critical {
            return Some(format!("it is {}", task.known.name()));
        }
        if age_ns < self.settings.promote_after_ns {
            return Some(format!("its job is only {age_ns} ns old"));
        }
        if fast < slow || (fast == slow && !self.runs_critical(old)) {
            return Some(format!("from capacity {slow} to {fast} is no gain"));
        }
        let target = &self.cores[new];
        let busy = target.critical > 0 || target.foreground > 0;
        busy.then(|| {
            format!(
                "{} critical tasks are there, {} lanes are not free",
                target.critical, target.foreground
            )
        })
    }

    /// Does a lane of the core run critical work?
    fn runs_critical(&self, core: usize) -> bool {
        let mut lanes = self.machine.cores[core].lanes.iter();
        lanes.any(|&cpu| {
            let task = self.lanes[cpu as usize].task;
            task.is_some_and(|id| self.task(id).known == Class::Critical)
        })
    }
}
