//! Generated bindings: the BPF skeleton and structures that it shares.
#![allow(
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

pub use sidelane_kernel::{Plain, bytes_of, from_bytes, zeroed};
pub use sidelane_policy::intf;

include!(concat!(env!("OUT_DIR"), "/bpf_skel.rs"));

// SAFETY: integers only, without implicit padding
unsafe impl Plain for types::user_exit_info {}

/// The tracer of lanes (`bpf/lanes.bpf.c`).
pub mod lanes {
    include!(concat!(env!("OUT_DIR"), "/lanes_skel.rs"));
}
