//! The lane signal: what every lane runs, for programs to see.
//!
//! The BPF side is `see/signal.bpf.h`; [`Service`] hands it out.

mod jobs;
pub mod lanes;
mod service;
mod socket;

pub(crate) use jobs::Boards;
pub(crate) use service::Maps;
pub use service::Service;

use crate::Error;
use crate::bpf::{bytes_of, intf, zeroed};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use sidelane_runtime::wire;
use sidelane_topology::Topology;
use std::mem::offset_of;
use std::path::PathBuf;

// what programs read is what BPF writes
const _: () = {
    use intf::lane_signal as written;
    use wire::LaneSignal as read;
    assert!(size_of::<written>() == size_of::<read>());
    assert!(offset_of!(written, critical_beside) == offset_of!(read, critical_beside));
    assert!(offset_of!(written, state) == offset_of!(read, state));
    assert!(offset_of!(written, task) == offset_of!(read, task));
    assert!(offset_of!(written, critical) == offset_of!(read, critical));
    assert!(offset_of!(written, index) == offset_of!(read, index));
    assert!(offset_of!(written, next_lane) == offset_of!(read, next_lane));
    assert!(intf::lane_state_LANE_CRITICAL == wire::CRITICAL);
};

/// Where the service listens: `SIDELANE_SIGNAL_SOCKET`, or `/run/sidelane/signal.sock`.
pub fn socket_path() -> PathBuf {
    std::env::var_os(wire::SOCKET_VARIABLE)
        .map_or_else(|| wire::DEFAULT_SOCKET.into(), PathBuf::from)
}

/// The lines before anything runs: which lanes are one core.
fn lines(topology: &Topology) -> Vec<intf::lane_signal> {
    let mut lines = vec![zeroed::<intf::lane_signal>(); topology.nr_cpu_ids()];
    for core in topology.cores() {
        let cpus: Vec<u32> = core.cpus().iter().collect();
        for (index, &cpu) in cpus.iter().enumerate() {
            if let Some(line) = lines.get_mut(cpu as usize) {
                line.index = index as u32;
                line.next_lane = cpus[(index + 1) % cpus.len()];
                line.state = intf::lane_state_LANE_OTHER;
            }
        }
    }
    lines
}

/// Fills the lines of a map that was sized for them.
pub(crate) fn fill_lines(map: &impl MapCore, topology: &Topology) -> Result<(), Error> {
    for (cpu, line) in lines(topology).iter().enumerate() {
        map.update(&(cpu as u32).to_ne_bytes(), bytes_of(line), MapFlags::ANY)
            .map_err(|e| Error::Signal(format!("fill the lines: {e}")))?;
    }
    Ok(())
}

/// Another handle of a map, which another thread may use.
fn handle(map: &impl MapCore) -> libbpf_rs::Result<MapHandle> {
    MapHandle::from_map_id(map.info()?.info.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidelane_topology::{Builder, CoreSpec};

    #[test]
    fn lanes_of_a_core_form_a_ring_with_a_bit_each() {
        let topology = Builder::new()
            .core(CoreSpec::new([0, 2, 5]).offline([5]))
            .core(CoreSpec::new([3]))
            .build()
            .unwrap();
        let rings: Vec<_> = lines(&topology)
            .iter()
            .map(|line| (line.next_lane, line.index))
            .collect();
        assert_eq!(rings, [(2, 0), (0, 0), (5, 1), (3, 0), (0, 0), (0, 2)]);
    }
}
