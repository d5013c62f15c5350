//! The scheduler's settings, as its loader would set them.

use super::native;
use super::pairing::Pairing;
use super::pools::Pool;
use super::retention::Retention;
use sidelane_model::Symbiosis;

const MS: u64 = 1_000_000;
const NR_CLASSES: usize = native::task_class_NR_CLASSES as usize;

/// Settings of the scheduler; the defaults are those of `sidelane run`.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Slice of critical and normal work, ns.
    pub slice_ns: u64,
    /// Slice of batch work, ns.
    pub batch_slice_ns: u64,
    /// Normal work waits at most about this long behind critical work, ns.
    pub normal_bound_ns: u64,
    /// Batch work waits at most about this long, ns.
    pub starvation_bound_ns: u64,
    /// What a task gets when a bound is used, ns.
    pub overdue_slice_ns: u64,
    /// Critical jobs move to better cores that fall free.
    pub promote: bool,
    /// Younger jobs do not, ns.
    pub promote_after_ns: u64,
    /// Busy lanes a core may have; none: all.
    pub smt_level: Option<u32>,
    /// Lanes of a core that batch may use, the last ones; none: as many as are worth it by `thread_perf`.
    pub batch_lanes: Option<u32>,
    /// `[n - 1]`: speed of a lane when n lanes of its core run; empty: not known.
    pub thread_perf: Vec<f64>,
    /// How long batch may run beside critical work.
    pub budget: Budget,
    /// A task that sleeps for less than a slice, of which it has used less than half, goes on with it.
    pub keep_slice: bool,
    /// After so long without work, times the distance, a lane steals across a barrier that is lower
    /// by one, ns; 0: barriers stay as they are.
    pub steal_patience_ns: u64,
    /// Lanes are held idle for normal tasks that are soon back from sleep; none: they are not.
    pub retention: Option<Retention>,
    /// I/O-bound and other normal tasks have lanes of their own; only with retention. None: they
    /// have not.
    pub pairing: Option<Pairing>,
    /// Normal and batch work runs on as few cores as it needs.
    pub vertical: bool,
    /// Lanes have counters of instructions and cycles: what critical work loses beside batch is
    /// measured by them, for the dynamic policy.
    pub counters: bool,
    /// Normal computation shares cores with what it bears best, by counters of cycles and cache misses
    /// ([`Machine::misses`](crate::Machine)); none: by the order of the vector alone.
    pub symbiosis: Option<Symbiosis>,
    /// Tasks name them ([`TaskSpec::pool`](crate::TaskSpec)).
    pub pools: Vec<Pool>,
}

/// How long batch may run beside critical work, ns: the policies of `budget.bpf.h`.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Budget {
    /// Not at all.
    #[default]
    BorrowIdle,
    /// From the first overlap of a busy period.
    Fixed(u64),
    /// Anew with each critical task that finds nobody waiting.
    Refresh(u64),
    /// As the one before; charged by what critical work loses.
    Dynamic {
        /// ns.
        budget_ns: u64,
        /// `[n - 1]`: speed of a lane when n lanes of its core run.
        thread_perf: Vec<f64>,
    },
    /// Without a limit.
    Off,
    /// As refresh; the budget follows the tail of the jobs.
    Objective {
        /// Latency that few jobs should exceed, ns.
        objective_ns: u64,
        /// How many of 1000 jobs may.
        beyond: u32,
    },
}

/// What became of an objective.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ObjectiveState {
    /// The budget now, ns.
    pub budget_ns: u64,
    /// Tail of the jobs in the last window, ns; 0: there was none yet.
    pub tail_ns: u64,
    /// Windows so far.
    pub windows: u64,
    /// Those whose tail was beyond the objective.
    pub missed: u64,
}

/// What counters showed of critical work beside batch and alone.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counted {
    /// Instructions a cycle with idle siblings; NaN before there was any.
    pub ipc_alone: f64,
    /// The same beside batch.
    pub ipc_beside: f64,
    /// Of 1, what is lost beside batch; none: not known well enough yet.
    pub loss: Option<f64>,
}

impl Counted {
    /// As the scheduler keeps it.
    pub(super) fn of(ipc: &native::budget_ipc) -> Counted {
        let of = |company: u32| {
            let sum = &ipc.sums[company as usize];
            sum.instructions as f64 / sum.cycles as f64
        };
        Counted {
            ipc_alone: of(native::company_COMPANY_NONE),
            ipc_beside: of(native::company_COMPANY_BATCH),
            loss: (ipc.known != 0).then(|| f64::from(ipc.loss) / f64::from(native::SPEED_ONE)),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            slice_ns: 10 * MS,
            batch_slice_ns: 50 * MS,
            normal_bound_ns: 20 * MS,
            starvation_bound_ns: 1000 * MS,
            overdue_slice_ns: MS,
            promote: true,
            promote_after_ns: 500_000,
            smt_level: None,
            batch_lanes: None,
            thread_perf: Vec::new(),
            budget: Budget::default(),
            keep_slice: false,
            steal_patience_ns: 0,
            retention: None,
            pairing: None,
            vertical: false,
            counters: false,
            symbiosis: None,
            pools: Vec::new(),
        }
    }
}

impl Settings {
    /// Whether the programs are there that read counters.
    pub(super) fn reads_counters(&self) -> bool {
        self.counters || self.symbiosis.is_some()
    }

    fn has_weights(&self) -> bool {
        self.pools.iter().any(|pool| pool.weight.is_some())
    }

    /// `[n]`: a cgroup in pool n - 1; 0: the root, in none.
    pub(super) fn cgroups(&self) -> Vec<native::cgroup_known> {
        let root = native::cgroup_known::default();
        let id = |index: usize| index as u64 + 1;
        let cgroup = |(index, pool): (usize, &Pool)| native::cgroup_known {
            pool: index as u32 + 1,
            group: if self.has_weights() { id(index) } else { 0 },
            parent: pool.parent.map_or(0, id),
            weight: pool.weight.unwrap_or(100),
            ..root
        };
        let pools = self.pools.iter().enumerate().map(cgroup);
        std::iter::once(root).chain(pools).collect()
    }

    /// `[n - 1]`: what a lane of a core with n busy ones is worth, as the scheduler charges pools.
    pub(crate) fn mt1_speeds(&self) -> Vec<f64> {
        let (_, speeds) = self.budget.native(self.speeds_known());
        let of_one = |speed: u32| f64::from(speed) / f64::from(native::SPEED_ONE);
        let known = |speed: u32| if speed > 0 { of_one(speed) } else { 1.0 };
        speeds.into_iter().map(known).collect()
    }

    /// Lanes of a core that batch may use, of cores with at most `widest`, as `sidelane run` chooses them.
    pub(crate) fn lanes_for_batch(&self, widest: u32) -> u32 {
        let chosen = || sidelane_model::batch_lanes(self.speeds_known(), widest);
        self.batch_lanes.unwrap_or_else(chosen)
    }

    /// `[n - 1]`: speed of a lane when n lanes of its core run, as it is told to the scheduler.
    pub(crate) fn speeds_known(&self) -> &[f64] {
        match &self.budget {
            Budget::Dynamic { thread_perf, .. } => thread_perf,
            _ => &self.thread_perf,
        }
    }

    /// As the scheduler reads them, for a machine with so many lanes a core at most.
    pub(super) fn native(&self, widest: u32) -> native::settings {
        let (budget, speeds) = self.budget.native(self.speeds_known());
        let retention = self.retention.clone().unwrap_or_default();
        let pairing = self.pairing.clone().unwrap_or_default();
        let symbiosis = self.symbiosis.clone().unwrap_or_default();
        native::settings {
            budget,
            trace: 0,
            keep_slice: u32::from(self.keep_slice),
            steal_patience_ns: self.steal_patience_ns,
            retain: u32::from(self.retention.is_some()),
            pair: u32::from(self.pairing.is_some() && self.retention.is_some()),
            pair_uniform: pairing.uniform_rate(),
            pair_period_ns: pairing.period_ns,
            retain_start_ns: retention.start_ns,
            retain_min_ns: retention.min_ns,
            retain_max_ns: retention.max_ns,
            retain_switches_ns: retention.switches_ns,
            retain_period_ns: retention.period_ns,
            vertical: u32::from(self.vertical),
            nr_pools: self.pools.len() as u32,
            cgroup_weights: u32::from(self.has_weights()),
            cores_awake: 0, // all
            counters: u32::from(self.counters),
            thread_perf: speeds,
            slice_ns: [self.slice_ns, self.slice_ns, self.batch_slice_ns],
            starvation_bound_ns: [0, self.normal_bound_ns, self.starvation_bound_ns],
            overdue_slice_ns: self.overdue_slice_ns,
            promote: u32::from(self.promote),
            promote_after_ns: self.promote_after_ns,
            steal_min_queued: [1, 1, 1, 2],
            smt_level: self.smt_level.unwrap_or(widest),
            batch_lanes: self.lanes_for_batch(widest),
            symbiotic: u32::from(self.symbiosis.is_some()),
            miss_cycles: symbiosis.miss_cycles,
            symbiosis_waits: symbiosis.waits(native::SPEED_ONE),
            retain_exclusive: u32::from(retention.exclusive),
            nr_rules: NR_CLASSES as u32,
            has_cgroup_rules: 0,
        }
    }
}

impl Budget {
    /// Policy, budget and speeds as the scheduler reads them; beyond the speeds given, the last.
    fn native(
        &self,
        thread_perf: &[f64],
    ) -> (
        native::budget,
        [u32; native::limits_MAX_LANES_PER_CORE as usize],
    ) {
        const ONE: f64 = 1024.0;
        let mut speeds = [0; native::limits_MAX_LANES_PER_CORE as usize];
        let last = thread_perf.last().unwrap_or(&0.0);
        let given = thread_perf.iter().chain(std::iter::repeat(last));
        for (speed, given) in speeds.iter_mut().zip(given) {
            *speed = (given * ONE).clamp(0.0, ONE) as u32;
        }
        let (policy, budget_ns) = match self {
            Budget::BorrowIdle => (native::budget_policy_BUDGET_NONE, 0),
            Budget::Fixed(ns) => (native::budget_policy_BUDGET_FIXED, *ns),
            Budget::Refresh(ns) => (native::budget_policy_BUDGET_REFRESH, *ns),
            Budget::Dynamic { budget_ns, .. } => (native::budget_policy_BUDGET_DYNAMIC, *budget_ns),
            Budget::Off => (native::budget_policy_BUDGET_OFF, 0),
            Budget::Objective { .. } => (native::budget_policy_BUDGET_OBJECTIVE, 0),
        };
        let (objective_ns, beyond) = match self {
            Budget::Objective {
                objective_ns,
                beyond,
            } => (*objective_ns, *beyond),
            _ => (0, 0),
        };
        let budget = native::budget {
            policy,
            beyond,
            budget_ns,
            objective_ns,
        };
        (budget, speeds)
    }
}

/// Rules by which user n + 1 stands for class n: a task of the simulation says its class so.
pub(super) fn rules() -> Vec<native::rule> {
    let rule = |class: u32| native::rule {
        kind: native::rule_kind_RULE_USER,
        class,
        uid: class + 1,
        budget: native::budget {
            policy: native::budget_policy_BUDGET_INHERIT,
            ..native::budget::default()
        },
        ..native::rule::default()
    };
    (0..NR_CLASSES as u32).map(rule).collect()
}
