//! What it costs that a thread sleeps for a moment: on a lane that idles meanwhile, as one does that is held,
//! and on one that computation fills.

use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::machine::Machine;
use crate::sys::{now_ns, pin, precise_timers, sleep_until_ns};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use sidelane_smt::latency::Spread;
use std::time::Duration;

/// How long the thread sleeps each time.
const PAUSE_NS: u64 = 500_000;
/// Length of each measurement, time before it that does not count, and how often all are repeated.
const LENGTH: Duration = Duration::from_millis(200);
const WARM_UP: Duration = Duration::from_millis(30);
const ROUNDS: usize = 8;

/// What computation loses by each of a thread's pauses, us of a lane alone on its core: interrupt, wake-up and
/// sleep of the thread itself in both.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pauses {
    /// Computation on the sibling of a lane on which nothing else runs.
    pub idle_us: f64,
    /// Computation on both lanes, so that there are two switches a pause.
    pub filled_us: f64,
}

/// What one measurement gives.
#[derive(Debug, Clone, Copy)]
struct Measured {
    work_per_ns: f64,
    pauses_per_ns: f64,
}

/// Measures with two of the computing processes on two lanes of a core, under the scheduler that is there. All of
/// them must be stopped, and are again afterwards. None: there are no two, or something stood still.
pub(super) fn measure(machine: &Machine, computing: &Batch) -> Result<Option<Pauses>> {
    let core = machine.cores.iter().find(|lanes| lanes.len() > 1);
    let Some(&[pauses, other, ..]) = core.map(Vec::as_slice) else {
        return Ok(None);
    };
    if computing.pids().count() < 2 {
        return Ok(None);
    }
    computing.pin_each(&[other, pauses])?;
    let (mut idle_us, mut filled_us) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let one = measured(computing, 1, None)?;
        let beside = measured(computing, 1, Some(pauses))?;
        let idle = lost_us(one, beside, one);
        let both = measured(computing, 2, None)?;
        let between = measured(computing, 2, Some(pauses))?;
        let (Some(idle), Some(filled)) = (idle, lost_us(both, between, one)) else {
            computing.unpin(&machine.lanes())?;
            return Ok(None);
        };
        idle_us.push(idle);
        filled_us.push(filled);
    }
    computing.unpin(&machine.lanes())?;
    let median = |values: &[f64]| match Spread::of(values) {
        Some(spread) => Ok(spread.median),
        None => Err(Error::Incomplete("no pause was measured".into())),
    };
    Ok(Some(Pauses {
        idle_us: median(&idle_us)?,
        filled_us: median(&filled_us)?,
    }))
}

/// What each pause took of the work without, in time of `alone`, us; none: nothing was done.
fn lost_us(without: Measured, with: Measured, alone: Measured) -> Option<f64> {
    let lost = (without.work_per_ns - with.work_per_ns) / alone.work_per_ns / with.pauses_per_ns;
    lost.is_finite().then_some(lost / 1e3)
}

/// So many processes compute; beside them a thread pauses on a lane.
fn measured(computing: &Batch, count: usize, pausing: Option<u32>) -> Result<Measured> {
    computing.resume(count)?;
    std::thread::sleep(WARM_UP);
    let (began_ns, before) = (now_ns()?, computing.work_done()?);
    let until_ns = began_ns + LENGTH.as_nanos() as u64;
    let pauses = match pausing {
        Some(lane) => pause_until(lane, until_ns)?,
        None => sleep_until_ns(until_ns).map(|()| 0)?,
    };
    let (passed_ns, work) = (now_ns()? - began_ns, computing.work_done()? - before);
    computing.stop()?;
    Ok(Measured {
        work_per_ns: work as f64 / passed_ns as f64,
        pauses_per_ns: pauses as f64 / passed_ns as f64,
    })
}

/// A thread on a lane sleeps over and over; how often.
fn pause_until(lane: u32, until_ns: u64) -> Result<u64> {
    let pausing = move || {
        pin(Pid::from_raw(0), &[lane])?;
        precise_timers()?;
        let mut pauses = 0;
        while now_ns()? < until_ns {
            sleep_until_ns(now_ns()? + PAUSE_NS)?;
            pauses += 1;
        }
        Ok(pauses)
    };
    let panicked = |_| Error::Process {
        who: "a thread that sleeps",
        reason: "panicked".into(),
    };
    std::thread::spawn(pausing).join().map_err(panicked)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_in_time_of_a_lane_alone() {
        let rate = |work_per_ns, pauses_per_ns| Measured {
            work_per_ns,
            pauses_per_ns,
        };
        let alone = rate(2.0, 0.0);
        // a tenth lost to 2,000 pauses a second: 50 us each
        let lost = lost_us(alone, rate(1.8, 2e-6), alone).unwrap();
        assert!((lost - 50.0).abs() < 1e-9, "{lost}");
        assert_eq!(lost_us(alone, rate(1.8, 0.0), alone), None);
        assert_eq!(
            lost_us(rate(0.0, 0.0), rate(0.0, 1.0), rate(0.0, 0.0)),
            None
        );
    }
}
