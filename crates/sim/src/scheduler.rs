//! What a scheduler is to the simulated machine.

mod state;

pub use state::{Counted, ObjectiveState, Pool, PoolState};

use crate::Result;
use crate::engine::Engine;
use crate::task::TaskId;

/// Decides which task runs where. Each operation may start and stop tasks on lanes, and asks lanes
/// to look ([`Engine::look`]).
pub(crate) trait Scheduler {
    /// A task was created; it sleeps.
    fn create(&mut self, engine: &mut Engine, id: TaskId);

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
