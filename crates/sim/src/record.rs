//! What happened, step by step: for pictures, and to explain a violation.

use crate::task::TaskId;
use std::collections::VecDeque;
use std::fmt;

/// One step of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// When, ns.
    pub at_ns: u64,
    /// What.
    pub step: Step,
}

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "lane: CPU number; task: whose step it is")]
pub enum Step {
    /// A sleeping task has work.
    Wake { task: TaskId },
    /// The scheduler put a task into a queue of its own.
    Queue { task: TaskId, queue: u64 },
    /// The scheduler put a task into a lane's queue.
    QueueLocal { task: TaskId, lane: u32 },
    /// A task begins to run.
    Run { task: TaskId, lane: u32 },
    /// A task leaves its lane and could go on.
    Preempt { task: TaskId, lane: u32 },
    /// A task leaves its lane: it has nothing to do.
    Sleep { task: TaskId, lane: u32 },
    /// A lane was asked to look for work, with these flags of the kernel.
    Kick { lane: u32, flags: u64 },
    /// A lane appears.
    Online { lane: u32 },
    /// A lane disappears.
    Offline { lane: u32 },
    /// A task's CPUs or class changed.
    Change { task: TaskId },
    /// A task is no more.
    Exit { task: TaskId },
}

impl fmt::Display for Step {
    /// In words; queues and flags as Sidelane's source means them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Step::Wake { task } => write!(f, "{task} has work"),
            Step::Queue { task, queue } => {
                let (class, core) = (queue >> 32, queue as u32);
                let class = match class {
                    1 => "critical",
                    2 => "normal",
                    3 => "batch",
                    _ => return write!(f, "{task} is held by pool {core}"),
                };
                write!(
                    f,
                    "{task} waits in the {class} vector of core number {core}"
                )
            }
            Step::QueueLocal { task, lane } => write!(f, "{task} waits for lane {lane}"),
            Step::Run { task, lane } => write!(f, "{task} runs on lane {lane}"),
            Step::Preempt { task, lane } => write!(f, "{task} leaves lane {lane}"),
            Step::Sleep { task, lane } => write!(f, "{task} is done on lane {lane}"),
            Step::Kick { lane, flags } => match flags {
                1 => write!(f, "lane {lane} is asked to look if it is idle"),
                2 => write!(f, "lane {lane} is asked to give way"),
                _ => write!(f, "lane {lane} is kicked, flags {flags:#x}"),
            },
            Step::Online { lane } => write!(f, "lane {lane} appears"),
            Step::Offline { lane } => write!(f, "lane {lane} disappears"),
            Step::Change { task } => write!(f, "{task} changes its CPUs or class"),
            Step::Exit { task } => write!(f, "{task} exits"),
        }
    }
}

/// How many of the last steps a violation shows.
const LAST: usize = 64;

/// Keeps the last steps, or all.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    keep_all: bool,
    records: VecDeque<Record>,
}

impl Recorder {
    pub fn keep_all(&mut self) {
        self.keep_all = true;
    }

    pub fn add(&mut self, at_ns: u64, step: Step) {
        if !self.keep_all && self.records.len() == LAST {
            self.records.pop_front();
        }
        self.records.push_back(Record { at_ns, step });
    }

    /// What was kept, the oldest first; takes it.
    pub fn take(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.records).into()
    }

    /// The last steps.
    pub fn last(&self) -> Vec<Record> {
        let skipped = self.records.len().saturating_sub(LAST);
        self.records.iter().skip(skipped).copied().collect()
    }
}
