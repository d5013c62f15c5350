//! What is told of adopted tasks.

use super::policy::Tid;
use std::fmt;
use std::time::{Duration, Instant};

/// What may go on for long is told so often at most.
const AGAIN: Duration = Duration::from_secs(60);

/// What happened to tasks, where the scheduler has batch alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The batch that there was when it was attached is the scheduler's now.
    Adopted {
        /// So many threads.
        tasks: usize,
    },
    /// All have what they had.
    Restored {
        /// So many threads.
        tasks: usize,
    },
    /// They chose their policy themselves, and keep it.
    Respected {
        /// One of them.
        tid: u32,
        /// How many.
        tasks: usize,
    },
    /// Others' work kept them from all their lanes for too long.
    Lent {
        /// How many, since that was told last.
        tasks: usize,
    },
    /// They could not be adopted or given back.
    Failed {
        /// One of them.
        tid: u32,
        /// Why.
        why: String,
    },
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            News::Adopted { tasks } => write!(f, "batch: {tasks} threads are the scheduler's now"),
            News::Restored { tasks } => {
                write!(f, "batch: {tasks} threads have the policy that they had")
            }
            News::Respected { tid, tasks } => write!(
                f,
                "batch: {tasks} threads have chosen another policy themselves and keep it, {tid} among them"
            ),
            News::Lent { tasks } => write!(
                f,
                "batch: for longer than starvation_bound_ms {tasks} times a thread got no lane; the kernel's scheduler had \
                 it for a while, as SCHED_IDLE"
            ),
            News::Failed { tid, why } => {
                write!(f, "warning: batch: cannot change thread {tid}: {why}")
            }
        }
    }
}

/// What is to be told.
#[derive(Default)]
pub(super) struct Tally {
    pub adopted: usize,
    pub lent: usize,
    told_lent: Option<Instant>,
    respected: Option<(Tid, usize)>,
    failed: Option<(Tid, String)>,
    told_failed: Option<Instant>,
}

fn is_time(told: &mut Option<Instant>) -> bool {
    let now = Instant::now();
    let is_time = told.is_none_or(|at| now >= at + AGAIN);
    if is_time {
        *told = Some(now);
    }
    is_time
}

impl Tally {
    pub fn respects(&mut self, tid: Tid) {
        self.respected.get_or_insert((tid, 0)).1 += 1;
    }

    pub fn fails(&mut self, tid: Tid, why: String) {
        self.failed.get_or_insert((tid, why));
    }

    /// `first`: after the first look of an attachment.
    pub fn take(&mut self, first: bool) -> Vec<News> {
        let mut news = Vec::new();
        let tasks = std::mem::take(&mut self.adopted);
        if first {
            news.push(News::Adopted { tasks });
        }
        let respected = self.respected.take();
        news.extend(respected.map(|(tid, tasks)| News::Respected { tid, tasks }));
        if self.lent > 0 && is_time(&mut self.told_lent) {
            let tasks = std::mem::take(&mut self.lent);
            news.push(News::Lent { tasks });
        }
        if let Some((tid, why)) = self.failed.take()
            && is_time(&mut self.told_failed)
        {
            news.push(News::Failed { tid, why });
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_is_told_once_in_a_while_and_the_rest_at_once() {
        let mut tally = Tally::default();
        (tally.adopted, tally.lent) = (3, 2);
        tally.respects(7);
        tally.respects(8);
        tally.fails(9, "no".to_owned());
        let told = tally.take(true);
        assert_eq!(told.len(), 4);
        assert_eq!(told[0], News::Adopted { tasks: 3 });
        assert_eq!(told[1], News::Respected { tid: 7, tasks: 2 });
        tally.lent = 5;
        tally.fails(9, "no".to_owned());
        assert!(tally.take(false).is_empty());
        tally.respects(8);
        assert_eq!(tally.take(false).len(), 1);
    }
}
