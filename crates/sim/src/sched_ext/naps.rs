//! The boards of batch programs that step aside by themselves.

use super::native::{self, job_slot};
use crate::task::{Task, TaskId};

const SLOTS: usize = native::job_board_limits_JOB_SLOTS as usize;

/// The slots of all tasks that nap: all the time, as far as they tell, so that a sleep is a nap. Tasks beyond
/// the slots tell nothing.
#[derive(Default)]
pub(super) struct Naps(Vec<job_slot>);

impl Naps {
    /// A task appears.
    pub fn tell(&mut self, id: TaskId, task: &Task) {
        let tid = id.0 + 1;
        if !task.spec.naps || tid as usize >= SLOTS {
            return;
        }
        self.0.resize(SLOTS, job_slot::default());
        if let Some(slot) = self.0.get_mut(tid as usize) {
            (slot.tid, slot.naps) = (tid, 1);
        }
        let slots = self.0.as_mut_ptr();
        // SAFETY: taken back before they go; they are never more
        unsafe { lend(slots, SLOTS) };
    }

    /// Nobody may look at them any more.
    pub fn take_back(&mut self) {
        if !self.0.is_empty() {
            // SAFETY: none
            unsafe { lend(std::ptr::null_mut(), 0) };
        }
    }
}

unsafe fn lend(slots: *mut job_slot, count: usize) {
    let map = native::native_map_JOB_SLOTS_OF_ALL;
    // SAFETY: the caller's
    unsafe { native::native_set_table(map, slots.cast(), count as u32) };
}
