//! What the run looks like from outside: kept from the recorded steps alone, so that it owes nothing
//! to the simulator's own books.

use super::known;
use super::rules::{Broken, Rule, Verdict};
use crate::machine::Machine;
use crate::record::{Record, Step};
use crate::sched_ext::Settings;
use crate::task::{Class, State, TaskId, TaskSpec, cpu_bits};
use crate::{LaneTotals, TaskTotals};
use std::collections::VecDeque;

/// How long the scheduler keeps a core for a critical task that was sent there (`ARRIVAL_NS`).
const ARRIVAL_NS: u64 = 5_000_000;
/// So many steps are shown with a failure.
const LAST: usize = 100;

/// The machine as the steps so far leave it.
pub(super) struct Watch {
    pub machine: Machine,
    pub settings: Settings,
    pub now_ns: u64,
    /// When the scheduler was attached last.
    pub attached_ns: u64,
    pub lanes: Vec<Lane>,
    pub cores: Vec<Core>,
    pub tasks: Vec<Task>,
    /// Lanes that run something, and since when there is none.
    pub busy: usize,
    pub rests_since_ns: u64,
    /// Cores by the scheduler's numbers: those with a lane that is online.
    numbers: Vec<usize>,
    last: VecDeque<Record>,
    pub nr_steps: u64,
}

pub(super) struct Lane {
    pub core: usize,
    pub online: bool,
    pub task: Option<TaskId>,
    /// When it fell idle.
    pub idle_ns: u64,
    /// From when on the running task progresses.
    pub ready_ns: u64,
    pub totals: LaneTotals,
}

#[derive(Default)]
pub(super) struct Core {
    pub busy: usize,
    /// Critical tasks that run here or wait for a lane of this core.
    critical: usize,
    /// Since when there are some.
    pub closed_ns: Option<u64>,
    /// From when to when there were some before.
    was_closed: Option<(u64, u64)>,
    /// Since when there is none and none is expected any more; may lie ahead.
    pub open_ns: u64,
    /// Since when more lanes are busy than the SMT level allows.
    pub crowded_ns: Option<u64>,
    /// Since when another lane may be.
    pub room_ns: u64,
    /// When a task that waited beyond its bound was served last.
    pub served_ns: u64,
    /// When a task last began or ceased to wait here that some lane may not take.
    pub passed_over_ns: u64,
    pub vectors: [Vector; 3],
    pub accounted_ns: u64,
    pub density_ns: Vec<u64>,
    /// `[n]`: lane time with n busy lanes, without switches.
    pub progress_ns: Vec<u64>,
    pub density_work_ns: Vec<f64>,
}

#[derive(Default)]
pub(super) struct Vector {
    pub length: usize,
    /// When a task left that had not waited for as long as the bound.
    pub timely_ns: u64,
    /// Since when two tasks or more wait there.
    pub two_ns: u64,
}

/// Where a waiting task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Nowhere,
    Vector { core: usize, class: Class },
    Local(u32),
}

pub(super) struct Task {
    pub spec: TaskSpec,
    pub allowed: Box<[u64]>,
    /// Its class when the scheduler looked it up last.
    pub known: Class,
    /// Since when that is out of date.
    pub changed_ns: Option<u64>,
    pub state: State,
    pub place: Place,
    /// The vector it was taken from.
    taken_from: Option<usize>,
    /// When the scheduler queued it.
    pub queued_ns: u64,
    /// When it began to wait, or to run.
    pub since_ns: u64,
    /// It began to run after it had waited for as long as its bound.
    pub overdue: bool,
    /// The core that it closes.
    closes: Option<usize>,
    /// On its way to a lane, but the core's claim was cleared ([`known::ONE_CLAIM`]).
    unclaimed: bool,
    ran_on: Option<u32>,
    pub totals: TaskTotals,
}

impl Task {
    pub fn may_use(&self, cpu: u32) -> bool {
        self.allowed[cpu as usize / 64] >> (cpu % 64) & 1 == 1
    }
}

impl Watch {
    pub fn new(machine: &Machine, settings: &Settings) -> Watch {
        let idle = |cpu: usize| Lane {
            core: 0,
            online: machine.online[cpu],
            task: None,
            idle_ns: 0,
            ready_ns: 0,
            totals: LaneTotals::default(),
        };
        let mut lanes: Vec<Lane> = (0..machine.nr_lanes).map(idle).collect();
        let mut cores = Vec::new();
        for (index, core) in machine.cores.iter().enumerate() {
            for &cpu in &core.lanes {
                lanes[cpu as usize].core = index;
            }
            let n = core.lanes.len() + 1;
            cores.push(Core {
                density_ns: vec![0; n],
                progress_ns: vec![0; n],
                density_work_ns: vec![0.0; n],
                ..Core::default()
            });
        }
        let mut watch = Watch {
            machine: machine.clone(),
            settings: settings.clone(),
            now_ns: 0,
            attached_ns: 0,
            lanes,
            cores,
            tasks: Vec::new(),
            busy: 0,
            rests_since_ns: 0,
            numbers: Vec::new(),
            last: VecDeque::new(),
            nr_steps: 0,
        };
        watch.attach();
        watch
    }

    /// A task was created.
    pub fn create(&mut self, spec: &TaskSpec) {
        self.tasks.push(Task {
            spec: spec.clone(),
            allowed: cpu_bits(spec.cpus.as_deref(), self.machine.nr_lanes),
            known: spec.class,
            changed_ns: None,
            state: State::Sleeping,
            place: Place::Nowhere,
            taken_from: None,
            queued_ns: 0,
            since_ns: 0,
            overdue: false,
            closes: None,
            unclaimed: false,
            ran_on: None,
            totals: TaskTotals::default(),
        });
    }

    /// A task may use these CPUs from now on.
    pub fn set_cpus(&mut self, id: TaskId, cpus: Option<&[u32]>) {
        let nr_lanes = self.machine.nr_lanes;
        self.task_mut(id).allowed = cpu_bits(cpus, nr_lanes);
    }

    /// A task is of this class from now on.
    pub fn set_class(&mut self, id: TaskId, class: Class, now_ns: u64) {
        self.now_ns = now_ns;
        if let State::Running(cpu) = self.task(id).state {
            self.account(self.lanes[cpu as usize].core);
        }
        let task = self.task_mut(id);
        task.spec.class = class;
        task.changed_ns = (task.known != class).then_some(now_ns);
    }

    pub fn task(&self, id: TaskId) -> &Task {
        &self.tasks[id.index()]
    }

    pub fn task_mut(&mut self, id: TaskId) -> &mut Task {
        &mut self.tasks[id.index()]
    }

    /// A task that runs or waits, if there is one.
    pub fn moves(&self) -> Option<usize> {
        let rests = |task: &Task| matches!(task.state, State::Sleeping | State::Exited);
        self.tasks.iter().position(|task| !rests(task))
    }

    /// The last steps, the oldest first.
    pub fn last(&self) -> Vec<Record> {
        self.last.iter().copied().collect()
    }

    /// Longest slice, ns.
    pub fn slice_ns(&self) -> u64 {
        self.settings.slice_ns.max(self.settings.batch_slice_ns)
    }

    /// Time until a lane hears of something, ns.
    pub fn reach_ns(&self) -> u64 {
        self.machine.costs.kick_ns + self.machine.costs.idle_exit_ns
    }

    /// After that wait the starvation bound holds; none for critical work.
    pub fn bound_ns(&self, class: Class) -> Option<u64> {
        match class {
            Class::Critical => None,
            Class::Normal => Some(self.settings.normal_bound_ns),
            Class::Batch => Some(self.settings.starvation_bound_ns),
        }
    }

    /// How many busy lanes a core may have.
    pub fn level(&self, core: usize) -> usize {
        let level = self.settings.smt_level.map_or(usize::MAX, |n| n as usize);
        level.min(self.machine.cores[core].lanes.len())
    }

    /// Takes a step into account.
    pub fn step(&mut self, record: Record) -> Verdict {
        if self.last.len() == LAST {
            self.last.pop_front();
        }
        self.last.push_back(record);
        self.nr_steps += 1;
        self.now_ns = record.at_ns;
        match record.step {
            Step::Wake { task } => self.wakes(task),
            Step::Queue { task, queue } => self.queued(task, queue),
            Step::QueueLocal { task, lane } => self.queued_local(task, lane),
            Step::Run { task, lane } => self.runs(task, lane),
            Step::Preempt { task, lane } => self.leaves(task, lane, State::Waiting),
            Step::Sleep { task, lane } => self.leaves(task, lane, State::Sleeping),
            Step::Exit { task } => self.exits(task),
            Step::Online { lane } => self.appears(lane, true),
            Step::Offline { lane } => self.appears(lane, false),
            Step::Kick { .. } | Step::Change { .. } => Ok(()),
        }
    }

    fn wakes(&mut self, id: TaskId) -> Verdict {
        let now_ns = self.now_ns;
        let task = self.task_mut(id);
        if task.state != State::Sleeping {
            return Broken::because(Rule::Twice, format!("{id} woke while {:?}", task.state));
        }
        task.state = State::Waiting;
        task.since_ns = now_ns;
        task.known = task.spec.class;
        task.changed_ns = None;
        Ok(())
    }

    fn queued(&mut self, id: TaskId, queue: u64) -> Verdict {
        let class = (queue >> 32)
            .checked_sub(1)
            .and_then(|class| Class::ALL.get(class as usize).copied());
        let core = self.numbers.get(queue as u32 as usize).copied();
        let (Some(class), Some(core)) = (class, core) else {
            return Broken::because(Rule::Lost, format!("{id} was sent to {queue:#x}"));
        };
        let now_ns = self.now_ns;
        let task = self.task_mut(id);
        if task.state != State::Waiting {
            return Broken::because(Rule::Twice, format!("{id} queued while {:?}", task.state));
        }
        if class != task.known {
            if class != task.spec.class {
                let what = format!("{id} was queued as {}, which it is not", class.name());
                return Broken::because(Rule::ClassChange, what);
            }
            task.known = class;
            task.changed_ns = None;
        }
        task.queued_ns = now_ns;
        self.put(id, Place::Vector { core, class })
    }

    fn queued_local(&mut self, id: TaskId, cpu: u32) -> Verdict {
        let now_ns = self.now_ns;
        match self.task(id).place {
            Place::Vector { core, .. } => {
                self.check_wait(id)?;
                self.task_mut(id).taken_from = Some(core);
            }
            _ => self.task_mut(id).queued_ns = now_ns,
        }
        self.put(id, Place::Local(cpu))
    }

    fn runs(&mut self, id: TaskId, cpu: u32) -> Verdict {
        let lane = &self.lanes[cpu as usize];
        let (core, task) = (lane.core, self.task(id));
        if task.state != State::Waiting || lane.task.is_some() {
            let what = format!("{id} runs on lane {cpu}, but is {:?}", task.state);
            return Broken::because(Rule::Twice, what);
        }
        if !lane.online || !task.may_use(cpu) {
            let what = format!("{id} runs on lane {cpu}, which it may not use");
            return Broken::because(Rule::Kernel, what);
        }
        self.check_core(core)?;
        self.account(core);
        self.change_busy(core, true);
        let (now_ns, costs) = (self.now_ns, self.machine.costs);
        let migration_ns = match self.task(id).ran_on {
            Some(last) if last != cpu => {
                let from = self.lanes[last as usize].core;
                self.machine.migration_ns(from, core)
            }
            _ => 0,
        };
        self.lanes[cpu as usize].ready_ns = now_ns + costs.switch_ns + migration_ns;
        self.lanes[cpu as usize].task = Some(id);
        let bound_ns = self.bound_ns(self.task(id).known);
        let task = self.task_mut(id);
        task.totals.wait_ns += now_ns - task.since_ns;
        task.overdue = bound_ns.is_some_and(|bound_ns| now_ns >= task.queued_ns + bound_ns);
        task.state = State::Running(cpu);
        task.since_ns = now_ns;
        task.ran_on = Some(cpu);
        let from = task.taken_from.take();
        if task.overdue {
            self.cores[core].served_ns = now_ns;
            if let Some(from) = from {
                self.cores[from].served_ns = now_ns;
            }
        }
        self.task_mut(id).unclaimed = false;
        self.put(id, Place::Nowhere)?;
        match self.task(id).known {
            // It was sent to the core of that vector, or to this lane.
            Class::Critical if known::ONE_CLAIM => self.clear_claim(from.unwrap_or(core)),
            _ => Ok(()),
        }
    }

    /// The scheduler no longer knows of the critical tasks on their way to lanes of the core.
    fn clear_claim(&mut self, core: usize) -> Verdict {
        if self.cores[core].critical == 0 {
            return Ok(());
        }
        for index in 0..self.tasks.len() {
            let task = &mut self.tasks[index];
            if task.closes == Some(core) && matches!(task.place, Place::Local(_)) {
                task.unclaimed = true;
                self.close(TaskId(index as u32))?;
            }
        }
        Ok(())
    }

    fn leaves(&mut self, id: TaskId, cpu: u32, state: State) -> Verdict {
        let core = self.lanes[cpu as usize].core;
        if self.task(id).state != State::Running(cpu) {
            let what = format!("{id} left lane {cpu} while {:?}", self.task(id).state);
            return Broken::because(Rule::Twice, what);
        }
        self.check_core(core)?;
        self.account(core);
        self.change_busy(core, false);
        let now_ns = self.now_ns;
        let lane = &mut self.lanes[cpu as usize];
        (lane.task, lane.idle_ns) = (None, now_ns);
        let task = self.task_mut(id);
        (task.state, task.since_ns) = (state, now_ns);
        self.put(id, Place::Nowhere)
    }

    fn exits(&mut self, id: TaskId) -> Verdict {
        let task = self.task_mut(id);
        if task.state != State::Sleeping {
            return Broken::because(Rule::Twice, format!("{id} exits while {:?}", task.state));
        }
        task.state = State::Exited;
        Ok(())
    }

    fn appears(&mut self, cpu: u32, online: bool) -> Verdict {
        let core = self.lanes[cpu as usize].core;
        self.account(core);
        let now_ns = self.now_ns;
        let lane = &mut self.lanes[cpu as usize];
        (lane.online, lane.idle_ns) = (online, now_ns);
        if lane.task.is_some() {
            return Broken::because(Rule::Twice, format!("lane {cpu} changed while it was busy"));
        }
        self.attach();
        for index in 0..self.tasks.len() {
            let task = &mut self.tasks[index];
            task.known = task.spec.class;
            task.changed_ns = None;
            task.taken_from = None;
            task.unclaimed = false;
            self.put(TaskId(index as u32), Place::Nowhere)?;
        }
        Ok(())
    }

    /// The scheduler begins anew: numbers the cores, and knows of no wait.
    fn attach(&mut self) {
        self.attached_ns = self.now_ns;
        let online = |cpu: &u32| self.lanes[*cpu as usize].online;
        let cores = self.machine.cores.iter().enumerate();
        self.numbers = cores
            .filter(|(_, core)| core.lanes.iter().any(online))
            .map(|(index, _)| index)
            .collect();
        for core in &mut self.cores {
            core.open_ns = core.open_ns.min(self.now_ns);
        }
    }

    /// A lane of the core falls busy or idle.
    fn change_busy(&mut self, core: usize, more: bool) {
        let (now_ns, level) = (self.now_ns, self.level(core));
        let core = &mut self.cores[core];
        let (before, total) = (core.busy, self.busy);
        core.busy = if more { before + 1 } else { before.saturating_sub(1) };
        self.busy = if more { total + 1 } else { total.saturating_sub(1) };
        if core.busy > level && before <= level {
            core.crowded_ns = Some(now_ns);
        } else if core.busy <= level {
            core.crowded_ns = None;
        }
        if core.busy < level && before >= level {
            core.room_ns = now_ns;
        }
        if self.busy == 0 {
            self.rests_since_ns = now_ns;
        }
    }

    /// A task is elsewhere now: brings up to date what follows from it.
    fn put(&mut self, id: TaskId, place: Place) -> Verdict {
        let now_ns = self.now_ns;
        let before = std::mem::replace(&mut self.task_mut(id).place, place);
        for place in [before, place] {
            if let Place::Vector { core, .. } = place
                && self.core_may_pass_over(core, self.task(id))
            {
                self.cores[core].passed_over_ns = now_ns;
            }
        }
        let waited_ns = now_ns - self.task(id).queued_ns;
        if let Place::Vector { core, class } = before {
            if self.bound_ns(class).is_some_and(|bound_ns| waited_ns < bound_ns) {
                self.cores[core].vectors[class as usize].timely_ns = now_ns;
            }
            let vector = &mut self.cores[core].vectors[class as usize];
            vector.length = vector.length.saturating_sub(1);
        }
        if let Place::Vector { core, class } = place {
            let vector = &mut self.cores[core].vectors[class as usize];
            vector.length += 1;
            if vector.length == 2 {
                vector.two_ns = now_ns;
            }
        }
        self.close(id)
    }

    /// A critical task closes the core where it runs or waits.
    fn close(&mut self, id: TaskId) -> Verdict {
        let (now_ns, task) = (self.now_ns, self.task(id));
        let core = match (task.state, task.place) {
            (State::Running(cpu), _) | (State::Waiting, Place::Local(cpu)) => {
                Some(self.lanes[cpu as usize].core)
            }
            (State::Waiting, Place::Vector { core, .. }) => Some(core),
            _ => None,
        };
        let core = core.filter(|_| task.known == Class::Critical && !task.unclaimed);
        if core == task.closes {
            return Ok(());
        }
        let arrived = matches!(task.state, State::Running(_));
        if let Some(core) = core {
            let core = &mut self.cores[core];
            core.critical += 1;
            if core.critical == 1 {
                // Gone and back at the same moment is no opening.
                let before = core.was_closed.filter(|(_, to_ns)| *to_ns == now_ns);
                core.closed_ns = Some(before.map_or(now_ns, |(from_ns, _)| from_ns));
            }
        }
        let Some(left) = std::mem::replace(&mut self.task_mut(id).closes, core) else {
            return Ok(());
        };
        self.check_core(left)?;
        let left = &mut self.cores[left];
        left.critical = left.critical.saturating_sub(1);
        if left.critical == 0 {
            left.was_closed = left.closed_ns.take().map(|from_ns| (from_ns, now_ns));
            // Sent elsewhere before it ran: the core goes on expecting it for a while.
            let gone = arrived || core.is_none();
            left.open_ns = now_ns + if gone { 0 } else { ARRIVAL_NS };
        }
        Ok(())
    }
}
