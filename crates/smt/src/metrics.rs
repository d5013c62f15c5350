//! What the lanes of a core delivered: density, capacity, productivity, MT1-equivalent time.
//!
//! A core with T lanes had exactly n of them busy for a time b_n, and then did work at a rate r_n; MT1, the
//! core with SMT off, does it at the rate r. With the busy time B = Σ b_n (n ≥ 1):
//!
//! - thread density TD = Σ n b_n / B, from 1 to T
//! - capacity factor CF = Σ r_n b_n / (r B): work done, relative to MT1
//! - maximum capacity factor = r_T / r
//! - productivity = CF / maximum capacity factor
//! - MT utilisation = (B / elapsed) × productivity
//! - MT1-equivalent time of a task = Σ time × r_n / (n r) over its running intervals: what it would
//!   have taken alone on the core. Over all tasks of a core it is work / r.
//!
//! r is r_1 unless threadPerf says that SMT costs a lane something though its siblings are idle: then a lane that
//! runs alone makes threadPerf\[1\] seconds of MT1-equivalent time a second. Where one lane of a core is online SMT
//! is off.
//!
//! Only the ratios r_n / r matter ([`RelativeRates`]). "Work" is what the rates count: instructions,
//! or speed by threadPerf. It says nothing of how much of that is useful.
//!
//! The definitions are those of z/VM's SMT-2 metrics (monitor record MRSYTPRP), for any number of
//! lanes. All sums are additive ([`SmtTotals`]), so those of several cores, also of unequal ones, make
//! the metrics of a machine: each core weighs by its own capacity.

use crate::thread_perf;
use serde::{Deserialize, Serialize};

/// A density that had less than this share of the busy time was hardly seen: a measured rate of it
/// rests on little, and with it the maximum capacity factor. The source warns of that where density is
/// close to 1 or to T and names no number; 1 % is where errors of the times themselves (a switch takes
/// some microseconds, a reading is not taken on all lanes at once) begin to prevail.
pub const SEEN_SHARE_MIN: f64 = 0.01;

/// What is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// No rate at all, or one that is none.
    #[error("{rate} is no work rate with {lanes} lanes busy; give finite numbers of at least 0")]
    Rate {
        /// How many lanes run.
        lanes: usize,
        /// What was given; NaN if nothing was.
        rate: f64,
    },
    /// Nothing to relate the other rates to.
    #[error("a lane that runs alone does no work; its rate has to be above 0")]
    NoWorkAlone,
    /// Not a valid threadPerf.
    #[error("threadPerf is not valid: {0}")]
    ThreadPerf(String),
    /// Times of a density that has no rate.
    #[error("{busy} lanes were busy, and rates are known up to {known}")]
    Density {
        /// How many lanes ran.
        busy: usize,
        /// The highest number of lanes with a rate.
        known: usize,
    },
    /// More busy time than time.
    #[error("busy for {busy_ns} ns within {elapsed_ns} ns")]
    BusyTooLong {
        /// Σ b_n.
        busy_ns: u64,
        /// The length of the interval.
        elapsed_ns: u64,
    },
    /// Sums beyond 584 years.
    #[error("the times are too long to add")]
    Overflow,
}

/// Work rates of a core by lanes that run, relative to the core with SMT off: r_n / r.
#[derive(Debug, Clone, PartialEq)]
pub struct RelativeRates {
    /// `[n - 1]`; not empty, the first is at most 1.
    ratios: Vec<f64>,
}

impl RelativeRates {
    /// From work rates r_n of a core, `[n - 1]`, in any unit. What SMT costs a lane alone does not show in them.
    ///
    /// # Errors
    /// No rate, one below 0 or not finite, or r_1 = 0.
    pub fn from_rates(rates: &[f64]) -> Result<RelativeRates, Error> {
        for (rate, lanes) in rates.iter().zip(1..) {
            if !(rate.is_finite() && *rate >= 0.0) {
                return Err(Error::Rate { lanes, rate: *rate });
            }
        }
        let alone = rates.first().copied();
        let alone = alone.ok_or(Error::Rate {
            lanes: 1,
            rate: f64::NAN,
        })?;
        let ratios: Vec<f64> = rates.iter().map(|rate| rate / alone).collect();
        match alone > 0.0 && ratios.iter().all(|ratio| ratio.is_finite()) {
            true => Ok(RelativeRates { ratios }),
            false => Err(Error::NoWorkAlone),
        }
    }

    /// From threadPerf: r_n / r = n × threadPerf\[n\].
    ///
    /// # Errors
    /// It is not valid ([`thread_perf::fault`]).
    pub fn from_thread_perf(speeds: &[f64]) -> Result<RelativeRates, Error> {
        match thread_perf::fault(speeds) {
            Some(fault) => Err(Error::ThreadPerf(fault)),
            None => Ok(RelativeRates {
                ratios: (speeds.iter().zip(1u32..))
                    .map(|(speed, lanes)| speed * f64::from(lanes))
                    .collect(),
            }),
        }
    }

    /// The same for a core of which only so many lanes are online; at least one, with which SMT is off.
    pub fn of_lanes(&self, lanes: usize) -> RelativeRates {
        let ratios = match lanes {
            0 | 1 => vec![1.0],
            _ => self.ratios.iter().take(lanes).copied().collect(),
        };
        RelativeRates { ratios }
    }

    /// Lanes of the core, T.
    pub fn lanes(&self) -> usize {
        self.ratios.len()
    }

    /// r_n / r; 0 with no lane busy, none beyond T.
    pub fn ratio(&self, busy: usize) -> Option<f64> {
        match busy.checked_sub(1) {
            None => Some(0.0),
            Some(index) => self.ratios.get(index).copied(),
        }
    }

    /// Speed of each lane when n run, relative to the core with SMT off: r_n / (n r), which is threadPerf.
    pub fn lane_speed(&self, busy: usize) -> Option<f64> {
        match busy {
            0 => Some(0.0),
            _ => self.ratio(busy).map(|ratio| ratio / busy as f64),
        }
    }

    /// r_T / r.
    pub fn max_capacity_factor(&self) -> f64 {
        self.ratios.last().copied().unwrap_or(1.0)
    }

    /// MT1-equivalent time of a task that ran for times at densities, ns; pairs of lanes busy (its own
    /// among them) and time.
    ///
    /// # Errors
    /// A density without a rate; a task that ran while no lane did.
    pub fn mt1_ns(&self, intervals: &[(usize, u64)]) -> Result<f64, Error> {
        intervals.iter().try_fold(0.0, |sum, &(busy, ns)| {
            let known = self.lanes();
            let speed = self.lane_speed(busy).filter(|_| busy > 0);
            let speed = speed.ok_or(Error::Density { busy, known })?;
            Ok(sum + speed * ns as f64)
        })
    }
}

/// Sums over cores and times, from which the metrics follow. Additive.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SmtTotals {
    /// Core time: the length of the interval, once a core.
    elapsed_ns: u64,
    /// Lane time: the length of the interval, once a lane.
    lanes_ns: u64,
    /// b_n, `[n - 1]`.
    by_density_ns: Vec<u64>,
    /// Σ (r_n / r) b_n: the work, as time of the core with SMT off.
    work_ns: f64,
    /// Σ (r_T / r) B: the work, had all lanes run while the core was busy.
    busy_capacity_ns: f64,
    /// Σ (r_T / r) elapsed: the work, had all lanes always run.
    capacity_ns: f64,
}

impl SmtTotals {
    /// Adds one core: the times b_n during which exactly n of its lanes ran, `[n - 1]`, within an
    /// interval. Times of densities beyond T have to be 0.
    ///
    /// # Errors
    /// A density without a rate, or more busy time than time. Nothing is added then.
    pub fn add_core(
        &mut self,
        elapsed_ns: u64,
        by_density_ns: &[u64],
        rates: &RelativeRates,
    ) -> Result<(), Error> {
        let mut busy_ns = 0u64;
        let mut work_ns = 0.0;
        for (&ns, busy) in by_density_ns.iter().zip(1..) {
            let known = rates.lanes();
            busy_ns = busy_ns.checked_add(ns).ok_or(Error::Overflow)?;
            work_ns += match rates.ratio(busy) {
                Some(ratio) => ratio * ns as f64,
                None if ns == 0 => 0.0,
                None => return Err(Error::Density { busy, known }),
            };
        }
        if busy_ns > elapsed_ns {
            return Err(Error::BusyTooLong {
                busy_ns,
                elapsed_ns,
            });
        }
        let factor = rates.max_capacity_factor();
        self.add(&SmtTotals {
            elapsed_ns,
            lanes_ns: (elapsed_ns.checked_mul(rates.lanes() as u64)).ok_or(Error::Overflow)?,
            by_density_ns: (by_density_ns.iter().copied())
                .chain(std::iter::repeat(0))
                .take(rates.lanes())
                .collect(),
            work_ns,
            busy_capacity_ns: factor * busy_ns as f64,
            capacity_ns: factor * elapsed_ns as f64,
        })
    }

    /// Adds other sums.
    ///
    /// # Errors
    /// [`Error::Overflow`]; nothing is added then.
    pub fn add(&mut self, other: &SmtTotals) -> Result<(), Error> {
        let sum = |a: u64, b: u64| a.checked_add(b).ok_or(Error::Overflow);
        let elapsed_ns = sum(self.elapsed_ns, other.elapsed_ns)?;
        let lanes_ns = sum(self.lanes_ns, other.lanes_ns)?;
        let of = |times: &[u64], index| times.get(index).copied().unwrap_or(0);
        let densities = self.by_density_ns.len().max(other.by_density_ns.len());
        let by_density_ns: Result<Vec<u64>, Error> = (0..densities)
            .map(|i| sum(of(&self.by_density_ns, i), of(&other.by_density_ns, i)))
            .collect();
        *self = SmtTotals {
            elapsed_ns,
            lanes_ns,
            by_density_ns: by_density_ns?,
            work_ns: self.work_ns + other.work_ns,
            busy_capacity_ns: self.busy_capacity_ns + other.busy_capacity_ns,
            capacity_ns: self.capacity_ns + other.capacity_ns,
        };
        Ok(())
    }

    /// The metrics.
    pub fn metrics(&self) -> SmtMetrics {
        let busy_ns = self
            .by_density_ns
            .iter()
            .fold(0.0, |sum, ns| sum + *ns as f64);
        let lane_busy_ns = (self.by_density_ns.iter().zip(1u32..))
            .fold(0.0, |sum, (&ns, n)| sum + f64::from(n) * ns as f64);
        SmtMetrics {
            core_utilization: ratio(busy_ns, self.elapsed_ns as f64),
            lane_utilization: ratio(lane_busy_ns, self.lanes_ns as f64),
            thread_density: ratio(lane_busy_ns, busy_ns),
            capacity_factor: ratio(self.work_ns, busy_ns),
            max_capacity_factor: ratio(self.capacity_ns, self.elapsed_ns as f64),
            productivity: ratio(self.work_ns, self.busy_capacity_ns),
            mt_utilization: ratio(self.work_ns, self.capacity_ns),
            busy_ns,
            mt1_ns: self.work_ns,
            hardly_seen: self.hardly_seen(busy_ns),
        }
    }

    /// Of the densities on which the maximum capacity factor rests, 1 and T.
    fn hardly_seen(&self, busy_ns: f64) -> Vec<usize> {
        let all = self.by_density_ns.len();
        let rests_on = |lanes: &usize| *lanes == 1 || *lanes == all;
        let seen = |lanes: usize| {
            let ns = lanes.checked_sub(1).and_then(|i| self.by_density_ns.get(i));
            ns.is_some_and(|ns| *ns as f64 >= SEEN_SHARE_MIN * busy_ns && *ns > 0)
        };
        let lanes = (1..=all).filter(rests_on);
        lanes.filter(|lanes| all > 1 && !seen(*lanes)).collect()
    }
}

/// The metrics of a core or of several. Shares are of 1. `None` where nothing ran or no time passed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SmtMetrics {
    /// Share of the time during which at least one lane of a core was busy.
    pub core_utilization: Option<f64>,
    /// Share of the lanes' time during which they were busy.
    pub lane_utilization: Option<f64>,
    /// Lanes busy while a core was busy, 1 to T.
    pub thread_density: Option<f64>,
    /// Work done while a core was busy, relative to the core with SMT off.
    pub capacity_factor: Option<f64>,
    /// The capacity factor with all lanes busy.
    pub max_capacity_factor: Option<f64>,
    /// Work done while a core was busy, relative to all lanes busy. Above 1 where the cores do more with
    /// fewer lanes.
    pub productivity: Option<f64>,
    /// Work done, relative to all lanes always busy.
    pub mt_utilization: Option<f64>,
    /// Time during which at least one lane was busy, summed over cores, ns.
    pub busy_ns: f64,
    /// MT1-equivalent time: the work as time of cores with SMT off, ns.
    pub mt1_ns: f64,
    /// Of 1 and T, the numbers of lanes that were busy for less than [`SEEN_SHARE_MIN`] of the busy time:
    /// if rates were measured in this time, the capacity factors are uncertain.
    pub hardly_seen: Vec<usize>,
}

fn ratio(of: f64, to: f64) -> Option<f64> {
    (to > 0.0).then(|| of / to)
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
