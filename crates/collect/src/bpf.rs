//! Generated bindings: the skeleton of the collector and the layouts of `bpf/metrics_intf.h`.
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

use sidelane_kernel::Plain;

include!(concat!(env!("OUT_DIR"), "/metrics_skel.rs"));

/// Layouts that the collector shares.
pub mod intf {
    include!(concat!(env!("OUT_DIR"), "/metrics_intf.rs"));
}

// SAFETY: integers only; bpf/metrics_intf.h pads by name
unsafe impl Plain for intf::metrics_core {}
unsafe impl Plain for intf::metrics_lane {}
unsafe impl Plain for intf::density_record {}
unsafe impl Plain for intf::metrics_reading {}
unsafe impl Plain for intf::metrics_ended {}
unsafe impl Plain for intf::metrics_ended_key {}
unsafe impl Plain for intf::metrics_cgroup {}
unsafe impl Plain for intf::metrics_removed {}
