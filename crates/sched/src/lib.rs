//! The sched_ext scheduler and its loader.
//!
//! The policies are the C headers below `crates/policy/bpf/`, one a mechanism. This crate
//! compiles them to BPF, lays the machine out for them, loads them, keeps their
//! class rules current, and reads their counters.

mod adopt;
mod carried;
mod cgroup_path;
mod cgroups;
mod charge;
mod check;
pub mod config;
mod counters;
pub mod doctor;
mod error;
mod idle;
mod labelled;
mod layout;
mod loader;
mod pool;
mod printed;
mod resolve;
pub mod rules;
pub mod running;
pub mod signal;
pub mod stats;
pub mod status;
pub mod tune;

/// Generated bindings: the BPF skeleton and structures that it shares.
#[allow(
    missing_docs,
    dead_code,
    unused_imports,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unsafe_op_in_unsafe_fn,
    clippy::all,
    clippy::unwrap_used,
    clippy::expect_used
)]
mod bpf {
    pub use sidelane_kernel::{Plain, bytes_of, from_bytes, zeroed};
    pub use sidelane_policy::intf;

    include!(concat!(env!("OUT_DIR"), "/bpf_skel.rs"));

    // SAFETY: integers only, without implicit padding
    unsafe impl Plain for types::user_exit_info {}

    /// The tracer of lanes (`bpf/lanes.bpf.c`).
    pub mod lanes {
        include!(concat!(env!("OUT_DIR"), "/lanes_skel.rs"));
    }
}

pub use adopt::{News, restore};
pub use charge::{ChargeState, ChargedBy};
pub use check::{Check, Finds, PoolCheck, RuleCheck, check};
pub use config::Config;
pub use counters::NoCounters;
pub use error::{Error, ExitReason};
pub use loader::{Event, Outgrown, Requests, check_machine, run};
pub use pool::Pool;
pub use rules::{ClassRule, Rule, rules_of_flag};
pub use sidelane_kernel::pools::{PoolRates, PoolState};
pub use sidelane_policy::{
    Borrow, Budget, Charge, Class, Objective, Polarization, Scope, Settings,
};
