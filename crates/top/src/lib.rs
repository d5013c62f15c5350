//! A terminal's screen of a machine at work: cores as a map of lanes, tasks and cgroups to sort, and how
//! the tail of critical jobs goes.
//!
//! [`State`] holds what is shown, [`draw`] draws it, [`key`] changes it; none of them knows where samples
//! come from or does I/O. [`run`] is the loop around them on a real terminal.

mod keys;
mod map;
mod rows;
mod screen;
mod state;
mod terminal;

pub use keys::{After, key};
pub use rows::{Row, Sort};
pub use screen::draw;
pub use state::{LaneState, Sample, State, Table};
pub use terminal::{Error, run};

#[cfg(test)]
mod tests;
