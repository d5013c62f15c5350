//! The boards of programs that use the runtime: batch that steps aside by itself, and jobs that are marked.

use super::native::{self, job_slot};
use crate::task::{Mark, Task, TaskId};
use std::collections::BTreeMap;

const SLOTS: usize = native::job_board_limits_JOB_SLOTS as usize;

/// The slots of all tasks that tell anything. Tasks beyond the slots tell nothing.
#[derive(Default)]
pub(super) struct Boards {
    slots: Vec<job_slot>,
    /// What tasks mark as soon as they run.
    next: BTreeMap<TaskId, Mark>,
}

impl Boards {
    /// A task appears. One that naps does so all the time, as far as it tells, so that a sleep is a nap.
    pub fn appears(&mut self, id: TaskId, task: &Task) {
        if task.spec.naps {
            self.tell(id, |slot| slot.naps = 1);
        }
    }

    /// A job is marked: now if the task runs, else when it does.
    pub fn mark(&mut self, id: TaskId, mark: Mark, runs: bool) {
        match runs {
            true => self.write(id, mark),
            false => {
                self.next.insert(id, mark);
            }
        }
    }

    /// The task begins to run.
    pub fn runs(&mut self, id: TaskId) {
        if let Some(mark) = self.next.remove(&id) {
            self.write(id, mark);
        }
    }

    fn write(&mut self, id: TaskId, mark: Mark) {
        self.tell(id, |slot| match mark {
            Mark::Begins {
                began_ns,
                deadline_ns,
            } => (slot.began_ns, slot.deadline_ns) = (began_ns, deadline_ns),
            Mark::Ends { latency_ns } => {
                let place = slot.ended as usize % slot.latencies.len();
                if let Some(latency) = slot.latencies.get_mut(place) {
                    let unit = u64::from(native::job_board_limits_JOB_LATENCY_NS);
                    *latency = u32::try_from(latency_ns / unit).unwrap_or(u32::MAX);
                }
                slot.began_ns = 0;
                slot.ended += 1;
            }
        });
    }

    /// What the task writes into its slot.
    pub fn tell(&mut self, id: TaskId, change: impl FnOnce(&mut job_slot)) {
        let tid = id.0 + 1;
        if tid as usize >= SLOTS {
            return;
        }
        if self.slots.is_empty() {
            self.slots.resize(SLOTS, job_slot::default());
            // SAFETY: taken back before they go; they are never more
            unsafe { lend(self.slots.as_mut_ptr(), SLOTS) };
        }
        if let Some(slot) = self.slots.get_mut(tid as usize) {
            slot.tid = tid;
            change(slot);
        }
    }
}

impl Drop for Boards {
    fn drop(&mut self) {
        if !self.slots.is_empty() {
            // SAFETY: nobody looks at none
            unsafe { lend(std::ptr::null_mut(), 0) };
        }
    }
}

unsafe fn lend(slots: *mut job_slot, count: usize) {
    let map = native::native_map_JOB_SLOTS_OF_ALL;
    // SAFETY: the caller's
    unsafe { native::native_set_table(map, slots.cast(), count as u32) };
}
