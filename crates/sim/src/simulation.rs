//! A simulation: a machine, a scheduler, and the time that passes.

use crate::classes::Classes;
use crate::engine::{CoreTotals, Engine, Event, EventCounts, LaneTotals};
use crate::record::{Record, Step};
use crate::scheduler::{Counters, Scheduler};
use crate::task::{Class, Collected, Mark, State, TaskId, TaskSpec, TaskTotals, cpu_bits};
use crate::{Baseline, Counted, Error, Machine, ObjectiveState, Pool, PoolState, Result, Sidelane};
use crate::{baseline, sched_ext};
use sidelane_policy::Settings;

/// More events at one moment, for each lane and task, than any machine has a use for.
const EVENTS_AT_ONCE: usize = 1_000;

/// What the workload has to react to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occurrence {
    /// A task has done its work. Unless it is given more before the next step, it sleeps.
    Done(TaskId),
    /// A timer rang.
    Timer(u64),
}

/// Which scheduler decides.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "there are as many as configurations, and they are not moved about"
)]
pub enum Kind {
    /// Sidelane's own source.
    Sidelane(Sidelane),
    /// Something to compare with.
    Baseline(Baseline),
}

impl From<Settings> for Kind {
    /// Sidelane's own source, without pools.
    fn from(settings: Settings) -> Kind {
        Kind::Sidelane(settings.into())
    }
}

/// A simulated machine under a scheduler, all lanes idle at time 0.
pub struct Simulation {
    engine: Engine,
    scheduler: Box<dyn Scheduler>,
    /// The task that has done its work, until it is known what it does next.
    done: Option<TaskId>,
}

impl Simulation {
    /// A machine with the scheduler attached. With Sidelane's own source, a thread can have one at a
    /// time.
    ///
    /// # Errors
    /// If the scheduler does not attach, or the thread has one attached.
    pub fn new(machine: Machine, kind: &Kind) -> Result<Simulation> {
        let mut engine = Engine::new(machine);
        let scheduler: Box<dyn Scheduler> = match kind {
            Kind::Sidelane(sidelane) if sidelane.settings.only_batch() => {
                Box::new(Classes::attach(&mut engine, sidelane)?)
            }
            Kind::Sidelane(sidelane) => {
                Box::new(sched_ext::SchedExt::attach(&mut engine, sidelane)?)
            }
            Kind::Baseline(baseline) => baseline::scheduler(*baseline, &mut engine),
        };
        Ok(Simulation {
            engine,
            scheduler,
            done: None,
        })
    }

    /// Keeps all steps from here on, for [`take_records`](Self::take_records).
    pub fn keep_records(&mut self) {
        self.engine.recorder.keep_all();
    }

    /// The steps that were kept.
    pub fn take_records(&mut self) -> Vec<Record> {
        self.engine.recorder.take()
    }

    /// Keeps how long jobs take from here on, for [`snapshot`](Self::snapshot).
    pub fn keep_jobs(&mut self) {
        self.engine.keep_jobs = true;
    }

    /// Simulated time, ns.
    pub fn now_ns(&self) -> u64 {
        self.engine.now_ns()
    }

    /// Creates a task that sleeps.
    ///
    /// # Errors
    /// If it may use no lane that is online, or the scheduler refuses it.
    pub fn create(&mut self, spec: &TaskSpec) -> Result<TaskId> {
        let id = self.engine.create(spec).ok_or_else(|| {
            Error::BadWorkload(format!(
                "task {:?} may use no lane that is online",
                spec.name
            ))
        })?;
        self.scheduler.create(&mut self.engine, id);
        self.checked().map(|()| id)
    }

    /// The program of a task marks a job.
    pub(crate) fn mark(&mut self, id: TaskId, mark: Mark) {
        self.scheduler.mark(&self.engine, id, mark);
    }

    /// Gives a task work, in ns of an unshared lane of the fastest core, and wakes it if it sleeps.
    ///
    /// # Errors
    /// If the scheduler broke a rule.
    pub fn give(&mut self, id: TaskId, work_ns: f64) -> Result<()> {
        if self.is_exiting(id) {
            return Ok(());
        }
        self.engine.add_work(id, work_ns);
        if self.done == Some(id) {
            self.done = None;
        } else if self.engine.task(id).state == State::Sleeping {
            let sync = self.done.is_some();
            self.engine.wakes(id);
            self.scheduler.wake(&mut self.engine, id, sync);
        }
        self.checked()
    }

    /// A task that has just done its work polls for a device, on its lane and for so long at most: it is
    /// done then.
    ///
    /// # Errors
    /// If the scheduler broke a rule.
    pub fn poll(&mut self, id: TaskId, longest_ns: u64) -> Result<()> {
        self.engine.set_polling(id, true);
        self.give(id, longest_ns as f64)
    }

    /// The task no longer polls. False: it did not.
    pub fn end_poll(&mut self, id: TaskId) -> bool {
        self.engine.set_polling(id, false)
    }

    /// Takes away what is left of a task's work, ns, and returns it. If the task runs, it is done
    /// now; if it waits, as soon as it runs.
    pub fn cut(&mut self, id: TaskId) -> f64 {
        self.engine.cut_work(id)
    }

    /// Rings when a task that waits for a lane has one. False: it does not wait.
    pub fn ring_when_on_lane(&mut self, id: TaskId, token: u64) -> bool {
        let waits = self.engine.task(id).state == State::Waiting;
        if waits {
            self.engine.task_mut(id).awaited_by.push(token);
        }
        waits
    }

    /// Rings at a time, ns.
    pub fn set_timer(&mut self, at_ns: u64, token: u64) {
        self.engine.events.add(at_ns, Event::Timer { token });
    }

    /// Goes on until the workload has to react, or until a time, ns.
    ///
    /// # Errors
    /// If the scheduler broke a rule of the kernel, with the steps up to there.
    pub fn next(&mut self, until_ns: u64) -> Result<Option<Occurrence>> {
        self.settle()?;
        let (mut at_ns, mut events) = (self.now_ns(), 0);
        let most = EVENTS_AT_ONCE * (self.engine.lanes.len() + self.engine.tasks.len());
        while let Some(event) = self.engine.events.take(until_ns) {
            let occurrence = self.handle(event);
            self.checked()?;
            events = if at_ns == self.now_ns() {
                events + 1
            } else {
                0
            };
            at_ns = self.now_ns();
            if events > most {
                return Err(self.stands_still());
            }
            if occurrence.is_some() {
                return Ok(occurrence);
            }
        }
        Ok(None)
    }

    fn stands_still(&self) -> Error {
        Error::Violation {
            at_ns: self.now_ns(),
            what: "lets no time pass: lanes ask each other, or themselves, over and over".into(),
            steps: self.engine.recorder.last(),
        }
    }

    /// Lets the task that was done sleep, if it was given nothing.
    fn settle(&mut self) -> Result<()> {
        let Some(id) = self.done.take() else {
            return Ok(());
        };
        if let State::Running(cpu) = self.engine.task(id).state {
            self.scheduler.sleep(&mut self.engine, cpu);
        }
        self.checked()
    }

    fn handle(&mut self, event: Event) -> Option<Occurrence> {
        let (engine, scheduler) = (&mut self.engine, &mut self.scheduler);
        engine.counts.handled += 1;
        match event {
            Event::Timer { token } => return Some(Occurrence::Timer(token)),
            Event::SchedulerTimer { token } => scheduler.timer(engine, token),
            Event::Complete { lane, generation } => {
                let id = engine.completed(lane, generation)?;
                engine.this_lane = lane;
                if engine.task(id).exiting {
                    self.end(id);
                    return None;
                }
                self.done = Some(id);
                return Some(Occurrence::Done(id));
            }
            Event::Settled { lane } => engine.settled(lane),
            Event::Tick { lane } => {
                if engine.ticks(lane) {
                    engine.counts.ticks += 1;
                    engine.this_lane = lane;
                    scheduler.tick(engine, lane);
                }
            }
            Event::Look { lane } => {
                if engine.take_look(lane) {
                    engine.this_lane = lane;
                    scheduler.look(engine, lane);
                }
            }
            Event::Kick { lane, flags } => {
                if engine.lane(lane).is_some() {
                    engine.counts.kicks += 1;
                    engine.this_lane = lane;
                    scheduler.kick(engine, lane, flags);
                }
            }
        }
        None
    }

    fn checked(&mut self) -> Result<()> {
        self.scheduler.check(&self.engine)
    }
}

/// Things that can happen to a running system.
impl Simulation {
    /// Changes which CPUs a task may use.
    ///
    /// # Errors
    /// If none of them is online, or the scheduler broke a rule.
    pub fn set_cpus(&mut self, id: TaskId, cpus: Option<&[u32]>) -> Result<()> {
        self.settle()?;
        let nr_lanes = self.engine.machine.nr_lanes;
        let bits = cpu_bits(cpus, nr_lanes);
        let online =
            |cpu: usize| self.engine.lanes[cpu].online && bits[cpu / 64] >> (cpu % 64) & 1 == 1;
        if !(0..nr_lanes).any(online) {
            return Err(Error::BadWorkload(format!(
                "{id} would have no lane that is online"
            )));
        }
        let task = self.engine.task_mut(id);
        if task.state == State::Exited {
            return Ok(());
        }
        task.allowed = bits;
        task.spec.cpus = cpus.map(<[u32]>::to_vec);
        self.engine.record(Step::Change { task: id });
        self.scheduler.change_cpus(&mut self.engine, id);
        self.checked()
    }

    /// Changes the class of a task, as when it moves to another cgroup.
    ///
    /// # Errors
    /// If the scheduler broke a rule.
    pub fn set_class(&mut self, id: TaskId, class: Class) -> Result<()> {
        self.settle()?;
        if let State::Running(cpu) = self.engine.task(id).state {
            let core = self.engine.lanes[cpu as usize].core;
            self.engine.account(core);
        }
        let task = self.engine.task_mut(id);
        if task.state == State::Exited {
            return Ok(());
        }
        task.spec.class = class;
        self.engine.record(Step::Change { task: id });
        self.scheduler.change_class(&mut self.engine, id);
        self.checked()
    }

    /// Ends a task. One that waits does so as soon as it runs, without doing its work: in the
    /// kernel too a task has to run in order to end.
    ///
    /// # Errors
    /// If the scheduler broke a rule.
    pub fn exit(&mut self, id: TaskId) -> Result<()> {
        self.settle()?;
        match self.engine.task(id).state {
            State::Exited => return Ok(()),
            State::Waiting => {
                self.engine.cut_work(id);
                self.engine.task_mut(id).exiting = true;
            }
            State::Sleeping | State::Running(_) => self.end(id),
        }
        self.checked()
    }

    /// Takes a task, which does not wait, off the machine.
    fn end(&mut self, id: TaskId) {
        if let State::Running(cpu) = self.engine.task(id).state {
            self.engine.this_lane = cpu;
            self.scheduler.sleep(&mut self.engine, cpu);
        }
        self.scheduler.exit(&mut self.engine, id);
        let task = self.engine.task_mut(id);
        task.state = State::Exited;
        task.work_ns = 0.0;
        self.engine.record(Step::Exit { task: id });
    }

    /// Takes lanes online or offline, as one change. Lanes that are so already do not count.
    ///
    /// # Errors
    /// If no lane would be left, or none that some task may use, or the scheduler broke a rule.
    pub fn set_online(&mut self, cpus: &[u32], online: bool) -> Result<()> {
        self.settle()?;
        let lanes = &self.engine.lanes;
        let known = |cpu: &u32| {
            self.engine
                .machine
                .cores
                .iter()
                .any(|core| core.lanes.contains(cpu))
        };
        let changed: Vec<u32> = cpus
            .iter()
            .copied()
            .filter(|cpu| known(cpu) && lanes[*cpu as usize].online != online)
            .collect();
        if changed.is_empty() {
            return Ok(());
        }
        if !online {
            self.check_offline(&changed)?;
        }
        self.scheduler
            .set_online(&mut self.engine, &changed, online);
        self.checked()
    }

    /// A lane is about to go offline: from now on it takes nothing, but a sched_ext scheduler is not told before
    /// [`set_online`](Self::set_online). In the kernel that takes a grace period of RCU (`sched_cpu_deactivate`, kernel/sched/core.c).
    ///
    /// # Errors
    /// If the scheduler broke a rule.
    pub fn begin_offline(&mut self, cpu: u32) -> Result<()> {
        self.settle()?;
        self.engine.this_lane = cpu;
        self.scheduler.leaves(&mut self.engine, cpu);
        self.checked()
    }

    /// Lets so many lanes of a core be busy from now on: a setting of Sidelane's.
    ///
    /// # Errors
    /// If the scheduler has no such setting.
    pub fn set_smt_level(&mut self, level: u32) -> Result<()> {
        self.settle()?;
        match self.scheduler.set_smt_level(level) {
            true => self.checked(),
            false => Err(Error::BadWorkload(
                "the scheduler has no SMT level: take lanes offline instead".into(),
            )),
        }
    }

    fn check_offline(&self, going: &[u32]) -> Result<()> {
        let stays = |cpu: &u32| self.engine.lanes[*cpu as usize].online && !going.contains(cpu);
        let left: Vec<u32> = (0..self.engine.lanes.len() as u32).filter(stays).collect();
        for task in &self.engine.tasks {
            if task.state != State::Exited && !left.iter().any(|&cpu| task.may_use(cpu)) {
                return Err(Error::BadWorkload(format!(
                    "task {:?} would have no lane that is online",
                    task.spec.name
                )));
            }
        }
        match left.is_empty() {
            true => Err(Error::BadWorkload("no lane would be online".into())),
            false => Ok(()),
        }
    }
}

/// What came out so far.
impl Simulation {
    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.engine.machine
    }

    /// Where a task is.
    pub fn state(&self, id: TaskId) -> State {
        self.engine.task(id).state
    }

    /// Is the task no more, or ends as soon as it runs?
    pub(crate) fn is_exiting(&self, id: TaskId) -> bool {
        let task = self.engine.task(id);
        task.exiting || task.state == State::Exited
    }

    /// Checks that the scheduler has each task that waits, once, and knows what the lanes do.
    ///
    /// # Errors
    /// What is not so.
    pub(crate) fn check_deep(&self) -> Result<()> {
        self.scheduler.check_deep(&self.engine)
    }

    /// Brings all totals up to now.
    pub fn account(&mut self) {
        self.engine.account_all();
    }

    /// Of a task, as of the last [`account`](Self::account).
    pub fn task_totals(&self, id: TaskId) -> TaskTotals {
        self.engine.task(id).totals
    }

    /// What a collector counts of a task, as of the last [`account`](Self::account); how long jobs
    /// took only from [`keep_jobs`](Self::keep_jobs) on.
    pub(crate) fn collected(&self, id: TaskId) -> &Collected {
        &self.engine.task(id).collected
    }

    /// For how long a task has waited that waits now, ns; else 0.
    pub fn waiting_ns(&self, id: TaskId) -> u64 {
        let task = self.engine.task(id);
        match task.state {
            State::Waiting => self.now_ns() - task.since_ns,
            _ => 0,
        }
    }

    /// All tasks, by number.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = (TaskId, &TaskSpec)> {
        let specs = self.engine.tasks.iter().map(|task| &task.spec);
        (0..).map(TaskId).zip(specs)
    }

    /// Whether a lane is online now.
    pub(crate) fn is_online(&self, cpu: u32) -> bool {
        self.engine.lane(cpu).is_some()
    }

    /// Of a lane, as of the last [`account`](Self::account).
    pub fn lane_totals(&self, cpu: u32) -> LaneTotals {
        self.engine.lanes[cpu as usize].totals
    }

    /// Of each core, as of the last [`account`](Self::account).
    pub fn core_totals(&self) -> &[CoreTotals] {
        &self.engine.cores
    }

    /// How much was simulated so far.
    pub fn event_counts(&self) -> EventCounts {
        self.engine.counts
    }

    /// What the scheduler counted.
    pub fn counters(&self) -> Counters {
        self.scheduler.counters()
    }

    /// What counters showed, with a dynamic budget and [`Settings::counters`].
    pub fn counted(&self) -> Option<Counted> {
        self.scheduler.counted()
    }

    /// What the pools of the settings used since the scheduler was attached last, in their order.
    pub fn pools(&self) -> Vec<PoolState> {
        self.scheduler.pools()
    }

    /// The pools of the settings; none under a scheduler that knows none.
    pub fn pool_settings(&self) -> &[Pool] {
        self.scheduler.pool_settings()
    }

    /// What became of the objective of `Borrow::Slo`; none without one.
    pub fn objective(&self) -> Option<ObjectiveState> {
        self.scheduler.objective()
    }
}
