//! The machine as the BPF side's tables: lanes, cores, and the lanes of each core.

use crate::Error;
use crate::bpf::{intf, zeroed};
use crate::pool::Capacity;
use sidelane_topology::Topology;
use std::collections::BTreeMap;

/// Tables to load into the `lanes`, `cores` and `core_lanes` maps.
pub(crate) struct Layout {
    /// One entry per CPU number, offline ones included.
    pub lanes: Vec<intf::lane_ctx>,
    /// One entry per core with an online lane, the fastest kind first.
    pub cores: Vec<intf::core_ctx>,
    /// CPU numbers of online lanes, core after core.
    pub core_lanes: Vec<u32>,
    /// Most online lanes of any core.
    pub lanes_per_core_max: u32,
}

impl Layout {
    /// Lays out the online part of a machine.
    ///
    /// # Errors
    /// [`Error::TooLarge`] beyond the limits of `bpf/intf.h`.
    pub fn new(topology: &Topology) -> Result<Layout, Error> {
        let mut layout = Layout {
            lanes: vec![zeroed(); topology.nr_cpu_ids()],
            cores: Vec::new(),
            core_lanes: Vec::new(),
            lanes_per_core_max: 1,
        };
        let mut nodes = BTreeMap::new();
        let capacities = topology.tier_capacities();
        for core in topology.cores() {
            let online: Vec<u32> = core.online_lanes().map(|lane| lane.cpu).collect();
            if online.is_empty() {
                continue;
            }
            let next_node = nodes.len() as u32;
            let node = *nodes.entry((core.package, core.node)).or_insert(next_node);
            layout.push_core(capacities[core.tier], core.cache as u32, node, &online)?;
        }
        check_limit("cores", layout.cores.len(), intf::limits_MAX_CORES as usize)?;
        Ok(layout)
    }

    fn push_core(
        &mut self,
        capacity: u32,
        cache: u32,
        node: u32,
        cpus: &[u32],
    ) -> Result<(), Error> {
        check_limit(
            "lanes in one core",
            cpus.len(),
            intf::limits_MAX_LANES_PER_CORE as usize,
        )?;
        let index = self.cores.len() as u32;
        self.cores.push(intf::core_ctx {
            first_lane: self.core_lanes.len() as u32,
            nr_lanes: cpus.len() as u32,
            capacity,
            cache,
            node,
            ..zeroed()
        });
        for (in_core, &cpu) in (0..).zip(cpus) {
            if let Some(lane) = self.lanes.get_mut(cpu as usize) {
                lane.core = index;
                lane.online = 1;
                lane.index = in_core;
                // A lane that is idle from the start tells no change; a busy one soon does.
                lane.state = intf::lane_state_LANE_IDLE;
            }
        }
        self.core_lanes.extend_from_slice(cpus);
        self.lanes_per_core_max = self.lanes_per_core_max.max(cpus.len() as u32);
        Ok(())
    }
}

impl Layout {
    /// What pools share.
    pub fn capacity(&self) -> Capacity {
        Capacity {
            cores: self.cores.len(),
            lanes: self.core_lanes.len(),
        }
    }
}

fn check_limit(what: &'static str, found: usize, limit: usize) -> Result<(), Error> {
    if found > limit {
        Err(Error::TooLarge { what, found, limit })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidelane_topology::{Builder, CoreSpec};

    #[test]
    fn hybrid_cores_with_offline_lanes_are_laid_out_fastest_first() {
        let topology = Builder::new()
            .core(CoreSpec::new([4]).capacity(512))
            .core(CoreSpec::new([0, 1]).capacity(1024))
            .core(CoreSpec::new([2, 3]).capacity(1024).offline([3]))
            .core(CoreSpec::new([5]).capacity(512).offline([5]))
            .build()
            .unwrap();
        let layout = Layout::new(&topology).unwrap();
        assert_eq!(layout.core_lanes, [0, 1, 2, 4]);
        let shape: Vec<_> = layout
            .cores
            .iter()
            .map(|c| (c.first_lane, c.nr_lanes, c.capacity))
            .collect();
        assert_eq!(shape, [(0, 2, 1024), (2, 1, 1024), (3, 1, 512)]);
        assert_eq!(layout.lanes_per_core_max, 2);
        assert_eq!((layout.lanes[4].core, layout.lanes[4].online), (2, 1));
        assert_eq!(layout.lanes[3].online, 0);
        let in_core = [0, 1, 2].map(|cpu| layout.lanes[cpu].index);
        assert_eq!(in_core, [0, 1, 0]);
        assert_eq!(layout.lanes.len(), 6);
    }
}
