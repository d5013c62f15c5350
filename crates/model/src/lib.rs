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
mod error;
mod evaluate;
mod governor;
mod lanes;
mod load;
mod machine;
mod placement;
mod render;
mod source;
mod sweep;

pub use error::{Error, Result};
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
