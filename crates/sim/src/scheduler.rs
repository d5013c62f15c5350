//! What a scheduler is to the simulated machine, and what it tells of itself.

use crate::Result;
use crate::engine::Engine;
use crate::task::{Mark, TaskId};
use sidelane_policy::Charge;

/// Decides which task runs where. Each operation may start and stop tasks on lanes, and asks lanes
/// to look ([`Engine::look`]).
pub(crate) trait Scheduler {
    /// A task was created; it sleeps.
    fn create(&mut self, engine: &mut Engine, id: TaskId);

    /// The program of a task marks a job.
    fn mark(&mut self, _engine: &Engine, _id: TaskId, _mark: Mark) {}

    /// A task has work now and is waiting; `engine.this_lane` is its waker's lane. `sync`: the
    /// waker is about to sleep.
    fn wake(&mut self, engine: &mut Engine, id: TaskId, sync: bool);

    /// The lane chooses what runs next; what runs may go on.
    fn look(&mut self, engine: &mut Engine, cpu: u32);

    /// The task on the lane has nothing to do any more: it is to be stopped, and the lane chooses
    /// what runs next.
    fn sleep(&mut self, engine: &mut Engine, cpu: u32);

    /// A tick of a busy lane.
    fn tick(&mut self, engine: &mut Engine, cpu: u32);

    /// The lane was asked to look, with flags of the kernel.
    fn kick(&mut self, engine: &mut Engine, cpu: u32, flags: u64);

    /// A timer of the scheduler's own.
    fn timer(&mut self, engine: &mut Engine, token: u64);

    /// The CPUs of a task have changed, which may wait or run where it now may not.
    fn change_cpus(&mut self, engine: &mut Engine, id: TaskId);

    /// The class, policy or nice value of a task has changed.
    fn change_class(&mut self, engine: &mut Engine, id: TaskId);

    /// The task exits: forget it; it is not running.
    fn exit(&mut self, engine: &mut Engine, id: TaskId);

    /// Lanes appear or disappear, those that disappear with what runs there.
    fn set_online(&mut self, engine: &mut Engine, cpus: &[u32], online: bool);

    /// A lane leaves the machine, which the kernel does not tell the scheduler before [`set_online`](Self::set_online).
    fn leaves(&mut self, _engine: &mut Engine, _cpu: u32) {}

    /// So many lanes of a core may be busy. False if the scheduler knows no such setting.
    fn set_smt_level(&mut self, _level: u32) -> bool {
        false
    }

    /// Totals of what it did.
    fn counters(&self) -> Counters;

    /// What became of the objective, if there is one.
    fn objective(&self) -> Option<ObjectiveState> {
        None
    }

    /// What the pools used since it was attached last, in their order.
    fn pools(&self) -> Vec<PoolState> {
        Vec::new()
    }

    /// The pools of the settings, in the same order.
    fn pool_settings(&self) -> &[Pool] {
        &[]
    }

    /// What counters showed beside the budget of the settings, if there are counters.
    fn counted(&self) -> Option<Counted> {
        None
    }

    /// Checks its own rules and the kernel's; the first that was broken.
    fn check(&mut self, engine: &Engine) -> Result<()>;

    /// Checks all that it keeps against the machine: costly, and changes nothing.
    fn check_deep(&self, _engine: &Engine) -> Result<()> {
        Ok(())
    }
}

/// Totals of what a scheduler did; what it does not know is 0.
pub use sidelane_policy::intf::counters as Counters;

/// A pool, as `[[pool]]` of the scheduler's configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    /// What it is called; tasks name it.
    pub name: String,
    /// What its tasks may use of each period, ns; 0: no limit.
    pub allowance_ns: u64,
    /// ns, at least a millisecond.
    pub period_ns: u64,
    /// What it is charged.
    pub charge: Charge,
    /// Index of the pool that it is part of.
    pub parent: Option<usize>,
    /// Its weight among normal work, as `cpu.weight`, 1 to 10000; if any pool has one, none is 100.
    pub weight: Option<u32>,
}

/// What a pool used since the scheduler was attached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolState {
    /// Left of this period's allowance, ns; negative: overdrawn.
    pub left_ns: i64,
    /// Time on lanes, ns.
    pub raw_ns: u64,
    /// MT1-equivalent time, ns.
    pub mt1_ns: u64,
    /// Periods that have ended.
    pub periods: u64,
    /// Those in which a task was held.
    pub throttled: u64,
    /// Time in which any was, ns.
    pub throttled_ns: u64,
    /// Most that a period ended overdrawn by, ns.
    pub overdrawn_ns: u64,
}

/// What became of an objective.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ObjectiveState {
    /// The budget now, ns.
    pub budget_ns: u64,
    /// Tail of the jobs in the last window, ns; 0: there was none yet.
    pub tail_ns: u64,
    /// Windows so far.
    pub windows: u64,
    /// Those whose tail was beyond the objective.
    pub missed: u64,
}

/// What counters showed of critical work beside batch and alone.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counted {
    /// Instructions a cycle with idle siblings; NaN before there was any.
    pub ipc_alone: f64,
    /// The same beside batch.
    pub ipc_beside: f64,
    /// Of 1, what is lost beside batch; none: not known well enough yet.
    pub loss: Option<f64>,
}
