//! What the model is about: a machine and its load, checked.

use crate::{CORES_MAX, Error, LANES_MAX, Result};

/// threadPerf: the speed of a thread when n lanes of its core run, relative to running alone.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadPerf(Vec<f64>);

impl ThreadPerf {
    /// `speeds[n - 1]` is the speed when n lanes run: 1 to [`LANES_MAX`] numbers, the first 1, none
    /// above the one before, all above 0.
    ///
    /// # Errors
    /// Anything else.
    pub fn new(speeds: Vec<f64>) -> Result<ThreadPerf> {
        let first = match speeds.first() {
            Some(first) if speeds.len() <= LANES_MAX => *first,
            _ => return Err(Error::Lanes(speeds.len())),
        };
        if first != 1.0 {
            return Err(Error::FirstLane(first));
        }
        let mut before = first;
        for (&speed, lanes) in speeds.iter().zip(1..) {
            if !(speed > 0.0 && speed <= 1.0) {
                return Err(Error::Speed { lanes, speed });
            }
            if speed > before {
                return Err(Error::Increasing { lanes, speed });
            }
            before = speed;
        }
        Ok(ThreadPerf(speeds))
    }

    /// Lanes of a core.
    pub fn lanes(&self) -> usize {
        self.0.len()
    }

    /// The speeds, `[n - 1]` when n lanes run.
    pub fn speeds(&self) -> &[f64] {
        &self.0
    }

    /// What a core does with n lanes running, in cores with one: n × threadPerf\[n\]. 0 for no lane;
    /// more lanes than there are do what all do.
    pub fn core_rate(&self, running: usize) -> f64 {
        let running = running.min(self.lanes());
        match running.checked_sub(1).and_then(|n| self.0.get(n)) {
            Some(speed) => running as f64 * speed,
            None => 0.0,
        }
    }

    /// The most that a core does, with however many lanes.
    fn core_rate_max(&self) -> f64 {
        let rates = (1..=self.lanes()).map(|n| self.core_rate(n));
        rates.fold(0.0, f64::max)
    }
}

/// Normalised utilisation: of the cores, if one lane of each did all the work.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Utilization(f64);

impl Utilization {
    /// Nothing to do.
    pub const NONE: Utilization = Utilization(0.0);

    /// At least 0; above 1 where more lanes do more work.
    ///
    /// # Errors
    /// Anything that is not a finite number of at least 0.
    pub fn new(value: f64) -> Result<Utilization> {
        match value.is_finite() && value >= 0.0 {
            true => Ok(Utilization(value.abs())), // no -0
            false => Err(Error::Utilization(value)),
        }
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// A machine of equal cores.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    cores: u32,
    thread_perf: ThreadPerf,
}

impl Machine {
    /// So many cores, 1 to [`CORES_MAX`].
    ///
    /// # Errors
    /// No cores, or more.
    pub fn new(cores: u32, thread_perf: ThreadPerf) -> Result<Machine> {
        match (1..=CORES_MAX).contains(&cores) {
            true => Ok(Machine { cores, thread_perf }),
            false => Err(Error::Cores(cores)),
        }
    }

    /// Cores.
    pub fn cores(&self) -> u32 {
        self.cores
    }

    /// How lanes slow each other down.
    pub fn thread_perf(&self) -> &ThreadPerf {
        &self.thread_perf
    }

    /// The normalised utilisation that saturates it at the level that can do most.
    pub fn saturation(&self) -> f64 {
        self.thread_perf.core_rate_max()
    }
}
