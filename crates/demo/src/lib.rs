//! The demonstration: a server beside batch work, under several schedulers.
//!
//! Two parts. The measuring part ([`driver`]) runs on the machine that is measured and tells what it finds
//! as [`message`]s. The reporting part runs where the user is: [`experiment`] boots the emulated machine
//! and collects the messages, [`results`] makes figures of them, [`report`] renders these.

pub mod arrivals;
pub mod batch;
pub mod clock;
pub mod compute;
pub mod driver;
mod error;
pub mod experiment;
pub mod io;
pub mod lanes;
pub mod levels;
pub mod lines;
pub mod machine;
pub mod message;
pub mod multiply;
pub mod objective;
pub mod options;
pub mod plan;
pub mod pools;
pub mod redis;
pub mod reference;
pub mod report;
pub mod resp;
pub mod results;
pub mod scheduler;
pub mod server;
pub mod setups;
pub mod sys;
pub mod text;
pub mod tracefs;
mod turns;
pub mod vm;

pub use error::{Error, Result};
