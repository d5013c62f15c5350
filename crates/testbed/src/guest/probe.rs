//! What the emulation really delivers, measured inside the guest on an otherwise idle machine.

use crate::probe::measured::{Clock, HandOver, Layout, Measured};
use crate::threads;
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::fs;
use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long one speed is measured: many quota periods, and short enough that the host is the same
/// in neighbouring windows.
const WINDOW: Duration = Duration::from_millis(100);

/// How long gaps and the clocks' agreement are watched.
const WATCH: Duration = Duration::from_secs(1);

/// Steps of integer work between two looks at the clock: some 20 µs.
const CHUNK: u32 = 20_000;

/// What counts as a gap in a spinner's progress.
const GAP: Duration = Duration::from_micros(60);

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Measures everything: each speed `repetitions` times, interleaved, and `wake_ups` hand-overs of
/// each kind.
pub fn measure(repetitions: usize, wake_ups: usize) -> Outcome<Measured> {
    let layout = layout()?;
    let first = layout.cores.first().ok_or("no core is online")?.clone();
    let mut speeds = vec![Vec::new(); first.len()];
    let (mut each_core, mut all_lanes) = (Vec::new(), Vec::new());
    let one_each: Vec<usize> = layout
        .cores
        .iter()
        .filter_map(|core| core.first().copied())
        .collect();
    let all: Vec<usize> = layout.cores.concat();
    for _ in 0..repetitions {
        for (lanes, speed) in speeds.iter_mut().enumerate() {
            speed.push(speed_on(&first[..=lanes])?);
        }
        each_core.push(speed_on(&one_each)?);
        all_lanes.push(speed_on(&all)?);
    }
    Ok(Measured {
        clock: clock(&all)?,
        hand_overs: hand_overs(&layout, wake_ups)?,
        layout,
        speeds,
        each_core,
        all_lanes,
    })
}

/// The online lanes, by core, as the guest's kernel sees them.
fn layout() -> Outcome<Layout> {
    let mut cores: Vec<Vec<usize>> = Vec::new();
    let root = "/sys/devices/system/cpu";
    for entry in fs::read_dir(root)?.flatten() {
        let file = entry.path().join("topology/core_cpus_list");
        let Ok(text) = fs::read_to_string(&file) else {
            continue;
        };
        let lanes = cpu_list(text.trim()).ok_or_else(|| format!("{}: {text}", file.display()))?;
        if !cores.contains(&lanes) {
            cores.push(lanes);
        }
    }
    cores.sort();
    Ok(Layout { cores })
}

/// Reads a list of CPUs: `0-1,4`.
fn cpu_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (usize, usize) = (from.parse().ok()?, to.parse().ok()?);
        cpus.extend(from..=to);
    }
    Some(cpus)
}

/// Integer work; the caller counts how often it got through.
fn work(state: u32) -> u32 {
    (0..CHUNK).fold(state, |x, _| {
        black_box(x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223))
    })
}

/// The mean speed of one spinner on each of these lanes at once, in chunks a second.
fn speed_on(lanes: &[usize]) -> Outcome<f64> {
    let start = Arc::new(Barrier::new(lanes.len()));
    let spinners: Vec<JoinHandle<Outcome2>> = lanes
        .iter()
        .map(|lane| {
            let (lane, start) = (*lane, start.clone());
            thread::spawn(move || {
                let pinned = threads::pin(0, lane);
                start.wait();
                pinned.map_err(|e| e.to_string())?;
                Ok(spin_for(WINDOW))
            })
        })
        .collect();
    let mut total = 0.0;
    for spinner in spinners {
        total += spinner.join().map_err(|_| "a spinner panicked")??;
    }
    Ok(total / lanes.len() as f64)
}

type Outcome2 = Result<f64, String>;

fn spin_for(window: Duration) -> f64 {
    let (begin, mut count, mut x) = (Instant::now(), 0_u64, 1);
    while begin.elapsed() < window {
        x = work(x);
        count += 1;
    }
    count as f64 / begin.elapsed().as_secs_f64()
}

/// Spins on lanes until dropped.
struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// A spinner of the idle class on each of these lanes, so that what wakes there goes first.
    fn on(lanes: &[usize]) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let spin = |lane: &usize| {
            let (lane, stop) = (*lane, stop.clone());
            thread::spawn(move || {
                if threads::pin(0, lane)
                    .and_then(|()| threads::idle_class())
                    .is_err()
                {
                    return;
                }
                let mut x = 1;
                while !stop.load(Ordering::Relaxed) {
                    x = work(x);
                }
            })
        };
        let threads = lanes.iter().map(spin).collect();
        thread::sleep(Duration::from_millis(20));
        Load { stop, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// How fast a lane comes to the host CPU that it shares with its siblings, in several situations.
fn hand_overs(layout: &Layout, count: usize) -> Outcome<Vec<HandOver>> {
    let core = layout.cores.first().cloned().unwrap_or_default();
    let Some((&lane, siblings)) = core.split_first() else {
        return Ok(Vec::new());
    };
    let mut found = vec![HandOver::from_samples(
        "timer wake-up, core idle",
        timer_wake_ups(lane, count)?,
    )];
    if !siblings.is_empty() {
        let load = Load::on(siblings);
        found.push(HandOver::from_samples(
            "timer wake-up, siblings spin",
            timer_wake_ups(lane, count)?,
        ));
        found.push(HandOver::from_samples(
            "gap in a spinner, siblings spin",
            gaps(lane)?,
        ));
        drop(load);
    }
    if let Some(other) = layout.cores.get(1).and_then(|core| core.first()) {
        found.push(HandOver::from_samples(
            "wake-up from another core, core idle",
            wake_ups(*other, lane, count)?,
        ));
        let load = Load::on(&core);
        found.push(HandOver::from_samples(
            "wake-up from another core, all lanes spin",
            wake_ups(*other, lane, count)?,
        ));
        drop(load);
    }
    Ok(found)
}

/// Sleeps until given times; how late each wake-up was.
fn timer_wake_ups(lane: usize, count: usize) -> Outcome<Vec<Duration>> {
    let sleeper = thread::spawn(move || -> Result<Vec<Duration>, String> {
        threads::pin(0, lane).map_err(|e| e.to_string())?;
        let mut late = Vec::with_capacity(count);
        for index in 0..count {
            let target = Instant::now() + pause(index);
            sleep_until(target);
            late.push(target.elapsed());
        }
        Ok(late)
    });
    Ok(sleeper.join().map_err(|_| "a sleeper panicked")??)
}

/// 3 to 7 ms, in no step with any tick.
fn pause(index: usize) -> Duration {
    Duration::from_micros(3000 + ((index as u64 * 2_654_435_761) >> 7) % 4000)
}

fn sleep_until(target: Instant) {
    thread::sleep(target.saturating_duration_since(Instant::now()));
}

/// The pauses in a spinner's progress, which its siblings cause.
fn gaps(lane: usize) -> Outcome<Vec<Duration>> {
    let spinner = thread::spawn(move || -> Result<Vec<Duration>, String> {
        threads::pin(0, lane).map_err(|e| e.to_string())?;
        let (begin, mut last, mut gaps) = (Instant::now(), Instant::now(), Vec::new());
        while begin.elapsed() < WATCH {
            let now = Instant::now();
            if now - last > GAP {
                gaps.push(now - last);
            }
            last = now;
        }
        Ok(gaps)
    });
    Ok(spinner.join().map_err(|_| "a spinner panicked")??)
}

/// A thread on `from` wakes one on `to`; how long each took to run.
fn wake_ups(from: usize, to: usize, count: usize) -> Outcome<Vec<Duration>> {
    let event = Arc::new(EventFd::from_flags(EfdFlags::empty())?);
    // One at a time: an event that rings twice before it is read counts once.
    let answer = Arc::new(EventFd::from_flags(EfdFlags::empty())?);
    let sent_ns = Arc::new(AtomicU64::new(0));
    let epoch = Instant::now();
    let (bell, sent, done) = (event.clone(), sent_ns.clone(), answer.clone());
    let wakee = thread::spawn(move || -> Result<Vec<Duration>, String> {
        threads::pin(0, to).map_err(|e| e.to_string())?;
        let mut late = Vec::with_capacity(count);
        for _ in 0..count {
            bell.read().map_err(|e| e.to_string())?;
            let now_ns = epoch.elapsed().as_nanos() as u64;
            late.push(Duration::from_nanos(
                now_ns.saturating_sub(sent.load(Ordering::Acquire)),
            ));
            done.write(1).map_err(|e| e.to_string())?;
        }
        Ok(late)
    });
    let waker = thread::spawn(move || -> Result<(), String> {
        threads::pin(0, from).map_err(|e| e.to_string())?;
        for index in 0..count {
            thread::sleep(pause(index));
            sent_ns.store(epoch.elapsed().as_nanos() as u64, Ordering::Release);
            event.write(1).map_err(|e| e.to_string())?;
            answer.read().map_err(|e| e.to_string())?;
        }
        Ok(())
    });
    waker.join().map_err(|_| "a waker panicked")??;
    Ok(wakee.join().map_err(|_| "a wakee panicked")??)
}

/// The cost of reading the clock and whether the lanes agree on it.
fn clock(lanes: &[usize]) -> Outcome<Clock> {
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let reads = 20_000;
    let begin = Instant::now();
    for _ in 0..reads {
        black_box(Instant::now());
    }
    let cost_ns = begin.elapsed().as_nanos() as f64 / f64::from(reads);
    Ok(Clock {
        source: fs::read_to_string(source)?.trim().to_string(),
        cost_ns,
        backward_ns: backward_ns(lanes)?,
    })
}

/// Threads on all lanes publish the latest time in turn; how far the clock went backwards between
/// two of them at most.
fn backward_ns(lanes: &[usize]) -> Outcome<u64> {
    let latest_ns = Arc::new(AtomicU64::new(0));
    let epoch = Instant::now();
    let threads: Vec<JoinHandle<Result<u64, String>>> = lanes
        .iter()
        .map(|lane| {
            let (lane, latest_ns) = (*lane, latest_ns.clone());
            thread::spawn(move || {
                threads::pin(0, lane).map_err(|e| e.to_string())?;
                let mut worst_ns = 0;
                while epoch.elapsed() < WATCH {
                    let seen_ns = latest_ns.load(Ordering::SeqCst);
                    let now_ns = epoch.elapsed().as_nanos() as u64;
                    worst_ns = worst_ns.max(seen_ns.saturating_sub(now_ns));
                    latest_ns.fetch_max(now_ns, Ordering::SeqCst);
                }
                Ok(worst_ns)
            })
        })
        .collect();
    let mut worst_ns = 0;
    for thread in threads {
        worst_ns = worst_ns.max(thread.join().map_err(|_| "a reader panicked")??);
    }
    Ok(worst_ns)
}

/// Measures and prints for the host.
pub fn run(repetitions: usize, wake_ups: usize) -> io::Result<()> {
    let measured = measure(repetitions, wake_ups).map_err(|e| io::Error::other(e.to_string()))?;
    println!(
        "{}",
        serde_json::to_string(&measured).map_err(io::Error::other)?
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_read() {
        assert_eq!(cpu_list("0-1,4"), Some(vec![0, 1, 4]));
        assert_eq!(cpu_list("7"), Some(vec![7]));
        assert_eq!(cpu_list("a"), None);
    }

    #[test]
    fn pauses_stay_in_their_range_and_differ() {
        let all: Vec<Duration> = (0..200).map(pause).collect();
        assert!(all.iter().all(|p| (3000..7000).contains(&p.as_micros())));
        assert!(all.windows(2).filter(|w| w[0] == w[1]).count() < 20);
    }
}
