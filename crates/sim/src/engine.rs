//! The machine in motion: which task is on which lane, how fast it is there, when it will be done.
//!
//! Exact: the speed of a lane changes only when a lane of its core begins or ends to be busy; work
//! is brought up to date then and the moment of completion is computed anew. There is no time step.

mod progress;

use crate::events::Events;
use crate::machine::Machine;
use crate::record::{Recorder, Step};
use crate::task::{State, Task, TaskId, TaskSpec};

/// What is to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The lane's tick.
    Tick { lane: u32 },
    /// The task on the lane has done its work, unless something changed since (generation).
    Complete { lane: u32, generation: u32 },
    /// The switch on the lane is over.
    Settled { lane: u32 },
    /// The lane looks for what to run next.
    Look { lane: u32 },
    /// Somebody asked the lane to look, with these flags of the kernel.
    Kick { lane: u32, flags: u64 },
    /// A timer of the scheduler.
    SchedulerTimer { token: u64 },
    /// A timer of the workload.
    Timer { token: u64 },
}

/// A lane in motion.
#[derive(Debug)]
pub(crate) struct Lane {
    pub core: usize,
    pub online: bool,
    pub current: Option<TaskId>,
    /// When the running task began to run.
    pub started_ns: u64,
    /// Until then it switches.
    switching_until_ns: u64,
    /// From then on it progresses: what it had in caches is there.
    ready_ns: u64,
    /// Of the last completion that was planned.
    generation: u32,
    /// A look is planned for then.
    look_ns: Option<u64>,
    ticking: bool,
    /// The task that ran here last.
    last: Option<TaskId>,
    /// What runs here took the place of something else.
    switched: bool,
    pub totals: LaneTotals,
    /// Work done here, ns of an unshared lane of the fastest core; of it, waiting for memory.
    work_ns: f64,
    missed_ns: f64,
}

/// What a lane's time went into, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneTotals {
    /// Running tasks of each class, in the order of [`Class::ALL`], switches included.
    pub class_ns: [u64; 3],
    /// With nothing to run.
    pub idle_ns: u64,
    /// Not online.
    pub offline_ns: u64,
}

/// What a core's time and work went into.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CoreTotals {
    /// `[n]`: time with exactly n busy lanes, ns.
    pub density_ns: Vec<u64>,
    /// `[n]`: work done in that time, ns of an unshared lane of the fastest core.
    pub density_work_ns: Vec<f64>,
    /// Lane time of batch while a critical task ran on another lane of the core, ns.
    pub batch_beside_critical_ns: u64,
}

/// How much was simulated: what a scheduler had to decide on, and what the simulator handled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// Times that a sleeping task was woken.
    pub wakes: u64,
    /// Times that a task began to run.
    pub runs: u64,
    /// Of these, on a lane where another one had run last.
    pub switches: u64,
    /// Of the runs, on a lane of another last-level cache than the task's run before.
    pub cache_moves: u64,
    /// Kicks that reached their lane.
    pub kicks: u64,
    /// Ticks of busy lanes.
    pub ticks: u64,
    /// All events that left the queue, those of timers and outdated ones too.
    pub handled: u64,
}

impl EventCounts {
    /// Events of scheduling: wakes, runs, kicks and ticks.
    pub fn scheduling(&self) -> u64 {
        self.wakes + self.runs + self.kicks + self.ticks
    }
}

/// The machine in motion.
pub(crate) struct Engine {
    pub machine: Machine,
    pub events: Events<Event>,
    /// By CPU number.
    pub lanes: Vec<Lane>,
    /// Busy lanes of each core.
    busy: Vec<usize>,
    /// Lanes of each core that are online.
    online: Vec<usize>,
    /// Until when each core is accounted.
    accounted_ns: Vec<u64>,
    pub cores: Vec<CoreTotals>,
    pub tasks: Vec<Task>,
    /// The lane on which things happen now.
    pub this_lane: u32,
    pub recorder: Recorder,
    pub counts: EventCounts,
    /// Whether tasks keep how long their jobs took.
    pub keep_jobs: bool,
    /// Lanes on which a task began or ended to run, until they are taken; none: nobody takes them.
    pub switched: Option<Vec<u32>>,
}

impl Engine {
    pub fn new(machine: Machine) -> Engine {
        let offline = || Lane {
            core: 0,
            online: false,
            current: None,
            started_ns: 0,
            switching_until_ns: 0,
            ready_ns: 0,
            generation: 0,
            look_ns: None,
            ticking: false,
            last: None,
            switched: false,
            totals: LaneTotals::default(),
            work_ns: 0.0,
            missed_ns: 0.0,
        };
        let mut lanes: Vec<Lane> = (0..machine.nr_lanes).map(|_| offline()).collect();
        let mut cores = Vec::new();
        for (index, core) in machine.cores.iter().enumerate() {
            for &cpu in &core.lanes {
                lanes[cpu as usize].core = index;
                lanes[cpu as usize].online = machine.online[cpu as usize];
            }
            cores.push(CoreTotals {
                density_ns: vec![0; core.lanes.len() + 1],
                density_work_ns: vec![0.0; core.lanes.len() + 1],
                batch_beside_critical_ns: 0,
            });
        }
        let first = machine.online.iter().position(|&online| online);
        Engine {
            this_lane: first.unwrap_or(0) as u32,
            events: Events::default(),
            online: (machine.cores.iter())
                .map(|core| machine.online_lanes(core).len())
                .collect(),
            lanes,
            busy: vec![0; cores.len()],
            accounted_ns: vec![0; cores.len()],
            cores,
            tasks: Vec::new(),
            recorder: Recorder::default(),
            counts: EventCounts::default(),
            keep_jobs: false,
            switched: None,
            machine,
        }
    }

    pub fn now_ns(&self) -> u64 {
        self.events.now_ns()
    }

    pub fn record(&mut self, step: Step) {
        self.recorder.add(self.events.now_ns(), step);
    }

    /// The lane with a CPU number, if it is online.
    pub fn lane(&self, cpu: u32) -> Option<&Lane> {
        self.lanes.get(cpu as usize).filter(|lane| lane.online)
    }

    pub fn is_idle(&self, cpu: u32) -> bool {
        self.lane(cpu).is_some_and(|lane| lane.current.is_none())
    }

    pub fn current(&self, cpu: u32) -> Option<TaskId> {
        self.lane(cpu)?.current
    }

    pub fn task(&self, id: TaskId) -> &Task {
        &self.tasks[id.index()]
    }

    pub fn task_mut(&mut self, id: TaskId) -> &mut Task {
        &mut self.tasks[id.index()]
    }

    /// Adds a task that sleeps on the first lane that it may use.
    pub fn create(&mut self, spec: &TaskSpec) -> Option<TaskId> {
        let id = TaskId(self.tasks.len() as u32);
        let task = Task::new(spec, self.machine.nr_lanes, 0);
        self.tasks.push(task);
        let Some(lane) = self.first_allowed(id) else {
            self.tasks.pop();
            return None;
        };
        self.task_mut(id).lane = lane;
        Some(id)
    }

    /// The online lanes that a task may use, by number.
    pub fn allowed(&self, id: TaskId) -> impl Iterator<Item = u32> + '_ {
        let task = self.task(id);
        let allowed = |cpu: &u32| task.may_use(*cpu) && self.lanes[*cpu as usize].online;
        (0..self.lanes.len() as u32).filter(allowed)
    }

    /// The first of them.
    pub fn first_allowed(&self, id: TaskId) -> Option<u32> {
        self.allowed(id).next()
    }

    /// A task that slept, or left its lane, waits from now on.
    pub fn waits(&mut self, id: TaskId) {
        let now_ns = self.now_ns();
        let task = self.task_mut(id);
        task.state = State::Waiting;
        task.since_ns = now_ns;
    }

    /// A task that slept has work, and waits from now on.
    pub fn wakes(&mut self, id: TaskId) {
        self.waits(id);
        self.counts.wakes += 1;
        self.task_mut(id).collected.woken_ns = self.now_ns();
        self.record(Step::Wake { task: id });
    }

    /// Lets the lane look for what to run: at once if it is this lane and busy, else when an
    /// interrupt has reached it.
    pub fn look(&mut self, cpu: u32) {
        let delay_ns = self.reach_ns(cpu);
        let (now_ns, at_ns) = (self.now_ns(), self.now_ns() + delay_ns);
        let Some(lane) = self.lanes.get_mut(cpu as usize).filter(|lane| lane.online) else {
            return;
        };
        let planned = lane.look_ns.filter(|&planned_ns| planned_ns >= now_ns);
        if planned.is_none_or(|planned_ns| planned_ns > at_ns) {
            lane.look_ns = Some(at_ns);
            self.events.add(at_ns, Event::Look { lane: cpu });
        }
    }

    /// Is this the look that was planned? Then it is no longer.
    pub fn take_look(&mut self, cpu: u32) -> bool {
        let now_ns = self.now_ns();
        let lane = &mut self.lanes[cpu as usize];
        let due = lane.online && lane.look_ns == Some(now_ns);
        if due {
            lane.look_ns = None;
        }
        due
    }

    pub fn kick(&mut self, cpu: u32, flags: u64) {
        let at_ns = self.now_ns() + self.reach_ns(cpu);
        self.record(Step::Kick { lane: cpu, flags });
        self.events.add(at_ns, Event::Kick { lane: cpu, flags });
    }

    /// What it takes until a lane hears of something, ns.
    fn reach_ns(&self, cpu: u32) -> u64 {
        let costs = self.machine.costs;
        let interrupt_ns = if cpu == self.this_lane {
            0
        } else {
            costs.kick_ns
        };
        let exit_ns = if self.is_idle(cpu) {
            costs.idle_exit_ns
        } else {
            0
        };
        interrupt_ns + exit_ns
    }

    /// How long the running task has been on its lane; 0 for others.
    pub fn running_ns(&self, id: TaskId) -> u64 {
        match self.task(id).state {
            State::Running(cpu) => self.now_ns() - self.lanes[cpu as usize].started_ns,
            _ => 0,
        }
    }

    /// A task begins to run on an idle lane.
    pub fn start(&mut self, cpu: u32, id: TaskId) {
        let now_ns = self.now_ns();
        let core = self.lanes[cpu as usize].core;
        self.account(core);
        let migration_ns = match self.task(id).ran_on {
            Some(last) if last != cpu => {
                let from = self.lanes[last as usize].core;
                let [here, there] = [core, from].map(|core| self.machine.cores[core].cache);
                self.counts.cache_moves += u64::from(here != there);
                self.machine.migration_ns(from, core)
            }
            _ => 0,
        };
        let costs = self.machine.costs;
        let refill_ns = self.refill_ns(cpu, id);
        let lane = &mut self.lanes[cpu as usize];
        lane.switched = lane.last.replace(id) != Some(id);
        let begin_ns = match costs.resume_ns {
            Some(resume_ns) if !lane.switched => resume_ns,
            _ => costs.switch_ns,
        };
        let switch_ns = begin_ns + migration_ns;
        self.counts.switches += u64::from(lane.switched);
        lane.current = Some(id);
        lane.started_ns = now_ns;
        lane.switching_until_ns = now_ns + switch_ns;
        lane.ready_ns = now_ns + switch_ns + refill_ns;
        if !std::mem::replace(&mut lane.ticking, true) {
            let tick_ns = self.machine.costs.tick_ns;
            let at_ns = (now_ns / tick_ns + 1) * tick_ns;
            self.events.add(at_ns, Event::Tick { lane: cpu });
        }
        let task = self.task_mut(id);
        task.totals.wait_ns += now_ns - task.since_ns;
        task.collected.runs += 1;
        task.state = State::Running(cpu);
        task.lane = cpu;
        task.ran_on = Some(cpu);
        for token in std::mem::take(&mut task.awaited_by) {
            self.events.add(now_ns + switch_ns, Event::Timer { token });
        }
        if self.machine.beside.is_some() && switch_ns > 0 {
            let at_ns = now_ns + switch_ns;
            self.events.add(at_ns, Event::Settled { lane: cpu });
        }
        self.busy[core] += 1;
        self.note_switch(cpu);
        self.counts.runs += 1;
        self.plan_core(core);
        self.record(Step::Run {
            task: id,
            lane: cpu,
        });
    }

    /// Another task runs on the lane, or none.
    fn note_switch(&mut self, cpu: u32) {
        if let Some(switched) = &mut self.switched {
            switched.push(cpu);
        }
    }

    /// How long the lanes of a core have run anything, in sum, ns.
    fn core_busy_ns(&self, core: usize) -> u64 {
        let lanes = self.machine.cores[core].lanes.iter();
        lanes
            .map(|&cpu| self.lanes[cpu as usize].totals.busy_ns())
            .sum()
    }

    /// How long a task that begins to run on a lane fills caches again: what others displaced there, by how
    /// long they ran; on another lane of its core, by how long anybody ran there. And what it had left to fill.
    fn refill_ns(&self, cpu: u32, id: TaskId) -> u64 {
        let (task, lane) = (self.task(id), &self.lanes[cpu as usize]);
        let full_ns = self.machine.costs.refill_ns;
        match task.ran_on {
            _ if full_ns == 0 => 0,
            Some(last) if last == cpu => {
                full_ns.min(lane.totals.busy_ns() - task.left_busy_ns + task.owed_ns)
            }
            Some(last) if self.lanes[last as usize].core == lane.core => {
                full_ns.min(self.core_busy_ns(lane.core) - task.left_core_ns + task.owed_ns)
            }
            _ => full_ns,
        }
    }

    /// The task leaves the lane: what it needs to know when it comes back.
    fn note_left(&mut self, cpu: u32, id: TaskId) {
        if self.machine.costs.refill_ns == 0 {
            return;
        }
        let (now_ns, lane) = (self.now_ns(), &self.lanes[cpu as usize]);
        let busy_ns = lane.totals.busy_ns();
        let owed_ns = (lane.ready_ns).saturating_sub(now_ns.max(lane.switching_until_ns));
        let core_busy_ns = self.core_busy_ns(lane.core);
        let task = self.task_mut(id);
        task.left_busy_ns = busy_ns;
        task.left_core_ns = core_busy_ns;
        task.owed_ns = owed_ns;
    }

    /// The task on the lane leaves it: to sleep, or else to wait.
    pub fn stop(&mut self, cpu: u32, sleeps: bool) {
        let core = self.lanes[cpu as usize].core;
        self.account(core);
        let lane = &mut self.lanes[cpu as usize];
        lane.generation = lane.generation.wrapping_add(1);
        let Some(id) = lane.current.take() else {
            return;
        };
        self.busy[core] -= 1;
        self.note_switch(cpu);
        self.plan_core(core);
        self.note_left(cpu, id);
        if sleeps {
            let (now_ns, keep_jobs) = (self.now_ns(), self.keep_jobs);
            let task = self.task_mut(id);
            if keep_jobs {
                let since_ns = now_ns - task.collected.woken_ns;
                task.collected.jobs.record(since_ns);
            }
            task.state = State::Sleeping;
            task.work_ns = 0.0;
            self.record(Step::Sleep {
                task: id,
                lane: cpu,
            });
        } else {
            self.waits(id);
            self.record(Step::Preempt {
                task: id,
                lane: cpu,
            });
        }
    }

    /// Adds to the work of a task, in ns of an unshared lane of the fastest core.
    pub fn add_work(&mut self, id: TaskId, work_ns: f64) {
        if let State::Running(cpu) = self.task(id).state {
            self.account(self.lanes[cpu as usize].core);
            self.task_mut(id).work_ns += work_ns;
            self.plan(cpu);
        } else {
            self.task_mut(id).work_ns += work_ns;
        }
    }

    /// Takes away what is left of a task's work, and returns it. A running one completes at once.
    pub fn cut_work(&mut self, id: TaskId) -> f64 {
        let running = match self.task(id).state {
            State::Running(cpu) => Some(cpu),
            _ => None,
        };
        if let Some(cpu) = running {
            self.account(self.lanes[cpu as usize].core);
        }
        let left_ns = std::mem::take(&mut self.task_mut(id).work_ns).max(0.0);
        if let Some(cpu) = running {
            self.plan(cpu);
        }
        left_ns
    }

    /// From now on the task polls, for as long as the work that it gets says, or that is over. Nothing is
    /// left of what it had. Did it poll?
    pub fn set_polling(&mut self, id: TaskId, polling: bool) -> bool {
        let polled = self.task(id).polling;
        if polled == polling {
            return polled;
        }
        self.cut_work(id);
        self.task_mut(id).polling = polling;
        if let State::Running(cpu) = self.task(id).state {
            self.plan_core(self.lanes[cpu as usize].core);
        }
        polled
    }

    /// If this completion is the one that was planned, the task that has done its work.
    pub fn completed(&mut self, cpu: u32, generation: u32) -> Option<TaskId> {
        let lane = self
            .lane(cpu)
            .filter(|lane| lane.generation == generation)?;
        let (core, id) = (lane.core, lane.current?);
        self.account(core);
        self.task_mut(id).work_ns = 0.0;
        Some(id)
    }

    /// Goes on with the lane's tick, or ends it with nothing to run. True if there is a tick now.
    pub fn ticks(&mut self, cpu: u32) -> bool {
        let at_ns = self.now_ns() + self.machine.costs.tick_ns;
        let lane = &mut self.lanes[cpu as usize];
        lane.ticking = lane.online && lane.current.is_some();
        if lane.ticking {
            self.events.add(at_ns, Event::Tick { lane: cpu });
        }
        self.lanes[cpu as usize].ticking
    }

    /// Makes an idle lane appear or disappear.
    pub fn set_online(&mut self, cpu: u32, online: bool) {
        let core = self.lanes[cpu as usize].core;
        self.account(core);
        let lane = &mut self.lanes[cpu as usize];
        lane.online = online;
        lane.look_ns = None;
        let lanes = self.machine.cores[core].lanes.iter();
        let is_online = |cpu: &&u32| self.lanes[**cpu as usize].online;
        self.online[core] = lanes.filter(is_online).count();
        self.record(match online {
            true => Step::Online { lane: cpu },
            false => Step::Offline { lane: cpu },
        });
        if self.machine.has_overhead() {
            self.plan_core(core); // whether SMT is on decides how fast a lane alone is
        }
    }
}
