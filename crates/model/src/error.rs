//! What is refused.

use crate::{CORES_MAX, LANES_MAX};

/// Input that makes no sense. Each message says what is allowed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// [`ThreadPerf`](crate::ThreadPerf) of no lane, or of too many.
    #[error("threadPerf has {0} numbers; give one for each lane of a core, 1 to {LANES_MAX}")]
    Lanes(usize),
    /// It begins with no speed.
    #[error(
        "threadPerf begins with {0}; the first number is a lane that runs alone: 1, or less where SMT costs \
         it something though its siblings are idle, and above 0"
    )]
    FirstLane(f64),
    /// A speed that is none.
    #[error("threadPerf of {lanes} lanes is {speed}; give a number above 0 and at most 1")]
    Speed {
        /// How many lanes run.
        lanes: usize,
        /// What was given.
        speed: f64,
    },
    /// More running lanes would make each of them faster.
    #[error(
        "threadPerf of {lanes} lanes, {speed}, is above that of one lane less; it may not increase"
    )]
    Increasing {
        /// How many lanes run.
        lanes: usize,
        /// What was given.
        speed: f64,
    },
    /// No core, or too many.
    #[error("{0} cores; give 1 to {CORES_MAX}")]
    Cores(u32),
    /// Utilisation that is none.
    #[error("utilisation {0}; give a number of at least 0, such as 0.3 for 30 %")]
    Utilization(f64),
    /// Utilisation of a lane that is none.
    #[error("utilisation {utilization} of lane {lane}; give a number from 0 to 1")]
    LaneUtilization {
        /// Which lane, from 1.
        lane: usize,
        /// What was given.
        utilization: f64,
    },
    /// Utilisations of more lanes than threadPerf has numbers.
    #[error("utilisations of {given} lanes, threadPerf of {lanes}; give at most so many")]
    LaneCount {
        /// Utilisations.
        given: usize,
        /// Numbers of threadPerf.
        lanes: usize,
    },
    /// No iteration is no result.
    #[error("0 iterations; give at least 1, or none to iterate until nothing changes")]
    Iterations,
    /// Only the source's model iterates.
    #[error("model {0} is not solved by iterations; give them with model source")]
    IterationsOf(&'static str),
    /// A sweep of one point is none.
    #[error("a sweep of {0} points; give 2 to 100000")]
    SweepPoints(usize),
    /// A window of no interval.
    #[error("a window of 0 intervals; give at least 1")]
    Window,
    /// A hysteresis that no level could overcome, or none at all.
    #[error("hysteresis {0}; give a share of the load from 0 to below 1, such as 0.05")]
    Hysteresis(f64),
    /// A gain that no level could have, or none at all.
    #[error("least gain {0}; give a share of the response from 0 to below 1, such as 0.02")]
    MinGain(f64),
    /// An SMT level that the cores do not have.
    #[error("SMT level {level}; give 1 to {lanes}, the lanes of a core")]
    Level {
        /// What was given.
        level: usize,
        /// Lanes of a core.
        lanes: usize,
    },
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
