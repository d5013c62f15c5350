//! Keeps the speed of the host CPUs constant while a machine runs, and makes the cores of it as fast as their
//! threadPerf wants.
//!
//! A virtual machine with neighbours is now fast, now slow, within seconds. A real-time thread on each CPU
//! takes away what the CPU is faster than wanted: it computes for a part of each half millisecond, by which it
//! also sees how fast the CPU is, and looks how long the lanes ran. What is left to the lanes is as much work a
//! second whatever the neighbours do, in slices that are short against anything measured; unless the CPU is
//! slower than wanted, which is counted. With fewer lanes running than do most, the core is to do less
//! ([`crate::density`]), so more is taken: unlike by quotas, any threadPerf can be had.

use crate::companions::Companions;
use crate::density::{Densities, core_speeds};
use crate::error::{Error, Result};
use crate::threads::{self, RunTime};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often each thread takes its part.
const PERIOD: Duration = Duration::from_micros(500);
/// The least and the greatest part: less would see too little, more would leave too little.
const PART: (f64, f64) = (0.05, 0.9);
/// No more than this may be owed, in periods: a lane is not to be stopped for long.
const OWED: f64 = 4.0;
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

/// Refuses other shares, and cores that are to be too slow.
///
/// # Errors
/// [`Error::BadSpec`].
pub fn check(share: f64, thread_perf: &[f64]) -> Result<()> {
    let (least, most) = SHARES.into_inner();
    if !SHARES.contains(&share) {
        let why = format!("a steady speed of {share} of the host's: give {least} to {most}");
        return Err(Error::BadSpec(why));
    }
    let slowest = core_speeds(thread_perf).into_iter().fold(1.0, f64::min) * share;
    // the fastest CPU may be half as fast again as what it was at the start
    let least = 1.5 * (1.0 - PART.1);
    if slowest < least {
        let why = format!(
            "with thread-perf {} and a steady speed of {share}, a core would have {slowest:.2} of its host CPU \
             with the wrong number of lanes: at least {least:.2} can be had",
            crate::smt::list(thread_perf)
        );
        return Err(Error::BadSpec(why));
    }
    Ok(())
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

/// What a CPU of this speed is to lose for so much run time by density, so that `wanted` (by density) is left.
fn owed(by_density: &[f64], speed: f64, wanted: &[f64]) -> f64 {
    let times = by_density.iter().zip(wanted);
    times
        .map(|(time, wanted)| time * (speed / wanted - 1.0).max(0.0))
        .sum()
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

/// An emulated core on its host CPU.
pub struct Core {
    /// The host CPU, which carries no other core.
    pub cpu: usize,
    /// The threads of its lanes.
    pub lanes: Vec<RunTime>,
}

impl Steady {
    /// For these cores, whose CPUs idle now: from now on those are as fast as `share` ([`SHARES`]) of the slowest
    /// one's speed with the most productive number of lanes running, and with others by `thread_perf`.
    ///
    /// # Errors
    /// No privilege for real-time threads.
    pub fn start(cores: Vec<Core>, share: f64, thread_perf: &[f64]) -> Result<Steady> {
        let cpus: Vec<usize> = cores.iter().map(|core| core.cpu).collect();
        let speed = slowest(&cpus)? * share;
        let wanted: Vec<f64> = core_speeds(thread_perf)
            .iter()
            .map(|part| part * speed)
            .collect();
        let counts = Arc::new(Counts::default());
        let mut threads = Companions::none();
        for (number, core) in cores.into_iter().enumerate() {
            let (cpu, counts, wanted) = (core.cpu, counts.clone(), wanted.clone());
            // not all at once: a thread that may run anywhere then finds a CPU
            let offset = PERIOD * number as u32 / cpus.len() as u32;
            let body =
                move |stop: &AtomicBool| Taker::new(core, wanted).keep(offset, &counts, stop);
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

/// Takes what a core owes.
struct Taker {
    lanes: Vec<RunTime>,
    /// By the number of lanes running, turns a nanosecond.
    wanted: Vec<f64>,
    densities: Densities,
    work: Work,
    speed: f64,
    /// ns; negative: taken in advance.
    owed: f64,
}

impl Taker {
    fn new(core: Core, wanted: Vec<f64>) -> Taker {
        let mut work = Work::new();
        Taker {
            densities: Densities::new(core.lanes.len()),
            lanes: core.lanes,
            wanted,
            speed: work.speed(PERIOD),
            work,
            owed: 0.0,
        }
    }

    /// Takes its part of each period until it is told to stop.
    fn keep(mut self, offset: Duration, counts: &Counts, stop: &AtomicBool) {
        let mut next = Instant::now() + offset;
        let most = self.wanted.iter().copied().fold(0.0, f64::max);
        while !stop.load(Ordering::Relaxed) {
            self.look();
            self.take();
            counts.periods.fetch_add(1, Ordering::Relaxed);
            if self.speed * (1.0 - PART.0) < most {
                counts.slow.fetch_add(1, Ordering::Relaxed);
            }
            next = (next + PERIOD).max(Instant::now());
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    }

    /// Sees what the lanes did.
    fn look(&mut self) {
        let ran: Vec<f64> = self
            .lanes
            .iter_mut()
            .map(|lane| lane.passed() as f64)
            .collect();
        let mut by_density = vec![0.0; self.wanted.len()];
        self.densities.split(&ran, &mut by_density);
        self.owed += owed(&by_density, self.speed, &self.wanted);
        self.owed = self.owed.min(OWED * PERIOD.as_nanos() as f64);
    }

    /// Computes for a part of the period.
    fn take(&mut self) {
        let period_ns = PERIOD.as_nanos() as f64;
        let (least, most) = (PART.0 * period_ns, PART.1 * period_ns);
        let part_ns = self.owed.clamp(least, most);
        let begin = Instant::now();
        let found = self.work.speed(Duration::from_nanos(part_ns as u64));
        self.speed += WEIGHT * (found - self.speed);
        self.owed = (self.owed - begin.elapsed().as_nanos() as f64).max(-least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_cpu_loses_what_it_is_faster() {
        // twice as fast: as long as it ran
        assert!((owed(&[100.0, 0.0], 1.0, &[0.5, 0.5]) - 100.0).abs() < 1e-9);
        // {1, 0.6}: alone 5/6 as fast as together
        let wanted = [0.5 / 1.2, 0.5];
        assert!((owed(&[100.0, 100.0], 1.0, &wanted) - 240.0).abs() < 1e-9);
        // slower than wanted
        assert_eq!(owed(&[100.0], 0.4, &[0.5]), 0.0);
    }

    #[test]
    fn impossible_shares_are_refused() {
        let said = |share, perf: &[f64]| check(share, perf).unwrap_err().to_string();
        for share in [0.0, 0.95, f64::NAN] {
            assert!(said(share, &[1.0, 0.5]).contains("0.2 to 0.9"));
        }
        check(0.9, &[1.0, 0.6]).unwrap();
        assert!(said(0.2, &[1.0, 0.9, 0.9, 0.9]).contains("1,0.9,0.9,0.9"));
    }

    #[test]
    fn work_is_done_and_takes_its_time() {
        let begin = Instant::now();
        let speed = Work::new().speed(Duration::from_millis(2));
        assert!(begin.elapsed() >= Duration::from_millis(2));
        assert!(speed.is_finite() && speed > 0.0);
    }
}
