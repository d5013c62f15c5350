//! Schedulers to compare with.

mod fifo;

use crate::engine::Engine;
use crate::scheduler::Scheduler;

/// Which scheduler to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Baseline {
    /// One queue for all, first in, first out, nobody preempts.
    Fifo,
}

pub(crate) fn scheduler(baseline: Baseline, engine: &mut Engine) -> Box<dyn Scheduler> {
    match baseline {
        Baseline::Fifo => Box::new(fifo::Fifo::new(engine)),
    }
}
