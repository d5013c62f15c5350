//! The scheduler goes through a queue, and moves tasks from there to others.

use super::entity::Queue;
use super::{DSQ_LOCAL, SchedExt, native};
use crate::engine::Engine;
use crate::record::Step;
use crate::task::TaskId;
use std::collections::VecDeque;
use std::ptr::null_mut;

/// A queue as it was when the scheduler began to go through it.
#[derive(Default)]
pub(super) struct Visit {
    dsq: u64,
    left: VecDeque<TaskId>,
    /// What the next task that is moved gets.
    pub slice_ns: Option<u64>,
    pub vtime_ns: Option<u64>,
}

impl SchedExt {
    /// Begins to go through a queue, from its end if `reverse`.
    pub(super) fn visit_queue(&mut self, dsq: u64, reverse: bool) {
        let left = self.queues.get(dsq).map(|queue| queue.iter().collect());
        let mut left: VecDeque<TaskId> = left.unwrap_or_default();
        if reverse {
            left.make_contiguous().reverse();
        }
        self.visit = Visit {
            dsq,
            left,
            ..Visit::default()
        };
    }

    pub(super) fn visit_next(&mut self) -> *mut native::task_struct {
        while let Some(id) = self.visit.left.pop_front() {
            if self.is_in(id, self.visit.dsq) {
                return self.pointer(id);
            }
        }
        null_mut()
    }

    /// False if the task has left the queue.
    pub(super) fn move_to_queue(
        &mut self,
        engine: &mut Engine,
        id: TaskId,
        dsq: u64,
        by_vtime: bool,
    ) -> bool {
        let (slice_ns, vtime_ns) = (self.visit.slice_ns.take(), self.visit.vtime_ns.take());
        if !self.is_in(id, self.visit.dsq) {
            return false;
        }
        if dsq == DSQ_LOCAL {
            if self.leaving == Some(engine.this_lane) {
                return false;
            }
            self.leave_queue(id);
            let scx = &mut self.entities[id.index()].native.scx;
            scx.slice = slice_ns.unwrap_or(scx.slice);
            self.join_local(engine, id, engine.this_lane, false);
            return true;
        }
        if self.queues.get(dsq).is_none() {
            self.broke(engine, format!("moved {id} to unknown queue {dsq:#x}"));
            return false;
        }
        self.leave_queue(id);
        let entity = &mut self.entities[id.index()];
        let scx = &mut entity.native.scx;
        scx.slice = slice_ns.unwrap_or(scx.slice);
        scx.dsq_vtime = vtime_ns.unwrap_or(scx.dsq_vtime);
        let Some(queue) = self.queues.get_mut(dsq) else {
            return false;
        };
        let place = match by_vtime {
            true => queue.insert_vtime(id, scx.dsq_vtime),
            false => queue.insert(id, false),
        };
        entity.queue = Some((Queue::Custom(dsq), place));
        engine.record(Step::Queue {
            task: id,
            queue: dsq,
        });
        true
    }

    fn is_in(&self, id: TaskId, dsq: u64) -> bool {
        let queue = self.entities[id.index()].queue;
        queue.is_some_and(|(queue, _)| queue == Queue::Custom(dsq))
    }
}
