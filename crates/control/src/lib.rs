//! The control daemon: reads how busy lanes are, asks the model, sets the SMT level.
//!
//! [`run`] is the daemon. The policy is [`sidelane_model::Governor`]; here are its inputs
//! (`/proc/stat`, or the scheduler's counters), the [`Actuator`]s, and the state file by which what
//! was found is restored, also after a crash.
//!
//! [`service`] says what SMT costs one service, and [`trial`] compares the kernel's default, SMT level 1 and
//! Sidelane for it, on the live machine.
//!
//! Source: Inoue and Nakatani 2014, "Adaptive SMT Control for More Responsive Web Applications",
//! section IV.

mod actuator;
mod cpusets;
mod daemon;
mod error;
mod exposition;
mod files;
pub mod lanes;
mod learner;
mod sampler;
pub mod service;
mod settings;
mod state;
#[cfg(test)]
#[allow(clippy::unwrap_used, missing_docs)]
mod testing;
pub mod trial;

pub use actuator::{Actuator, ActuatorKind, DryRun, Found, SchedulerCap, Sysfs};
pub use cpusets::FoundCpusets;
pub use daemon::{Event, Outcome, restore, run};
pub use error::{Error, Result};
pub use settings::{PUBLISHED_NORMALIZATION, Settings};
pub use sidelane_model::Normalization;
pub use state::DEFAULT_PATH as DEFAULT_STATE_PATH;
