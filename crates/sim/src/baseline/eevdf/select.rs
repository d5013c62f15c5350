//! Where a waking task goes: the kernel's `select_task_rq_fair`.
//!
//! First the target: the lane where the task was, or its waker's (`wake_affine`). Then, on the
//! target's last-level cache, an idle lane near it (`select_idle_sibling`). A lane on which only
//! `SCHED_IDLE` tasks run counts as idle there. New tasks go to the least busy group of lanes,
//! level by level.
//!
//! Placement as Linux 2.6.32 had it (`IdleSearch::LastLane`): the target if it is idle, else the first
//! idle lane of its cache by number; nobody looks for a whole core. A new task is on the lane that its
//! number gives: there, programs made their workers beforehand, on all lanes.
//!
//! Simplified: whether there is an idle core is known, not guessed; all lanes of the cache are
//! searched; load is that of the runnable tasks. A wake-up by a timer counts as done by whatever
//! runs on the lane where something happened last.

use super::layout::{LaneSet, Level, first_from, members};
use super::{Eevdf, IdleSearch};
use crate::engine::Engine;
use crate::task::TaskId;

/// After this time the flips count half.
const DECAY_NS: u64 = 1_000_000_000;

/// A waker's lane may be more loaded by half of this than the other, in percent (117 at the levels
/// above the core).
const IMBALANCE_PERCENT: i64 = 117;

/// Whom a task wakes.
#[derive(Debug, Clone, Default)]
pub(super) struct Wakes {
    last_wakee: Option<TaskId>,
    /// How often it woke another one than before, about a second.
    flips: u64,
    decayed_ns: u64,
    /// The lane where it was before the last wake-up.
    recent_lane: Option<u32>,
}

impl Eevdf {
    /// The lane for a waking task.
    pub(super) fn select(&mut self, engine: &Engine, id: TaskId, sync: bool) -> u32 {
        let entity = &self.entities[id.index()];
        if !entity.known {
            return self.select_new(engine, id);
        }
        let prev = match self.is_usable(engine, id, entity.lane) {
            true => entity.lane,
            false => self.fallback(engine, id),
        };
        let waker_lane = engine.this_lane;
        self.note_wakee(engine, id);
        let affine = waker_lane != prev
            && self.is_usable(engine, id, waker_lane)
            && !self.wakes_wide(engine, id);
        let target = match affine && self.prefers_waker(waker_lane, prev, id, sync) {
            true => waker_lane,
            false => prev,
        };
        self.select_idle_sibling(engine, id, prev, target)
    }

    fn is_usable(&self, engine: &Engine, id: TaskId, cpu: u32) -> bool {
        engine.task(id).may_use(cpu) && self.layout.online.contains(cpu)
    }

    /// The waker's current task wakes this one: is it another one than before?
    fn note_wakee(&mut self, engine: &Engine, id: TaskId) {
        let Some(waker) = engine.current(engine.this_lane) else {
            return;
        };
        let now_ns = engine.now_ns();
        let wakes = &mut self.wakes[waker.index()];
        if now_ns > wakes.decayed_ns + DECAY_NS {
            wakes.flips /= 2;
            wakes.decayed_ns = now_ns;
        }
        if wakes.last_wakee.replace(id) != Some(id) {
            wakes.flips += 1;
        }
    }

    /// Do the two wake so many others that they do not belong on one cache (`wake_wide`)?
    fn wakes_wide(&self, engine: &Engine, id: TaskId) -> bool {
        let waker = engine.current(engine.this_lane);
        let master = waker.map_or(0, |waker| self.wakes[waker.index()].flips);
        let slave = self.wakes[id.index()].flips;
        let factor = self.layout.cache_lanes(engine.this_lane).len() as u64;
        let (most, least) = (master.max(slave), master.min(slave));
        least >= factor && most >= least * factor
    }

    /// Whether the waker's lane is the better target (`wake_affine`).
    fn prefers_waker(&self, waker_lane: u32, prev: u32, id: TaskId, sync: bool) -> bool {
        let idle = &self.occupancy.idle;
        if idle.contains(waker_lane) && self.layout.share_cache(waker_lane, prev) {
            return !idle.contains(prev);
        }
        let here = &self.queues[waker_lane as usize];
        if sync && here.nr_runnable == 1 && !self.beside.taken.contains(waker_lane) {
            return true;
        }
        if idle.contains(prev) {
            return false;
        }
        let waker = here.current.filter(|_| sync);
        let leaving = waker.map_or(0, |waker| self.entities[waker.index()].weight);
        let weight = self.entities[id.index()].weight;
        let here_load = (here.load - leaving + weight) * 100;
        let there_load = self.queues[prev as usize].load * (100 + (IMBALANCE_PERCENT - 100) / 2);
        here_load < there_load + i64::from(sync)
    }

    /// An idle lane near the target, or the target.
    fn select_idle_sibling(&mut self, engine: &Engine, id: TaskId, prev: u32, target: u32) -> u32 {
        if self.idle_search == IdleSearch::LastLane {
            return self.first_idle(engine, id, prev, target);
        }
        let recent = self.wakes[id.index()].recent_lane;
        for cpu in [target, prev] {
            if self.is_free(cpu) && self.layout.share_cache(cpu, target) {
                return cpu;
            }
        }
        self.wakes[id.index()].recent_lane = Some(prev);
        if let Some(cpu) = recent
            && self.is_usable(engine, id, cpu)
            && self.is_free(cpu)
            && self.layout.share_cache(cpu, target)
        {
            return cpu;
        }
        let cache = self.layout.cache_lanes(target);
        let idle_cores = &self.occupancy.idle_cores;
        if self.idle_search == IdleSearch::SiblingFirst {
            let core = self.layout.core_lanes(target);
            let sibling = self.first_allowed(engine, id, target, core, |w| self.free(w));
            let free = || self.first_allowed(engine, id, target, cache, |w| self.free(w));
            return sibling.or_else(free).unwrap_or(target);
        }
        let has_idle_core = cache.intersects(idle_cores);
        if has_idle_core {
            let whole = self.first_allowed(engine, id, target, cache, |w| idle_cores.word(w));
            if let Some(cpu) = whole {
                return cpu;
            }
        } else if self.layout.share_cache(prev, target) {
            let core = self.layout.core_lanes(prev);
            if let Some(cpu) = self.first_allowed(engine, id, prev, core, |w| self.free(w)) {
                return cpu;
            }
        }
        let free = self.first_allowed(engine, id, target, cache, |w| self.free(w));
        free.unwrap_or(target)
    }

    /// The target, or the first idle lane near it by number: of the core if the waker is there too, else of
    /// the cache.
    fn first_idle(&self, engine: &Engine, id: TaskId, prev: u32, target: u32) -> u32 {
        if self.is_free(target) {
            return target;
        }
        let core = self.layout.core_lanes(target);
        let both = core.contains(engine.this_lane) && core.contains(prev);
        let near = match both {
            true => core,
            false => self.layout.cache_lanes(target),
        };
        let allowed = &engine.task(id).allowed;
        let bits = |w: usize| near.word(w) & allowed[w] & self.free(w);
        first_from(0, allowed.len(), bits).unwrap_or(target)
    }

    /// The lanes, a word of them, that count as idle for a wake-up.
    fn free(&self, word: usize) -> u64 {
        self.occupancy.idle.word(word) | self.occupancy.idle_policy.word(word)
    }

    fn is_free(&self, cpu: u32) -> bool {
        self.occupancy.idle.contains(cpu) || self.occupancy.idle_policy.contains(cpu)
    }

    /// The first of some lanes after another, going round, that the task may use.
    fn first_allowed(
        &self,
        engine: &Engine,
        id: TaskId,
        after: u32,
        among: &LaneSet,
        word: impl Fn(usize) -> u64,
    ) -> Option<u32> {
        let allowed = &engine.task(id).allowed;
        let bits = |w: usize| among.word(w) & allowed[w] & word(w);
        first_from(after + 1, allowed.len(), bits)
    }

    /// The lane for a task that cannot stay where it was: an idle one if there is one, then the
    /// nearest, then the one with the fewest tasks.
    pub(super) fn fallback(&self, engine: &Engine, id: TaskId) -> u32 {
        let (lane, allowed) = (self.entities[id.index()].lane, &engine.task(id).allowed);
        let online = &self.layout.online;
        let candidates = members(allowed.len(), |w| allowed[w] & online.word(w));
        let order = |cpu: &u32| {
            let nr_runnable = self.queues[*cpu as usize].nr_runnable;
            (
                nr_runnable > 0,
                self.layout.distance(lane, *cpu),
                nr_runnable,
            )
        };
        candidates.min_by_key(order).unwrap_or(lane)
    }

    /// The lane for a task that never ran: level by level the group with the most idle lanes, else
    /// the least load; its creator's group if there is nothing between them.
    fn select_new(&self, engine: &Engine, id: TaskId) -> u32 {
        if self.idle_search == IdleSearch::LastLane {
            let usable: Vec<u32> = (self.layout.online.iter())
                .filter(|&cpu| engine.task(id).may_use(cpu))
                .collect();
            let nth = id.index() % usable.len().max(1);
            return usable
                .get(nth)
                .copied()
                .unwrap_or_else(|| self.fallback(engine, id));
        }
        let mut cpu = match self.is_usable(engine, id, engine.this_lane) {
            true => engine.this_lane,
            false => self.fallback(engine, id),
        };
        for level in [Level::Machine, Level::Node, Level::Cache, Level::Core] {
            let domains = self.layout.domains_of[cpu as usize].iter();
            let mut domains = domains.map(|&index| &self.layout.domains[index]);
            let Some(domain) = domains.find(|domain| domain.level == level) else {
                continue;
            };
            let allowed = |lanes: &&LaneSet| lanes.iter().any(|cpu| engine.task(id).may_use(cpu));
            let order = |lanes: &&LaneSet| {
                let nr_idle = lanes.common(&self.occupancy.idle).count();
                let load: i64 = lanes.iter().map(|cpu| self.queues[cpu as usize].load).sum();
                let share = load * 1024 / lanes.len().max(1) as i64;
                (std::cmp::Reverse(nr_idle), share, !lanes.contains(cpu))
            };
            let best = domain.groups.iter().filter(allowed).min_by_key(order);
            let lanes = best.filter(|lanes| !lanes.contains(cpu));
            let mut usable = lanes.into_iter().flat_map(LaneSet::iter);
            cpu = usable
                .find(|&cpu| engine.task(id).may_use(cpu))
                .unwrap_or(cpu);
        }
        cpu
    }
}
