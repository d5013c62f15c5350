//! Jobs: one request's worth of work with a deadline, and partial results.
//!
//! The program marks where a job begins and ends; it may ask how much time is left, and stop with the
//! result that it has by then. Where `sidelane run` schedules critical work, the marks tell it how old
//! jobs are and how long they took; to work that marks none, a job lasts from wake-up to sleep.
//!
//! Marks are of the thread that sets them. A thread works on one job at a time: the last one begun is
//! the one whose age counts. Jobs that are ended count, in whatever order, wherever they were begun.
//!
//! Source: FOF ("fast first, old fast"): jobs of unknown demand, deadlines, partial results.

use crate::{attach, board, cpu};

/// A job that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Job {
    begin_ns: u64,
    /// On CLOCK_MONOTONIC; `u64::MAX`: none.
    deadline_ns: u64,
}

impl Job {
    /// Begins a job, on this thread, that has `budget_ns` nanoseconds from now; 0: as long as it takes.
    pub fn begin(budget_ns: u64) -> Job {
        Job::begun_at(cpu::now_ns(), budget_ns)
    }

    /// The same for a job that began earlier, for instance when its request arrived: nanoseconds of
    /// CLOCK_MONOTONIC.
    pub fn begun_at(begin_ns: u64, budget_ns: u64) -> Job {
        let deadline_ns = match budget_ns {
            0 => u64::MAX,
            _ => begin_ns.saturating_add(budget_ns),
        };
        if attach::BOARD.is_new() {
            board::keep_errno(|| {
                attach::start();
                attach::BOARD.ask();
            });
        }
        let told_ns = match deadline_ns {
            u64::MAX => 0,
            _ => deadline_ns,
        };
        board::begin(begin_ns, told_ns);
        Job {
            begin_ns,
            deadline_ns,
        }
    }

    /// Nanoseconds until the deadline; 0 when it has passed, `u64::MAX` without one.
    pub fn time_left_ns(&self) -> u64 {
        self.left_at_ns(cpu::now_ns())
    }

    /// Should the program stop, and answer with what it has? `reserve_ns` is what it takes to answer.
    pub fn should_stop(&self, reserve_ns: u64) -> bool {
        self.time_left_ns() <= reserve_ns
    }

    /// How old the job is, in nanoseconds.
    pub fn age_ns(&self) -> u64 {
        cpu::now_ns().saturating_sub(self.begin_ns)
    }

    /// Ends it, on this thread: nanoseconds that it took.
    pub fn end(self) -> u64 {
        let latency_ns = self.age_ns();
        board::end(self.begin_ns, latency_ns);
        latency_ns
    }

    fn left_at_ns(&self, now_ns: u64) -> u64 {
        match self.deadline_ns {
            u64::MAX => u64::MAX,
            deadline_ns => deadline_ns.saturating_sub(now_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_runs_out_at_the_deadline() {
        let job = Job::begun_at(1_000, 500);
        assert_eq!(
            [1_000, 1_400, 1_500, 9_000].map(|now| job.left_at_ns(now)),
            [500, 100, 0, 0]
        );
        assert!(job.should_stop(0), "that was long ago");
        let endless = Job::begin(0);
        assert!(!endless.should_stop(u64::MAX - 1) && endless.time_left_ns() == u64::MAX);
        let hour = Job::begin(3_600_000_000_000);
        assert!(!hour.should_stop(1_000) && hour.should_stop(3_600_000_000_000));
        assert_eq!(Job::begun_at(u64::MAX - 1, 10).left_at_ns(5), u64::MAX);
    }
}
