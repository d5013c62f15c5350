//! What the Linux kernel does by default: a fair scheduler by earliest eligible virtual deadline
//! (EEVDF), with placement on idle lanes and load balancing. Written after the behaviour of
//! `kernel/sched/fair.c` in Linux 6.12 and later.
//!
//! Simulated: a runqueue a lane (`runqueue.rs`: weights, lag, delayed dequeue, deadlines, slice
//! protection), wake-up preemption, ticks, placement at wake-up (`select.rs`), newly idle, periodic
//! and active balancing (`balance.rs`, `moves.rs`).
//!
//! The slice is 0.70 ms × (1 + log2 of the online lanes, at most 8), as in recent kernels; it
//! was 0.75 ms in 6.12. A slice ends at a tick, or when something else charges the task. As in the
//! kernel, a `SCHED_IDLE` task always gives way to a waking task of another policy, but what comes
//! next is chosen by deadline: a `SCHED_IDLE` task far behind its share can come first.
//!
//! By other rules of the queue it is the scheduler before: CFS as in Linux 5.3 (`runqueue/cfs.rs`), with the same
//! placement and balancing.
//!
//! Left out: cgroups (but for CFS) and their bandwidth, tracked load (a task weighs its whole weight while it is
//! runnable, and nothing while it sleeps), lazy preemption, custom slices, `SCHED_BATCH` beyond
//! its not preempting, utilisation limits of searches, cores of unequal capacity (all count as
//! equally fast), energy and NUMA page placement, core scheduling, the cost of balancing.

mod balance;
mod beside;
mod layout;
mod moves;
mod runqueue;
mod select;

use crate::engine::Engine;
use crate::scheduler::{Counters, Scheduler};
use crate::task::{Policy, State, TaskId};
use crate::{Error, Result};
use balance::Balancer;
use beside::Beside;
use layout::{LaneLoad, Layout, Occupancy};
pub(crate) use runqueue::WEIGHTS;
use runqueue::{Entity, Granularity, Groups, Place, RunQueue, Slices};
use select::Wakes;
use std::rc::Rc;

/// Timers with this bit are the fair scheduler's where it is not alone.
pub(crate) const OWN_TIMER: u64 = 1 << 63;

/// Where a waking task whose lane is busy looks first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdleSearch {
    /// For a core that is idle as a whole.
    CoreFirst,
    /// For an idle lane of the same core.
    SiblingFirst,
    /// For the idle lane with the lowest number.
    LastLane,
}

pub(crate) struct Eevdf {
    idle_search: IdleSearch,
    /// Queues go by the rules of CFS.
    cfs: bool,
    /// CFS with cgroups.
    groups: Option<Groups>,
    entities: Vec<Entity>,
    /// Which tasks wake which, for placement.
    wakes: Vec<Wakes>,
    /// By CPU number.
    queues: Vec<RunQueue>,
    layout: Rc<Layout>,
    occupancy: Occupancy,
    balancer: Balancer,
    counters: Counters,
    /// Checks so far: each looks at one lane and one task.
    checks: usize,
    beside: Beside,
}

impl Eevdf {
    pub fn new(engine: &mut Engine, idle_search: IdleSearch) -> Eevdf {
        let layout = Rc::new(Layout::of(engine));
        let nr_lanes = engine.machine.nr_lanes;
        let mut eevdf = Eevdf {
            idle_search,
            cfs: false,
            groups: None,
            entities: Vec::new(),
            wakes: Vec::new(),
            queues: (0..nr_lanes).map(|_| RunQueue::default()).collect(),
            occupancy: Occupancy::of(&layout),
            balancer: Balancer::new(&layout, 0),
            layout,
            counters: Counters::default(),
            checks: 0,
            beside: Beside::new(nr_lanes),
        };
        eevdf.set_slices(engine);
        eevdf
    }

    /// The scheduler before EEVDF; with `groups` the tasks of each name are a cgroup.
    pub fn cfs(engine: &mut Engine, groups: bool) -> Eevdf {
        let mut cfs = Eevdf::new(engine, IdleSearch::CoreFirst);
        cfs.cfs = true;
        cfs.groups = groups.then(Groups::default);
        cfs.set_slices(engine);
        cfs
    }

    fn entity(&mut self, id: TaskId) -> &mut Entity {
        &mut self.entities[id.index()]
    }

    /// The runqueue of a lane, and a task.
    fn pair(&mut self, cpu: u32, id: TaskId) -> (&mut RunQueue, &mut Entity) {
        (
            &mut self.queues[cpu as usize],
            &mut self.entities[id.index()],
        )
    }

    /// Sets the slice for the lanes that are online.
    fn set_slices(&mut self, engine: &Engine) {
        let doublings = self.layout.online.len().clamp(1, 8).ilog2();
        let slices = Slices {
            slice_ns: 700_000 * u64::from(1 + doublings),
            tick_ns: engine.machine.costs.tick_ns,
            cfs: self.cfs.then(|| Granularity::of(doublings)),
        };
        for queue in &mut self.queues {
            queue.slices = slices;
        }
    }

    /// The number of runnable tasks of a lane may have changed.
    fn update_occupancy(&mut self, cpu: u32) {
        let queue = &self.queues[cpu as usize];
        self.beside.runnable[cpu as usize].set(queue.nr_runnable as u32);
        let lane = LaneLoad {
            nr_runnable: queue.nr_runnable,
            nr_idle_policy: queue.nr_idle_policy,
            taken: self.beside.taken.contains(cpu),
        };
        self.occupancy.update(&self.layout, cpu, lane);
    }

    /// Charges the current task of a lane, and ends its turn if its slice is used up and somebody
    /// else is there.
    fn charge(&mut self, engine: &mut Engine, cpu: u32) {
        let Some(id) = self.queues[cpu as usize].current else {
            return;
        };
        let (queue, entity) = self.pair(cpu, id);
        if queue.charge(entity, engine.now_ns()) && queue.has_others() {
            self.resched(engine, cpu);
        }
    }

    /// Makes a lane choose anew.
    fn resched(&mut self, engine: &mut Engine, cpu: u32) {
        self.queues[cpu as usize].resched = true;
        engine.look(cpu);
    }

    /// Puts a task that is in no queue into that of a lane.
    fn attach(&mut self, engine: &mut Engine, cpu: u32, id: TaskId) {
        self.charge(engine, cpu);
        let entity = &mut self.entities[id.index()];
        self.queues[entity.lane as usize].uproot(entity);
        self.count_in_group(engine, id, 1);
        let (queue, entity) = self.pair(cpu, id);
        entity.lane = cpu;
        queue.join(id, entity);
        self.update_occupancy(cpu);
        self.arm_balancing(engine, cpu);
    }

    /// The same, and lets the lane know.
    fn enqueue(&mut self, engine: &mut Engine, cpu: u32, id: TaskId) {
        self.attach(engine, cpu, id);
        self.notify(engine, cpu, id);
    }

    /// Takes a task out of its queue, the current one too: it `sleeps`, or goes elsewhere.
    fn detach(&mut self, engine: &mut Engine, id: TaskId, sleeps: bool) {
        let cpu = self.entity(id).lane;
        if self.entity(id).place != Place::Asleep {
            self.charge(engine, cpu);
            let (queue, entity) = self.pair(cpu, id);
            queue.leave(entity, sleeps);
            self.update_occupancy(cpu);
            self.count_in_group(engine, id, -1);
        }
    }

    /// A task of a group becomes runnable, or is no longer.
    fn count_in_group(&mut self, engine: &Engine, id: TaskId, by: isize) {
        let entity = &mut self.entities[id.index()];
        if let (Some(groups), Some(group)) = (&mut self.groups, entity.group) {
            groups.count(group, by, engine.now_ns());
            if by > 0 {
                entity.weight = groups.weight(group, engine.now_ns());
            }
        }
    }

    /// Charges the current task of a lane, and ends its turn if it has had one; its weight in its group may be another now.
    fn tick_cfs(&mut self, engine: &mut Engine, cpu: u32) {
        self.charge(engine, cpu);
        let Some(id) = self.queues[cpu as usize].current else {
            return;
        };
        let (queue, entity) = (
            &mut self.queues[cpu as usize],
            &mut self.entities[id.index()],
        );
        if let (Some(groups), Some(group)) = (&mut self.groups, entity.group) {
            queue.reweigh(entity, groups.weight(group, engine.now_ns()));
        }
        if queue.has_had_turn(entity) {
            self.resched(engine, cpu);
        }
    }

    /// Takes the running task off a lane, to be put elsewhere.
    fn uproot(&mut self, engine: &mut Engine, cpu: u32) -> Option<TaskId> {
        let id = self.queues[cpu as usize].current?;
        self.detach(engine, id, false);
        engine.stop(cpu, false);
        Some(id)
    }

    /// A task has come to a lane's queue: does it preempt?
    fn notify(&mut self, engine: &mut Engine, cpu: u32, id: TaskId) {
        let Some(current) = self.queues[cpu as usize].current else {
            return engine.look(cpu);
        };
        if !self.queues[cpu as usize].resched && self.preempts(cpu, id, current) {
            self.resched(engine, cpu);
        }
    }

    fn preempts(&mut self, cpu: u32, id: TaskId, current: TaskId) -> bool {
        let (new, old) = (self.entities[id.index()].policy, self.entity(current));
        match (new, old.policy) {
            (Policy::Idle, _) | (Policy::Batch, Policy::Normal | Policy::Batch) => false,
            (_, Policy::Idle) => {
                old.expose();
                true
            }
            _ => {
                let queue = &self.queues[cpu as usize];
                let [new, old] = [id, current].map(|id| &self.entities[id.index()]);
                let far = queue.wakes_over(new, old);
                far.unwrap_or_else(|| queue.pick(&self.entities) == Some(id))
            }
        }
    }

    /// What the lane is to run; delayed tasks whose turn it is are gone from here on.
    fn pick(&mut self, cpu: u32) -> Option<TaskId> {
        loop {
            let id = self.queues[cpu as usize].pick(&self.entities)?;
            let (queue, entity) = self.pair(cpu, id);
            if entity.place != Place::Delayed {
                return Some(id);
            }
            queue.leave(entity, true);
        }
    }

    /// The lane chooses what runs.
    pub(crate) fn schedule(&mut self, engine: &mut Engine, cpu: u32) {
        self.charge(engine, cpu);
        self.queues[cpu as usize].resched = false;
        let mut next = self.pick(cpu);
        if next.is_none() && self.pull_to_idle(engine, cpu) {
            next = self.pick(cpu);
        }
        let current = self.queues[cpu as usize].current;
        let Some(id) = next.filter(|_| next != current) else {
            return;
        };
        if let Some(old) = current {
            let (queue, entity) = self.pair(cpu, old);
            queue.put_back(old, entity);
            engine.stop(cpu, false);
        }
        let (queue, entity) = self.pair(cpu, id);
        queue.start(id, entity, engine.now_ns());
        let class = engine.task(id).spec.class;
        self.counters.switches[class as usize] += 1;
        engine.start(cpu, id);
    }
}

impl Scheduler for Eevdf {
    fn create(&mut self, engine: &mut Engine, id: TaskId) {
        let task = engine.task(id);
        let mut entity = Entity::new(&task.spec, task.lane);
        let groups = self.groups.as_mut();
        entity.group = groups.map(|groups| groups.add(&task.spec.name));
        self.entities.push(entity);
        self.wakes.push(Wakes::default());
    }

    fn wake(&mut self, engine: &mut Engine, id: TaskId, sync: bool) {
        if self.entity(id).place != Place::Delayed {
            let cpu = self.select(engine, id, sync);
            return self.enqueue(engine, cpu, id);
        }
        // It never left: it stays on its lane.
        let cpu = self.entity(id).lane;
        self.charge(engine, cpu);
        let (queue, entity) = self.pair(cpu, id);
        queue.resume(id, entity);
        self.update_occupancy(cpu);
        self.arm_balancing(engine, cpu);
        self.notify(engine, cpu, id);
    }

    fn look(&mut self, engine: &mut Engine, cpu: u32) {
        let queue = &self.queues[cpu as usize];
        if queue.resched || queue.current.is_none() {
            self.schedule(engine, cpu);
        }
    }

    fn sleep(&mut self, engine: &mut Engine, cpu: u32) {
        if let Some(id) = self.queues[cpu as usize].current {
            self.charge(engine, cpu);
            let (queue, entity) = self.pair(cpu, id);
            queue.sleep(id, entity);
            self.update_occupancy(cpu);
            self.count_in_group(engine, id, -1);
        }
        engine.stop(cpu, true);
        self.schedule(engine, cpu);
    }

    fn tick(&mut self, engine: &mut Engine, cpu: u32) {
        match self.cfs {
            true => self.tick_cfs(engine, cpu),
            false => self.charge(engine, cpu),
        }
    }

    /// Only looks are asked for.
    fn kick(&mut self, _engine: &mut Engine, _cpu: u32, _flags: u64) {}

    fn timer(&mut self, engine: &mut Engine, token: u64) {
        self.balance_timer(engine, token);
    }

    fn change_cpus(&mut self, engine: &mut Engine, id: TaskId) {
        let (cpu, place) = (self.entity(id).lane, self.entity(id).place);
        if engine.task(id).may_use(cpu) {
            return;
        }
        match place {
            Place::Asleep => {}
            Place::Delayed => self.detach(engine, id, true),
            Place::Waiting => {
                self.detach(engine, id, false);
                self.enqueue_elsewhere(engine, id);
            }
            Place::Running => {
                self.uproot(engine, cpu);
                self.enqueue_elsewhere(engine, id);
                self.schedule(engine, cpu);
            }
        }
    }

    /// A class is nothing to the kernel; a weight is.
    fn change_class(&mut self, engine: &mut Engine, id: TaskId) {
        let spec = engine.task(id).spec.clone();
        if !self.entity(id).would_change(&spec) {
            return;
        }
        let (cpu, place) = (self.entity(id).lane, self.entity(id).place);
        self.detach(engine, id, place == Place::Delayed);
        self.entity(id).change(&spec);
        if matches!(place, Place::Asleep | Place::Delayed) {
            return;
        }
        self.attach(engine, cpu, id);
        if place == Place::Running {
            let (queue, entity) = self.pair(cpu, id);
            queue.start(id, entity, engine.now_ns());
            self.resched(engine, cpu);
        } else {
            self.notify(engine, cpu, id);
        }
    }

    fn exit(&mut self, engine: &mut Engine, id: TaskId) {
        self.detach(engine, id, true);
    }

    /// What is on departing lanes goes elsewhere; lanes that appear look for work.
    fn set_online(&mut self, engine: &mut Engine, cpus: &[u32], online: bool) {
        let mut homeless = Vec::new();
        for &cpu in cpus {
            homeless.extend(self.uproot(engine, cpu));
            let queued: Vec<TaskId> = self.queues[cpu as usize].queued().collect();
            for id in queued {
                let sleeps = self.entity(id).place == Place::Delayed;
                self.detach(engine, id, sleeps);
                homeless.extend((!sleeps).then_some(id));
            }
            self.queues[cpu as usize].resched = false;
            engine.set_online(cpu, online);
        }
        self.rebuild(engine);
        for id in homeless {
            self.enqueue_elsewhere(engine, id);
        }
        for &cpu in cpus.iter().filter(|_| online) {
            engine.look(cpu);
        }
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn check(&mut self, engine: &Engine) -> Result<()> {
        if !cfg!(debug_assertions) {
            return Ok(());
        }
        self.checks += 1;
        self.fault(engine).map_or(Ok(()), |what| {
            Err(Error::Violation {
                at_ns: engine.now_ns(),
                what,
                steps: engine.recorder.last(),
            })
        })
    }
}

impl Eevdf {
    /// The machine's lanes are others now.
    fn rebuild(&mut self, engine: &mut Engine) {
        self.layout = Rc::new(Layout::of(engine));
        self.occupancy = Occupancy::of(&self.layout);
        self.balancer = Balancer::new(&self.layout, self.balancer.generation + 1);
        self.set_slices(engine);
        let layout = Rc::clone(&self.layout);
        for cpu in layout.online.iter() {
            self.update_occupancy(cpu);
            if !self.occupancy.idle.contains(cpu) {
                self.arm_balancing(engine, cpu);
            }
        }
        if !layout.online.contains(engine.this_lane) {
            engine.this_lane = layout.online.iter().next().unwrap_or(0);
        }
    }

    /// A task waits that cannot stay where it was.
    fn enqueue_elsewhere(&mut self, engine: &mut Engine, id: TaskId) {
        let cpu = self.fallback(engine, id);
        self.enqueue(engine, cpu, id);
    }

    /// What is wrong with the lane and the task whose turn it is to be looked at.
    fn fault(&self, engine: &Engine) -> Option<String> {
        let cpu = self.checks % self.queues.len().max(1);
        let queue = self.queues.get(cpu)?;
        if !queue.is_sound(&self.entities) {
            return Some(format!("lost count of the tasks of lane {cpu}"));
        }
        let own = |id: &TaskId| !self.entities[id.index()].elsewhere;
        if queue.current != engine.current(cpu as u32).filter(own) {
            return Some(format!("does not know what runs on lane {cpu}"));
        }
        let id = TaskId((self.checks % self.entities.len().max(1)) as u32);
        let (entity, state) = (self.entities.get(id.index())?, engine.task(id).state);
        let fits = match state {
            _ if entity.elsewhere => entity.place == Place::Asleep,
            State::Sleeping => matches!(entity.place, Place::Asleep | Place::Delayed),
            State::Waiting => entity.place == Place::Waiting,
            State::Running(cpu) => entity.place == Place::Running && entity.lane == cpu,
            State::Exited => entity.place == Place::Asleep,
        };
        let queued = |queue: &RunQueue| queue.queued().filter(|&other| other == id).count();
        let wanted = usize::from(matches!(entity.place, Place::Waiting | Place::Delayed));
        let here = queued(&self.queues[entity.lane as usize]);
        (!fits || here != wanted).then(|| format!("has {id} in the wrong place"))
    }
}

#[cfg(test)]
mod tests;
