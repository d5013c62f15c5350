//! Beside another scheduling class (`scope = "batch"`): sched_ext has some of the tasks, and a lane only while the
//! kernel's own scheduler has nothing for it.
//!
//! As in the kernel: what is preempted by the higher class goes to the head of its lane's own queue if some of its slice is
//! left, else through enqueue; the source hears of every context switch and of every tick, whatever runs; nothing tells
//! it when a lane idles; a task that waits counts on the run queue of the lane on which it was last.

use super::calls::operate;
use super::{ENQ_REENQ, SchedExt, native};
use crate::engine::Engine;
use crate::task::{State, TaskId};
use std::cell::Cell;
use std::ptr::null_mut;
use std::rc::Rc;

/// How many tasks of the kernel's own scheduler run on each lane or wait for it.
pub(crate) type Runnable = Rc<[Cell<u32>]>;

/// What is kept for the sake of the other class.
pub(super) struct Beside {
    /// The kernel's own scheduler keeps all tasks but batch.
    pub partial: bool,
    /// None until that is there.
    others: Option<Runnable>,
    /// By CPU number: tasks of sched_ext that run there, or wait and were there last.
    counts: Vec<u32>,
    /// Lanes whose count has changed.
    changed: Vec<u32>,
    /// As they were asked for last.
    run_queues: Vec<native::rq>,
    /// Lanes whose own queue is to be placed anew.
    reenqueue: Vec<u32>,
    /// By CPU number: the source was told of the switch to what runs there, and has looked.
    seen: Vec<bool>,
}

impl Beside {
    pub fn new(engine: &Engine, partial: bool) -> Beside {
        let nr_lanes = if partial { engine.machine.nr_lanes } else { 0 };
        Beside {
            partial,
            others: None,
            counts: vec![0; nr_lanes],
            changed: Vec::new(),
            run_queues: vec![native::rq::default(); nr_lanes],
            reenqueue: Vec::new(),
            seen: vec![false; nr_lanes],
        }
    }
}

/// What the other class asks.
impl SchedExt {
    /// Makes the other class's counts known.
    pub(crate) fn set_others(&mut self, others: Runnable) {
        self.beside.others = Some(others);
    }

    /// Does the task belong to sched_ext?
    pub(crate) fn has(&self, id: TaskId) -> bool {
        self.entities[id.index()].ours
    }

    /// The task of sched_ext that runs on the lane.
    pub(crate) fn current(&self, engine: &Engine, cpu: u32) -> Option<TaskId> {
        engine.current(cpu).filter(|id| self.has(*id))
    }

    /// Lanes on whose run queue other tasks of sched_ext count than before, and whether any do.
    pub(crate) fn take_changed(&mut self) -> Vec<(u32, bool)> {
        let changed = std::mem::take(&mut self.beside.changed);
        let counts = |cpu: u32| (cpu, self.beside.counts[cpu as usize] > 0);
        changed.into_iter().map(counts).collect()
    }

    /// Does the kernel's own scheduler keep all tasks but batch?
    pub(super) fn is_partial(&self) -> bool {
        self.beside.partial
    }

    /// The task waits, runs or does neither: it counts on the run queue of its lane.
    pub(super) fn count(&mut self, engine: &Engine, id: TaskId) {
        if !self.beside.partial {
            return;
        }
        let task = engine.task(id);
        let counts = self.has(id) && matches!(task.state, State::Waiting | State::Running(_));
        let now = counts.then_some(task.lane);
        let before = std::mem::replace(&mut self.entities[id.index()].counted, now);
        if before == now {
            return;
        }
        if let Some(cpu) = before {
            self.beside.counts[cpu as usize] -= 1;
        }
        if let Some(cpu) = now {
            self.beside.counts[cpu as usize] += 1;
        }
        self.beside.changed.extend(before.into_iter().chain(now));
    }

    /// A task counts on the run queue of the lane no longer.
    pub(super) fn forget(&mut self, cpu: u32) {
        self.beside.counts[cpu as usize] -= 1;
        self.beside.changed.push(cpu);
    }

    /// What the source sees of a lane's run queue; null if there is no such lane.
    pub(super) fn run_queue(&mut self, engine: &Engine, cpu: i32) -> *const native::rq {
        let index = cpu as u32 as usize;
        let curr = match engine.current(cpu as u32) {
            Some(id) => self.pointer(id),
            None => self.idle_task(),
        };
        let local = self.local.get(index).map_or(0, |queue| queue.len() as u32);
        let beside = &mut self.beside;
        let others = beside.others.as_ref().and_then(|others| others.get(index));
        let (Some(rq), Some(ours)) = (beside.run_queues.get_mut(index), beside.counts.get(index))
        else {
            return std::ptr::null();
        };
        rq.clock = engine.now_ns();
        rq.curr = curr;
        rq.scx.nr_running = *ours;
        rq.scx.local_dsq.nr = local;
        rq.nr_running = ours + others.map_or(0, Cell::get);
        rq
    }

    /// The lane's own queue is to be placed anew, once the operation is over.
    pub(super) fn reenqueue_local(&mut self, cpu: u32) -> u32 {
        self.beside.reenqueue.push(cpu);
        self.local[cpu as usize].len() as u32
    }
}

/// What happens to lanes of which the other class has a say.
impl SchedExt {
    /// The other class takes the lane from what runs there.
    pub(crate) fn give_way(&mut self, engine: &mut Engine, cpu: u32) {
        let Some(id) = self.current(engine, cpu) else {
            return;
        };
        self.charge(engine, cpu);
        self.stopping(engine, cpu, id, true);
        if *self.slice_ns(id) > 0 {
            self.join_local(engine, id, cpu, true);
        } else {
            self.enqueue(engine, id, 0);
        }
        self.count(engine, id);
    }

    /// Places what waits in lanes' own queues anew where the source asked for that.
    pub(crate) fn reenqueue(&mut self, engine: &mut Engine) {
        for cpu in std::mem::take(&mut self.beside.reenqueue) {
            let here = std::mem::replace(&mut engine.this_lane, cpu);
            let waiting: Vec<TaskId> = self.local[cpu as usize].iter().collect();
            for id in waiting {
                self.leave_queue(id);
                self.enqueue(engine, id, ENQ_REENQ);
                self.count(engine, id);
            }
            engine.this_lane = here;
        }
    }

    /// The source is attached again, and knows of no switch.
    pub(super) fn forget_switches(&mut self) {
        self.beside.seen.fill(false);
    }

    /// The tracepoint of context switches, on the lane: the task that left and the one that comes.
    pub(crate) fn switches(
        &mut self,
        engine: &mut Engine,
        cpu: u32,
        prev: Option<TaskId>,
        next: Option<TaskId>,
    ) {
        let here = std::mem::replace(&mut engine.this_lane, cpu);
        let counters = self.sidelane.reads_counters();
        let left = prev.map_or(null_mut(), |id| self.pointer(id));
        let mut task = |id: Option<TaskId>| match id {
            Some(id) => self.pointer(id),
            None => self.idle_task(),
        };
        let (prev, next) = (task(prev), task(next));
        self.beside.seen[cpu as usize] = followed();
        // SAFETY: tasks stay where they are as long as the simulation.
        operate(self, engine, || unsafe {
            native::sidelane_follow_switch(false, prev, next);
            if counters {
                native::sidelane_count_switch(false, left, null_mut());
            }
        });
        if !followed() {
            self.beside.seen.fill(false);
        }
        engine.this_lane = here;
    }

    /// A tick of the lane, whatever runs there.
    pub(crate) fn tick_of_any(&mut self, engine: &mut Engine) {
        let counters = self.sidelane.reads_counters();
        // SAFETY: neither has an argument.
        operate(self, engine, || unsafe {
            native::sidelane_follow_tick();
            if counters {
                native::sidelane_count_tick();
            }
        });
    }

    /// A task, which may run and goes on, leaves for the other class.
    pub(crate) fn hand_over(&mut self, engine: &mut Engine, id: TaskId) {
        let p = self.pointer(id);
        let state = engine.task(id).state;
        if let State::Running(cpu) = state {
            self.charge(engine, cpu);
            self.entities[id.index()].native.scx.flags &= !native::SCX_TASK_QUEUED;
            self.entities[id.index()].native.__state = 0;
            self.beside.seen[cpu as usize] = false; // there is no switch
            // SAFETY: see `switches`.
            operate(self, engine, || unsafe {
                native::sidelane_stopping(p, false)
            });
        }
        self.leave_queue(id);
        if matches!(state, State::Running(_) | State::Waiting) {
            self.wants_to_run(engine, id, false);
        }
        // SAFETY: see `switches`.
        operate(self, engine, || unsafe { native::sidelane_disable(p) });
        let task = engine.task(id);
        self.entities[id.index()].update(task, true);
        self.count(engine, id);
    }

    /// A task comes from the other class; it may run, and goes on.
    pub(crate) fn take_over(&mut self, engine: &mut Engine, id: TaskId) {
        let task = engine.task(id);
        self.entities[id.index()].update(task, true);
        let (p, state) = (self.pointer(id), task.state);
        // SAFETY: see `switches`.
        operate(self, engine, || unsafe { native::sidelane_enable(p) });
        self.tell_cpus(engine, id);
        match state {
            State::Waiting => {
                self.wants_to_run(engine, id, true);
                self.enqueue_elsewhere(engine, id);
            }
            State::Running(_) => {
                self.entities[id.index()].native.scx.flags |= native::SCX_TASK_QUEUED;
                self.wants_to_run(engine, id, true);
                // in the kernel it is in a queue for no more than a moment: it goes on
                self.placing = Some(id);
                operate(self, engine, || unsafe { native::sidelane_enqueue(p, 0) });
                self.placing = None;
                if let Some(insertion) = self.insertion.take() {
                    *self.slice_ns(id) = insertion.slice_ns;
                }
                self.entities[id.index()].charged_ns = engine.running_ns(id);
                // SAFETY: see `switches`.
                operate(self, engine, || unsafe { native::sidelane_running(p) });
            }
            State::Sleeping | State::Exited => {}
        }
        self.count(engine, id);
    }
}

/// Does the source keep up with what lanes run that are not its own?
fn followed() -> bool {
    // SAFETY: reads this thread's globals, which are those of its scheduler.
    unsafe { native::native_others_followed() }
}

/// What the source knows of lanes that others have.
impl SchedExt {
    /// What is not as it should be, if anything: while batch wants to run, a lane's state is that of what it runs.
    pub(super) fn check_followed(&self, engine: &Engine, cpu: u32) -> Result<(), String> {
        let (state, current) = (self.tables.lanes[cpu as usize].state, engine.current(cpu));
        match !followed() || self.states_of(engine, cpu, current).contains(&state) {
            true => Ok(()),
            false => Err(format!(
                "lost track of lane {cpu}: it runs {current:?}, its state is {state}"
            )),
        }
    }

    /// The states that a lane may have which runs this. Of what runs since before anybody looked the class is not known.
    fn states_of(&self, engine: &Engine, cpu: u32, current: Option<TaskId>) -> &'static [u32] {
        const IDLE: u32 = native::lane_state_LANE_IDLE;
        const NORMAL: u32 = native::lane_state_LANE_NORMAL;
        const CRITICAL: u32 = native::lane_state_LANE_CRITICAL;
        const OTHER: u32 = native::lane_state_LANE_OTHER;
        const BATCH: u32 = native::lane_state_LANE_BATCH;
        let Some(id) = current else {
            return &[IDLE];
        };
        let (entity, spec) = (&self.entities[id.index()], &engine.task(id).spec);
        let known = entity.context().map(|context| context.class);
        match known {
            _ if entity.ours => &[BATCH],
            _ if !self.beside.seen[cpu as usize] => &[NORMAL, CRITICAL, OTHER],
            _ if spec.kernel_thread => &[NORMAL],
            Some(native::task_class_CLASS_CRITICAL) => &[CRITICAL],
            _ => &[NORMAL],
        }
    }
}
