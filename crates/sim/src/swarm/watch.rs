//! What the run looks like from outside: kept from the recorded steps alone, so that it owes nothing
//! to the simulator's own books.

use super::verdict::Verdict;
use crate::machine::Machine;
use crate::record::Record;
use crate::sched_ext::Sidelane;
use crate::scheduler::Pool;
use crate::task::{Class, State, TaskId, TaskSpec, cpu_bits};
use crate::{LaneTotals, TaskTotals};
use sidelane_policy::Settings;
use std::collections::VecDeque;

/// So many steps are shown with a failure.
const LAST: usize = 100;

/// The scheduler's timer rings at most so late, and first so long after it is attached.
pub(super) const LOOK_NS: u64 = 1_000_000;

/// The machine as the steps so far leave it.
pub(super) struct Watch {
    pub machine: Machine,
    pub settings: Settings,
    /// What groups of tasks may use.
    pub limits: Vec<Pool>,
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
    pub numbers: Vec<usize>,
    /// Of each pool.
    pub accounts: Vec<Account>,
    /// There was a task since the scheduler was attached: with the first one its pools' periods begin.
    pub pools_begun: bool,
    /// `[n - 1]`: what a lane is charged when n of its core are busy, as MT1-equivalent time.
    pub speeds: Vec<f64>,
    /// Lanes of a core that batch may use.
    batch_lanes: usize,
    last: VecDeque<Record>,
    pub nr_steps: u64,
    /// Since when batch runs or waits, where the kernel's own scheduler has the other tasks: from then on what those do is
    /// followed.
    pub followed_ns: u64,
}

pub(super) struct Lane {
    pub core: usize,
    pub online: bool,
    pub task: Option<TaskId>,
    /// The task counts for the SMT level: it was not batch when it began to run.
    pub foreground: bool,
    /// When it fell idle.
    pub idle_ns: u64,
    /// When a task slept here last that naps.
    pub nap_ns: Option<u64>,
    /// When work of each class left it last, or of a lower one, or what ran because it was due.
    pub served_ns: [u64; 3],
    /// From when on the running task progresses.
    pub ready_ns: u64,
    pub totals: LaneTotals,
}

#[derive(Default)]
pub(super) struct Core {
    pub busy: usize,
    /// Since when some lane is.
    pub busy_ns: u64,
    /// Lanes that run critical or normal work.
    pub foreground: usize,
    /// Critical tasks that run here or wait for a lane of this core.
    pub critical: usize,
    /// Since when there are some.
    pub closed_ns: Option<u64>,
    /// What of the budget is used up since then.
    pub clock: Clock,
    /// From when to when there were some before.
    pub was_closed: Option<(u64, u64)>,
    /// Since when there is none and none is expected any more.
    pub open_ns: u64,
    /// Since when more lanes run critical or normal work than the SMT level allows.
    pub crowded_ns: Option<u64>,
    /// Since when another lane may be.
    pub room_ns: u64,
    pub vectors: [Vector; 3],
    pub accounted_ns: u64,
    pub density_ns: Vec<u64>,
    /// `[n]`: lane time with n busy lanes, without switches; `[0]`: with the only one that is online.
    pub progress_ns: Vec<u64>,
    pub density_work_ns: Vec<f64>,
}

/// The clock of a core's busy period; `budget.rs` keeps it current.
#[derive(Debug, Default, Clone)]
pub(super) struct Clock {
    /// When batch ran beside critical work first, or when the clock was set anew since.
    pub start_ns: Option<u64>,
    /// Used up to `from_ns`, ns; of a dynamic budget.
    pub charged_ns: f64,
    /// Since when it is charged at `rate`; none while they do not run at once.
    pub from_ns: Option<u64>,
    pub rate: f64,
    /// When the charge reached the budget.
    pub spent_ns: Option<u64>,
    /// When a timer was set first in this period: not by a task that has one lane only, nor by one
    /// that waited when the scheduler was attached.
    pub timed_ns: Option<u64>,
}

impl Clock {
    /// When the charge reaches the budget, as it goes on now.
    pub fn spends_ns(&self, budget_ns: u64) -> Option<u64> {
        let left_ns = (budget_ns as f64 - self.charged_ns).max(0.0);
        let from_ns = self.from_ns.filter(|_| self.rate > 0.0)?;
        Some(from_ns.saturating_add((left_ns / self.rate) as u64))
    }
}

/// What a pool has; `pools.rs` keeps it current.
pub(super) struct Account {
    /// Of the allowance, ns; negative: overdrawn.
    pub left_ns: f64,
    /// The same when this period began.
    pub began_with_ns: f64,
    pub began_ns: u64,
    pub ends_ns: u64,
    /// Its tasks, those of pools within it too.
    pub tasks: u64,
}

impl Account {
    /// As the scheduler begins when it is attached.
    pub fn new(now_ns: u64) -> Account {
        Account {
            left_ns: 0.0,
            began_with_ns: 0.0,
            began_ns: now_ns,
            ends_ns: now_ns + LOOK_NS,
            tasks: 0,
        }
    }
}

/// Since when a task competes with others of its lane; `shares.rs` keeps it current.
#[derive(Default)]
pub(super) struct Shares {
    pub since_ns: u64,
    /// What all tasks had had then, ns of lanes.
    pub had_ns: Vec<u64>,
}

#[derive(Default)]
pub(super) struct Vector {
    /// `[n]`: since when more than n tasks wait there; as many as wait.
    pub longer_ns: Vec<u64>,
}

/// Where a waiting task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Nowhere,
    Vector {
        core: usize,
        class: Class,
    },
    Local(u32),
    /// Its pool, or one around it, is used up.
    Held(usize),
}

pub(super) struct Task {
    pub spec: TaskSpec,
    pub allowed: Box<[u64]>,
    /// Its class when the scheduler looked it up last.
    pub known: Class,
    /// Since when that is out of date.
    pub changed_ns: Option<u64>,
    /// When it became batch while the kernel's own scheduler had it.
    pub came_ns: u64,
    pub state: State,
    /// It has woken, and no core knows it yet.
    pub woke: bool,
    pub place: Place,
    /// When the scheduler queued it.
    pub queued_ns: u64,
    /// When it began to wait, or to run.
    pub since_ns: u64,
    /// When it is to run at the latest; none if it has run since then, or sleeps.
    pub due_ns: Option<u64>,
    /// When a task last began on its core that was due before it and may use all lanes of the core that it may.
    pub preceded_ns: u64,
    /// It was due when it began to run.
    pub overdue: bool,
    /// When its job began: it woke, or came to be critical; none if a pool held it then, and it is not seen when that was noticed.
    pub job_ns: Option<u64>,
    /// Lane time that it had had when it woke, or when the scheduler was attached.
    pub burst_from_ns: u64,
    /// Moving average of what it ran between sleeps; none: it has not slept since the scheduler was attached. `age.rs` keeps it.
    pub burst_mean_ns: Option<u64>,
    /// Its place in a critical vector; `age.rs` keeps it current.
    pub order_ns: Option<u64>,
    /// The lane that it has left, able to go on, and not been queued since.
    pub left: Option<u32>,
    /// The core that it closes.
    pub closes: Option<usize>,
    pub ran_on: Option<u32>,
    pub shares: Shares,
    pub totals: TaskTotals,
}

impl Task {
    /// How many lanes it may use, of a machine with so many.
    pub fn cpus_allowed(&self, nr_lanes: u32) -> usize {
        (0..nr_lanes).filter(|cpu| self.may_use(*cpu)).count()
    }

    /// Is it a kernel thread of one lane?
    pub fn is_pinned_kthread(&self) -> bool {
        let lanes: u32 = self.allowed.iter().map(|word| word.count_ones()).sum();
        self.spec.kernel_thread && lanes == 1
    }

    pub fn may_use(&self, cpu: u32) -> bool {
        self.allowed[cpu as usize / 64] >> (cpu % 64) & 1 == 1
    }
}

impl Watch {
    pub fn new(machine: &Machine, sidelane: &Sidelane) -> Watch {
        let idle = |cpu: usize| Lane {
            core: 0,
            online: machine.online[cpu],
            task: None,
            foreground: false,
            idle_ns: 0,
            nap_ns: None,
            served_ns: [0; 3],
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
        let widest = machine.cores.iter().map(|core| core.lanes.len()).max();
        let mut watch = Watch {
            machine: machine.clone(),
            settings: sidelane.settings.clone(),
            limits: sidelane.pools.clone(),
            now_ns: 0,
            attached_ns: 0,
            lanes,
            cores,
            tasks: Vec::new(),
            busy: 0,
            rests_since_ns: 0,
            numbers: Vec::new(),
            accounts: Vec::new(),
            pools_begun: false,
            speeds: sidelane.mt1_speeds(),
            batch_lanes: sidelane
                .settings
                .lanes_for_batch(widest.unwrap_or(1) as u32) as usize,
            last: VecDeque::new(),
            nr_steps: 0,
            followed_ns: 0,
        };
        watch.attach();
        watch
    }

    /// A task was created at this moment.
    pub fn create(&mut self, spec: &TaskSpec, now_ns: u64) {
        if !self.pools_begun {
            self.begin_pools(now_ns);
            self.pools_begun = true;
        }
        self.join_pools(spec.pool);
        self.tasks.push(Task {
            spec: spec.clone(),
            allowed: cpu_bits(spec.cpus.as_deref(), self.machine.nr_lanes),
            known: spec.class,
            changed_ns: None,
            came_ns: 0,
            state: State::Sleeping,
            woke: false,
            place: Place::Nowhere,
            queued_ns: 0,
            since_ns: 0,
            due_ns: None,
            preceded_ns: 0,
            overdue: false,
            job_ns: Some(0),
            burst_from_ns: 0,
            burst_mean_ns: None,
            order_ns: None,
            left: None,
            closes: None,
            ran_on: None,
            shares: Shares::default(),
            totals: TaskTotals::default(),
        });
    }

    /// A task may use these CPUs from now on.
    pub fn set_cpus(&mut self, id: TaskId, cpus: Option<&[u32]>, now_ns: u64) -> Verdict {
        self.pass_periods(now_ns)?;
        if let State::Running(cpu) = self.task(id).state {
            self.account(self.lanes[cpu as usize].core);
        }
        let nr_lanes = self.machine.nr_lanes;
        self.task_mut(id).allowed = cpu_bits(cpus, nr_lanes);
        self.competes_anew(id);
        Ok(())
    }

    /// A task is of this class from now on.
    pub fn set_class(&mut self, id: TaskId, class: Class, now_ns: u64) -> Verdict {
        self.now_ns = now_ns;
        let partial = self.settings.only_batch();
        if let State::Running(cpu) = self.task(id).state {
            let core = self.lanes[cpu as usize].core;
            self.account(core);
            if class == Class::Batch {
                self.open_unseen(id, core);
            }
        }
        let moves = matches!(self.task(id).state, State::Running(_) | State::Waiting);
        if partial && moves && class == Class::Batch && !self.batch_wants() {
            self.begin_following()?;
        }
        let task = self.task_mut(id);
        let before = std::mem::replace(&mut task.spec.class, class);
        if !partial {
            task.changed_ns = (task.known != class).then_some(now_ns);
            return Ok(());
        }
        // At once for batch. The class of another task is that with which it came.
        task.known = match (before, class) {
            (_, Class::Batch) => Class::Batch,
            (Class::Batch, _) => Class::Normal,
            _ => task.known,
        };
        if before != class && class == Class::Batch {
            task.came_ns = now_ns;
        }
        task.left = None;
        task.due_ns = task.due_ns.filter(|_| before == class);
        let place = match before == class {
            true => task.place,
            false => Place::Nowhere,
        };
        self.put(id, place)
    }

    /// The task leaves the core, or its class. If the kernel's own scheduler has it, the core may have been closed for it without our
    /// knowing until now.
    pub(super) fn open_unseen(&mut self, id: TaskId, core: usize) {
        let task = self.task(id);
        if !self.has(task) && task.known == Class::Critical {
            self.cores[core].open_ns = self.now_ns;
        }
    }

    /// Does Sidelane have the task, not the kernel's own scheduler?
    pub fn has(&self, task: &Task) -> bool {
        !self.settings.only_batch() || task.spec.class == Class::Batch
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
        (self.settings.slice_ns)
            .max(self.settings.normal_slice_ns())
            .max(self.settings.batch_slice_ns)
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

    /// How many lanes of a core critical and normal work may keep busy.
    pub fn level(&self, core: usize) -> usize {
        let level = match self.settings.smt_level {
            0 => usize::MAX,
            level => level as usize,
        };
        level.min(self.machine.cores[core].lanes.len())
    }

    /// May batch use the lane, which is online? Of each core so many of these, the last ones; where it is alone and nothing
    /// else is said, all but the first.
    pub fn is_for_batch(&self, cpu: u32) -> bool {
        let core = &self.machine.cores[self.lanes[cpu as usize].core];
        if self.batch_lanes == 0 {
            let mut online = core
                .lanes
                .iter()
                .filter(|lane| self.lanes[**lane as usize].online);
            return online.next() != Some(&cpu) || online.next().is_none();
        }
        let after = core.lanes.iter().skip_while(|lane| **lane != cpu).skip(1);
        let online = after.filter(|lane| self.lanes[**lane as usize].online);
        online.count() < self.batch_lanes
    }

    /// Takes a step into account.
    pub fn step(&mut self, record: Record) -> Verdict {
        if self.last.len() == LAST {
            self.last.pop_front();
        }
        self.last.push_back(record);
        self.nr_steps += 1;
        self.pass_periods(record.at_ns)?;
        self.apply(record.step)
    }
}
