//! What a scheduler is to the simulated machine.

use crate::Result;
use crate::engine::Engine;
use crate::sched_ext::{Counted, ObjectiveState, Pool, PoolState};
use crate::task::TaskId;
use sidelane_policy::intf;

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

/// Makes [`Counters`] of those that the scheduler counts under the same names.
macro_rules! counters {
    ($($(#[$of:meta])* $name:ident: $type:ty,)*) => {
        /// Totals of what a scheduler did; what it does not know is 0.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
        pub struct Counters {
            $($(#[$of])* pub $name: $type,)*
        }

        impl Counters {
            /// Of the scheduler's own.
            pub(crate) fn of(native: &intf::counters) -> Counters {
                Counters { $($name: native.$name,)* }
            }

            fn with(&self, other: &Counters, join: fn(u64, u64) -> u64) -> Counters {
                Counters { $($name: self.$name.with(&other.$name, join),)* }
            }
        }
    };
}

counters! {
    /// Times that a task of each class began to run, in the order of [`Class::ALL`](crate::Class).
    switches: [u64; 3],
    /// Batch asked to leave because its core closed.
    evictions: u64,
    /// Sum, ns, from being asked to being gone.
    evict_wait_ns: u64,
    /// Runs by the starvation bound, by class.
    overdue: [u64; 3],
    /// Tasks taken from another core's vector, by distance: same core, cache, node, further.
    steals: [u64; 4],
    /// Cores opened to batch again.
    openings: u64,
    /// Critical jobs that moved to a better core.
    promotions: u64,
    /// Those that were to move, but slept or found the core taken.
    promotions_dropped: u64,
    /// Tasks that came back to a lane that was held for them.
    retentions: u64,
    /// Those that did not, in time.
    retentions_failed: u64,
    /// Time that lanes were held, ns.
    held_ns: u64,
    /// Of that, in holds at whose beginning or end something waited, ns.
    held_waited_ns: u64,
    /// Normal tasks that made room for I/O-bound ones.
    hand_backs: u64,
    /// Tasks that went to another core so that its tasks differ.
    swaps: u64,
    /// Tasks that were taken for what ran beside them.
    symbiotic: u64,
}

/// One total, or one each of several things.
trait Total {
    fn with(&self, other: &Self, join: fn(u64, u64) -> u64) -> Self;
}

impl Total for u64 {
    fn with(&self, other: &u64, join: fn(u64, u64) -> u64) -> u64 {
        join(*self, *other)
    }
}

impl<const N: usize> Total for [u64; N] {
    fn with(&self, other: &[u64; N], join: fn(u64, u64) -> u64) -> [u64; N] {
        std::array::from_fn(|i| join(self[i], other[i]))
    }
}

impl Counters {
    /// The sum of two.
    pub(crate) fn plus(&self, other: &Counters) -> Counters {
        self.with(other, |a, b| a + b)
    }

    /// What was added to an earlier value.
    pub(crate) fn since(&self, earlier: &Counters) -> Counters {
        self.with(earlier, |a, b| a - b)
    }
}
