//! Runs a kernel on some lanes of a core at once and tells how fast it got on.

use super::error::{Error, Result};
use super::kernels::{Footprint, Kernel, State};
use super::lane;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The share of a run that goes before its measurement: clocks ramp up, caches fill.
const WARM_UP: f64 = 0.1;

/// A kernel with its memory, for each thread of a core; kept between runs.
pub(super) struct Spinners {
    kernel: Kernel,
    footprint: Footprint,
    states: Vec<Option<State>>,
}

/// How one thread, or all of a run, got on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pace {
    /// Work in a second of wall time.
    pub speed: f64,
    /// CPU time in wall time: what the thread had of its lane.
    pub lane_share: f64,
}

/// What the threads of a run have in common.
struct Together<'a> {
    start: Barrier,
    count: usize,
    /// Threads that have measured; they go on until all have.
    done: AtomicUsize,
    duration: Duration,
    stop: &'a AtomicBool,
}

impl Spinners {
    /// For up to `lanes` threads. Memory is filled by the first run that needs it.
    pub(super) fn new(kernel: Kernel, footprint: Footprint, lanes: usize) -> Spinners {
        Spinners {
            kernel,
            footprint,
            states: (0..lanes).map(|_| None).collect(),
        }
    }

    /// Runs a thread on each of these lanes: the mean speed, and the least lane share.
    pub(super) fn run(
        &mut self,
        cpus: &[u32],
        duration: Duration,
        stop: &AtomicBool,
    ) -> Result<Pace> {
        let count = cpus.len().min(self.states.len());
        let together = Together {
            start: Barrier::new(count),
            count,
            done: AtomicUsize::new(0),
            duration,
            stop,
        };
        let (kernel, footprint, together) = (self.kernel, self.footprint, &together);
        let paces: Vec<Result<Pace>> = thread::scope(|scope| {
            let threads: Vec<_> = (self.states.iter_mut().zip(cpus).zip(1..))
                .map(|((state, &cpu), seed)| {
                    scope.spawn(move || {
                        let pinned = lane::pin(cpu);
                        // Filled by the thread that uses it, so that it is of the lane's node.
                        let state =
                            state.get_or_insert_with(|| State::new(kernel, footprint, seed));
                        together.start.wait();
                        let pace = pinned.and_then(|()| together.measure(state));
                        together.keep_company(state);
                        pace
                    })
                })
                .collect();
            let lost = |_| {
                Err(Error::Settings(
                    "a thread of the measurement panicked".into(),
                ))
            };
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.map(|pace| pace.unwrap_or_else(lost)).collect()
        });
        mean(paces)
    }
}

impl Together<'_> {
    fn measure(&self, state: &mut State) -> Result<Pace> {
        self.spin(state, self.duration.mul_f64(WARM_UP));
        let (begin, cpu_begin) = (Instant::now(), lane::thread_time()?);
        let steps = self.spin(state, self.duration);
        let (elapsed, cpu) = (begin.elapsed(), lane::thread_time()?);
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let elapsed_s = elapsed.as_secs_f64().max(1e-9);
        Ok(Pace {
            speed: steps as f64 / elapsed_s,
            lane_share: cpu.saturating_sub(cpu_begin).as_secs_f64() / elapsed_s,
        })
    }

    /// Steps until so much time has passed.
    fn spin(&self, state: &mut State, duration: Duration) -> u64 {
        let (begin, mut steps) = (Instant::now(), 0);
        while begin.elapsed() < duration && !self.stop.load(Ordering::Relaxed) {
            state.step();
            steps += 1;
        }
        steps
    }

    /// Goes on until all have measured, so that nobody's last steps are at a lower density.
    fn keep_company(&self, state: &mut State) {
        self.done.fetch_add(1, Ordering::Relaxed);
        while self.done.load(Ordering::Relaxed) < self.count && !self.stop.load(Ordering::Relaxed) {
            state.step();
        }
    }
}

/// The mean speed and the least lane share.
pub(super) fn mean(paces: Vec<Result<Pace>>) -> Result<Pace> {
    let count = paces.len().max(1) as f64;
    let mut all = Pace {
        speed: 0.0,
        lane_share: f64::INFINITY,
    };
    for pace in paces {
        let pace = pace?;
        all.speed += pace.speed / count;
        all.lane_share = all.lane_share.min(pace.lane_share);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_on_one_lane_share_it() {
        let cpu = lane::allowed().unwrap().first().unwrap();
        let mut spinners = Spinners::new(Kernel::Integer, Footprint::SMALL, 2);
        let (length, go) = (Duration::from_millis(60), AtomicBool::new(false));
        let mut run = |lanes: &[u32]| {
            let rate = spinners.run(lanes, length, &go).unwrap();
            (rate.speed, rate.lane_share)
        };
        for _ in 0..5 {
            let (speed, lane_share) = run(&[cpu]);
            assert!(speed > 0.0 && lane_share < 1.05, "{speed}, {lane_share}");
            // whatever else runs, the lesser of two that share a lane has no more than half of it
            let (speed, lane_share) = run(&[cpu, cpu]);
            assert!(speed > 0.0 && lane_share < 0.8, "{speed}, {lane_share}");
        }
    }

    #[test]
    fn it_stops_when_asked() {
        let cpu = lane::allowed().unwrap().first().unwrap();
        let mut spinners = Spinners::new(Kernel::Branchy, Footprint::SMALL, 1);
        let begin = Instant::now();
        let stop = AtomicBool::new(true);
        let result = spinners.run(&[cpu], Duration::from_secs(60), &stop);
        assert!(matches!(result, Err(Error::Interrupted)));
        assert!(begin.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_lane_that_is_not_there_is_an_error() {
        let mut spinners = Spinners::new(Kernel::Integer, Footprint::SMALL, 2);
        let go = AtomicBool::new(false);
        let error = spinners.run(&[0, 100_000], Duration::from_millis(5), &go);
        assert!(error.unwrap_err().to_string().contains("run on CPU 100000"));
    }
}
