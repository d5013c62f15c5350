//! Beside another scheduling class, which ranks lower: it has a lane only while there is no fair task for it.

use super::layout::LaneSet;
use super::runqueue::Place;
use super::{Eevdf, IdleSearch, OWN_TIMER};
use crate::engine::Engine;
use crate::sched_ext::Runnable;
use crate::scheduler::Scheduler;
use crate::task::{State, TaskId};
use std::cell::Cell;

/// What the two classes know of each other.
pub(super) struct Beside {
    /// By CPU number: fair tasks that run or wait.
    pub runnable: Runnable,
    /// Lanes that have tasks of the other class, whether these run or wait.
    pub taken: LaneSet,
}

impl Beside {
    pub fn new(nr_lanes: usize) -> Beside {
        Beside {
            runnable: (0..nr_lanes).map(|_| Cell::new(0)).collect(),
            taken: LaneSet::new(nr_lanes),
        }
    }
}

impl Eevdf {
    /// The kernel's scheduler as one of two classes.
    pub(crate) fn beside_another(engine: &mut Engine) -> Eevdf {
        let mut eevdf = Eevdf::new(engine, IdleSearch::CoreFirst);
        eevdf.balancer.generation = OWN_TIMER >> 32;
        eevdf
    }

    /// How many fair tasks each lane has.
    pub(crate) fn runnable(&self) -> Runnable {
        self.beside.runnable.clone()
    }

    /// A lane has tasks of the other class, or none any more.
    pub(crate) fn set_taken(&mut self, cpu: u32, taken: bool) {
        if self.beside.taken.contains(cpu) != taken {
            self.beside.taken.set(cpu, taken);
            if self.layout.online.contains(cpu) {
                self.update_occupancy(cpu);
            }
        }
    }

    /// Does a fair task run on the lane?
    pub(crate) fn runs(&self, cpu: u32) -> bool {
        self.queues[cpu as usize].current.is_some()
    }

    /// Has the lane, on which no fair task runs, one to run? It may pull one.
    pub(crate) fn wants(&mut self, engine: &mut Engine, cpu: u32) -> bool {
        self.pick(cpu).is_some() || self.pull_to_idle(engine, cpu)
    }

    /// The task leaves for the other class.
    pub(crate) fn hand_over(&mut self, engine: &mut Engine, id: TaskId) {
        let sleeps = engine.task(id).state == State::Sleeping;
        self.detach(engine, id, sleeps);
        self.entity(id).elsewhere = true;
    }

    /// A task comes from the other class; one that runs goes on.
    pub(crate) fn take_over(&mut self, engine: &mut Engine, id: TaskId) {
        let task = engine.task(id);
        let (spec, state, lane) = (task.spec.clone(), task.state, task.lane);
        let entity = self.entity(id);
        entity.change(&spec);
        entity.elsewhere = false;
        entity.lane = lane;
        match state {
            State::Running(cpu) => {
                self.attach(engine, cpu, id);
                let now_ns = engine.now_ns();
                let (queue, entity) = self.pair(cpu, id);
                queue.start(id, entity, now_ns);
                self.resched(engine, cpu);
            }
            State::Waiting if self.layout.online.contains(lane) => self.enqueue(engine, lane, id),
            State::Waiting => self.enqueue_elsewhere(engine, id),
            State::Sleeping | State::Exited => {}
        }
    }

    /// A task of the other class is created.
    pub(crate) fn leave_out(&mut self, engine: &mut Engine, id: TaskId) {
        self.create(engine, id);
        self.entity(id).elsewhere = true;
        debug_assert_eq!(self.entity(id).place, Place::Asleep);
    }
}
