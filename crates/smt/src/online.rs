//! threadPerf while the machine works: from how much work its cores do at each density.
//!
//! A caller brings, for each core and interval, the work done (instructions, or
//! any other count that grows with work) and the time during which 1, 2, ... lanes ran. [`WorkRates`]
//! finds the work rate of a core at each density and with it threadPerf\[n\] = (r_n / n) / r_1, times the calibrated
//! first one: what SMT costs a lane alone does not show while SMT is on. Where a density was hardly seen, its rate stays unknown and the calibrated value stands in,
//! labelled.
//!
//! Instructions are work only while the kind of work stays the same: a lane that spins for a lock
//! counts many and does none. What is found so holds for the load that ran.
//!
//! In an interval a core does the work I = Σ r_n t_n, where t_n is the time during which exactly n
//! of its lanes run. The rates r_n ≥ 0 are those of weighted least squares over intervals (weight
//! 1 / busy time: work varies like a sum over time), old intervals forgotten exponentially. Their
//! errors follow from the residuals. A load that always mixes the densities in the same proportion
//! does not determine the rates; that shows as an enormous error, and they count as unknown.

mod linear;

use crate::thread_perf::{fault, nearest_valid};
use linear::{Matrix, add_outer, dot, inverse, non_negative, scale, times, zeros};
use serde::Serialize;

/// A threadPerf counts as measured if its standard error is at most this part of it.
const ERROR_MAX: f64 = 0.1;

/// And if its density had at least this share of the busy time: below it, errors of the times
/// themselves prevail.
const SHARE_MIN: f64 = 0.01;

/// Work in an interval is never foreseen better than this, relative; keeps a load without noise
/// from looking more certain than it is.
const NOISE_MIN: f64 = 0.005;

/// A measured speed weighs so much more than a calibrated one when the two are made to fit.
const MEASURED_WEIGHT: f64 = 100.0;

/// What is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// No lane, or no time to forget in.
    #[error("{lanes} lanes, half-life {half_life_s} s; give at least 1 and more than 0 s")]
    Settings {
        /// Lanes of a core.
        lanes: usize,
        /// The half-life, s.
        half_life_s: f64,
    },
    /// Times of another number of lanes.
    #[error("times of {given} densities for cores of {lanes} lanes")]
    Densities {
        /// How many were given.
        given: usize,
        /// How many there are.
        lanes: usize,
    },
    /// Work or a time that is none.
    #[error("{0} is no work and no time; give a finite number of at least 0")]
    Number(f64),
    /// The calibrated threadPerf is not valid, or is of other cores.
    #[error("the calibrated threadPerf does not fit: {0}")]
    Calibrated(String),
}

/// Work rates of cores of one kind, learnt from intervals.
#[derive(Debug, Clone)]
pub struct WorkRates {
    half_life_s: f64,
    /// Σ weight × t tᵀ, forgotten.
    moments: Matrix,
    /// Σ weight × I × t.
    work: Vec<f64>,
    /// Σ weight × I².
    work_squared: f64,
    /// Intervals, forgotten.
    count: f64,
    /// The same forgotten twice as fast, as the variance of a forgotten sum is.
    count_squared: f64,
    /// Time at each density, forgotten, s.
    seen_s: Vec<f64>,
}

/// Where a threadPerf comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// From the work that was observed.
    Measured,
    /// The density was not seen enough: from the calibration.
    Calibrated,
}

/// What is known of one density.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DensityRate {
    /// How many lanes run.
    pub lanes: usize,
    /// Work of a core in a second, r_n; `None` if unknown.
    pub work_per_s: Option<f64>,
    /// The standard error of threadPerf relative to it; `None` if unknown.
    pub relative_error: Option<f64>,
    /// Time at this density, s, old time forgotten.
    pub seen_s: f64,
    /// Where threadPerf comes from.
    pub origin: Origin,
}

/// threadPerf as the machine works now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Estimate {
    /// Valid: `[n - 1]` with n lanes running, the first as calibrated, not increasing, above 0.
    pub thread_perf: Vec<f64>,
    /// By lanes running.
    pub densities: Vec<DensityRate>,
}

impl WorkRates {
    /// Of cores with so many lanes. What was seen counts half after `half_life_s`.
    ///
    /// # Errors
    /// No lane, or a half-life that is not above 0.
    pub fn new(lanes: usize, half_life_s: f64) -> Result<WorkRates, Error> {
        if lanes == 0 || half_life_s.is_nan() || half_life_s <= 0.0 {
            return Err(Error::Settings { lanes, half_life_s });
        }
        Ok(WorkRates {
            half_life_s,
            moments: zeros(lanes),
            work: vec![0.0; lanes],
            work_squared: 0.0,
            count: 0.0,
            count_squared: 0.0,
            seen_s: vec![0.0; lanes],
        })
    }

    /// Lanes of a core.
    pub fn lanes(&self) -> usize {
        self.work.len()
    }

    /// Lets time pass: what was seen before counts less.
    ///
    /// # Errors
    /// A time that is none.
    pub fn forget(&mut self, elapsed_s: f64) -> Result<(), Error> {
        let factor = libm::exp2(-checked(elapsed_s)? / self.half_life_s);
        scale(&mut self.moments, factor);
        let sums = self.work.iter_mut().chain(&mut self.seen_s);
        sums.for_each(|sum| *sum *= factor);
        self.work_squared *= factor;
        self.count *= factor;
        self.count_squared *= factor * factor;
        Ok(())
    }

    /// Adds an interval of one core: the work that it did, in any unit, and the time during which
    /// exactly n of its lanes ran, s, `[n - 1]`. An interval without busy time says nothing.
    ///
    /// # Errors
    /// Times of another number of lanes; work or a time that is none.
    pub fn observe(&mut self, work: f64, times_s: &[f64]) -> Result<(), Error> {
        let lanes = self.lanes();
        if times_s.len() != lanes {
            let given = times_s.len();
            return Err(Error::Densities { given, lanes });
        }
        checked(work)?;
        let mut busy_s = 0.0;
        for time in times_s {
            busy_s += checked(*time)?;
        }
        if busy_s <= 0.0 {
            return Ok(());
        }
        let weight = 1.0 / busy_s;
        add_outer(&mut self.moments, times_s, weight);
        for ((sum, seen), time) in self.work.iter_mut().zip(&mut self.seen_s).zip(times_s) {
            *sum += weight * work * time;
            *seen += time;
        }
        self.work_squared += weight * work * work;
        self.count += 1.0;
        self.count_squared += 1.0;
        Ok(())
    }

    /// threadPerf by what was seen; `calibrated` stands in where that is not enough.
    ///
    /// # Errors
    /// A `calibrated` that is not valid or is of another number of lanes.
    pub fn estimate(&self, calibrated: &[f64]) -> Result<Estimate, Error> {
        if calibrated.len() != self.lanes() {
            let (given, lanes) = (calibrated.len(), self.lanes());
            let fault = format!("{given} numbers for cores of {lanes} lanes");
            return Err(Error::Calibrated(fault));
        }
        if let Some(fault) = fault(calibrated) {
            return Err(Error::Calibrated(fault));
        }
        let rates = non_negative(&self.moments, &self.work);
        let covariance = self.covariance(&rates);
        let densities: Vec<DensityRate> = (0..self.lanes())
            .map(|index| self.density(index, &rates, &covariance))
            .collect();
        let alone = densities.first().and_then(|density| density.work_per_s);
        let mut speeds = Vec::new();
        let mut weights = Vec::new();
        let lone = calibrated.first().copied().unwrap_or(1.0);
        for (density, calibrated) in densities.iter().zip(calibrated) {
            let measured = density.work_per_s.zip(alone);
            let measured = measured.map(|(rate, alone)| rate / (density.lanes as f64 * alone));
            speeds.push(measured.unwrap_or(calibrated / lone));
            weights.push(measured.map_or(1.0, |_| MEASURED_WEIGHT));
        }
        let relative = nearest_valid(&speeds, &weights);
        Ok(Estimate {
            thread_perf: relative.into_iter().map(|speed| speed * lone).collect(),
            densities,
        })
    }

    /// What is known of a density; without the rate of a lane alone there is no threadPerf.
    fn density(&self, index: usize, rates: &[f64], covariance: &Matrix) -> DensityRate {
        let seen_s = self.seen_s.get(index).copied().unwrap_or(0.0);
        let error = relative_error(index, rates, covariance);
        let alone_error = own_error(0, rates, covariance);
        let share = |seen_s: f64| seen_s / self.seen_s.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let alone_s = self.seen_s.first().copied().unwrap_or(0.0);
        let known = error.is_some_and(|error| error <= ERROR_MAX)
            && alone_error.is_some_and(|error| error <= ERROR_MAX)
            && share(seen_s).min(share(alone_s)) >= SHARE_MIN;
        DensityRate {
            lanes: index + 1,
            work_per_s: rates.get(index).copied().filter(|_| known),
            relative_error: error.filter(|_| known),
            seen_s,
            origin: if known {
                Origin::Measured
            } else {
                Origin::Calibrated
            },
        }
    }

    /// Of the rates; enormous where nothing determines them. Empty with too few intervals.
    fn covariance(&self, rates: &[f64]) -> Matrix {
        let seen = self.seen_s.iter().filter(|seen_s| **seen_s > 0.0).count() as f64;
        let free = self.count - seen;
        if free < 1.0 {
            return Vec::new();
        }
        let fitted = dot(rates, &times(&self.moments, rates));
        let residual = (self.work_squared - 2.0 * dot(rates, &self.work) + fitted).max(0.0);
        let least = NOISE_MIN * NOISE_MIN * self.work_squared / self.count;
        let variance = (residual / free).max(least);
        let mut covariance = inverse(&self.moments);
        scale(&mut covariance, variance * self.count_squared / self.count);
        covariance
    }
}

/// The standard error of a rate, relative to it.
fn own_error(index: usize, rates: &[f64], covariance: &Matrix) -> Option<f64> {
    let rate = rates.get(index).copied().filter(|rate| *rate > 0.0)?;
    let variance = covariance.get(index)?.get(index)?;
    Some(variance.max(0.0).sqrt() / rate)
}

/// The standard error of r_n / r_1, relative to it (to first order); that of r_1 for a lane alone.
fn relative_error(index: usize, rates: &[f64], covariance: &Matrix) -> Option<f64> {
    let own = own_error(index, rates, covariance)?;
    if index == 0 {
        return Some(own);
    }
    let alone = own_error(0, rates, covariance)?;
    let both = covariance.get(index)?.first()? / (rates.get(index)? * rates.first()?);
    Some((own * own + alone * alone - 2.0 * both).max(0.0).sqrt())
}

fn checked(number: f64) -> Result<f64, Error> {
    match number.is_finite() && number >= 0.0 {
        true => Ok(number),
        false => Err(Error::Number(number)),
    }
}

#[cfg(test)]
mod tests;
