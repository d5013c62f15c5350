//! What the lanes of the running scheduler do, by its lane signal.

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use sidelane_kernel::{attached, from_bytes};
use sidelane_policy::intf;
use sidelane_smt::snapshot::{Class, LaneState};
use std::collections::BTreeMap;

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
