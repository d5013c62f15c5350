//! The demonstrations: servers, batch and pools measured under several setups of a machine.
//!
//! [`experiment`] says what a demonstration is, and measures it; it runs on the machine that is measured.
//! [`place`] is that machine: this one, or an emulated one. [`figures`] and [`table`] make a document and tables of
//! what is found. The demonstrations are [`plan::Plan`], the plain one, and one module each: [`io`], [`lanes`],
//! [`levels`], [`objective`], [`options`], [`pools`].

mod arguments;
pub mod arrivals;
pub mod batch;
pub mod compute;
pub mod driver;
mod error;
pub mod experiment;
pub mod figures;
pub mod io;
pub mod lanes;
pub mod levels;
pub mod lines;
pub mod machine;
pub mod multiply;
pub mod objective;
pub mod options;
pub mod place;
pub mod plan;
pub mod pools;
pub mod redis;
pub mod reference;
pub mod report;
pub mod resp;
pub mod results;
pub mod scheduler;
pub mod server;
pub mod sys;
pub mod table;
pub mod tracefs;
pub mod vm;

pub use error::{Error, Result};
