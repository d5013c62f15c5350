//! Keeps the speed of the host CPUs constant while a machine runs.
//!
//! A virtual machine with neighbours is now fast, now slow, within seconds. A real-time thread on each CPU takes
//! away what the CPU is faster than wanted: each half millisecond it computes for a part of it, by which it
//! also sees how fast the CPU is. What is left to the lanes' threads is as much work a second whatever the
//! neighbours do, in slices that are short against anything measured; unless the CPU is slower than wanted,
//! which is counted.

use crate::companions::Companions;
use crate::error::{Error, Result};
use crate::threads;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often each thread takes its part.
const PERIOD: Duration = Duration::from_micros(500);
/// The least and the greatest part: less would see too little, more would leave too little.
const PART: (f64, f64) = (0.05, 0.9);
/// Weight of a period in the speed: half of it lies in the last 4 ms.
const WEIGHT: f64 = 0.1;
/// For so long the speed is looked at before.
const LOOK: Duration = Duration::from_millis(500);
/// Turns between two looks at the clock: about a microsecond.
const TURNS: u64 = 300;
/// Words of the table that is worked on: as much as stays in any first-level cache.
const WORDS: usize = 1024;

/// What can be asked for: shares of the speed that is found at the start.
pub const SHARES: std::ops::RangeInclusive<f64> = 0.2..=0.9;

/// Refuses other shares.
///
/// # Errors
/// [`Error::BadSpec`].
pub fn check(share: f64) -> Result<()> {
    let (least, most) = SHARES.into_inner();
    match SHARES.contains(&share) {
        true => Ok(()),
        false => Err(Error::BadSpec(format!(
            "a steady speed of {share} of the host's: give {least} to {most}"
        ))),
    }
}

/// Computation of which speeds are taken: dependent arithmetic with loads from a small table, as translated
/// code does.
struct Work {
    table: [u64; WORDS],
    state: u64,
}

impl Work {
    fn new() -> Work {
        let mut number: u64 = 1;
        let table = std::array::from_fn(|_| {
            number = number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            number
        });
        Work { table, state: 1 }
    }

    fn turns(&mut self, count: u64) {
        for _ in 0..count {
            let word = self.table[(self.state >> 32) as usize % WORDS];
            self.state = (self.state ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        black_box(self.state);
    }

    /// Works for `length`; turns a nanosecond.
    fn speed(&mut self, length: Duration) -> f64 {
        let (begin, mut turns) = (Instant::now(), 0);
        loop {
            self.turns(TURNS);
            turns += TURNS;
            let passed = begin.elapsed();
            if passed >= length {
                return turns as f64 / passed.as_nanos().max(1) as f64;
            }
        }
    }
}

/// The part of a period that is to be taken from a CPU of this speed, so that `wanted` is left.
fn part(speed: f64, wanted: f64) -> f64 {
    (1.0 - wanted / speed).clamp(PART.0, PART.1)
}

/// How steady it was.
#[derive(Default)]
struct Counts {
    periods: AtomicU64,
    /// In which the CPU was slower than wanted.
    slow: AtomicU64,
}

/// Keeps speeds constant as long as it lives.
pub struct Steady {
    _threads: Companions,
    counts: Arc<Counts>,
}

impl Steady {
    /// On these CPUs, which idle now: from now on they are as fast as `share` ([`SHARES`]) of the slowest one's
    /// speed.
    ///
    /// # Errors
    /// No privilege for real-time threads.
    pub fn start(cpus: &[usize], share: f64) -> Result<Steady> {
        let wanted = slowest(cpus)? * share;
        let counts = Arc::new(Counts::default());
        let mut threads = Companions::none();
        for (number, &cpu) in cpus.iter().enumerate() {
            let counts = counts.clone();
            // not all at once: a thread that may run anywhere then finds a CPU
            let offset = PERIOD * number as u32 / cpus.len() as u32;
            let body = move |stop: &AtomicBool| keep(wanted, offset, &counts, stop);
            threads.start("steady", cpu, || threads::real_time(0), body)?;
        }
        Ok(Steady {
            _threads: threads,
            counts,
        })
    }

    /// The share of the time so far in which a CPU was slower than wanted.
    pub fn slow_share(&self) -> f64 {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
        of(&self.counts.slow) / of(&self.counts.periods).max(1.0)
    }
}

/// The speed of the slowest of these CPUs, turns a nanosecond.
fn slowest(cpus: &[usize]) -> Result<f64> {
    let (tell, told) = std::sync::mpsc::channel();
    let mut threads = Companions::none();
    for &cpu in cpus {
        let tell = tell.clone();
        let body = move |_: &AtomicBool| {
            // the receiver lives until all have told
            let _ = tell.send(Work::new().speed(LOOK));
        };
        threads.start("look", cpu, || Ok(()), body)?;
    }
    let speeds = told.iter().take(cpus.len());
    Ok(speeds.fold(f64::INFINITY, f64::min))
}

/// Takes its part of each period until it is told to stop.
fn keep(wanted: f64, offset: Duration, counts: &Counts, stop: &AtomicBool) {
    let mut work = Work::new();
    let mut speed = work.speed(PERIOD);
    let mut next = Instant::now() + offset;
    while !stop.load(Ordering::Relaxed) {
        let found = work.speed(PERIOD.mul_f64(part(speed, wanted)));
        speed += WEIGHT * (found - speed);
        counts.periods.fetch_add(1, Ordering::Relaxed);
        if speed * (1.0 - PART.0) < wanted {
            counts.slow.fetch_add(1, Ordering::Relaxed);
        }
        next = (next + PERIOD).max(Instant::now());
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_cpu_loses_what_it_is_faster() {
        assert!((part(1.0, 0.5) - 0.5).abs() < 1e-12);
        assert!((part(2.0, 0.5) - 0.75).abs() < 1e-12);
        // slower than wanted, and too fast to be held
        assert_eq!((part(0.4, 0.5), part(100.0, 0.5)), PART);
    }

    #[test]
    fn impossible_shares_are_refused() {
        for share in [0.0, 0.95, f64::NAN] {
            assert!(check(share).unwrap_err().to_string().contains("0.2 to 0.9"));
        }
    }

    #[test]
    fn work_is_done_and_takes_its_time() {
        let begin = Instant::now();
        let speed = Work::new().speed(Duration::from_millis(2));
        assert!(begin.elapsed() >= Duration::from_millis(2));
        assert!(speed.is_finite() && speed > 0.0);
    }
}
