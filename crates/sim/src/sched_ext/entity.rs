//! A task as the scheduler's source sees it.

use super::native;
use super::queues::Place;
use crate::task::{Class, Policy, Task, TaskId};

/// The policy of tasks that were given to sched_ext by name.
const SCHED_EXT: u32 = 7;

/// A queue of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queue {
    /// A lane's own.
    Local(u32),
    /// One that the scheduler created, by its identifier.
    Custom(u64),
}

/// What the simulated kernel keeps of a task for the scheduler. Boxes: their addresses are known
/// to each other and to the scheduler.
pub(super) struct Entity {
    pub native: Box<native::task_struct>,
    /// Storage of the scheduler's context.
    pub storage: Option<Box<[u64]>>,
    /// Where it waits.
    pub queue: Option<(Queue, Place)>,
    /// Until when its slice is charged, as time on its lane, ns.
    pub charged_ns: u64,
    /// It belongs to sched_ext, not to the kernel's own scheduler.
    pub ours: bool,
    /// The lane whose run queue counts it: it runs or waits.
    pub counted: Option<u32>,
    pid: Box<native::pid>,
    cred: Box<native::cred>,
    set: Box<native::css_set>,
    group: Box<native::cgroup>,
    node: Box<native::kernfs_node>,
}

impl Entity {
    /// `partial`: the kernel's own scheduler keeps all tasks but batch.
    pub fn new(id: TaskId, task: &Task, partial: bool) -> Entity {
        let mut entity = Entity {
            native: Box::default(),
            storage: None,
            queue: None,
            charged_ns: 0,
            ours: true,
            counted: None,
            pid: Box::default(),
            cred: Box::default(),
            set: Box::default(),
            group: Box::default(),
            node: Box::default(),
        };
        entity.native.number = id.0;
        entity.native.pid = id.0 as i32 + 1;
        entity.native.tgid = entity.native.pid;
        entity.native.group_leader = &mut *entity.native;
        entity.pid.numbers[0].nr = entity.native.pid;
        entity.native.thread_pid = &mut *entity.pid;
        entity.native.mm = std::ptr::null_mut();
        entity.native.cred = &*entity.cred;
        entity.group.kn = &mut *entity.node;
        entity.set.dfl_cgrp = &mut *entity.group;
        entity.native.cgroups = &mut *entity.set;
        for (to, from) in entity
            .native
            .comm
            .iter_mut()
            .take(15)
            .zip(task.spec.name.bytes())
        {
            *to = from as std::ffi::c_char;
        }
        entity.update(task, partial);
        entity
    }

    /// The scheduler's context, if it has one.
    pub fn context(&self) -> Option<&native::task_ctx> {
        let storage = self.storage.as_ref()?;
        // SAFETY: the scheduler has asked for storage for this, of which each part is a number.
        Some(unsafe { &*storage.as_ptr().cast() })
    }

    /// Takes over what may have changed: class, policy, nice value, CPUs.
    pub fn update(&mut self, task: &Task, partial: bool) {
        let spec = &task.spec;
        self.ours = !partial || spec.class == Class::Batch;
        self.cred.euid.val = spec.class as u32 + 1;
        self.node.id = spec.pool.map_or(0, |pool| pool as u64 + 1);
        self.native.flags = match spec.kernel_thread {
            true => native::PF_KTHREAD,
            false => 0,
        };
        self.native.static_prio = 120 + spec.nice;
        self.native.prio = self.native.static_prio;
        self.native.policy = match spec.policy {
            _ if partial && self.ours => SCHED_EXT,
            Policy::Normal => 0,
            Policy::Batch => 3,
            Policy::Idle => 5,
        };
        self.native.scx.weight = weight_of(spec.nice);
        self.native.cpus_mask.words = task.allowed.as_ptr();
        self.native.cpus_mask.nr_words = task.allowed.len() as u32;
        let count: u32 = task.allowed.iter().map(|word| word.count_ones()).sum();
        self.native.nr_cpus_allowed = count as i32;
        self.native.cpus_ptr = &self.native.cpus_mask;
    }
}

/// What a nice value weighs, 100 for nice 0: a step of nice is a factor of 1.25, as in the kernel.
fn weight_of(nice: i32) -> u32 {
    const STEP: f64 = 1.25;
    let steps = -nice.clamp(-20, 19);
    let mut weight = 100.0;
    for _ in 0..steps.abs() {
        weight = if steps > 0 {
            weight * STEP
        } else {
            weight / STEP
        };
    }
    (weight as u32).clamp(1, 10_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_follow_nice_values() {
        assert_eq!(weight_of(0), 100);
        assert_eq!(weight_of(1), 80);
        assert_eq!(weight_of(-1), 125);
        // The kernel's table, scaled to 100 for 1024: 88761 and 15.
        assert!((8_600..=8_700).contains(&weight_of(-20)));
        assert!((1..=2).contains(&weight_of(19)));
    }
}
