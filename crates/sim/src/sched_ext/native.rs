//! Bindings for the natively compiled scheduler and what it shares with the simulated kernel.
#![allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    dead_code,
    clippy::all
)]

include!(concat!(env!("OUT_DIR"), "/native.rs"));
