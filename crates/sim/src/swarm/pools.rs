//! What pools may use and what they used, kept from the recorded steps alone.
//!
//! * **Allowance.** A period begins with the allowance, less what was overdrawn before, and ends
//!   overdrawn by at most what each lane runs until it is told at its tick, plus a switch for each task
//!   that is sent away when its turn comes. The scheduler charges at ticks, and counts a lane that is
//!   about to run something as busy: it never charges more than this. What ran before a period's end
//!   it may charge to the next period.
//! * **Held.** A task is held only by a pool that is used up, one that it is in; and not beyond the
//!   end of a period after which the pool has an allowance again.

use super::verdict::{Broken, Rule, Verdict};
use super::watch::{Account, LOOK_NS, Place, Watch};
use crate::machine::speed_of_lane;
use crate::scheduler::Pool;
use crate::task::TaskId;
use sidelane_policy::Charge;

/// A task that was held for so long runs for a moment.
const HELD_MAX_NS: u64 = 10_000_000_000;

/// A pool and those around it, by index.
fn around(pools: &[Pool], innermost: Option<usize>) -> impl Iterator<Item = usize> {
    let parent = |index: &usize| pools.get(*index).and_then(|pool| pool.parent);
    std::iter::successors(innermost, parent)
}

impl Watch {
    /// The scheduler forgets what its pools used.
    pub fn begin_pools(&mut self, now_ns: u64) {
        let joined: Vec<_> = self.tasks.iter().map(|task| task.spec.pool).collect();
        let pools = self.limits.iter();
        self.accounts = pools.map(|_| Account::new(now_ns)).collect();
        joined.into_iter().for_each(|pool| self.join_pools(pool));
    }

    /// A task is one more of its pools.
    pub fn join_pools(&mut self, innermost: Option<usize>) {
        for pool in around(&self.limits, innermost) {
            self.accounts[pool].tasks += 1;
        }
    }

    /// A task of some pool was on a lane of a core with so many online, of which so many were busy.
    pub fn charge_pools(
        &mut self,
        innermost: Option<usize>,
        ran_ns: u64,
        online: usize,
        busy: usize,
    ) {
        let mt1_ns = ran_ns as f64 * speed_of_lane(&self.speeds, online, busy);
        for pool in around(&self.limits, innermost) {
            let rules = &self.limits[pool];
            self.accounts[pool].left_ns -= match rules.charge {
                _ if rules.allowance_ns == 0 => 0.0,
                Charge::Mt1 => mt1_ns,
                Charge::Raw => ran_ns as f64,
            };
        }
    }

    /// Ends the periods that end by now.
    pub fn pass_periods(&mut self, now_ns: u64) -> Verdict {
        let due = |watch: &Watch| {
            let ends = watch.accounts.iter().map(|account| account.ends_ns);
            ends.enumerate().min_by_key(|(_, ends_ns)| *ends_ns)
        };
        while let Some((pool, ends_ns)) = due(self).filter(|(_, ends_ns)| *ends_ns <= now_ns) {
            self.now_ns = ends_ns;
            (0..self.cores.len()).for_each(|core| self.account(core));
            self.check_period(pool)?;
            let rules = &self.limits[pool];
            let account = &mut self.accounts[pool];
            account.left_ns = account.left_ns.min(0.0) + rules.allowance_ns as f64;
            account.began_with_ns = account.left_ns;
            account.began_ns = ends_ns;
            account.ends_ns = ends_ns + rules.period_ns;
        }
        self.now_ns = now_ns;
        Ok(())
    }

    /// What all lanes run until they are told at their ticks, ns.
    fn ticks_ns(&self) -> f64 {
        let lanes = self.lanes.iter().filter(|lane| lane.online).count() as u64;
        (lanes * (self.machine.costs.tick_ns + LOOK_NS + self.reach_ns())) as f64
    }

    /// A period ends: was the pool overdrawn by more than it takes to stop its tasks?
    fn check_period(&self, pool: usize) -> Verdict {
        let account = &self.accounts[pool];
        let costs = self.machine.costs;
        let passes = (account.ends_ns - account.began_ns) / HELD_MAX_NS + 1;
        let turns_ns = account.tasks * passes * (costs.tick_ns.min(LOOK_NS) + self.reach_ns());
        let least_ns = account.began_with_ns.min(0.0) - self.ticks_ns() - turns_ns as f64;
        if account.left_ns >= least_ns {
            return Ok(());
        }
        let what = format!(
            "pool {pool} has {:.0} ns left at the end of the period from {} ns on, which it began \
             with {:.0} ns; at least {least_ns:.0} ns were to be left",
            account.left_ns, account.began_ns, account.began_with_ns
        );
        Broken::because(Rule::Pool, what)
    }

    /// A pool holds a task from now on.
    pub fn held(&mut self, id: TaskId, pool: usize) -> Verdict {
        let innermost = self.task(id).spec.pool;
        if !around(&self.limits, innermost).any(|other| other == pool) {
            let what = format!("{id} is held by pool {pool}, which it is not in");
            return Broken::because(Rule::Pool, what);
        }
        (0..self.cores.len()).for_each(|core| self.account(core));
        let account = &self.accounts[pool];
        if self.limits[pool].allowance_ns == 0 {
            let what = format!("{id} is held by pool {pool}, which has no limit");
            return Broken::because(Rule::Pool, what);
        }
        if account.left_ns > self.ticks_ns() && self.now_ns > account.began_ns + LOOK_NS {
            let what = format!(
                "{id} is held by pool {pool}, which has {:.0} ns left",
                account.left_ns
            );
            return Broken::because(Rule::Pool, what);
        }
        Ok(())
    }

    /// Is a task held that should have been let go?
    pub fn check_held(&self, id: TaskId) -> Verdict {
        let Place::Held(pool) = self.task(id).place else {
            return Ok(());
        };
        let (task, account) = (self.task(id), &self.accounts[pool]);
        if task.queued_ns < account.began_ns
            && self.now_ns > account.began_ns + LOOK_NS
            && account.began_with_ns > self.ticks_ns()
        {
            let what = format!(
                "{id} is held by pool {pool} since {} ns; from {} ns on that had {:.0} ns left",
                task.queued_ns, account.began_ns, account.began_with_ns
            );
            return Broken::because(Rule::Pool, what);
        }
        Ok(())
    }
}
