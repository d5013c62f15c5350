//! The scheduler's own source under a simulated subset of sched_ext.
//!
//! In the kernel's order: waking (select_cpu, then enqueue unless the task was sent somewhere),
//! scheduling (dispatch until there is something; stopping and enqueue of what ran; running of what
//! comes next), ticks, kicks, idle notifications on changes. Not simulated: the built-in idle masks
//! (the source keeps its own), cgroups (a task's class is told by its user, its pool by a number), real-time
//! scheduling classes, and the moments in which the kernel's default scheduler rules between two attachments. With
//! `scope = "batch"` it is one of two ([`crate::classes`]): partial.rs.

mod calls;
mod check;
mod cycle;
mod entity;
#[cfg(test)]
mod marks;
mod partial;
mod queues;
mod settings;
mod tables;
mod visit;

/// Bindings for the natively compiled scheduler and what it shares with the simulated kernel.
#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    dead_code,
    clippy::all
)]
mod native {
    include!(concat!(env!("OUT_DIR"), "/native.rs"));
}

pub(crate) use partial::Runnable;
pub use settings::{Sidelane, TimeoutSearch, symbiotic_speed};

use crate::engine::{Engine, Event};
use crate::record::Step;
use crate::scheduler::Counters;
use crate::task::TaskId;
use crate::{Error, Result};
use calls::operate;
use entity::{Entity, Queue};
use partial::Beside;
use queues::{Dsq, Queues};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;
use tables::{Boards, Tables};
use visit::Visit;

/// The kernel's flags, as in `native/kernel.h`.
const ENQ_WAKEUP: u64 = 1;
const ENQ_HEAD: u64 = 1 << 16;
const ENQ_PREEMPT: u64 = 1 << 32;
const ENQ_REENQ: u64 = 1 << 40;
const ENQ_LAST: u64 = 1 << 41;
const ITER_REVERSE: u64 = 1 << 16;
const DSQ_LOCAL: u64 = 1 << 63 | 2;
const DSQ_LOCAL_ON: u64 = 3 << 62;
const WAKE_SYNC: u64 = 0x10;
const KICK_IDLE: u64 = 1;
const KICK_PREEMPT: u64 = 2;

thread_local! {
    /// Whether this thread's copy of the scheduler's globals is in use.
    static ATTACHED: Cell<bool> = const { Cell::new(false) };
}

/// Where the scheduler sends a task.
struct Insertion {
    dsq: u64,
    slice_ns: u64,
    vtime_ns: Option<u64>,
    flags: u64,
}

/// The attached scheduler.
pub(crate) struct SchedExt {
    sidelane: Sidelane,
    tables: Tables,
    entities: Vec<Entity>,
    /// The lanes' own queues, by CPU number.
    local: Vec<Dsq>,
    queues: Queues,
    /// The task that a placing operation is about.
    placing: Option<TaskId>,
    /// It is about one that ran and could go on.
    puts_back: bool,
    /// What the placing operation said.
    insertion: Option<Insertion>,
    /// The queue that the scheduler goes through.
    visit: Visit,
    violation: Option<Error>,
    /// The lane that leaves the machine, of which the source has not been told: it takes nothing any more.
    leaving: Option<u32>,
    /// The lane and the task that left it last, for the tracepoint of the switch.
    left: Option<(u32, TaskId)>,
    /// How often each timer was set, by element of its map; never less, whatever is attached.
    timers: Vec<u32>,
    /// Counted in attachments before this one.
    earlier: Counters,
    /// What stands for the idle task of any lane.
    idle_task: Box<native::task_struct>,
    beside: Beside,
    /// Where programs tell of their threads.
    boards: Boards,
}

impl Drop for SchedExt {
    fn drop(&mut self) {
        ATTACHED.set(false);
    }
}

impl SchedExt {
    /// Attaches the scheduler of this thread to a machine on which nothing runs.
    pub fn attach(engine: &mut Engine, sidelane: &Sidelane) -> Result<SchedExt> {
        if ATTACHED.replace(true) {
            return Err(Error::Busy);
        }
        let mut scheduler = SchedExt {
            sidelane: sidelane.clone(),
            tables: Tables::of(engine, sidelane),
            entities: Vec::new(),
            local: Vec::new(),
            queues: Queues::default(),
            placing: None,
            puts_back: false,
            insertion: None,
            visit: Visit::default(),
            violation: None,
            leaving: None,
            left: None,
            timers: Vec::new(),
            earlier: Counters::default(),
            idle_task: Box::default(),
            beside: Beside::new(engine, sidelane.settings.only_batch()),
            boards: Boards::default(),
        };
        scheduler.start(engine);
        scheduler.violation.take().map_or(Ok(scheduler), Err)
    }

    /// Empty queues, fresh tables, and the scheduler's `init`.
    fn start(&mut self, engine: &mut Engine) {
        self.local = (0..engine.machine.nr_lanes)
            .map(|_| Dsq::default())
            .collect();
        self.queues.clear();
        // timers of an earlier attachment do not ring
        self.timers
            .iter_mut()
            .for_each(|set| *set = set.wrapping_add(1));
        self.tables = Tables::of(engine, &self.sidelane);
        self.tables.lend();
        let (fixed, live) = (
            self.sidelane.fixed(self.tables.widest),
            self.sidelane.settings.live(self.tables.widest),
        );
        let (nr_cores, nr_lanes) = (self.tables.nr_cores(), engine.machine.nr_lanes as u32);
        let tick_ns = engine.machine.costs.tick_ns;
        let status = operate(self, engine, || {
            // SAFETY: the settings are copied; the scheduler's globals are this thread's own.
            unsafe {
                native::native_reset(nr_cores, nr_lanes, tick_ns, &fixed, &live);
                native::sidelane_init()
            }
        });
        if status != 0 {
            self.broke(engine, format!("did not attach: error {status}"));
        }
    }

    /// Makes a task known to the scheduler.
    fn adopt(&mut self, engine: &mut Engine, id: TaskId) {
        let (p, ours) = (self.pointer(id), self.has(id));
        let status = operate(self, engine, || {
            let mut arguments = native::scx_init_task_args::default();
            // SAFETY: the task stays where it is as long as the simulation.
            unsafe {
                let status = native::sidelane_init_task(p, &mut arguments);
                if ours {
                    native::sidelane_enable(p);
                }
                status
            }
        });
        if status != 0 {
            self.broke(engine, format!("refused {id}: error {status}"));
        }
    }

    /// What a task may use has changed, or may have while another class had it. Nothing of one that another class has.
    fn tell_cpus(&mut self, engine: &mut Engine, id: TaskId) {
        if !self.has(id) {
            return;
        }
        let p = self.pointer(id);
        // SAFETY: as for `adopt`; its mask lives as long as it does.
        operate(self, engine, || unsafe {
            native::sidelane_set_cpumask(p, (*p).cpus_ptr)
        });
    }

    fn pointer(&mut self, id: TaskId) -> *mut native::task_struct {
        &mut *self.entities[id.index()].native
    }

    /// Tasks have the numbers from 1 on, in the order of their creation.
    fn task_of_pid(&mut self, pid: i32) -> *mut native::task_struct {
        let index = usize::try_from(pid).ok().and_then(|pid| pid.checked_sub(1));
        let entity = index.and_then(|index| self.entities.get_mut(index));
        entity.map_or(null_mut(), |entity| &mut *entity.native)
    }

    fn idle_task(&mut self) -> *mut native::task_struct {
        &mut *self.idle_task
    }

    fn slice_ns(&mut self, id: TaskId) -> &mut u64 {
        &mut self.entities[id.index()].native.scx.slice
    }

    /// Notes that a rule was broken; the first one counts.
    fn broke(&mut self, engine: &Engine, what: String) {
        if self.violation.is_none() {
            self.violation = Some(Error::Violation {
                at_ns: engine.now_ns(),
                what,
                steps: engine.recorder.last(),
            });
        }
    }
}

/// What the scheduler's calls do.
impl SchedExt {
    /// A timer rings once, after the time that it was set to last.
    fn set_timer(&mut self, engine: &mut Engine, element: u32, after_ns: u64) {
        let index = element as usize;
        if self.timers.len() <= index {
            self.timers.resize(index + 1, 0);
        }
        self.timers[index] = self.timers[index].wrapping_add(1);
        let token = u64::from(self.timers[index]) << 32 | u64::from(element);
        let at_ns = engine.now_ns().saturating_add(after_ns);
        engine.events.add(at_ns, Event::SchedulerTimer { token });
    }

    /// False if there is such a queue already.
    fn create_queue(&mut self, dsq: u64) -> bool {
        self.queues.create(dsq)
    }

    fn queue_length(&self, dsq: u64) -> usize {
        self.queues.get(dsq).map_or(0, Dsq::len)
    }

    fn insert(&mut self, engine: &Engine, id: TaskId, insertion: Insertion) {
        if self.placing != Some(id) {
            self.broke(engine, format!("sent {id}, which is not being placed"));
        } else if self.insertion.replace(insertion).is_some() {
            self.broke(engine, format!("sent {id} twice"));
        }
    }

    /// Moves the first task of a queue that may run on this lane to its own queue.
    fn move_to_local(&mut self, engine: &mut Engine, dsq: u64) -> bool {
        let cpu = engine.this_lane;
        if self.leaving == Some(cpu) {
            return false;
        }
        let Some(queue) = self.queues.get(dsq) else {
            self.broke(
                engine,
                format!("took from queue {dsq:#x}, which does not exist"),
            );
            return false;
        };
        let fits = |id: &TaskId| engine.task(*id).may_use(cpu);
        let Some(id) = queue.iter().find(fits) else {
            return false;
        };
        self.leave_queue(id);
        self.join_local(engine, id, cpu, false);
        true
    }

    /// Puts a task into the own queue of a lane, or of another one if that leaves.
    fn join_local(&mut self, engine: &mut Engine, id: TaskId, mut cpu: u32, first: bool) {
        if let Some(other) = self.instead(engine, id, cpu) {
            cpu = other;
            engine.task_mut(id).lane = cpu;
            engine.look(cpu);
        }
        let place = self.local[cpu as usize].insert(id, first);
        self.entities[id.index()].queue = Some((Queue::Local(cpu), place));
        engine.record(Step::QueueLocal {
            task: id,
            lane: cpu,
        });
    }

    /// Another lane that a task may use, if this one leaves.
    fn instead(&self, engine: &Engine, id: TaskId, cpu: u32) -> Option<u32> {
        match self.leaving == Some(cpu) {
            true => engine.allowed(id).find(|other| *other != cpu),
            false => None,
        }
    }

    fn leave_queue(&mut self, id: TaskId) {
        let Some((queue, place)) = self.entities[id.index()].queue.take() else {
            return;
        };
        let queue = match queue {
            Queue::Local(cpu) => self.local.get_mut(cpu as usize),
            Queue::Custom(dsq) => self.queues.get_mut(dsq),
        };
        if let Some(queue) = queue {
            queue.remove(place);
        }
    }

    fn peek(&mut self, dsq: u64) -> *mut native::task_struct {
        let first = self.queues.get(dsq).and_then(Dsq::first);
        first.map_or(null_mut(), |id| self.pointer(id))
    }

    fn kick_cpu(&mut self, engine: &mut Engine, cpu: i32, flags: u64) {
        match u32::try_from(cpu) {
            Ok(cpu) if engine.lane(cpu).is_some() => engine.kick(cpu, flags),
            _ => self.broke(engine, format!("kicked lane {cpu}, which is not online")),
        }
    }

    fn storage(&mut self, id: TaskId, size: usize, create: bool) -> *mut c_void {
        let storage = &mut self.entities[id.index()].storage;
        if storage.is_none() && create {
            *storage = Some(vec![0; size.div_ceil(size_of::<u64>())].into_boxed_slice());
        }
        storage
            .as_mut()
            .map_or(null_mut(), |words| words.as_mut_ptr().cast())
    }
}
