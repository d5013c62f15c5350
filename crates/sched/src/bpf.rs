//! Generated bindings: the BPF skeleton and the layouts of `bpf/intf.h`.
#![allow(
    missing_docs,
    dead_code,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unsafe_op_in_unsafe_fn,
    clippy::all,
    clippy::unwrap_used,
    clippy::expect_used
)]

/// Layouts shared with the BPF side.
pub mod intf {
    include!(concat!(env!("OUT_DIR"), "/bpf_intf.rs"));
}

include!(concat!(env!("OUT_DIR"), "/bpf_skel.rs"));
