//! Queueing model of response times on a machine with SMT, by SMT level: how many lanes of each core
//! may run at once.
//!
//! One lane for each core is fast but makes tasks wait at high load; more lanes serve more tasks at
//! once, each of them slower. [`evaluate`] says which level answers soonest at a load. Pure functions:
//! no clock, no files, the same results on every machine.
//!
//! Times are in units of the mean service time of a task that has a core to itself, with SMT off. Load is
//! the *normalised utilisation*: the utilisation of the cores if only one lane of each were used, with SMT
//! off. It may be above 1 where more lanes do more work.
//!
//! Source: Inoue and Nakatani 2014, "Adaptive SMT Control for More Responsive Web Applications",
//! equations 1 to 8. [`Model`] lists the others.
//!
//! ```
//! use sidelane_model::{Machine, Options, ThreadPerf, Utilization, evaluate};
//!
//! let machine = Machine::new(16, ThreadPerf::new(vec![1.0, 0.6])?)?;
//! let at = |utilization| evaluate(&machine, utilization, Options::default());
//! assert_eq!(at(Utilization::new(0.3)?).best, 1);
//! assert_eq!(at(Utilization::new(0.95)?).best, 2);
//! # Ok::<(), sidelane_model::Error>(())
//! ```

mod chain;
mod evaluate;
mod governor;
mod lanes;
mod load;
mod machine;
mod placement;
mod render;
mod source;
mod sweep;

pub use evaluate::{Evaluation, Level, Model, Options, evaluate};
pub use governor::{Decision, Governor, GovernorConfig, Reason};
pub use lanes::{LaneOrder, normalized_utilization, running_lanes, utilization_from_busy};
pub use load::{Load, Normalization, load};
pub use machine::{Machine, ThreadPerf, Utilization};
pub use render::{sweep_text, text};
pub use source::PUBLISHED_ITERATIONS;
pub use sweep::{Crossover, SweepPoint, crossovers, sweep};

/// Most cores of a machine.
pub const CORES_MAX: u32 = 16_384;

/// Most lanes of a core.
pub const LANES_MAX: usize = 16;

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
