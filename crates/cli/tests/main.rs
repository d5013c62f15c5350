//! `sidelane` as it is typed: one program, in which each file but `guest.rs` is a module.
#![allow(clippy::unwrap_used, clippy::expect_used)] // Clippy spares test functions, but not their helpers.

mod control;
mod install;
mod machine;
mod model;
mod report;
mod run;
mod sim;
