//! The machine as the collector's tables.

use super::failed;
use crate::Error;
use crate::bpf::{MetricsSkel, OpenMetricsSkel, intf};
use libbpf_rs::{MapCore, MapFlags};
use sidelane_kernel::{Plain, attached, bytes_of, from_bytes, zeroed};
use sidelane_policy::intf::{core_ctx, lane_ctx, task_ctx};
use sidelane_topology::{CpuList, Topology};
use std::os::fd::AsFd;
use std::path::Path;

/// Records of a lane, and of the reader for a core: the one that holds, and the next.
const RECORDS: u32 = 2;

/// The scheduler's contexts of tasks: what they hold first is the class.
pub(crate) const SCHEDULER_TASKS: &[u8] = b"tasks";
const _: () = assert!(std::mem::offset_of!(task_ctx, class) == 0);

/// Its contexts of cores: they tell whether batch has to stay away.
const SCHEDULER_CORES: &[u8] = b"cores";

/// What the collector is told of cores and lanes, offline ones included.
pub(super) struct Tables {
    lanes: Vec<intf::metrics_lane>,
    cores: Vec<intf::metrics_core>,
    core_lanes: Vec<u32>,
    online: u32,
}

impl Tables {
    /// Lays out a machine.
    ///
    /// # Errors
    /// [`Error::TooLarge`] beyond the limits of `bpf/metrics_intf.h`.
    pub(super) fn new(topology: &Topology) -> Result<Tables, Error> {
        let no_core = intf::metrics_lane {
            core: NO_CORE,
            ..zeroed()
        };
        let mut tables = Tables {
            lanes: vec![no_core; topology.nr_cpu_ids()],
            cores: Vec::new(),
            core_lanes: Vec::new(),
            online: topology.online().len() as u32,
        };
        for core in topology.cores() {
            let first_lane = core.lanes.first().map_or(0, |lane| lane.cpu);
            check_limit("lanes in one core", core.lanes.len(), LANES_MAX)?;
            tables.cores.push(intf::metrics_core {
                first_lane: tables.core_lanes.len() as u32,
                nr_lanes: core.lanes.len() as u32,
                current: u64::from(first_lane * RECORDS),
                ..zeroed()
            });
            for lane in &core.lanes {
                tables.core_lanes.push(lane.cpu);
                if let Some(entry) = tables.lanes.get_mut(lane.cpu as usize) {
                    entry.core = core.index as u32;
                    entry.online = u8::from(topology.online().contains(lane.cpu));
                }
            }
        }
        check_limit("cores", tables.cores.len(), CORES_MAX)?;
        Ok(tables)
    }

    /// Notes the running scheduler's numbers of the cores. Its order is another, and cores without an
    /// online lane have none.
    ///
    /// # Errors
    /// Its lanes cannot be read.
    fn number_as_the_scheduler(&mut self) -> Result<(), Error> {
        let lanes = attached::map(b"lanes", size_of::<lane_ctx>())?;
        for core in &mut self.cores {
            let first = core.first_lane as usize;
            let own = self.core_lanes.get(first..first + core.nr_lanes as usize);
            let told = own.unwrap_or_default().iter().find_map(|cpu| {
                let bytes = lanes.lookup(&cpu.to_ne_bytes(), MapFlags::ANY).ok()??;
                from_bytes::<lane_ctx>(&bytes).filter(|lane| lane.online != 0)
            });
            core.scheduler_core = told.map_or(NO_CORE, |lane| lane.core);
        }
        Ok(())
    }

    /// Has the collector read the maps of Sidelane's scheduler. False: it is not attached, or cannot be read, of which
    /// `tell` hears.
    pub(super) fn share_scheduler(
        &mut self,
        open: &mut OpenMetricsSkel<'_>,
        tell: &mut dyn FnMut(String),
    ) -> Result<bool, Error> {
        let tasks = attached::map(SCHEDULER_TASKS, size_of::<task_ctx>());
        let cores = attached::map(SCHEDULER_CORES, size_of::<core_ctx>());
        let (tasks, cores) = match (tasks, cores) {
            (Ok(tasks), Ok(cores)) => (tasks, cores),
            (Err(error), _) | (_, Err(error)) => {
                if attached::is_attached() {
                    tell(format!("Classes of tasks are not known: {error}."));
                }
                return Ok(false);
            }
        };
        self.number_as_the_scheduler()?;
        let shared = (open.maps.tasks.reuse_fd(tasks.as_fd()))
            .and_then(|()| open.maps.cores.reuse_fd(cores.as_fd()));
        shared.map_err(failed("share the scheduler's maps with"))?;
        if let Some(rodata) = open.maps.rodata_data.as_mut() {
            rodata.classes = 1;
        }
        Ok(true)
    }

    /// Sizes the maps.
    pub(super) fn size(&self, open: &mut OpenMetricsSkel<'_>) -> Result<(), Error> {
        let lanes = self.lanes.len() as u32;
        let cores = self.cores.len() as u32;
        let maps = &mut open.maps;
        let sized = [
            maps.metrics_lanes.set_max_entries(lanes),
            maps.metrics_lane_view.set_max_entries(lanes),
            (maps.metrics_records).set_max_entries((lanes + cores) * RECORDS),
            maps.metrics_cores.set_max_entries(cores),
            maps.metrics_view.set_max_entries(cores),
            (maps.metrics_core_lanes).set_max_entries(self.core_lanes.len() as u32),
        ];
        let sized: Result<(), _> = sized.into_iter().collect();
        sized.map_err(failed("size the tables of"))?;
        if let Some(rodata) = maps.rodata_data.as_mut() {
            rodata.nr_cores = cores;
            rodata.nr_lanes = lanes;
            rodata.nr_online = self.online;
        }
        Ok(())
    }

    /// Fills them. All lanes count as idle until they are seen.
    pub(super) fn fill(&self, skel: &MetricsSkel<'_>) -> Result<(), Error> {
        fill(&skel.maps.metrics_lanes, &self.lanes)?;
        fill(&skel.maps.metrics_cores, &self.cores)?;
        fill(&skel.maps.metrics_core_lanes, &self.core_lanes)?;
        // the group of all those for which there is no room has to be there
        let nothing: intf::metrics_cgroup = zeroed();
        let map = &skel.maps.metrics_cgroups;
        let made = map.update(&0u64.to_ne_bytes(), bytes_of(&nothing), MapFlags::ANY);
        made.map_err(failed("fill the tables of"))
    }
}

const NO_CORE: u32 = intf::metrics_limits_METRICS_NO_CORE;
pub(crate) const LANES_MAX: u32 = intf::metrics_limits_METRICS_LANES_MAX;
const CORES_MAX: u32 = intf::metrics_limits_METRICS_CORES_MAX;

fn fill<T: Plain>(map: &impl MapCore, table: &[T]) -> Result<(), Error> {
    for (entry, key) in table.iter().zip(0u32..) {
        let filled = map.update(&key.to_ne_bytes(), bytes_of(entry), MapFlags::ANY);
        filled.map_err(failed("fill the tables of"))?;
    }
    Ok(())
}

pub(crate) fn check_limit(what: &'static str, found: usize, limit: u32) -> Result<(), Error> {
    let limit = limit as usize;
    match found <= limit {
        true => Ok(()),
        false => Err(Error::TooLarge { what, found, limit }),
    }
}

/// Lanes that are online, below a root.
pub(crate) fn online(root: &Path) -> Result<CpuList, Error> {
    let path = root.join("sys/devices/system/cpu/online");
    let text = std::fs::read_to_string(&path);
    let list = text.map_err(|e| e.to_string());
    let list = list.and_then(|text| text.trim().parse().map_err(|e| format!("{e}")));
    list.map_err(|e| Error::Metrics(format!("{}: {e}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidelane_topology::{Builder, CoreSpec};

    #[test]
    fn all_lanes_have_their_core() {
        let machine = Builder::new()
            .core(CoreSpec::new([0, 3]))
            .core(CoreSpec::new([1, 4, 5]).offline([5]))
            .build()
            .unwrap();
        let tables = Tables::new(&machine).unwrap();
        assert_eq!(tables.core_lanes, [0, 3, 1, 4, 5]);
        let cores: Vec<_> = tables.lanes.iter().map(|lane| lane.core).collect();
        assert_eq!(cores, [0, 1, NO_CORE, 0, 1, 1]);
        let online: Vec<_> = tables.lanes.iter().map(|lane| lane.online).collect();
        assert_eq!((online, tables.online), (vec![1, 1, 0, 1, 1, 0], 4));
        let ranges: Vec<_> = (tables.cores.iter())
            .map(|core| (core.first_lane, core.nr_lanes, core.current))
            .collect();
        assert_eq!(ranges, [(0, 2, 0), (2, 3, 2)]);
    }
}
