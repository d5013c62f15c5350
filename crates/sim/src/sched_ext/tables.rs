//! What the scheduler's maps hold, as its loader lays a machine out, and the boards of programs that use the
//! runtime: batch that steps aside by itself, and jobs that are marked.

use super::native::{self, job_slot};
use super::settings::{Sidelane, rules};
use crate::engine::Engine;
use crate::task::{Mark, Task, TaskId};
use std::collections::BTreeMap;

pub(super) struct Tables {
    pub lanes: Vec<native::lane_ctx>,
    cores: Vec<native::core_ctx>,
    core_lanes: Vec<u32>,
    pub counters: Vec<native::counters>,
    rules: Vec<native::rule>,
    /// The simulator's timers have no state of their own.
    core_timers: Vec<u64>,
    pub objectives: Vec<native::objective>,
    lane_counts: Vec<native::lane_count>,
    pub ipcs: Vec<native::budget_ipc>,
    limits: Vec<native::pool_limit>,
    pub pools: Vec<native::pool>,
    /// `[n]`: a cgroup in pool n - 1; 0: in none.
    cgroups: Vec<native::cgroup_known>,
    demands: Vec<native::cgroup_demand>,
    /// Most online lanes of any core.
    pub widest: u32,
}

impl Tables {
    /// Lays out the lanes that are online, all of them idle.
    pub fn of(engine: &Engine, sidelane: &Sidelane) -> Tables {
        let nr_pools = sidelane.pools.len();
        let rules = rules();
        let nr_budgets = rules.len() + 1; // that of the settings, then one a rule
        let mut tables = Tables {
            lanes: vec![native::lane_ctx::default(); engine.machine.nr_lanes],
            cores: Vec::new(),
            core_lanes: Vec::new(),
            counters: vec![native::counters::default()],
            rules,
            core_timers: Vec::new(),
            objectives: vec![native::objective::default(); nr_budgets],
            lane_counts: vec![native::lane_count::default(); engine.machine.nr_lanes],
            ipcs: vec![native::budget_ipc::default(); nr_budgets],
            limits: sidelane.pools.iter().map(|pool| pool.native()).collect(),
            pools: vec![native::pool::default(); nr_pools],
            cgroups: sidelane.cgroups(),
            demands: vec![native::cgroup_demand::default(); nr_pools + 1],
            widest: 1,
        };
        for core in &engine.machine.cores {
            let is_online = |cpu: &u32| engine.lanes[*cpu as usize].online;
            let online: Vec<u32> = core.lanes.iter().copied().filter(is_online).collect();
            if online.is_empty() {
                continue;
            }
            let index = tables.cores.len() as u32;
            tables.cores.push(native::core_ctx {
                first_lane: tables.core_lanes.len() as u32,
                nr_lanes: online.len() as u32,
                capacity: core.tier_capacity,
                cache: core.cache,
                node: core.node,
                ..native::core_ctx::default()
            });
            for (in_core, &cpu) in (0..).zip(&online) {
                let lane = &mut tables.lanes[cpu as usize];
                lane.core = index;
                lane.online = 1;
                lane.index = in_core;
                lane.state = native::lane_state_LANE_IDLE;
            }
            tables.widest = tables.widest.max(online.len() as u32);
            tables.core_lanes.extend_from_slice(&online);
        }
        tables.core_timers = vec![0; native::timers(tables.cores.len() as u32) as usize];
        tables
    }

    /// Number of cores with a lane that is online.
    pub fn nr_cores(&self) -> u32 {
        self.cores.len() as u32
    }

    /// How many critical tasks each core expects.
    pub fn expected(&self) -> impl Iterator<Item = u32> {
        self.cores.iter().map(|core| core.expected)
    }

    /// Lends the tables to this thread's scheduler; they must stay where they are.
    pub fn lend(&mut self) {
        fn lend<T>(map: native::native_map, table: &mut [T]) {
            // SAFETY: the scheduler uses the table only while the simulation that owns it operates.
            unsafe {
                native::native_set_table(map, table.as_mut_ptr().cast(), table.len() as u32);
            }
        }
        lend(native::native_map_LANES, &mut self.lanes);
        lend(native::native_map_CORES, &mut self.cores);
        lend(native::native_map_CORE_LANES, &mut self.core_lanes);
        lend(native::native_map_COUNTERS, &mut self.counters);
        lend(native::native_map_RULES, &mut self.rules);
        lend(native::native_map_CORE_TIMERS, &mut self.core_timers);
        lend(native::native_map_OBJECTIVES, &mut self.objectives);
        lend(native::native_map_LANE_COUNTS, &mut self.lane_counts);
        lend(native::native_map_BUDGET_IPCS, &mut self.ipcs);
        lend(native::native_map_POOL_LIMITS, &mut self.limits);
        lend(native::native_map_POOLS, &mut self.pools);
    }

    /// What wants to run in a cgroup, but for the root.
    pub fn demand(&mut self, id: u64) -> *mut native::cgroup_demand {
        let demand = self.demands.get_mut(id as usize).filter(|_| id > 0);
        demand.map_or(std::ptr::null_mut(), |demand| &raw mut *demand)
    }

    /// What is known of a cgroup.
    pub fn cgroup(&mut self, id: u64) -> *mut native::cgroup_known {
        let known = self.cgroups.get_mut(id as usize);
        known.map_or(std::ptr::null_mut(), |known| &raw mut *known)
    }
}

const SLOTS: usize = native::job_board_limits_JOB_SLOTS as usize;

/// The slots of all tasks that tell anything. Tasks beyond the slots tell nothing.
#[derive(Default)]
pub(super) struct Boards {
    slots: Vec<job_slot>,
    /// What tasks mark as soon as they run.
    next: BTreeMap<TaskId, Mark>,
}

impl Boards {
    /// A task appears. One that naps does so all the time, as far as it tells, so that a sleep is a nap.
    pub fn appears(&mut self, id: TaskId, task: &Task) {
        if task.spec.naps {
            self.tell(id, |slot| slot.naps = 1);
        }
    }

    /// A job is marked: now if the task runs, else when it does.
    pub fn mark(&mut self, id: TaskId, mark: Mark, runs: bool) {
        match runs {
            true => self.write(id, mark),
            false => {
                self.next.insert(id, mark);
            }
        }
    }

    /// The task begins to run.
    pub fn runs(&mut self, id: TaskId) {
        if let Some(mark) = self.next.remove(&id) {
            self.write(id, mark);
        }
    }

    fn write(&mut self, id: TaskId, mark: Mark) {
        self.tell(id, |slot| match mark {
            Mark::Begins {
                began_ns,
                deadline_ns,
            } => (slot.began_ns, slot.deadline_ns) = (began_ns, deadline_ns),
            Mark::Ends { latency_ns } => {
                let place = slot.ended as usize % slot.latencies.len();
                if let Some(latency) = slot.latencies.get_mut(place) {
                    let unit = u64::from(native::job_board_limits_JOB_LATENCY_NS);
                    *latency = u32::try_from(latency_ns / unit).unwrap_or(u32::MAX);
                }
                slot.began_ns = 0;
                slot.ended += 1;
            }
        });
    }

    /// What the task writes into its slot.
    pub fn tell(&mut self, id: TaskId, change: impl FnOnce(&mut job_slot)) {
        let tid = id.0 + 1;
        if tid as usize >= SLOTS {
            return;
        }
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, job_slot::default());
            // SAFETY: taken back before they go; they are never more
            unsafe { lend(self.slots.as_mut_ptr(), SLOTS) };
        }
        if let Some(slot) = self.slots.get_mut(tid as usize) {
            slot.tid = tid;
            change(slot);
        }
    }
}

impl Drop for Boards {
    fn drop(&mut self) {
        if !self.slots.is_empty() {
            // SAFETY: nobody looks at none
            unsafe { lend(std::ptr::null_mut(), 0) };
        }
    }
}

unsafe fn lend(slots: *mut job_slot, count: usize) {
    let map = native::native_map_JOB_SLOTS_OF_ALL;
    // SAFETY: the caller's
    unsafe { native::native_set_table(map, slots.cast(), count as u32) };
}
