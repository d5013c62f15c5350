//! What this machine tells of its lanes.
//!
//! - [`collector`]: totals from which SMT metrics follow, by tracing or sampling, beside any scheduler.
//! - [`watch`]: intervals of it, one after the other; [`record`]: in a file.
//! - [`tasks`]: what retention and pairing know of each task.
//! - [`Lanes`]: what the lanes of the running scheduler do.
//! - [`service`]: what one service meets there: waits, densities, what runs beside it.
//! - [`proc_stat`]: how busy each lane is, by the kernel's own account.
//! - [`counters`]: instructions of each lane, by hardware counters.

pub mod collector;
pub mod counters;
pub mod proc_stat;
pub mod record;
pub mod service;
pub mod tasks;
pub mod watch;

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use sidelane_kernel::{attached, from_bytes};
use sidelane_policy::intf;
use sidelane_smt::snapshot::{Class, LaneState};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Generated bindings: the skeletons of the collector and of what watches a service, and the layouts of `bpf/metrics_intf.h`.
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
    use sidelane_kernel::Plain;

    include!(concat!(env!("OUT_DIR"), "/metrics_skel.rs"));

    /// What watches a service.
    pub mod service {
        include!(concat!(env!("OUT_DIR"), "/service_skel.rs"));
    }

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
    unsafe impl Plain for intf::service_task {}
    unsafe impl Plain for intf::service_lane {}
    unsafe impl Plain for intf::service_core {}
    unsafe impl Plain for intf::service_totals {}
}

/// An error of the collector; each names the place and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No privilege, or no running scheduler that can be read.
    #[error(transparent)]
    Kernel(#[from] sidelane_kernel::Error),
    /// The machine's topology cannot be read.
    #[error(transparent)]
    Topology(#[from] sidelane_topology::ReadError),
    /// This machine is larger than the collector's tables.
    #[error(
        "this machine has {found} {what}, the collector handles at most {limit}; raise the limit in bpf/metrics_intf.h and rebuild"
    )]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many there may be.
        limit: usize,
    },
    /// Sampling looks at a variable whose address the kernel does not tell.
    #[error(
        "{}: the kernel tells no address of {symbol}, which --sample looks at; boot one built with CONFIG_KALLSYMS_ALL=y, \
         or leave --sample out: tracing needs no address",
        path.display()
    )]
    NoAddress {
        /// Where it would stand.
        path: PathBuf,
        /// The variable.
        symbol: &'static str,
    },
    /// Metrics cannot be collected.
    #[error("the metrics: {0}")]
    Metrics(String),
}

impl Error {
    /// Is the machine (kernel, privilege) at fault rather than the input?
    pub fn is_machine(&self) -> bool {
        match self {
            Error::Kernel(error) => error.is_machine(),
            Error::TooLarge { .. } | Error::NoAddress { .. } => true,
            Error::Topology(_) | Error::Metrics(_) => false,
        }
    }
}

/// What the lanes of the running scheduler do.
pub struct Lanes(MapHandle);

impl Lanes {
    /// Of the scheduler that is attached, if it is Sidelane's.
    pub fn open() -> Option<Lanes> {
        let map = attached::map(b"lane_signals", size_of::<intf::lane_signal>());
        map.ok().map(Lanes)
    }

    /// By CPU number.
    pub fn states(&self, cpus: impl Iterator<Item = u32>) -> BTreeMap<u32, LaneState> {
        let state = |cpu: u32| {
            let bytes = self.0.lookup(&cpu.to_ne_bytes(), MapFlags::ANY).ok()??;
            Some((
                cpu,
                state_of(from_bytes::<intf::lane_signal>(&bytes)?.state),
            ))
        };
        cpus.filter_map(state).collect()
    }
}

fn state_of(state: u32) -> LaneState {
    match state {
        intf::lane_state_LANE_CRITICAL => LaneState::Runs(Class::Critical),
        intf::lane_state_LANE_NORMAL => LaneState::Runs(Class::Normal),
        intf::lane_state_LANE_BATCH => LaneState::Runs(Class::Batch),
        intf::lane_state_LANE_IDLE => LaneState::Idle,
        _ => LaneState::Unknown,
    }
}
