//! Schedulers to compare with.

pub(crate) mod eevdf;

use crate::Result;
use crate::engine::Engine;
use crate::scheduler::{Counters, Scheduler};
use crate::task::{State, TaskId};
use eevdf::IdleSearch;
use std::collections::VecDeque;

/// Which scheduler to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Baseline {
    /// One queue for all, first in, first out, nobody preempts.
    Fifo,
    /// What the Linux kernel does by default, 6.12 and later: a fair scheduler with a runqueue a
    /// lane, earliest eligible virtual deadline first (EEVDF), wake-ups on idle lanes of the
    /// last-level cache, and load balancing between cores, caches and nodes. Goes by policy and
    /// nice value; classes are nothing to it. Left out: cgroups, tracked load (PELT), lazy
    /// preemption, cores of unequal capacity, energy, NUMA page placement, core scheduling.
    Eevdf,
    /// The same, but a waking task whose lane is busy takes an idle lane of that core before a core
    /// that is idle as a whole, as kernels did that knew no search for idle cores.
    SiblingFirst,
    /// What the kernel did before EEVDF, as in Linux 5.3: the completely fair scheduler (CFS), with the
    /// same placement and balancing.
    Cfs {
        /// The tasks of each name are a cgroup, and all cgroups weigh the same. Otherwise there are none.
        groups: bool,
    },
    /// The same with placement as Linux 2.6.32 had it: a waking task goes to its last lane if that is idle, else
    /// to the first idle lane of the cache by number, so that lanes of a core are busy together as by chance.
    LastLane,
}

pub(crate) fn scheduler(baseline: Baseline, engine: &mut Engine) -> Box<dyn Scheduler> {
    match baseline {
        Baseline::Fifo => Box::new(Fifo::new(engine)),
        Baseline::Eevdf => Box::new(eevdf::Eevdf::new(engine, IdleSearch::CoreFirst)),
        Baseline::SiblingFirst => Box::new(eevdf::Eevdf::new(engine, IdleSearch::SiblingFirst)),
        Baseline::Cfs { groups } => Box::new(eevdf::Eevdf::cfs(engine, groups)),
        Baseline::LastLane => Box::new(eevdf::Eevdf::new(engine, IdleSearch::LastLane)),
    }
}

/// One queue for all; a task runs until it sleeps. Idle cores are taken first, then idle lanes of shared cores.
pub(super) struct Fifo {
    queue: VecDeque<TaskId>,
    counters: Counters,
}

impl Fifo {
    pub fn new(_engine: &mut Engine) -> Fifo {
        Fifo {
            queue: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// The best idle lane for a task: of the core with the fewest busy lanes, fastest first.
    fn idle_lane(engine: &Engine, id: TaskId) -> Option<u32> {
        let task = engine.task(id);
        let mut best: Option<(usize, u32)> = None;
        for core in &engine.machine.cores {
            let busy = core
                .lanes
                .iter()
                .filter(|&&cpu| engine.current(cpu).is_some())
                .count();
            let free = |cpu: &&u32| task.may_use(**cpu) && engine.is_idle(**cpu);
            let Some(&cpu) = core.lanes.iter().find(free) else {
                continue;
            };
            if best.is_none_or(|(fewest, _)| busy < fewest) {
                best = Some((busy, cpu));
            }
            if busy == 0 {
                break;
            }
        }
        best.map(|(_, cpu)| cpu)
    }

    fn offer(&mut self, engine: &mut Engine, id: TaskId) {
        match Self::idle_lane(engine, id) {
            Some(cpu) => self.start(engine, cpu, id),
            None => self.queue.push_back(id),
        }
    }

    fn start(&mut self, engine: &mut Engine, cpu: u32, id: TaskId) {
        let class = engine.task(id).spec.class;
        self.counters.switches[class as usize] += 1;
        engine.start(cpu, id);
    }

    fn take_next(&mut self, engine: &mut Engine, cpu: u32) {
        let fits = |id: &TaskId| engine.task(*id).may_use(cpu);
        if let Some(index) = self.queue.iter().position(fits)
            && let Some(id) = self.queue.remove(index)
        {
            self.start(engine, cpu, id);
        }
    }
}

impl Scheduler for Fifo {
    fn create(&mut self, _engine: &mut Engine, _id: TaskId) {}

    fn wake(&mut self, engine: &mut Engine, id: TaskId, _sync: bool) {
        self.offer(engine, id);
    }

    fn look(&mut self, engine: &mut Engine, cpu: u32) {
        if engine.is_idle(cpu) {
            self.take_next(engine, cpu);
        }
    }

    fn sleep(&mut self, engine: &mut Engine, cpu: u32) {
        engine.stop(cpu, true);
        self.take_next(engine, cpu);
    }

    fn tick(&mut self, _engine: &mut Engine, _cpu: u32) {}

    fn kick(&mut self, _engine: &mut Engine, _cpu: u32, _flags: u64) {}

    fn timer(&mut self, _engine: &mut Engine, _token: u64) {}

    fn change_cpus(&mut self, engine: &mut Engine, id: TaskId) {
        match engine.task(id).state {
            State::Waiting => {
                self.queue.retain(|&other| other != id);
                self.offer(engine, id);
            }
            State::Running(cpu) if !engine.task(id).may_use(cpu) => {
                engine.stop(cpu, false);
                self.offer(engine, id);
                self.take_next(engine, cpu);
            }
            _ => {}
        }
    }

    fn change_class(&mut self, _engine: &mut Engine, _id: TaskId) {}

    fn exit(&mut self, _engine: &mut Engine, id: TaskId) {
        self.queue.retain(|&other| other != id);
    }

    fn set_online(&mut self, engine: &mut Engine, cpus: &[u32], online: bool) {
        for &cpu in cpus {
            let current = engine.current(cpu);
            if current.is_some() {
                engine.stop(cpu, false);
            }
            engine.set_online(cpu, online);
            match (current, online) {
                (Some(id), _) => self.offer(engine, id),
                (None, true) => self.take_next(engine, cpu),
                (None, false) => {}
            }
        }
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn check(&mut self, _engine: &Engine) -> Result<()> {
        Ok(())
    }
}
