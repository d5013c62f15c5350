//! The scheduler's settings and pools, as its loader would set them, and what it keeps of them.

use super::native;
use crate::scheduler::{Counted, Pool, PoolState};
use sidelane_policy::settings::speeds;
use sidelane_policy::{Borrow, Retention, Settings, Symbiosis, UseCounters};

const NR_CLASSES: usize = native::task_class_NR_CLASSES as usize;

/// Sidelane as it is attached.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sidelane {
    /// How it behaves.
    pub settings: Settings,
    /// What groups of tasks may use; tasks name them ([`TaskSpec::pool`](crate::TaskSpec)).
    pub pools: Vec<Pool>,
}

impl From<Settings> for Sidelane {
    fn from(settings: Settings) -> Sidelane {
        Sidelane {
            settings,
            pools: Vec::new(),
        }
    }
}

impl Pool {
    pub(super) fn native(&self) -> native::pool_limit {
        native::pool_limit {
            allowance_ns: self.allowance_ns,
            period_ns: self.period_ns,
            charge: self.charge.native(),
            parent: self.parent.map_or(0, |parent| parent as u32 + 1),
        }
    }
}

impl PoolState {
    pub(super) fn of(pool: &native::pool) -> PoolState {
        PoolState {
            left_ns: pool.left_ns as i64,
            raw_ns: pool.raw_ns,
            mt1_ns: pool.mt1_ns,
            periods: pool.periods,
            throttled: pool.throttled,
            throttled_ns: pool.throttled_ns,
            overdrawn_ns: pool.overdrawn_ns,
        }
    }
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

impl Sidelane {
    /// Whether counters say what a dynamic budget is charged: simulated lanes have them unless the settings
    /// say that none are used.
    pub(crate) fn charges_by_counters(&self) -> bool {
        let settings = &self.settings;
        settings.counters != UseCounters::Off && settings.budget.borrow == Borrow::Dynamic
    }

    /// Whether work is counted in instructions where lanes are held.
    fn retains_by_counters(&self) -> bool {
        self.settings.retains_by_counters() && self.settings.counters != UseCounters::Off
    }

    /// Whether the programs are there that read counters.
    pub(super) fn reads_counters(&self) -> bool {
        self.charges_by_counters() || self.settings.symbiotic || self.retains_by_counters()
    }

    /// Do weights of pools count? Where pools have some.
    fn has_weights(&self) -> bool {
        self.settings.cgroup_weights && self.pools.iter().any(|pool| pool.weight.is_some())
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
        let of_one = |speed: u32| f64::from(speed) / f64::from(native::SPEED_ONE);
        let known = |speed: u32| if speed > 0 { of_one(speed) } else { 1.0 };
        let speeds = speeds(&self.settings.thread_perf);
        speeds.into_iter().map(known).collect()
    }

    /// As the scheduler reads its settings that stay, for a machine with so many lanes a core at most.
    pub(super) fn fixed(&self, widest: u32) -> native::fixed_settings {
        native::fixed_settings {
            // the rules name all classes
            others: native::task_class_CLASS_NORMAL,
            others_ruled: self.settings.only_batch().into(),
            nr_pools: self.pools.len() as u32,
            cgroup_weights: self.has_weights().into(),
            counters: self.charges_by_counters().into(),
            retain_counts: self.retains_by_counters().into(),
            nr_rules: NR_CLASSES as u32,
            nr_budgets: NR_CLASSES as u32 + 1,
            ..self.settings.fixed(widest)
        }
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

/// The scheduler's search for a time-out alone (`timeout.bpf.h`), for any response.
pub struct TimeoutSearch {
    fixed: native::fixed_settings,
    timeout: native::timeout,
}

impl TimeoutSearch {
    /// Begins at the start.
    pub fn new(retention: &Retention) -> TimeoutSearch {
        let settings = Settings {
            retain: true,
            retention: retention.clone(),
            ..Settings::default()
        };
        TimeoutSearch {
            fixed: settings.fixed(1),
            timeout: native::timeout {
                best_ns: retention.start_ns,
                ..native::timeout::default()
            },
        }
    }

    /// The time-out that is in force, ns.
    pub fn now_ns(&self) -> u64 {
        // SAFETY: both are this search's own; besides it writes this thread's settings, which a
        // simulation sets again when it is made.
        unsafe { native::native_timeout_now_ns(&self.timeout, &self.fixed) }
    }

    /// The best one so far, ns.
    pub fn best_ns(&self) -> u64 {
        self.timeout.best_ns
    }

    /// A period ends in which so many tasks that are mostly soon back slept so often, and so many others did so much work.
    pub fn step(&mut self, [waiting, rounds]: [u64; 2], [working, work]: [u64; 2]) {
        let done = native::timeout_done {
            rounds,
            work,
            waiting,
            working,
        };
        // SAFETY: all are this search's own; besides it writes this thread's settings, which a
        // simulation sets again when it is made.
        unsafe { native::native_timeout_step(&mut self.timeout, &self.fixed, &done) }
    }
}

/// The scheduler's model of symbiosis alone: the speed of a task beside another, relative to alone, by the cycles that an
/// instruction of each executes, waits for units and waits for memory.
pub fn symbiotic_speed(model: &Symbiosis, own: [f64; 3], other: [f64; 3]) -> f64 {
    let settings = Settings {
        symbiotic: true,
        symbiosis: model.clone(),
        ..Settings::default()
    };
    let one = f64::from(native::SPEED_ONE);
    let [own, other] = [own, other].map(|cycles| cycles.map(|of| (of * one) as u64));
    // SAFETY: arrays of three; besides it writes this thread's settings, which a simulation sets again when it is made
    let speed =
        unsafe { native::native_symbiosis_speed(&settings.fixed(1), own.as_ptr(), other.as_ptr()) };
    speed as f64 / one
}
