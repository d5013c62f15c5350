//! How fast one whole core is now: at batch work, and at the computing server's work.
//!
//! All cores are busy while it is measured, each on its first lane alone: as they are when batch
//! fills what critical work leaves, and unlike what a machine does that is otherwise asleep and
//! clocks one core up. What the other cores do counts, too: cores share caches, and those of an
//! emulated machine may be two lanes of a host's core. So [`measure`] lets the cores do both works in
//! the proportion of the experiment.

use crate::arrivals::{self, Arrival};
use crate::batch::Batch;
use crate::error::{During, Error, Result};
use crate::machine::Machine;
use crate::plan::Reference;
use crate::sys::{now_ns, pin, sleep_until_ns};
use nix::unistd::Pid;
use sidelane_options::pricing;
use sidelane_smt::latency::Spread;
use std::time::Duration;

/// Time for threads to come to speed before counting begins.
const WARM_UP: Duration = Duration::from_millis(30);
/// Units of work between two looks at the clock: far below a millisecond.
const CHUNK_UNITS: u64 = 200;

/// Of each measurement of a median, and their number.
const MEASUREMENT: Duration = Duration::from_millis(200);
const MEASUREMENTS: usize = 5;
/// Requests of [`measure`] on the mean, and the loads among which it has time for both works.
const MIX_DEMAND: Duration = Duration::from_millis(8);
const MIX_LOADS: std::ops::RangeInclusive<f64> = 0.1..=0.5;
/// A measurement of both works together: some requests long.
const MIXED_MEASUREMENT: Duration = Duration::from_millis(400);
/// From this ratio of the fastest to the slowest measurement on, results come with a warning. Neighbours
/// of a virtual machine alone make it 1.3 to 1.8.
const UNSTEADY: f64 = 2.0;

/// A line that warns of a machine whose speed varied too much; nothing if it did not.
pub fn warning(speed: Spread) -> &'static str {
    match speed.max > UNSTEADY * speed.min {
        true => {
            "  The machine's speed varied a lot: was something else running on it? Then measure again.\n"
        }
        false => "",
    }
}

/// Both works, as an experiment mixes them.
#[derive(Debug, Clone, Copy)]
pub struct Mix {
    /// Part of a core's time that the server's work takes, within (0, 1). So much that only one of them could
    /// be measured is taken for [`MIX_LOADS`].
    pub load: f64,
    /// Start of the random numbers.
    pub seed: u64,
}

/// Measures both works together for `length`: on each core requests come, and batch has the lane while
/// there is none. Batch must be stopped, and is again afterwards.
///
/// # Errors
/// What fails, and [`Error::Incomplete`] where only one of them ran.
pub fn measure(machine: &Machine, batch: &Batch, length: Duration, mix: Mix) -> Result<Reference> {
    let lanes = machine.first_lanes();
    let serve_all = |start_ns| on_each(&lanes, |lane| serve(lane, start_ns, length, mix));
    let (served, work, elapsed_ns) = beside_batch(machine, batch, serve_all)?;
    let units: u64 = served.iter().map(|served| served.units).sum();
    let busy_ns: u64 = served.iter().map(|served| served.busy_ns).sum();
    let batch_ns = (elapsed_ns * lanes.len() as u64).saturating_sub(busy_ns);
    if busy_ns == 0 || batch_ns == 0 {
        return Err(Error::Incomplete("no speed of a core".into()));
    }
    Ok(Reference {
        batch_bytes_per_core_s: work as f64 * 1e9 / batch_ns as f64,
        units_per_core_s: units as f64 * 1e9 / busy_ns as f64,
    })
}

/// Lets batch run, a process on the first lane of each core, while `action` lasts, which is told when it
/// begins: what it returns, the work that batch did, and for how long, ns.
fn beside_batch<T>(
    machine: &Machine,
    batch: &Batch,
    action: impl FnOnce(u64) -> Result<T>,
) -> Result<(T, u64, u64)> {
    let lanes = machine.first_lanes();
    batch.pin_each(&lanes)?;
    batch.resume(lanes.len())?;
    std::thread::sleep(WARM_UP);
    let (before, start_ns) = (batch.work_done()?, now_ns()?);
    let done = action(start_ns);
    let (after, end_ns) = (batch.work_done()?, now_ns()?);
    batch.stop()?;
    batch.unpin(&machine.lanes())?;
    Ok((done?, after - before, end_ns - start_ns))
}

/// The server's speed in that mix, as the median of several measurements: one alone may meet a moment at
/// which the host does something else.
pub fn steady_mixed_speed(machine: &Machine, batch: &Batch, mix: Mix) -> Result<f64> {
    median_of(|| Ok(measure(machine, batch, MIXED_MEASUREMENT, mix)?.units_per_core_s))
}

/// What the requests of one lane did.
struct Served {
    units: u64,
    busy_ns: u64,
}

/// Computes on one lane whenever a request is there, until `length` after `start_ns`.
fn serve(lane: u32, start_ns: u64, length: Duration, mix: Mix) -> Result<Served> {
    pin(Pid::from_raw(0), &[lane])?;
    let length_ns = length.as_nanos() as u64;
    let rate_per_s =
        mix.load.clamp(*MIX_LOADS.start(), *MIX_LOADS.end()) / MIX_DEMAND.as_secs_f64();
    let schedule = arrivals::schedule(rate_per_s, length_ns, mix.seed.wrapping_add(lane.into()));
    // one at least
    let first = Arrival {
        at_ns: 0,
        demand: 1.0,
    };
    let (mut units, mut busy_ns) = (0, 0);
    for arrival in std::iter::once(first).chain(schedule) {
        sleep_until_ns(start_ns + arrival.at_ns)?;
        let begin_ns = now_ns()?;
        let demand_ns = (arrival.demand * MIX_DEMAND.as_nanos() as f64) as u64;
        let until_ns = (begin_ns + demand_ns).min(start_ns + length_ns);
        let (computed, end_ns) = compute_until(until_ns, lane.into())?;
        units += computed;
        busy_ns += end_ns.saturating_sub(begin_ns);
    }
    Ok(Served { units, busy_ns })
}

/// Work a second of one batch process that has a core to itself. Batch must be stopped, and is again
/// afterwards.
pub(crate) fn batch_speed(machine: &Machine, batch: &Batch, length: Duration) -> Result<f64> {
    let sleep = |_| {
        std::thread::sleep(length);
        Ok(())
    };
    let ((), work, elapsed_ns) = beside_batch(machine, batch, sleep)?;
    Ok(work as f64 * 1e9 / elapsed_ns as f64 / machine.first_lanes().len() as f64)
}

/// Speed of a lane when 1, 2, ... lanes of the first core do batch's work, over that when it is alone: the
/// medians of several turns. There have to be as many processes as the core has lanes; they must be
/// stopped, and are again afterwards.
pub(crate) fn batch_thread_perf(machine: &Machine, batch: &Batch) -> Result<Vec<f64>> {
    let lanes = machine.cores.first().map(Vec::as_slice).unwrap_or_default();
    let mut ratios = vec![Vec::new(); lanes.len()];
    for _ in 0..MEASUREMENTS {
        let mut alone = f64::NAN;
        for (count, ratios) in (1..).zip(&mut ratios) {
            let core = Machine {
                cores: lanes.iter().take(count).map(|&lane| vec![lane]).collect(),
            };
            let speed = batch_speed(&core, batch, MEASUREMENT)?;
            if count == 1 {
                alone = speed;
            }
            // on a busy host a lane may get no time at all
            ratios.extend(Some(speed / alone).filter(|ratio| ratio.is_finite() && *ratio > 0.0));
        }
    }
    batch.unpin(&machine.lanes())?;
    let medians = ratios.iter().map(|of| Spread::of(of).map(|s| s.median));
    let medians: Option<Vec<f64>> = medians.collect();
    let medians = medians.ok_or_else(|| Error::Incomplete("no speed of a lane".into()))?;
    let falling = medians.into_iter().scan(1.0, |least: &mut f64, ratio| {
        *least = least.min(ratio);
        Some(*least)
    });
    Ok(falling.collect())
}

/// Units of work a second of one thread that has a core to itself.
fn compute_speed(machine: &Machine, length: Duration) -> Result<f64> {
    let speeds = on_each(&machine.first_lanes(), |lane| units_per_s(lane, length))?;
    Ok(speeds.iter().sum::<f64>() / speeds.len() as f64)
}

/// Does something in a thread for each of these lanes, all at once.
fn on_each<T: Send>(lanes: &[u32], work: impl Fn(u32) -> Result<T> + Sync) -> Result<Vec<T>> {
    let work = &work;
    std::thread::scope(|scope| {
        let start = |&lane: &u32| {
            let thread = std::thread::Builder::new().name("reference".into());
            let started = thread.spawn_scoped(scope, move || work(lane));
            started.during(|| "starting a thread".into())
        };
        let threads = lanes.iter().map(start).collect::<Result<Vec<_>>>()?;
        let panicked = || Error::Process {
            who: "the reference work",
            reason: "panicked".into(),
        };
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| panicked())?)
            .collect()
    })
}

/// Units of work a second of one thread that has a core to itself, as the median of about a second of
/// measurements.
pub fn steady_compute_speed(machine: &Machine) -> Result<f64> {
    median_of(|| compute_speed(machine, MEASUREMENT))
}

fn median_of(measurement: impl FnMut() -> Result<f64>) -> Result<f64> {
    let measured = std::iter::repeat_with(measurement)
        .take(MEASUREMENTS)
        .collect::<Result<Vec<f64>>>()?;
    let middle = Spread::of(&measured).map(|speeds| speeds.median);
    middle.ok_or_else(|| Error::Incomplete("no speed of a core".into()))
}

/// Computes on one lane for a time; units of work a second.
fn units_per_s(lane: u32, length: Duration) -> Result<f64> {
    pin(Pid::from_raw(0), &[lane])?;
    compute_until(now_ns()? + WARM_UP.as_nanos() as u64, lane.into())?;
    let start_ns = now_ns()?;
    let (units, end_ns) = compute_until(start_ns + length.as_nanos() as u64, lane.into())?;
    Ok(units as f64 * 1e9 / (end_ns - start_ns) as f64)
}

/// Computes until a moment; the units of work, and when it was done.
fn compute_until(until_ns: u64, seed: u64) -> Result<(u64, u64)> {
    let (mut end_ns, mut units) = (now_ns()?, 0);
    while end_ns < until_ns {
        std::hint::black_box(pricing::price_option(
            CHUNK_UNITS,
            pricing::START_PRICE,
            seed.wrapping_add(units),
        ));
        units += CHUNK_UNITS;
        end_ns = now_ns()?;
    }
    Ok((units, end_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidelane_topology::Topology;
    use std::path::Path;

    #[test]
    fn lanes_that_are_cores_do_not_slow_each_other_down_much() {
        let cpus = Machine::of(&Topology::read(Path::new("/")).unwrap()).first_lanes();
        let machine = Machine { cores: vec![cpus] };
        let batch = Batch::start(machine.lane_count(), 1).unwrap();
        let speeds = batch_thread_perf(&machine, &batch).unwrap();
        assert_eq!((speeds.len(), speeds[0]), (machine.lane_count(), 1.0));
        assert!(speeds.is_sorted_by(|a, b| a >= b), "{speeds:?}");
        assert!(speeds.iter().all(|speed| *speed > 0.05), "{speeds:?}");
    }

    #[test]
    fn both_speeds_are_found_and_batch_stops_again() {
        let machine = Machine::of(&Topology::read(Path::new("/")).unwrap());
        let batch = Batch::start(machine.lane_count(), 1).unwrap();
        for load in [0.001, 0.24, 0.999] {
            let mix = Mix { load, seed: 1 };
            let reference = measure(&machine, &batch, Duration::from_millis(200), mix).unwrap();
            // Loose bounds: a gzip of 0.1 … 10,000 MB/s, a path in 10 ns … 100 µs.
            assert!(
                (1e5..1e10).contains(&reference.batch_bytes_per_core_s),
                "{load}: {reference:?}"
            );
            assert!(
                (1e4..1e8).contains(&reference.units_per_core_s),
                "{load}: {reference:?}"
            );
        }
        let bytes = batch.work_done().unwrap();
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(batch.work_done().unwrap(), bytes);
    }
}
