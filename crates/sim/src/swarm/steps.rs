//! What each step changes in the watched machine.

use super::verdict::{Broken, Rule, Verdict};
use super::watch::{Lane, Place, Task, Watch};
use crate::record::Step;
use crate::task::{Class, State, TaskId};
use sidelane_policy::intf;

/// Upper half of the identifiers of queues in which pools hold tasks (`HELD_ID`).
const HELD: u64 = intf::task_class_NR_CLASSES as u64 + 1;

impl Watch {
    pub(super) fn apply(&mut self, step: Step) -> Verdict {
        match step {
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
        let (now_ns, has) = (self.now_ns, self.has(self.task(id)));
        let task = self.task(id);
        if task.state != State::Sleeping {
            return Broken::because(Rule::Twice, format!("{id} woke while {:?}", task.state));
        }
        if has && self.settings.only_batch() && !self.batch_wants() {
            self.begin_following()?;
        }
        let task = self.task_mut(id);
        task.state = State::Waiting;
        task.woke = has;
        task.since_ns = now_ns;
        task.job_ns = Some(now_ns);
        task.burst_from_ns = task.totals.lane_ns;
        if has {
            task.known = task.spec.class;
        }
        task.changed_ns = None;
        self.competes_anew(id);
        Ok(())
    }

    /// Does any batch task run or wait?
    pub(super) fn batch_wants(&self) -> bool {
        let wants = |task: &Task| {
            task.spec.class == Class::Batch
                && matches!(task.state, State::Running(_) | State::Waiting)
        };
        self.tasks.iter().any(wants)
    }

    /// Batch wants to run, and none did: what others do that run already is not known.
    pub(super) fn begin_following(&mut self) -> Verdict {
        self.followed_ns = self.now_ns;
        for index in 0..self.tasks.len() {
            self.close(TaskId(index as u32))?;
        }
        Ok(())
    }

    fn queued(&mut self, id: TaskId, queue: u64) -> Verdict {
        if queue >> 32 == HELD {
            return self.queued_held(id, queue as u32 as usize);
        }
        let class = (queue >> 32)
            .checked_sub(1)
            .and_then(|class| Class::ALL.get(class as usize).copied());
        let core = self.numbers.get(queue as u32 as usize).copied();
        let (Some(class), Some(core)) = (class, core) else {
            return Broken::because(Rule::Lost, format!("{id} was sent to {queue:#x}"));
        };
        let (now_ns, bound_ns) = (self.now_ns, self.bound_ns(class));
        let task = self.task_mut(id);
        if task.state != State::Waiting {
            return Broken::because(Rule::Twice, format!("{id} queued while {:?}", task.state));
        }
        let is_new = class != task.known;
        if is_new {
            task.job_ns = match task.place {
                Place::Held(_) => None,
                _ => Some(now_ns),
            };
        }
        if is_new {
            if class != task.spec.class {
                let what = format!("{id} was queued as {}, which it is not", class.name());
                return Broken::because(Rule::ClassChange, what);
            }
            task.known = class;
            task.changed_ns = None;
        }
        task.queued_ns = now_ns;
        task.left = None;
        let at_once = task.is_pinned_kthread();
        let due_ns = bound_ns.map(|bound_ns| now_ns + if at_once { 0 } else { bound_ns });
        // a class without a bound has no due tasks, whatever they were before
        task.due_ns = due_ns.map(|due_ns| task.due_ns.unwrap_or(due_ns));
        if is_new {
            self.competes_anew(id);
        }
        if class == Class::Critical {
            self.ages(id);
        }
        self.put(id, Place::Vector { core, class })
    }

    fn queued_held(&mut self, id: TaskId, pool: usize) -> Verdict {
        self.held(id, pool)?;
        let now_ns = self.now_ns;
        let task = self.task_mut(id);
        if task.state != State::Waiting {
            return Broken::because(Rule::Twice, format!("{id} held while {:?}", task.state));
        }
        if std::mem::replace(&mut task.known, task.spec.class) != task.spec.class {
            task.changed_ns = None;
            task.job_ns = None;
        }
        task.queued_ns = now_ns;
        task.left = None;
        task.due_ns = None;
        self.put(id, Place::Held(pool))
    }

    fn queued_local(&mut self, id: TaskId, cpu: u32) -> Verdict {
        let now_ns = self.now_ns;
        let left = self.task_mut(id).left.take();
        // it stays where it was, after a kernel thread of that lane, or moves
        if let Some(from) = left.filter(|from| *from != cpu) {
            match self.task(id).known {
                Class::Normal => self.check_spread(id, from, cpu)?,
                _ => self.check_promotion(id, from, cpu)?,
            }
        }
        match self.task(id).place {
            Place::Vector { .. } => {
                self.check_wait(id)?;
                self.check_age(id, cpu)?;
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
        self.lanes[cpu as usize].foreground = self.task(id).known != Class::Batch;
        self.change_busy(cpu, true);
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
        let task = self.task_mut(id);
        task.woke = false;
        task.totals.wait_ns += now_ns - task.since_ns;
        task.overdue = match task.is_pinned_kthread() {
            true => true,
            false => task.due_ns.is_some_and(|due_ns| now_ns >= due_ns),
        };
        task.state = State::Running(cpu);
        task.since_ns = now_ns;
        task.ran_on = Some(cpu);
        self.put(id, Place::Nowhere)?;
        self.precedes(id, core);
        self.charge(core);
        Ok(())
    }

    /// The task begins on the core: the wait of those that are due after it begins anew, but of those for which a
    /// lane looks that it may not use.
    fn precedes(&mut self, id: TaskId, core: usize) {
        let (task, now_ns) = (&self.tasks[id.0 as usize], self.now_ns);
        let Some(due_ns) = task.due_ns.filter(|_| task.overdue) else {
            return;
        };
        let lanes = self.machine.cores[core].lanes.iter();
        let left_out: Vec<u32> = lanes.copied().filter(|cpu| !task.may_use(*cpu)).collect();
        for other in &mut self.tasks {
            let waits_here = matches!(other.place, Place::Vector { core: at, .. } if at == core);
            let later = other.due_ns.is_some_and(|other_ns| other_ns >= due_ns);
            if waits_here && later && !left_out.iter().any(|cpu| other.may_use(*cpu)) {
                other.preceded_ns = now_ns;
            }
        }
    }

    fn leaves(&mut self, id: TaskId, cpu: u32, state: State) -> Verdict {
        let core = self.lanes[cpu as usize].core;
        if self.task(id).state != State::Running(cpu) {
            let what = format!("{id} left lane {cpu} while {:?}", self.task(id).state);
            return Broken::because(Rule::Twice, what);
        }
        self.check_core(core)?;
        self.account(core);
        self.check_shares(id, cpu)?;
        self.change_busy(cpu, false);
        let (now_ns, slice_ns) = (self.now_ns, self.settings.overdue_slice_ns);
        self.open_unseen(id, core);
        let task = self.task(id);
        let lowest = match task.overdue {
            true => Class::Batch,
            false => task.known,
        };
        let naps = task.spec.naps
            && task.known == Class::Batch
            && state == State::Sleeping
            && self.holds_naps();
        let lane = &mut self.lanes[cpu as usize];
        (lane.task, lane.idle_ns) = (None, now_ns);
        if naps {
            lane.nap_ns = Some(now_ns);
        }
        for class in Class::ALL {
            if class <= lowest {
                lane.served_ns[class as usize] = now_ns;
            }
        }
        if state == State::Sleeping {
            self.ends_burst(id);
        }
        let task = self.task_mut(id);
        if state == State::Sleeping || now_ns >= task.since_ns + slice_ns {
            task.due_ns = None;
        }
        (task.state, task.since_ns) = (state, now_ns);
        task.left = (state == State::Waiting).then_some(cpu);
        self.put(id, Place::Nowhere)?;
        self.charge(core);
        Ok(())
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
        for core in 0..self.cores.len() {
            self.account(core);
        }
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
            task.due_ns = None;
            task.woke = false;
            task.left = None;
            task.burst_from_ns = task.totals.lane_ns;
            task.burst_mean_ns = None;
            self.followed_ns = self.now_ns;
            self.put(TaskId(index as u32), Place::Nowhere)?;
        }
        Ok(())
    }

    /// The scheduler begins anew: numbers the cores, and knows of no wait.
    pub(super) fn attach(&mut self) {
        self.attached_ns = self.now_ns;
        self.begin_pools(self.now_ns);
        let mut states = self.tasks.iter().map(|task| &task.state);
        self.pools_begun = states.any(|state| !matches!(state, State::Exited));
        let online = |cpu: &u32| self.lanes[*cpu as usize].online;
        let cores = self.machine.cores.iter().enumerate();
        self.numbers = cores
            .filter(|(_, core)| core.lanes.iter().any(online))
            .map(|(index, _)| index)
            .collect();
        for index in 0..self.tasks.len() {
            self.competes_anew(TaskId(index as u32));
        }
    }

    /// A lane falls busy or idle.
    fn change_busy(&mut self, cpu: u32, more: bool) {
        let Lane {
            core, foreground, ..
        } = self.lanes[cpu as usize];
        let (now_ns, level) = (self.now_ns, self.level(core));
        let core = &mut self.cores[core];
        let change = |number: usize| match more {
            true => number + 1,
            false => number.saturating_sub(1),
        };
        self.busy = change(self.busy);
        if core.busy == 0 {
            core.busy_ns = now_ns;
        }
        core.busy = change(core.busy);
        let before = core.foreground;
        if foreground {
            core.foreground = change(before);
        }
        if core.foreground > level && before <= level {
            core.crowded_ns = Some(now_ns);
        } else if core.foreground <= level {
            core.crowded_ns = None;
        }
        if core.foreground < level && before >= level {
            core.room_ns = now_ns;
        }
        if self.busy == 0 {
            self.rests_since_ns = now_ns;
        }
    }

    /// A task is elsewhere now: brings up to date what follows from it.
    pub(super) fn put(&mut self, id: TaskId, place: Place) -> Verdict {
        let now_ns = self.now_ns;
        let before = std::mem::replace(&mut self.task_mut(id).place, place);
        if let Place::Vector { core, class } = before {
            let vector = &mut self.cores[core].vectors[class as usize];
            vector.longer_ns.pop();
        }
        if let Place::Vector { core, class } = place {
            let vector = &mut self.cores[core].vectors[class as usize];
            vector.longer_ns.push(now_ns);
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
        let unseen = !self.has(task) && task.since_ns <= self.followed_ns;
        let core = core.filter(|_| task.known == Class::Critical && !unseen);
        if core == task.closes {
            return Ok(());
        }
        let kick_ns = self.machine.costs.kick_ns;
        if let Some(core) = core {
            let index = core;
            let core = &mut self.cores[core];
            core.critical += 1;
            if core.critical == 1 {
                // Gone and back at the same moment is no opening; unless the kicks of the closing
                // arrive at that very moment, and find the core open.
                let before = core.was_closed;
                let before = before
                    .filter(|&(from_ns, to_ns)| to_ns == now_ns && now_ns != from_ns + kick_ns);
                core.closed_ns = Some(before.map_or(now_ns, |(from_ns, _)| from_ns));
                self.begin_period(index);
            }
            if std::mem::take(&mut self.task_mut(id).woke) {
                self.refresh(index, id);
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
            left.open_ns = now_ns;
        }
        Ok(())
    }
}
