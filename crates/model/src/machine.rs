//! What the model is about: a machine and its load, checked.

use crate::{CORES_MAX, Error, LANES_MAX, Result};

/// threadPerf: the speed of a thread when n lanes of its core run, relative to a core with SMT off. The first is
/// below 1 where SMT costs something though the siblings are idle.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadPerf(Vec<f64>);

impl ThreadPerf {
    /// `speeds[n - 1]` is the speed when n lanes run: 1 to [`LANES_MAX`] numbers, none above the one
    /// before, all above 0 and at most 1.
    ///
    /// # Errors
    /// Anything else.
    pub fn new(speeds: Vec<f64>) -> Result<ThreadPerf> {
        let first = match speeds.first() {
            Some(first) if speeds.len() <= LANES_MAX => *first,
            _ => return Err(Error::Lanes(speeds.len())),
        };
        let is_speed = |speed: f64| speed > 0.0 && speed <= 1.0;
        if !is_speed(first) {
            return Err(Error::FirstLane(first));
        }
        let mut before = first;
        for (&speed, lanes) in speeds.iter().zip(1..) {
            if !is_speed(speed) {
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
}

/// Normalised utilisation: of the cores, if one lane of each did all the work with SMT off.
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
    /// Also at level 1.
    smt_stays_on: bool,
}

impl Machine {
    /// So many cores, 1 to [`CORES_MAX`]. Level 1 switches SMT off.
    ///
    /// # Errors
    /// No cores, or more.
    pub fn new(cores: u32, thread_perf: ThreadPerf) -> Result<Machine> {
        match (1..=CORES_MAX).contains(&cores) {
            true => Ok(Machine {
                cores,
                thread_perf,
                smt_stays_on: false,
            }),
            false => Err(Error::Cores(cores)),
        }
    }

    /// The same where level 1 only leaves lanes idle: what SMT costs a lane alone, it costs at that level, too.
    #[must_use]
    pub fn with_smt_on(self) -> Machine {
        Machine {
            smt_stays_on: true,
            ..self
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

    /// Speed of each lane of a core of which so many run, at a level, relative to a core with SMT off. 0 for no
    /// lane; more lanes than there are do what all do.
    pub fn speed(&self, level: usize, running: usize) -> f64 {
        let running = running.min(self.thread_perf.lanes());
        match running.checked_sub(1) {
            Some(0) if level <= 1 && !self.smt_stays_on => 1.0,
            Some(n) => self.thread_perf.0.get(n).copied().unwrap_or(0.0),
            None => 0.0,
        }
    }

    /// What a core does with so many lanes running at a level, in cores with SMT off: lanes × speed.
    pub fn core_rate(&self, level: usize, running: usize) -> f64 {
        running.min(self.thread_perf.lanes()) as f64 * self.speed(level, running)
    }

    /// The normalised utilisation that saturates it at the level that can do most.
    pub fn saturation(&self) -> f64 {
        let rates = (1..=self.thread_perf.lanes()).map(|level| self.core_rate(level, level));
        rates.fold(0.0, f64::max)
    }
}
