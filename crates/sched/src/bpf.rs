//! Generated bindings: the BPF skeleton and the layouts of `bpf/intf.h`.
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

pub use sidelane_policy::intf;

include!(concat!(env!("OUT_DIR"), "/bpf_skel.rs"));

/// The tracer of lanes (`bpf/lanes.bpf.c`).
pub mod lanes {
    include!(concat!(env!("OUT_DIR"), "/lanes_skel.rs"));
}

/// The collector of metrics (`bpf/metrics.bpf.c`).
pub mod metrics {
    include!(concat!(env!("OUT_DIR"), "/metrics_skel.rs"));
}

/// Layouts of the collector of metrics (`bpf/metrics_intf.h`).
pub mod metrics_intf {
    include!(concat!(env!("OUT_DIR"), "/metrics_intf.rs"));
}

/// C structures of which any bytes are a valid value.
///
/// # Safety
/// Only for structures of integers without implicit padding.
pub unsafe trait Plain: Copy {}

// SAFETY: integers only; bpf/intf.h pads by name
unsafe impl Plain for u32 {}
unsafe impl Plain for intf::lane_ctx {}
unsafe impl Plain for intf::core_ctx {}
unsafe impl Plain for intf::rule {}
unsafe impl Plain for intf::budget {}
unsafe impl Plain for intf::fixed_settings {}
unsafe impl Plain for intf::live_settings {}
unsafe impl Plain for intf::counters {}
unsafe impl Plain for intf::objective {}
unsafe impl Plain for intf::budget_ipc {}
unsafe impl Plain for intf::cgroup_event {}
unsafe impl Plain for intf::cgroup_known {}
unsafe impl Plain for intf::cgroup_demand {}
unsafe impl Plain for intf::pool_limit {}
unsafe impl Plain for intf::pool {}
unsafe impl Plain for intf::pool_path {}
unsafe impl Plain for intf::lane_signal {}
unsafe impl Plain for u64 {}
unsafe impl Plain for types::task_ctx {}
unsafe impl Plain for metrics_intf::metrics_core {}
unsafe impl Plain for metrics_intf::metrics_lane {}
unsafe impl Plain for metrics_intf::density_record {}
unsafe impl Plain for metrics_intf::metrics_reading {}
unsafe impl Plain for metrics_intf::metrics_ended {}
unsafe impl Plain for metrics_intf::metrics_ended_key {}
unsafe impl Plain for metrics_intf::metrics_cgroup {}
unsafe impl Plain for metrics_intf::metrics_removed {}

/// A structure of zeros.
pub fn zeroed<T: Plain>() -> T {
    // SAFETY: any bytes are a valid T
    unsafe { std::mem::zeroed() }
}

/// The bytes of a structure.
pub fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: a shared view of plain data, as long as the reference
    unsafe { std::slice::from_raw_parts((value as *const T).cast(), size_of::<T>()) }
}

/// A structure from its bytes; none if there are too few.
pub fn from_bytes<T: Plain>(bytes: &[u8]) -> Option<T> {
    // SAFETY: long enough, and any bytes are a valid T
    (bytes.len() >= size_of::<T>())
        .then(|| unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}
