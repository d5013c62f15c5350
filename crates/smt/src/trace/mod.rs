//! What a trace of scheduling events says about batch beside critical tasks.
//!
//! [`parse`] turns the kernel's trace text into [`Event`]s; [`analyse`] answers two questions from
//! them: how much batch time fell on lanes of cores where a critical task was running, and how long
//! after a critical wake-up the sibling lanes were empty of batch.

mod analyse;
mod parse;

pub use analyse::{Analysis, LaneTime, TraceError, analyse};
pub use parse::{ParseError, Parsed, parse};

/// Thread identifier as the kernel's trace shows it; 0 is the idle thread of any lane.
pub type Pid = u32;

/// One scheduling event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When, in nanoseconds of the trace's clock.
    pub time_ns: u64,
    /// The CPU number of the lane on which the event was recorded.
    pub cpu: u32,
    /// What happened.
    pub kind: Kind,
}

/// What an [`Event`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The lane changed from one thread to another (`sched_switch`).
    Switch {
        /// The thread that stopped running.
        prev_pid: Pid,
        /// Whether that thread could have gone on (state R): false when it went to sleep or ended.
        prev_runnable: bool,
        /// The thread that starts running.
        next_pid: Pid,
    },
    /// Somebody began to wake a thread (`sched_waking`).
    Waking {
        /// The thread being woken.
        pid: Pid,
    },
    /// A woken thread was queued on a lane (`sched_wakeup`).
    Wakeup {
        /// The thread that was woken.
        pid: Pid,
        /// The lane it was queued on.
        target_cpu: u32,
    },
    /// A thread created another one (`sched_process_fork`).
    Fork {
        /// The creating thread.
        parent_pid: Pid,
        /// The new thread.
        child_pid: Pid,
    },
}

/// The class of a thread, as far as this analysis tells classes apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Somebody waits for it.
    Critical,
    /// Worth doing only with what is left over.
    Batch,
    /// Everything else, kernel threads included.
    Normal,
}
