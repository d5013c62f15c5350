//! The online lanes in levels, each balanced by itself: core, cache, node, machine (the kernel's
//! domains SMT, MC, PKG and NUMA), and which lanes are idle.

use super::lane_set::LaneSet;
use crate::engine::Engine;
use std::collections::BTreeMap;

const MS_NS: u64 = 1_000_000;

/// What the groups of a domain share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// A core; groups are its lanes.
    Core,
    /// A last-level cache; groups are cores.
    Cache,
    /// A node; groups are last-level caches.
    Node,
    /// Everything; groups are nodes.
    Machine,
}

/// Lanes among whose groups load is balanced.
#[derive(Debug)]
pub(super) struct Domain {
    pub level: Level,
    pub lanes: LaneSet,
    pub groups: Vec<LaneSet>,
    /// Between two balancings, ns: 1 ms a lane.
    pub period_ns: u64,
}

/// Where an online lane is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Position {
    core: usize,
    cache: usize,
    node: usize,
}

/// The online lanes.
#[derive(Debug)]
pub(super) struct Layout {
    pub online: LaneSet,
    /// Inner ones first.
    pub domains: Vec<Domain>,
    /// By CPU number: its domains, inner ones first.
    pub domains_of: Vec<Vec<usize>>,
    positions: Vec<Position>,
    /// Online lanes of each core.
    cores: Vec<LaneSet>,
    /// Online lanes of each last-level cache.
    caches: Vec<LaneSet>,
}

impl Layout {
    pub fn of(engine: &Engine) -> Layout {
        let nr_lanes = engine.machine.nr_lanes;
        let machine_cores = &engine.machine.cores;
        let set = || LaneSet::new(nr_lanes);
        let nr_caches = machine_cores
            .iter()
            .map(|core| core.cache as usize + 1)
            .max();
        let mut layout = Layout {
            online: set(),
            domains: Vec::new(),
            domains_of: vec![Vec::new(); nr_lanes],
            positions: vec![Position::default(); nr_lanes],
            cores: vec![set(); machine_cores.len()],
            caches: vec![set(); nr_caches.unwrap_or(0)],
        };
        for cpu in (0..nr_lanes as u32).filter(|&cpu| engine.lane(cpu).is_some()) {
            let core = engine.lanes[cpu as usize].core;
            let cache = machine_cores[core].cache as usize;
            let node = machine_cores[core].node as usize;
            layout.positions[cpu as usize] = Position { core, cache, node };
            layout.online.set(cpu, true);
            layout.cores[core].set(cpu, true);
            layout.caches[cache].set(cpu, true);
        }
        for level in [Level::Core, Level::Cache, Level::Node, Level::Machine] {
            layout.add_level(level, nr_lanes);
        }
        layout
    }

    /// Adds the domains of a level that have anything to balance.
    fn add_level(&mut self, level: Level, nr_lanes: usize) {
        let mut spans: BTreeMap<usize, BTreeMap<(usize, usize), LaneSet>> = BTreeMap::new();
        for cpu in self.online.iter() {
            let Position { core, cache, node } = self.positions[cpu as usize];
            let (span, group) = match level {
                Level::Core => (core, (cpu as usize, 0)),
                // A cache that two nodes share is two domains: the levels are to be nested.
                Level::Cache => (cache + node * self.caches.len(), (core, 0)),
                Level::Node => (node, (cache, 0)),
                Level::Machine => (0, (node, 0)),
            };
            let groups = spans.entry(span).or_default();
            let lanes = groups
                .entry(group)
                .or_insert_with(|| LaneSet::new(nr_lanes));
            lanes.set(cpu, true);
        }
        for groups in spans.into_values().filter(|groups| groups.len() > 1) {
            let mut lanes = LaneSet::new(nr_lanes);
            for cpu in groups.values().flat_map(LaneSet::iter) {
                lanes.set(cpu, true);
                self.domains_of[cpu as usize].push(self.domains.len());
            }
            self.domains.push(Domain {
                level,
                period_ns: lanes.len() as u64 * MS_NS,
                lanes,
                groups: groups.into_values().collect(),
            });
        }
    }

    /// Online lanes of the core of a lane.
    pub fn core_lanes(&self, cpu: u32) -> &LaneSet {
        &self.cores[self.positions[cpu as usize].core]
    }

    /// Online lanes on the last-level cache of a lane.
    pub fn cache_lanes(&self, cpu: u32) -> &LaneSet {
        &self.caches[self.positions[cpu as usize].cache]
    }

    pub fn share_cache(&self, a: u32, b: u32) -> bool {
        self.positions[a as usize].cache == self.positions[b as usize].cache
    }

    /// How far two lanes are from each other: same core, cache, node, further.
    pub fn distance(&self, a: u32, b: u32) -> usize {
        let (a, b) = (self.positions[a as usize], self.positions[b as usize]);
        match () {
            () if a.node != b.node => 3,
            () if a.cache != b.cache => 2,
            () if a.core != b.core => 1,
            () => 0,
        }
    }
}

/// What a lane has to do.
#[derive(Debug, Clone, Copy)]
pub(super) struct LaneLoad {
    pub nr_runnable: usize,
    /// Of these, `SCHED_IDLE`.
    pub nr_idle_policy: usize,
    /// There are tasks of another scheduling class: they run only if there is nothing else, but the lane is not idle.
    pub taken: bool,
}

/// Which online lanes have how much to do.
#[derive(Debug, Default)]
pub(super) struct Occupancy {
    /// With no runnable task, of any scheduling class.
    pub idle: LaneSet,
    /// With none but `SCHED_IDLE` tasks, at least one.
    pub idle_policy: LaneSet,
    /// With at least two runnable tasks.
    pub overloaded: LaneSet,
    /// Lanes of cores that are wholly idle.
    pub idle_cores: LaneSet,
    /// Busy lanes of each core.
    busy: Vec<usize>,
}

impl Occupancy {
    /// All online lanes idle.
    pub fn of(layout: &Layout) -> Occupancy {
        let none = || LaneSet::new(layout.positions.len());
        Occupancy {
            idle: layout.online.clone(),
            idle_policy: none(),
            overloaded: none(),
            idle_cores: layout.online.clone(),
            busy: vec![0; layout.cores.len()],
        }
    }

    /// A lane has so much to do now.
    pub fn update(&mut self, layout: &Layout, cpu: u32, lane: LaneLoad) {
        let nr_runnable = lane.nr_runnable;
        let is_lax = nr_runnable > 0 && nr_runnable == lane.nr_idle_policy && !lane.taken;
        self.idle_policy.set(cpu, is_lax);
        self.overloaded.set(cpu, nr_runnable > 1);
        let is_idle = nr_runnable == 0 && !lane.taken;
        let was_idle = self.idle.contains(cpu);
        if was_idle == is_idle {
            return;
        }
        self.idle.set(cpu, is_idle);
        let busy = &mut self.busy[layout.positions[cpu as usize].core];
        *busy = if is_idle { *busy - 1 } else { *busy + 1 };
        if *busy == usize::from(!is_idle) {
            for sibling in layout.core_lanes(cpu).iter() {
                self.idle_cores.set(sibling, is_idle);
            }
        }
    }

    /// Busy lanes of the core of a lane.
    pub fn busy_siblings(&self, layout: &Layout, cpu: u32) -> usize {
        self.busy[layout.positions[cpu as usize].core]
    }
}
