//! Checks the queues, and what the scheduler knows of them and of the lanes, against the machine.

use super::entity::Queue;
use super::{SchedExt, native};
use crate::engine::Engine;
use crate::task::{State, TaskId};

impl SchedExt {
    /// What is not as it should be, if anything.
    pub(super) fn check_queues(&self, engine: &Engine) -> Result<(), String> {
        let mut places = vec![None; engine.tasks.len()];
        let local = (0_u32..).zip(&self.local);
        let mut queues: Vec<_> = local.map(|(cpu, dsq)| (Queue::Local(cpu), dsq)).collect();
        queues.extend(self.queues.iter().map(|(id, dsq)| (Queue::Custom(id), dsq)));
        for (queue, dsq) in queues {
            for id in dsq.iter() {
                let before = places[id.index()].replace(queue);
                if let Some(before) = before {
                    return Err(format!("lost {id}: it is in {before:?} and in {queue:?}"));
                }
            }
        }
        for (index, place) in places.into_iter().enumerate() {
            self.check_task(engine, TaskId(index as u32), place)?;
        }
        self.check_hints()?;
        self.check_expected(engine)?;
        (0..engine.lanes.len() as u32).try_for_each(|cpu| self.check_lane(engine, cpu))
    }

    fn check_task(&self, engine: &Engine, id: TaskId, place: Option<Queue>) -> Result<(), String> {
        let known = self.entities[id.index()].queue.map(|(queue, _)| queue);
        let state = engine.task(id).state;
        if known != place {
            return Err(format!("lost {id}: it is in {place:?}, not in {known:?}"));
        }
        if place.is_some() != (state == State::Waiting && self.has(id)) {
            return Err(format!("lost {id}: it is {state:?}, and in {place:?}"));
        }
        match state {
            State::Running(cpu) if engine.current(cpu) != Some(id) => {
                Err(format!("lost {id}: lane {cpu} runs something else"))
            }
            _ => Ok(()),
        }
    }

    /// A core expects the critical tasks that are on their way to it, and those for which it is reserved: one too many, and it
    /// would never open again.
    fn check_expected(&self, engine: &Engine) -> Result<(), String> {
        let mut expected = vec![0; self.tables.nr_cores() as usize];
        for (index, entity) in self.entities.iter().enumerate() {
            let Some(context) = entity.context() else {
                continue;
            };
            if context.expected > 0 {
                let id = TaskId(index as u32);
                if engine.task(id).state != State::Waiting {
                    return Err(format!("expected {id}, which does not wait"));
                }
                expected[context.expected as usize - 1] += 1;
            }
            if context.promote_to > 0 {
                expected[context.promote_to as usize - 1] += 1;
            }
        }
        let cores = self.tables.expected();
        match cores.eq(expected.iter().copied()) {
            true => Ok(()),
            false => Err(format!("cores expect others than these: {expected:?}")),
        }
    }

    /// A vector with a task is known to be one to look at: "false is certain".
    fn check_hints(&self) -> Result<(), String> {
        for (id, queue) in self.queues.iter() {
            let (core, class) = (id as u32, (id >> 32).wrapping_sub(1) as u32);
            if class >= native::task_class_NR_CLASSES {
                continue; // what a pool holds: its timer finds it
            }
            // SAFETY: reads this thread's globals, which are this scheduler's.
            let hinted = unsafe { native::native_vector_hinted(core, class) };
            if !queue.is_empty() && !hinted {
                return Err(format!(
                    "lost sight of the {} tasks in queue {id:#x}",
                    queue.len()
                ));
            }
        }
        Ok(())
    }

    /// What the scheduler thinks that a lane does.
    fn check_lane(&self, engine: &Engine, cpu: u32) -> Result<(), String> {
        let Some(lane) = engine.lane(cpu) else {
            return Ok(());
        };
        if self.is_partial() {
            return self.check_followed(engine, cpu);
        }
        let state = self.tables.lanes[cpu as usize].state;
        // A busy lane may have been taken over for another task: then it is about to look.
        let slice_ns = |id: TaskId| self.entities[id.index()].native.scx.slice;
        let taken_over = state == native::lane_state_LANE_OTHER
            && lane.current.is_some_and(|id| slice_ns(id) == 0);
        let runs = state < native::lane_state_LANE_IDLE || taken_over;
        match lane.current.is_some() == runs {
            true => Ok(()),
            false => Err(format!(
                "lost track of lane {cpu}: it runs {:?}, its state is {state}",
                lane.current
            )),
        }
    }
}
