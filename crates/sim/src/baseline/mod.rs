//! Schedulers to compare with.

pub(crate) mod eevdf;
mod fifo;

use crate::engine::Engine;
use crate::scheduler::Scheduler;
use eevdf::IdleSearch;

/// Which scheduler to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Baseline {
    /// One queue for all, first in, first out, nobody preempts.
    Fifo,
    /// What the Linux kernel does by default, 6.12 and later: a fair scheduler with a runqueue a
    /// lane, earliest eligible virtual deadline first (EEVDF), wake-ups on idle lanes of the
    /// last-level cache, and load balancing between cores, caches and nodes. Goes by policy and
    /// nice value; classes are nothing to it. Left out: cgroups, tracked load (PELT), lazy
    /// preemption, cores of unequal capacity, energy, NUMA page placement, core scheduling.
    Eevdf,
    /// The same, but a waking task whose lane is busy takes an idle lane of that core before a core
    /// that is idle as a whole, as kernels did that knew no search for idle cores.
    SiblingFirst,
}

pub(crate) fn scheduler(baseline: Baseline, engine: &mut Engine) -> Box<dyn Scheduler> {
    match baseline {
        Baseline::Fifo => Box::new(fifo::Fifo::new(engine)),
        Baseline::Eevdf => Box::new(eevdf::Eevdf::new(engine, IdleSearch::CoreFirst)),
        Baseline::SiblingFirst => Box::new(eevdf::Eevdf::new(engine, IdleSearch::SiblingFirst)),
    }
}
