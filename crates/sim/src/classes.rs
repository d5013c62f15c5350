//! Two scheduling classes on one machine, as with the kernel's `SCX_OPS_SWITCH_PARTIAL` (`scope = "batch"`): the kernel's
//! own fair scheduler keeps every task but batch, and below it sched_ext has those.
//!
//! A lane is the fair scheduler's as soon as that has a task for it: such a task takes the lane from batch when it is
//! reached, without a kick of ours. Newly idle balancing comes before sched_ext is asked. A lane that sched_ext
//! has tasks for, running or waiting, is not idle for the fair scheduler's searches (`idle_cpu()`). Load is that of
//! fair tasks alone.
//!
//! Left out: deadline servers, by which newer kernels give sched_ext a small share of a lane that others keep busy;
//! that kernels before 6.19 ask sched_ext to dispatch before they ask the fair scheduler, where batch ran.

use crate::baseline::eevdf::{Eevdf, OWN_TIMER};
use crate::engine::Engine;
use crate::sched_ext::{SchedExt, Sidelane};
use crate::scheduler::{Counted, Counters, ObjectiveState, Pool, PoolState, Scheduler};
use crate::task::{Class, State, TaskId};
use crate::{Error, Result};

/// Both classes, and which of them has a lane.
pub(crate) struct Classes {
    fair: Eevdf,
    ext: SchedExt,
    /// What each lane ran when the last context switch there was told.
    told: Vec<Option<TaskId>>,
}

impl Classes {
    /// A machine on which nothing runs.
    pub fn attach(engine: &mut Engine, sidelane: &Sidelane) -> Result<Classes> {
        let fair = Eevdf::beside_another(engine);
        let mut ext = SchedExt::attach(engine, sidelane)?;
        ext.set_others(fair.runnable());
        engine.switched = Some(Vec::new());
        Ok(Classes {
            fair,
            ext,
            told: vec![None; engine.machine.nr_lanes],
        })
    }

    /// The lane chooses what runs next; what runs may go on.
    fn schedule(&mut self, engine: &mut Engine, cpu: u32) {
        if self.fair.runs(cpu) {
            return self.fair.look(engine, cpu);
        }
        if !self.fair.wants(engine, cpu) {
            return self.ext.look(engine, cpu);
        }
        self.ext.give_way(engine, cpu);
        self.fair.schedule(engine, cpu);
    }

    /// The lane, on which something ran until now, chooses what runs next.
    fn choose_next(&mut self, engine: &mut Engine, cpu: u32) {
        let here = std::mem::replace(&mut engine.this_lane, cpu);
        match self.fair.wants(engine, cpu) {
            true => self.fair.schedule(engine, cpu),
            false => self.ext.choose_next(engine, cpu),
        }
        engine.this_lane = here;
    }

    /// After an operation of either class: what follows from it for the other.
    fn settle(&mut self, engine: &mut Engine) {
        loop {
            for (cpu, taken) in self.ext.take_changed() {
                self.fair.set_taken(cpu, taken);
            }
            let Some(cpu) = engine.switched.as_mut().and_then(Vec::pop) else {
                break;
            };
            if self.told[cpu as usize].is_some() && engine.is_idle(cpu) {
                self.choose_next(engine, cpu);
            }
            let next = engine.current(cpu);
            let prev = std::mem::replace(&mut self.told[cpu as usize], next);
            if prev != next {
                self.ext.switches(engine, cpu, prev, next);
                self.ext.reenqueue(engine);
            }
        }
    }
}

impl Scheduler for Classes {
    fn create(&mut self, engine: &mut Engine, id: TaskId) {
        self.ext.create(engine, id);
        match self.ext.has(id) {
            true => self.fair.leave_out(engine, id),
            false => self.fair.create(engine, id),
        }
        self.settle(engine);
    }

    fn wake(&mut self, engine: &mut Engine, id: TaskId, sync: bool) {
        match self.ext.has(id) {
            true => self.ext.wake(engine, id, sync),
            false => self.fair.wake(engine, id, sync),
        }
        self.settle(engine);
    }

    fn look(&mut self, engine: &mut Engine, cpu: u32) {
        self.schedule(engine, cpu);
        self.settle(engine);
    }

    fn sleep(&mut self, engine: &mut Engine, cpu: u32) {
        match self.fair.runs(cpu) {
            true => self.fair.sleep(engine, cpu),
            // settling chooses what comes next
            false => drop(self.ext.put_to_sleep(engine, cpu)),
        }
        self.settle(engine);
    }

    fn tick(&mut self, engine: &mut Engine, cpu: u32) {
        self.ext.tick_of_any(engine);
        if self.fair.runs(cpu) {
            self.fair.tick(engine, cpu);
        } else if self.ext.ticks(engine, cpu) {
            self.schedule(engine, cpu);
        }
        self.settle(engine);
    }

    /// A lane that runs a fair task is not the source's to kick.
    fn kick(&mut self, engine: &mut Engine, cpu: u32, flags: u64) {
        if !self.fair.runs(cpu) && self.ext.is_kicked(engine, cpu, flags) {
            self.schedule(engine, cpu);
        }
        self.settle(engine);
    }

    fn timer(&mut self, engine: &mut Engine, token: u64) {
        match token & OWN_TIMER == 0 {
            true => self.ext.timer(engine, token),
            false => self.fair.timer(engine, token),
        }
        self.settle(engine);
    }

    fn change_cpus(&mut self, engine: &mut Engine, id: TaskId) {
        self.ext.follow_cpus(engine, id);
        if !self.ext.has(id) {
            self.fair.change_cpus(engine, id);
        }
        self.settle(engine);
    }

    fn change_class(&mut self, engine: &mut Engine, id: TaskId) {
        let is_batch = engine.task(id).spec.class == Class::Batch;
        match (self.ext.has(id), is_batch) {
            (true, false) => {
                self.ext.hand_over(engine, id);
                self.fair.take_over(engine, id);
            }
            (false, true) => {
                self.fair.hand_over(engine, id);
                self.ext.take_over(engine, id);
                let task = engine.task(id);
                if matches!(task.state, State::Running(_)) {
                    engine.look(task.lane); // others may wait there, which come first now
                }
            }
            (ours, _) => {
                self.ext.change_class(engine, id);
                if !ours {
                    self.fair.change_class(engine, id);
                }
            }
        }
        self.settle(engine);
    }

    fn exit(&mut self, engine: &mut Engine, id: TaskId) {
        self.ext.exit(engine, id);
        self.fair.exit(engine, id);
        self.settle(engine);
    }

    /// The source is attached again to the machine as it is then; the fair scheduler goes on.
    fn set_online(&mut self, engine: &mut Engine, cpus: &[u32], online: bool) {
        self.ext.detach(engine);
        self.fair.set_online(engine, cpus, online);
        for cpu in engine.switched.iter_mut().flat_map(std::mem::take) {
            self.told[cpu as usize] = engine.lanes[cpu as usize].current;
        }
        self.ext.attach_again(engine);
        self.settle(engine);
    }

    fn set_smt_level(&mut self, level: u32) -> bool {
        self.ext.set_smt_level(level)
    }

    fn counters(&self) -> Counters {
        self.ext.counters().plus(&self.fair.counters())
    }

    fn objective(&self) -> Option<ObjectiveState> {
        self.ext.objective()
    }

    fn pools(&self) -> Vec<PoolState> {
        self.ext.pools()
    }

    fn pool_settings(&self) -> &[Pool] {
        self.ext.pool_settings()
    }

    fn counted(&self) -> Option<Counted> {
        self.ext.counted()
    }

    fn check(&mut self, engine: &Engine) -> Result<()> {
        self.ext.check(engine)?;
        self.fair.check(engine)
    }

    fn check_deep(&self, engine: &Engine) -> Result<()> {
        self.ext.check_deep(engine)?;
        for (cpu, told) in (0..).zip(&self.told) {
            if engine.current(cpu) != *told {
                return Err(Error::Violation {
                    at_ns: engine.now_ns(),
                    what: format!("was not told what runs on lane {cpu}"),
                    steps: engine.recorder.last(),
                });
            }
        }
        Ok(())
    }
}
