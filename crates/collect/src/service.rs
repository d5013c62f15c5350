//! What one service meets on its lanes: waits, densities, and what runs beside it; under any scheduler.
//!
//! `bpf/service.bpf.c` counts it. Nothing is pinned: the kernel forgets it when the watch ends.

use crate::Error;
use crate::bpf::intf;
use crate::bpf::service::{OpenServiceSkel, ServiceSkel, ServiceSkelBuilder};
use crate::collector::tables::{LANES_MAX, check_limit};
use crate::collector::{Place, entries, latencies, now_ns};
use crate::counters::LaneCounters;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, ProgramInput};
use nix::time::ClockId;
use sidelane_kernel::{
    Need, Plain, Urgent, allowed, bytes_of, cgroups, from_bytes, switch_everywhere, zeroed,
};
use sidelane_smt::service::{Beside, Group, Seen, Work, Works};
use sidelane_topology::Topology;
use std::collections::HashMap;
use std::path::Path;

/// Whose figures are wanted: ids of cgroups. Those made below them later belong to them, too.
#[derive(Clone, Debug, Default)]
pub struct Members {
    /// Of the service.
    pub service: Vec<u64>,
    /// Of other work that is counted; may be none.
    pub batch: Vec<u64>,
}

/// A running watch.
pub struct ServiceWatch<'a> {
    _links: [Link; 4],
    skel: ServiceSkel<'a>,
    topology: Topology,
    begun_ns: u64,
    /// They count as long as they are open.
    counters: Result<LaneCounters, String>,
}

impl<'a> ServiceWatch<'a> {
    /// Starts to count.
    ///
    /// # Errors
    /// No privilege, or a kernel without what is needed.
    pub fn start(members: &Members, place: &'a mut Place) -> Result<ServiceWatch<'a>, Error> {
        allowed(Need::Load).map_err(sidelane_kernel::Error::from)?;
        sidelane_kernel::prepare();
        let topology = Topology::read(Path::new("/"))?;
        let online: Vec<u32> = topology.online().iter().collect();
        let counters = LaneCounters::instructions(&online).map_err(|e| e.to_string());
        let builder = ServiceSkelBuilder::default();
        let mut open = builder.open(place.memory()).map_err(failed("open"))?;
        // what the library of sched_ext adds for schedulers; kernels without sched_ext refuse it
        for mut program in open.open_object_mut().progs_mut() {
            let ours = program.name().to_string_lossy().starts_with("service_");
            program.set_autoload(ours);
        }
        let lanes = size(&mut open, &topology, counters.is_ok())?;
        let urgent = Urgent::begin();
        let mut skel = open.load().map_err(failed("load"))?;
        drop(urgent);
        fill(&skel, &topology, lanes, members)?;
        if let Ok(counters) = &counters {
            for (cpu, fd) in counters.descriptors() {
                put(&skel.maps.service_events, &cpu, &fd.to_ne_bytes())?;
            }
        }
        let progs = &skel.progs;
        let links = [
            progs.service_switch.attach_trace(),
            progs.service_wakeup.attach_trace(),
            progs.service_wakeup_new.attach_trace(),
            progs.service_mkdir.attach_trace(),
        ];
        let [a, b, c, d] = links.map(|link| link.map_err(failed("attach")));
        let links = [a?, b?, c?, d?];
        switch_everywhere(&topology);
        let begun_ns = now_ns(ClockId::CLOCK_MONOTONIC)?;
        if let Some(data) = skel.maps.data_service_data.as_mut() {
            // SAFETY: one aligned word of a mapping that the kernel reads, too
            unsafe { std::ptr::write_volatile(&raw mut data.control.began_ns, begun_ns) };
        }
        let mut watch = ServiceWatch {
            _links: links,
            skel,
            topology,
            begun_ns,
            counters,
        };
        watch.charge()?;
        Ok(watch)
    }

    /// What was counted since the start.
    ///
    /// # Errors
    /// The kernel refuses to tell it.
    pub fn read(&mut self) -> Result<Seen, Error> {
        let mut seen = self.totals()?;
        seen.beside = self.beside()?;
        Ok(seen)
    }

    /// The same without what ran beside it: much less work.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn totals(&mut self) -> Result<Seen, Error> {
        self.charge()?;
        let elapsed_ns = now_ns(ClockId::CLOCK_MONOTONIC)?.saturating_sub(self.begun_ns);
        let cores = self.topology.cores().iter();
        let lanes_per_core = cores.map(|core| core.online_lanes().count()).max();
        let (unlisted_ns, strangers) = self.left_out();
        let mut notes: Vec<String> = self.counters.as_ref().err().cloned().into_iter().collect();
        if strangers > 0 {
            notes.push(format!(
                "{strangers} cgroups below it were not counted: there are too many"
            ));
        }
        Ok(Seen {
            elapsed_ns,
            cores: self.topology.cores().len(),
            lanes_per_core: lanes_per_core.unwrap_or(1),
            service: self.group(intf::service_groups_SERVICE_ITSELF)?,
            batch: self.group(intf::service_groups_SERVICE_BATCH)?,
            beside: Vec::new(),
            unlisted_ns,
            notes,
        })
    }

    /// Has the kernel charge what runs now.
    fn charge(&mut self) -> Result<(), Error> {
        let ran = (self.skel.progs.service_read).test_run(ProgramInput::default());
        ran.map(drop).map_err(failed("read"))
    }

    fn left_out(&self) -> (u64, u64) {
        let data = self.skel.maps.data_service_data.as_ref();
        // SAFETY: aligned words of a mapping that the kernel writes
        data.map_or((0, 0), |data| unsafe {
            let control = &data.control;
            (
                std::ptr::read_volatile(&raw const control.unlisted_ns),
                std::ptr::read_volatile(&raw const control.strangers),
            )
        })
    }

    fn group(&self, group: u32) -> Result<Group, Error> {
        let map = &self.skel.maps.service_totals;
        let read = map.lookup_percpu(&group.to_ne_bytes(), MapFlags::ANY);
        let lanes = read.map_err(failed("read"))?.unwrap_or_default();
        let lanes = lanes.iter().filter_map(|bytes| from_bytes(bytes));
        let mut sum = Group::default();
        for totals in lanes {
            add(&mut sum, &totals);
        }
        if self.counters.is_err() {
            sum.works = None;
        }
        Ok(sum)
    }

    /// By what, the most first.
    fn beside(&self) -> Result<Vec<Beside>, Error> {
        let mount = cgroups::mount_point(Path::new("/")).ok().flatten();
        let paths = mount.map(|mount| cgroups::list(&mount)).unwrap_or_default();
        let entries = entries::<intf::service_task, u64>(&self.skel.maps.service_others)?;
        let mut by_name: HashMap<(Option<String>, String), u64> = HashMap::new();
        for (task, ns) in entries {
            let bytes = task.comm.iter().map(|&c| c as u8);
            let comm: Vec<u8> = bytes.take_while(|&c| c != 0).collect();
            let name = kind_of(&String::from_utf8_lossy(&comm));
            *by_name
                .entry((paths.get(&task.cgroup).cloned(), name))
                .or_default() += ns;
        }
        let all = by_name.into_iter();
        let mut all: Vec<Beside> = all
            .map(|((cgroup, name), ns)| Beside { cgroup, name, ns })
            .collect();
        all.sort_by(|a, b| (b.ns, &a.cgroup, &a.name).cmp(&(a.ns, &b.cgroup, &b.name)));
        Ok(all)
    }
}

/// Threads of the kernel that only their numbers tell apart are one: `kworker/0:1-events` is `kworker`.
fn kind_of(comm: &str) -> String {
    match comm.split_once('/') {
        Some((kind, _)) if !kind.is_empty() => kind.to_owned(),
        _ => comm.to_owned(),
    }
}

fn add(sum: &mut Group, totals: &intf::service_totals) {
    let densities = totals.by_density_ns.iter().skip(1).copied();
    let last = (totals.by_density_ns.iter().skip(1)).rposition(|ns| *ns > 0);
    let used = last.map_or(0, |last| last + 1).max(sum.by_density_ns.len());
    sum.by_density_ns.resize(used, 0);
    for (sum, ns) in sum.by_density_ns.iter_mut().zip(densities) {
        *sum += ns;
    }
    sum.runs += totals.runs;
    sum.waiting_ns += totals.waiting_ns;
    sum.waits.merge(&latencies(totals.waits.iter().copied()));
    let works = sum.works.get_or_insert_with(Works::default);
    let add = |sum: &mut Work, work: &intf::service_work| {
        sum.ns += work.ns;
        sum.instructions += work.instructions;
    };
    add(&mut works.all, &totals.all);
    add(&mut works.alone, &totals.alone);
    add(&mut works.beside, &totals.beside);
}

fn failed<E: std::fmt::Display>(step: &'static str) -> impl Fn(E) -> Error {
    move |error| {
        let details = sidelane_kernel::warnings();
        Error::Metrics(format!(
            "cannot {step} what watches the service: {error}\n{details}"
        ))
    }
}

/// Sizes the maps. Returns the lanes, each with its core.
fn size(
    open: &mut OpenServiceSkel<'_>,
    topology: &Topology,
    counted: bool,
) -> Result<Vec<intf::service_lane>, Error> {
    let no_core = intf::service_lane {
        core: intf::metrics_limits_METRICS_NO_CORE,
        ..zeroed()
    };
    let mut lanes = vec![no_core; topology.nr_cpu_ids()];
    for core in topology.cores() {
        check_limit("lanes in one core", core.lanes.len(), LANES_MAX)?;
        for lane in &core.lanes {
            if let Some(entry) = lanes.get_mut(lane.cpu as usize) {
                entry.core = core.index as u32;
            }
        }
    }
    let nr_lanes = lanes.len() as u32;
    let nr_cores = topology.cores().len() as u32;
    let maps = &mut open.maps;
    let sized = [
        maps.service_lanes.set_max_entries(nr_lanes),
        maps.service_events.set_max_entries(nr_lanes),
        maps.service_cpus.set_max_entries(nr_lanes),
        maps.service_cores.set_max_entries(nr_cores),
    ];
    let sized: Result<(), _> = sized.into_iter().collect();
    sized.map_err(failed("size the tables of"))?;
    if let Some(rodata) = maps.rodata_data.as_mut() {
        rodata.nr_cores = nr_cores;
        rodata.counted = counted.into();
    }
    Ok(lanes)
}

/// Fills the maps.
fn fill(
    skel: &ServiceSkel<'_>,
    topology: &Topology,
    lanes: Vec<intf::service_lane>,
    members: &Members,
) -> Result<(), Error> {
    for (lane, cpu) in lanes.iter().zip(0u32..) {
        put(&skel.maps.service_lanes, &cpu, bytes_of(lane))?;
    }
    let mut at = 0u32;
    for core in topology.cores() {
        let entry = intf::service_core {
            first_lane: at,
            nr_lanes: core.lanes.len() as u32,
            ..zeroed()
        };
        put(
            &skel.maps.service_cores,
            &(core.index as u32),
            bytes_of(&entry),
        )?;
        for lane in &core.lanes {
            put(&skel.maps.service_cpus, &at, &lane.cpu.to_ne_bytes())?;
            at += 1;
        }
    }
    let groups = [
        // a cgroup that both name is the service's
        (intf::service_groups_SERVICE_BATCH, &members.batch),
        (intf::service_groups_SERVICE_ITSELF, &members.service),
    ];
    for (group, ids) in groups {
        for id in ids {
            put(&skel.maps.service_members, id, &group.to_ne_bytes())?;
        }
    }
    Ok(())
}

fn put(map: &impl MapCore, key: &impl Plain, value: &[u8]) -> Result<(), Error> {
    let put = map.update(bytes_of(key), value, MapFlags::ANY);
    put.map_err(failed("fill the tables of"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_the_kernel_are_told_by_kind() {
        assert_eq!(kind_of("kworker/0:1-ev"), "kworker");
        assert_eq!(kind_of("redis-server"), "redis-server");
        assert_eq!(kind_of("/odd"), "/odd");
    }

    #[test]
    fn totals_of_lanes_add_up() {
        let mut one: intf::service_totals = zeroed();
        (one.by_density_ns[1], one.by_density_ns[2]) = (5, 7);
        (one.runs, one.waits[0], one.alone.ns) = (2, 3, 9);
        let mut sum = Group::default();
        add(&mut sum, &one);
        add(&mut sum, &one);
        assert_eq!(sum.by_density_ns, [10, 14]);
        assert_eq!((sum.runs, sum.waits.count()), (4, 6));
        assert_eq!(sum.works.unwrap().alone.ns, 18);
    }
}
