//! The cycle of operations.

use super::calls::operate;
use super::entity::{Entity, Queue};
use super::{
    DSQ_LOCAL, DSQ_LOCAL_ON, ENQ_HEAD, ENQ_LAST, ENQ_PREEMPT, ENQ_WAKEUP, KICK_IDLE, KICK_PREEMPT,
    SchedExt, WAKE_SYNC, native,
};
use crate::engine::Engine;
use crate::record::Step;
use crate::scheduler::{Counted, Counters, ObjectiveState, Pool, PoolState, Scheduler};
use crate::task::{Mark, State, TaskId};
use crate::{Error, Result};
use sidelane_policy::Borrow;
use std::ptr::null_mut;

impl Scheduler for SchedExt {
    fn create(&mut self, engine: &mut Engine, id: TaskId) {
        let entity = Entity::new(id, engine.task(id), self.beside.partial);
        self.entities.push(entity);
        self.boards.appears(id, engine.task(id));
        self.adopt(engine, id);
    }

    fn mark(&mut self, engine: &Engine, id: TaskId, mark: Mark) {
        let runs = matches!(engine.task(id).state, State::Running(_));
        self.boards.mark(id, mark, runs);
    }

    fn wake(&mut self, engine: &mut Engine, id: TaskId, sync: bool) {
        let (lane, pinned) = self.prepare(engine, id);
        self.wants_to_run(engine, id, true);
        self.placing = Some(id);
        if !pinned {
            let p = self.pointer(id);
            let flags = if sync { WAKE_SYNC } else { 0 };
            let chosen = operate(self, engine, || {
                // SAFETY: the task stays where it is as long as the simulation.
                unsafe { native::sidelane_select_cpu(p, lane as i32, flags) }
            });
            self.choose(engine, id, chosen);
        }
        match self.insertion.is_some() {
            true => self.apply_insertion(engine, id),
            false => self.enqueue(engine, id, ENQ_WAKEUP),
        }
        // Whatever queue it is in: a lane that was chosen and is idle is made to look.
        let cpu = engine.task(id).lane;
        if engine.is_idle(cpu) {
            engine.look(cpu);
        }
        self.count(engine, id);
    }

    fn look(&mut self, engine: &mut Engine, cpu: u32) {
        let prev = self.current(engine, cpu);
        self.charge(engine, cpu);
        if !self.balance(engine, cpu, prev) {
            return; // what ran goes on
        }
        let next = self.local[cpu as usize].first();
        if let Some(id) = prev {
            self.stopping(engine, cpu, id, true);
            // the lane has chosen: it looks at its own queue again only if somebody asks
            self.puts_back = true;
            self.enqueue(engine, id, if next.is_none() { ENQ_LAST } else { 0 });
            self.puts_back = false;
        }
        self.go_on(engine, cpu, next, prev.is_none());
    }

    fn sleep(&mut self, engine: &mut Engine, cpu: u32) {
        if self.put_to_sleep(engine, cpu) {
            self.choose_next(engine, cpu);
        }
    }

    fn tick(&mut self, engine: &mut Engine, cpu: u32) {
        if self.ticks(engine, cpu) {
            self.look(engine, cpu);
        }
    }

    fn kick(&mut self, engine: &mut Engine, cpu: u32, flags: u64) {
        if self.is_kicked(engine, cpu, flags) {
            self.look(engine, cpu);
        }
    }

    fn timer(&mut self, engine: &mut Engine, token: u64) {
        let element = token as u32;
        if self.timers.get(element as usize) != Some(&((token >> 32) as u32)) {
            return; // set anew since, or of an earlier attachment
        }
        // SAFETY: see `wake`.
        operate(self, engine, || unsafe {
            native::native_timer_ring(element)
        });
    }

    fn change_cpus(&mut self, engine: &mut Engine, id: TaskId) {
        if let Some(cpu) = self.follow_cpus(engine, id) {
            self.choose_next(engine, cpu);
        }
    }

    /// The scheduler finds out by itself.
    fn change_class(&mut self, engine: &mut Engine, id: TaskId) {
        self.entities[id.index()].update(engine.task(id), self.beside.partial);
    }

    fn exit(&mut self, engine: &mut Engine, id: TaskId) {
        self.leave_queue(id);
        if self.has(id) {
            let p = self.pointer(id);
            // SAFETY: see `wake`.
            operate(self, engine, || unsafe { native::sidelane_disable(p) });
        }
        self.entities[id.index()].storage = None;
    }

    fn leaves(&mut self, engine: &mut Engine, cpu: u32) {
        self.leaving = Some(cpu);
        let waiting: Vec<TaskId> = self.local[cpu as usize].iter().collect();
        for id in waiting {
            self.leave_queue(id);
            self.join_local(engine, id, cpu, false);
        }
        if let Some(id) = self.current(engine, cpu) {
            self.charge(engine, cpu);
            self.stopping(engine, cpu, id, true);
            engine.task_mut(id).lane = self.instead(engine, id, cpu).unwrap_or(cpu);
            self.enqueue_elsewhere(engine, id);
            self.choose_next(engine, cpu);
        }
    }

    /// The source has no operations for lanes that come and go: the kernel ends it, and the loader
    /// attaches it again to the machine as it is then.
    fn set_online(&mut self, engine: &mut Engine, cpus: &[u32], online: bool) {
        self.leaving = None;
        self.detach(engine);
        for &cpu in cpus {
            engine.set_online(cpu, online);
        }
        self.attach_again(engine);
    }

    fn set_smt_level(&mut self, level: u32) -> bool {
        self.sidelane.settings.smt_level = level;
        // SAFETY: a word of the scheduler's globals, which are this thread's own.
        unsafe { native::native_set_smt_level(level) };
        true
    }

    fn counters(&self) -> Counters {
        let now = self.tables.counters.first().copied().unwrap_or_default();
        now.plus(&self.earlier)
    }

    fn objective(&self) -> Option<ObjectiveState> {
        if self.sidelane.settings.budget.borrow != Borrow::Slo {
            return None;
        };
        self.tables
            .objectives
            .first()
            .map(|objective| ObjectiveState {
                budget_ns: objective.budget_ns,
                tail_ns: objective.tail_ns,
                windows: objective.windows,
                missed: objective.missed,
            })
    }

    fn pools(&self) -> Vec<PoolState> {
        self.tables.pools.iter().map(PoolState::of).collect()
    }

    fn pool_settings(&self) -> &[Pool] {
        &self.sidelane.pools
    }

    fn counted(&self) -> Option<Counted> {
        let ipc = self.tables.ipcs.first()?;
        self.sidelane
            .charges_by_counters()
            .then(|| Counted::of(ipc))
    }

    fn check(&mut self, _engine: &Engine) -> Result<()> {
        self.violation.take().map_or(Ok(()), Err)
    }

    fn check_deep(&self, engine: &Engine) -> Result<()> {
        self.check_queues(engine).map_err(|what| Error::Violation {
            at_ns: engine.now_ns(),
            what,
            steps: engine.recorder.last(),
        })
    }
}

/// The parts of an operation before the lane chooses what runs next.
impl SchedExt {
    /// The task on the lane has nothing to do any more. False: there is none.
    pub(crate) fn put_to_sleep(&mut self, engine: &mut Engine, cpu: u32) -> bool {
        let Some(id) = self.current(engine, cpu) else {
            return false;
        };
        self.charge(engine, cpu);
        self.entities[id.index()].native.scx.flags &= !native::SCX_TASK_QUEUED;
        self.stopping(engine, cpu, id, false);
        self.wants_to_run(engine, id, false);
        self.count(engine, id);
        true
    }

    /// A tick of the lane. True: its slice is over.
    pub(crate) fn ticks(&mut self, engine: &mut Engine, cpu: u32) -> bool {
        let Some(id) = self.current(engine, cpu) else {
            return false;
        };
        self.charge(engine, cpu);
        let p = self.pointer(id);
        if !self.beside.partial {
            self.tick_of_any(engine);
        }
        // SAFETY: see `wake`.
        operate(self, engine, || unsafe { native::sidelane_tick(p) });
        *self.slice_ns(id) == 0
    }

    /// The lane was asked to look. False: it does not.
    pub(crate) fn is_kicked(&mut self, engine: &Engine, cpu: u32, flags: u64) -> bool {
        if flags & KICK_IDLE != 0 && !engine.is_idle(cpu) {
            return false;
        }
        if flags & KICK_PREEMPT != 0 {
            self.expire(engine, cpu);
        }
        true
    }

    /// The CPUs of a task have changed. The lane that it had to leave, if it ran.
    pub(crate) fn follow_cpus(&mut self, engine: &mut Engine, id: TaskId) -> Option<u32> {
        self.entities[id.index()].update(engine.task(id), self.beside.partial);
        self.tell_cpus(engine, id);
        let (state, lane) = (engine.task(id).state, engine.task(id).lane);
        let may_stay = engine.task(id).may_use(lane) && engine.lane(lane).is_some();
        match state {
            _ if !self.has(id) => None,
            State::Waiting => {
                self.leave_queue(id);
                self.enqueue_elsewhere(engine, id);
                None
            }
            State::Running(cpu) if !may_stay => {
                self.charge(engine, cpu);
                self.stopping(engine, cpu, id, true);
                self.enqueue_elsewhere(engine, id);
                Some(cpu)
            }
            _ => None,
        }
    }

    /// Nothing of the scheduler's runs any more.
    pub(crate) fn detach(&mut self, engine: &mut Engine) {
        for cpu in 0..engine.lanes.len() as u32 {
            if let Some(id) = self.current(engine, cpu) {
                engine.this_lane = cpu;
                self.stopping(engine, cpu, id, true);
            }
        }
    }

    /// Attaches the scheduler to the machine as it is now.
    pub(crate) fn attach_again(&mut self, engine: &mut Engine) {
        let first = engine.lanes.iter().position(|lane| lane.online);
        engine.this_lane = first.unwrap_or(0) as u32;
        self.earlier = self.counters();
        self.forget_switches();
        self.start(engine);
        self.attach_tasks(engine);
    }
}

impl SchedExt {
    /// A task is about to be placed: it is in no queue, and on a lane that it may use. The lane,
    /// and whether there is no other.
    fn prepare(&mut self, engine: &mut Engine, id: TaskId) -> (u32, bool) {
        let lane = engine.task(id).lane;
        if !engine.task(id).may_use(lane) || engine.lane(lane).is_none() {
            let first = engine.first_allowed(id);
            engine.task_mut(id).lane = first.unwrap_or(lane);
        }
        let entity = &mut self.entities[id.index()];
        entity.native.scx.flags |= native::SCX_TASK_QUEUED;
        (engine.task(id).lane, entity.native.nr_cpus_allowed == 1)
    }

    /// A task has something to do from now on, or no longer.
    pub(super) fn wants_to_run(&mut self, engine: &mut Engine, id: TaskId, more: bool) {
        let p = self.pointer(id);
        // SAFETY: see `wake`.
        operate(self, engine, || unsafe {
            match more {
                true => native::sidelane_runnable(p, 0),
                false => native::sidelane_quiescent(p, 0),
            }
        });
    }

    /// All tasks meet the scheduler anew; those that wait are put into its queues.
    fn attach_tasks(&mut self, engine: &mut Engine) {
        let ids: Vec<TaskId> = (0..self.entities.len() as u32).map(TaskId).collect();
        for &id in &ids {
            if let Some(cpu) = self.entities[id.index()].counted.take() {
                self.forget(cpu);
            }
            self.entities[id.index()] = Entity::new(id, engine.task(id), self.beside.partial);
            if engine.task(id).state != State::Exited {
                self.adopt(engine, id);
                self.tell_cpus(engine, id);
            }
        }
        for id in ids {
            if engine.task(id).state == State::Waiting && self.has(id) {
                self.wants_to_run(engine, id, true);
                self.enqueue_elsewhere(engine, id);
            }
        }
    }

    /// Takes the lane that select_cpu returned.
    fn choose(&mut self, engine: &mut Engine, id: TaskId, chosen: i32) {
        match u32::try_from(chosen) {
            Ok(cpu) if engine.lane(cpu).is_some() && engine.task(id).may_use(cpu) => {
                engine.task_mut(id).lane = cpu;
            }
            _ => self.broke(
                engine,
                format!("chose lane {chosen}, which {id} may not use"),
            ),
        }
    }

    /// Asks the scheduler where a task waits that may have to leave its lane.
    pub(super) fn enqueue_elsewhere(&mut self, engine: &mut Engine, id: TaskId) {
        self.prepare(engine, id);
        self.enqueue(engine, id, 0);
        let cpu = engine.task(id).lane;
        if engine.is_idle(cpu) {
            engine.look(cpu);
        }
        self.count(engine, id);
    }

    /// Asks the scheduler where a task waits.
    pub(super) fn enqueue(&mut self, engine: &mut Engine, id: TaskId, flags: u64) {
        let p = self.pointer(id);
        self.placing = Some(id);
        // SAFETY: see `wake`.
        operate(self, engine, || unsafe {
            native::sidelane_enqueue(p, flags)
        });
        match self.insertion.is_some() {
            true => self.apply_insertion(engine, id),
            false => self.broke(engine, format!("lost {id}: it is in no queue")),
        }
    }

    /// Puts a task where the scheduler said, after the operation.
    fn apply_insertion(&mut self, engine: &mut Engine, id: TaskId) {
        self.placing = None;
        let Some(insertion) = self.insertion.take() else {
            return;
        };
        *self.slice_ns(id) = insertion.slice_ns;
        if insertion.dsq == DSQ_LOCAL {
            let (cpu, preempts) = (engine.task(id).lane, insertion.flags & ENQ_PREEMPT != 0);
            let first = preempts || insertion.flags & ENQ_HEAD != 0;
            self.join_local(engine, id, cpu, first);
            if preempts {
                self.expire(engine, cpu);
            }
            if preempts || (engine.is_idle(cpu) && !self.puts_back) {
                engine.look(cpu);
            }
            return;
        }
        if insertion.dsq & DSQ_LOCAL_ON == DSQ_LOCAL_ON {
            return self.send_to_lane(engine, id, insertion.dsq as u32, insertion.flags);
        }
        let Some(queue) = self.queues.get_mut(insertion.dsq) else {
            return self.broke(
                engine,
                format!("sent {id} to unknown queue {:#x}", insertion.dsq),
            );
        };
        let place = match insertion.vtime_ns {
            Some(vtime_ns) => queue.insert_vtime(id, vtime_ns),
            None => queue.insert(id, false),
        };
        let entity = &mut self.entities[id.index()];
        entity.queue = Some((Queue::Custom(insertion.dsq), place));
        if let Some(vtime_ns) = insertion.vtime_ns {
            entity.native.scx.dsq_vtime = vtime_ns;
        }
        engine.record(Step::Queue {
            task: id,
            queue: insertion.dsq,
        });
    }

    /// Puts a task into the queue of another lane, which hears of it as of a kick.
    fn send_to_lane(&mut self, engine: &mut Engine, id: TaskId, cpu: u32, flags: u64) {
        if engine.lane(cpu).is_none() || !engine.task(id).may_use(cpu) {
            let what = format!("sent {id} to lane {cpu}, which it may not use");
            return self.broke(engine, what);
        }
        let first = flags & ENQ_PREEMPT != 0;
        engine.task_mut(id).lane = cpu;
        self.join_local(engine, id, cpu, first);
        engine.kick(cpu, if first { KICK_PREEMPT } else { KICK_IDLE });
    }

    /// Ends the slice of what runs on the lane.
    fn expire(&mut self, engine: &Engine, cpu: u32) {
        if let Some(id) = self.current(engine, cpu) {
            *self.slice_ns(id) = 0;
        }
    }

    /// Charges the running task's slice.
    pub(super) fn charge(&mut self, engine: &Engine, cpu: u32) {
        let Some(id) = self.current(engine, cpu) else {
            return;
        };
        let ran_ns = engine.running_ns(id);
        let entity = &mut self.entities[id.index()];
        let passed_ns = ran_ns - std::mem::replace(&mut entity.charged_ns, ran_ns);
        entity.native.scx.slice = entity.native.scx.slice.saturating_sub(passed_ns);
    }

    /// Sees to it that the lane's own queue has what comes next; false if `prev` goes on.
    fn balance(&mut self, engine: &mut Engine, cpu: u32, prev: Option<TaskId>) -> bool {
        if prev.is_some_and(|id| *self.slice_ns(id) > 0) {
            return false;
        }
        if !self.local[cpu as usize].is_empty() {
            return true;
        }
        let p = prev.map_or(null_mut(), |id| self.pointer(id));
        // SAFETY: see `wake`; no task is a null pointer in the kernel too. The source inserts
        // nothing from dispatch, so there is nothing to call it again for.
        operate(self, engine, || unsafe {
            native::sidelane_dispatch(cpu as i32, p)
        });
        let goes_on =
            self.local[cpu as usize].is_empty() && prev.is_some_and(|id| *self.slice_ns(id) > 0);
        !goes_on
    }

    /// The task leaves its lane.
    pub(super) fn stopping(&mut self, engine: &mut Engine, cpu: u32, id: TaskId, runnable: bool) {
        self.entities[id.index()].native.__state = (!runnable).into();
        let p = self.pointer(id);
        // SAFETY: see `wake`.
        operate(self, engine, || unsafe {
            native::sidelane_stopping(p, runnable)
        });
        self.left = Some((cpu, id));
        engine.stop(cpu, !runnable);
    }

    /// The lane, which was busy, chooses what runs next.
    pub(crate) fn choose_next(&mut self, engine: &mut Engine, cpu: u32) {
        let here = std::mem::replace(&mut engine.this_lane, cpu);
        self.balance(engine, cpu, None);
        let next = self.local[cpu as usize].first();
        self.go_on(engine, cpu, next, false);
        engine.this_lane = here;
    }

    /// The lane goes on with a task, or with nothing.
    fn go_on(&mut self, engine: &mut Engine, cpu: u32, next: Option<TaskId>, was_idle: bool) {
        let Some(id) = next else {
            if !was_idle {
                self.update_idle(engine, cpu, true);
                self.switched(engine);
            }
            return;
        };
        if !engine.task(id).may_use(cpu) {
            return self.broke(
                engine,
                format!("sent {id} to lane {cpu}, which it may not use"),
            );
        }
        self.leave_queue(id);
        if was_idle {
            self.update_idle(engine, cpu, false);
        }
        engine.start(cpu, id);
        self.count(engine, id);
        self.entities[id.index()].charged_ns = 0;
        let p = self.pointer(id);
        // SAFETY: see `wake`.
        operate(self, engine, || unsafe { native::sidelane_running(p) });
        self.boards.runs(id);
        self.switched(engine);
    }

    /// The tracepoint of context switches, on this lane.
    fn switched(&mut self, engine: &mut Engine) {
        let left = self.left.take();
        if self.sidelane.reads_counters() && !self.beside.partial {
            let left = left.filter(|(cpu, _)| *cpu == engine.this_lane);
            let prev = left.map_or(null_mut(), |(_, id)| self.pointer(id));
            // SAFETY: see `wake`; the tracing program reads the task that left, if one did.
            operate(self, engine, || unsafe {
                native::sidelane_count_switch(false, prev, null_mut())
            });
        }
    }

    /// Beside another class nobody is told.
    fn update_idle(&mut self, engine: &mut Engine, cpu: u32, idle: bool) {
        if self.beside.partial {
            return;
        }
        // SAFETY: see `wake`.
        operate(self, engine, || unsafe {
            native::sidelane_update_idle(cpu as i32, idle)
        });
    }
}
