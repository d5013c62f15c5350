//! threadPerf learnt while the machine works, where it counts instructions.

use crate::Result;
use sidelane_collect::counters::{Error as CounterError, LaneCounters};
use sidelane_model::{LaneOrder, running_lanes};
use sidelane_smt::online::{Origin, WorkRates};
use std::collections::BTreeMap;
use std::time::Instant;

/// What was seen so long ago counts half.
const HALF_LIFE_S: f64 = 600.0;
/// A change of this much is worth telling, and using.
const CHANGE: f64 = 0.01;

/// Learns from each interval.
#[derive(Debug)]
pub struct Learner {
    counters: LaneCounters,
    /// What is counted.
    cpus: Vec<u32>,
    rates: WorkRates,
    /// Stands in for densities that were not seen.
    calibrated: Vec<f64>,
    /// What was told last.
    speeds: Vec<f64>,
    at: Instant,
}

/// threadPerf by what was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Learnt {
    /// Valid, for as many lanes as before.
    pub speeds: Vec<f64>,
    /// Which of them were measured.
    pub measured: Vec<bool>,
}

impl Learner {
    /// Counts on the lanes of all cores.
    ///
    /// # Errors
    /// No counters, or none for this process.
    pub fn new(
        cores: &[Vec<u32>],
        calibrated: &[f64],
    ) -> std::result::Result<Learner, CounterError> {
        let cpus: Vec<u32> = cores.iter().flatten().copied().collect();
        let counters = LaneCounters::instructions(&cpus)?;
        let rates = WorkRates::new(calibrated.len(), HALF_LIFE_S);
        let rates = rates.map_err(|e| CounterError::Absent(std::io::Error::other(e)))?;
        Ok(Learner {
            counters,
            cpus,
            rates,
            calibrated: calibrated.to_vec(),
            speeds: calibrated.to_vec(),
            at: Instant::now(),
        })
    }

    /// An interval has ended in which lanes were busy for these shares of the time. threadPerf if it
    /// is another now.
    ///
    /// # Errors
    /// Counters that cannot be opened again after lanes came or went.
    pub fn learn(
        &mut self,
        cores: &[Vec<u32>],
        busy: &BTreeMap<u32, f64>,
        order: LaneOrder,
    ) -> Result<Option<Learnt>> {
        let elapsed_s = self.at.elapsed().as_secs_f64();
        self.at = Instant::now();
        let known: Vec<u32> = cores
            .iter()
            .flatten()
            .copied()
            .filter(|c| busy.contains_key(c))
            .collect();
        let counted = match known == self.cpus {
            true => self.counters.since_last(),
            false => {
                // counters of lanes that went count no more when these come back
                self.counters = LaneCounters::instructions(&known)?;
                self.cpus = known;
                return Ok(None);
            }
        };
        let Ok(counted) = counted else {
            self.cpus.clear(); // a lane went just now: open them again next time
            return Ok(None);
        };
        let work: BTreeMap<u32, f64> = counted
            .into_iter()
            .filter_map(|(cpu, n)| Some((cpu, n?)))
            .collect();
        self.rates.forget(elapsed_s)?;
        for core in cores {
            self.observe(core, busy, &work, elapsed_s, order)?;
        }
        let estimate = self.rates.estimate(&self.calibrated)?;
        let differs = |(now, told): (&f64, &f64)| (now - told).abs() > CHANGE;
        if !estimate.thread_perf.iter().zip(&self.speeds).any(differs) {
            return Ok(None);
        }
        self.speeds.clone_from(&estimate.thread_perf);
        let measured = estimate
            .densities
            .iter()
            .map(|d| d.origin == Origin::Measured);
        Ok(Some(Learnt {
            measured: measured.collect(),
            speeds: estimate.thread_perf,
        }))
    }

    /// Adds a core's interval.
    fn observe(
        &mut self,
        core: &[u32],
        busy: &BTreeMap<u32, f64>,
        work: &BTreeMap<u32, f64>,
        elapsed_s: f64,
        order: LaneOrder,
    ) -> Result<()> {
        let shares: Vec<f64> = core
            .iter()
            .filter_map(|cpu| busy.get(cpu).copied())
            .collect();
        let mut times_s = vec![0.0; self.calibrated.len()];
        let densities = running_lanes(&shares, order)?;
        for (time_s, share) in times_s.iter_mut().zip(densities.iter().skip(1)) {
            *time_s = share * elapsed_s;
        }
        let done: f64 = core.iter().filter_map(|cpu| work.get(cpu)).sum();
        // with one lane online SMT is off: with it on the lane would have done less
        let lone = match (shares.len(), self.calibrated.first()) {
            (1, Some(lone)) => *lone,
            _ => 1.0,
        };
        Ok(self.rates.observe(done * lone, &times_s)?)
    }
}
