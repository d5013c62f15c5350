//! What Sidelane decides, in one vocabulary: the classes of tasks, the scheduler's settings, and how both are
//! written in files.
//!
//! The scheduler's configuration (`sidelane run`) and scenarios (`sidelane sim`) read settings by the same
//! table, [`settings::rows`]: the same keys, ranges and messages. [`intf`] has what the scheduler's source in C
//! shares with Rust. This crate reads no file and no clock.

mod class;
pub mod file;
pub mod intf;
mod objective;
pub mod pool;
pub mod settings;
mod statistics;
mod words;

pub use class::Class;
pub use objective::Objective;
pub use pool::Charge;
pub use settings::{
    Borrow, Budget, Dispatching, Pairing, Polarization, Retention, Scope, Settings, StealBarriers,
    Symbiosis, UseCounters,
};

/// Most lanes that a core may have.
pub const LANES_MAX: usize = intf::limits_MAX_LANES_PER_CORE as usize;
