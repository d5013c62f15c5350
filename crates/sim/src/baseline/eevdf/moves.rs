//! What balancing moves: waiting tasks that a lane pulls, and running ones that spread.

use super::Eevdf;
use super::balance::Local;
use super::layout::{LaneSet, Level};
use super::runqueue::Place;
use crate::engine::Engine;
use crate::task::TaskId;
use std::cmp::Reverse;

/// A task that ran so recently is not moved to another core at first, ns.
const HOT_NS: u64 = 500_000;

/// What a group has to do.
#[derive(Clone, Copy)]
struct Load {
    nr_runnable: usize,
    nr_lanes: usize,
    load: i64,
}

impl Load {
    /// ns a lane, ×1024.
    fn a_lane(self) -> i64 {
        self.load * 1024 / self.nr_lanes.max(1) as i64
    }
}

/// Moving waiting tasks.
impl Eevdf {
    /// Puts a waiting task of another lane into this lane's queue.
    pub(super) fn steal(&mut self, engine: &mut Engine, cpu: u32, id: TaskId) {
        let from = self.entity(id).lane;
        self.counters.steals[self.layout.distance(from, cpu)] += 1;
        self.detach(engine, id, false);
        self.attach(engine, cpu, id);
    }

    /// Whether a task waits on one of these lanes that another lane may take, hot or not.
    pub(super) fn has_waiting(&self, engine: &Engine, sources: &[u32], cpu: u32) -> bool {
        let queues = sources.iter().map(|&from| &self.queues[from as usize]);
        let mut queued = queues.flat_map(|queue| queue.queued());
        queued.any(|id| self.is_waiting(id) && engine.task(id).may_use(cpu))
    }

    fn is_waiting(&self, id: TaskId) -> bool {
        self.entities[id.index()].place == Place::Waiting
    }

    /// Lanes of the other groups on which tasks wait, the one with the most tasks first.
    pub(super) fn sources(&self, local: Local) -> Vec<u32> {
        let others = local.groups.iter().enumerate();
        let others = others.filter(|(group, _)| *group != local.group);
        self.overloaded(others.map(|(_, lanes)| lanes))
    }

    fn overloaded<'a>(&self, groups: impl Iterator<Item = &'a LaneSet>) -> Vec<u32> {
        let overloaded = &self.occupancy.overloaded;
        let mut sources = Vec::new();
        if !overloaded.is_empty() {
            sources.extend(groups.flat_map(|lanes| lanes.common(overloaded)));
            sources.sort_by_key(|&from| (Reverse(self.queues[from as usize].nr_runnable), from));
        }
        sources
    }

    /// The task that a lane should take from one of these: it waits, and its weight is at most so
    /// much.
    pub(super) fn find_waiting(
        &self,
        engine: &Engine,
        local: Local,
        sources: &[u32],
        cpu: u32,
        weight: i64,
    ) -> Option<TaskId> {
        let find = |&from: &u32| self.longest_waiting(engine, local, from, cpu, weight);
        sources.iter().find_map(find)
    }

    /// The task that has waited longest on a lane, of those that another lane may take.
    fn longest_waiting(
        &self,
        engine: &Engine,
        local: Local,
        from: u32,
        cpu: u32,
        weight: i64,
    ) -> Option<TaskId> {
        let failed = self.balancer.progress[local.domain].failed[local.group];
        let now_ns = engine.now_ns();
        let fits = |id: &TaskId| {
            let entity = &self.entities[id.index()];
            let hot = local.level != Level::Core
                && failed <= local.level.tries()
                && !entity.is_idle_policy()
                && engine.task(*id).ran_on.is_some()
                && now_ns - entity.charged_ns < HOT_NS;
            self.is_waiting(*id) && !hot && entity.weight <= weight && engine.task(*id).may_use(cpu)
        };
        let waiting = self.queues[from as usize].queued().filter(fits);
        waiting.min_by_key(|id| engine.task(*id).since_ns)
    }

    fn load_of(&self, lanes: &LaneSet) -> Load {
        let mut sum = Load {
            nr_runnable: 0,
            nr_lanes: lanes.len(),
            load: 0,
        };
        for cpu in lanes.iter() {
            sum.nr_runnable += self.queues[cpu as usize].nr_runnable;
            sum.load += self.queues[cpu as usize].load;
        }
        sum
    }

    /// A busy group takes waiting tasks from the one with the most load a lane, if that is much
    /// more: as much as brings the one to the average, or the other.
    pub(super) fn pull_load(&mut self, engine: &mut Engine, local: Local) {
        let loads: Vec<Load> = local
            .groups
            .iter()
            .map(|lanes| self.load_of(lanes))
            .collect();
        let own = loads[local.group];
        let busiest = (0..loads.len()).filter(|&group| {
            group != local.group && local.groups[group].intersects(&self.occupancy.overloaded)
        });
        let Some(busiest) = busiest.max_by_key(|&group| (loads[group].a_lane(), Reverse(group)))
        else {
            return;
        };
        let all = Load {
            nr_runnable: 0,
            nr_lanes: loads.iter().map(|group| group.nr_lanes).sum(),
            load: loads.iter().map(|group| group.load).sum(),
        };
        let other = loads[busiest];
        if other.a_lane() * 100 <= own.a_lane() * local.level.imbalance_percent() {
            self.balancer.progress[local.domain].failed[local.group] = 0;
            return;
        }
        let excess = (other.a_lane() - all.a_lane()) * other.nr_lanes as i64;
        let room = (all.a_lane() - own.a_lane()) * own.nr_lanes as i64;
        let from = &local.groups[busiest];
        let moved = self.move_load(engine, local, from, excess.min(room) / 1024);
        let failed = &mut self.balancer.progress[local.domain].failed[local.group];
        *failed = if moved { 0 } else { *failed + 1 };
    }

    /// Moves waiting tasks from a group to the least busy lane of this one, until so much weight
    /// has moved.
    fn move_load(&mut self, engine: &mut Engine, local: Local, from: &LaneSet, load: i64) -> bool {
        let (mut left, mut moved) = (load, false);
        while left > 0 {
            let lanes = local.groups[local.group].iter();
            let Some(cpu) = lanes.min_by_key(|&cpu| self.queues[cpu as usize].load) else {
                break;
            };
            // The longer this failed, the heavier a task may be.
            let failed = self.balancer.progress[local.domain].failed[local.group].min(16);
            let sources = self.overloaded(std::iter::once(from));
            let found = self.find_waiting(engine, local, &sources, cpu, left << failed);
            let Some(id) = found else { break };
            engine.this_lane = cpu;
            self.steal(engine, cpu, id);
            self.notify(engine, cpu, id);
            left -= self.entity(id).weight;
            moved = true;
        }
        moved
    }
}

/// Moving running tasks.
impl Eevdf {
    /// Moves a running task here from the group with the most runnable tasks, if it has at least two
    /// more. True if that is still to be done.
    pub(super) fn spread(&mut self, engine: &mut Engine, local: Local, idle: &[u32]) -> bool {
        let own = self.load_of(&local.groups[local.group]);
        let lanes = idle
            .iter()
            .filter(|&&cpu| self.occupancy.idle_cores.contains(cpu));
        let Some(&cpu) = lanes.chain(idle).next() else {
            return false;
        };
        let others = (0..local.groups.len()).filter(|&group| group != local.group);
        let excess = |group: usize| self.excess(local.level, own, &local.groups[group]);
        let Some(busiest) = others.max_by_key(|&group| (excess(group), Reverse(group))) else {
            return false;
        };
        if excess(busiest) < 2 {
            return false;
        }
        let Some(from) = self.to_relieve(engine, &local.groups[busiest], cpu) else {
            return false;
        };
        let failed = self.balancer.progress[local.domain].failed[local.group];
        if failed < local.level.tries() + 2 {
            return true;
        }
        self.move_running(engine, from, cpu);
        false
    }

    /// How many runnable tasks another group has more than its part beside this one.
    fn excess(&self, level: Level, own: Load, lanes: &LaneSet) -> i64 {
        let other = self.load_of(lanes);
        // A node that is little used keeps a pair of tasks that may talk to each other.
        let (part, whole) = (own.nr_lanes as i64, other.nr_lanes.max(1) as i64);
        let excess = other.nr_runnable as i64 - own.nr_runnable as i64 * whole / part.max(1);
        let small = level == Level::Machine && (own.nr_runnable + 1) * 8 <= own.nr_lanes;
        if small && excess <= 2 { 0 } else { excess }
    }

    /// The busy lane of a group whose running task should move to another lane: on the core with
    /// the most busy lanes.
    fn to_relieve(&self, engine: &Engine, lanes: &LaneSet, cpu: u32) -> Option<u32> {
        let movable = |from: &u32| {
            let current = self.queues[*from as usize].current;
            current.is_some_and(|id| engine.task(id).may_use(cpu))
        };
        let busy = |from: &u32| self.occupancy.busy_siblings(&self.layout, *from);
        lanes
            .iter()
            .filter(movable)
            .max_by_key(|from| (busy(from), Reverse(*from)))
    }

    fn move_running(&mut self, engine: &mut Engine, from: u32, cpu: u32) {
        if let Some(id) = self.uproot(engine, from) {
            self.counters.steals[self.layout.distance(from, cpu)] += 1;
            engine.this_lane = cpu;
            self.enqueue(engine, cpu, id);
            self.schedule(engine, from);
        }
    }
}
