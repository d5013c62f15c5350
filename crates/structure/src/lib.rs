//! Reads the structure of the workspace from its sources: which crate needs which, and which module of a crate
//! names which; and of the scheduler, which header names which. `tests/house.rs` holds it to the plan in CONTRIBUTING.md and
//! to the contract of the scheduler's hooks; a part of the lint.
//!
//! Tests inside the modules are left out: they may look at anything.

mod crates;
mod modules;
mod prose;
mod scheduler;

pub use crates::{Member, members};
pub use modules::{Module, Modules, circles};
pub use prose::{Sentence, dead_links, sentences, words};
pub use scheduler::{Headers, folder_of};

/// What keeps the structure from being read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that is named and cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// A file that holds something else than it should.
    #[error("{path}: {what}")]
    Parse {
        /// The file.
        path: String,
        /// What is wrong.
        what: String,
    },
}
