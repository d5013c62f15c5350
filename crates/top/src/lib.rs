//! A terminal's screen of a machine at work: cores as a map of lanes, tasks and cgroups to sort, and how
//! the tail of critical jobs goes.
//!
//! [`State`] holds what is shown, [`draw`] draws it, [`key`] changes it; none of them knows where samples
//! come from or does I/O. [`Screen`] is a real terminal with them.

mod rows;
mod screen;
mod state;
mod terminal;

pub use rows::Table;
pub use rows::{Row, Sort};
pub use screen::draw;
pub use state::{After, Sample, State, key};
pub use terminal::{Error, Screen};

#[cfg(test)]
mod tests;
