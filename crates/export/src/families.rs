//! What is told of the scheduler and of pods, as metrics.

use super::Pod;
use super::encode::{Family, Kind, Samples, escaped, seconds};
use super::scheduler::{Exit, Now, PoolSums, Scheduler, Source, Sums};
use super::series::{Jobs, OTHERS, SERIES_MAX, Series};
use sidelane_kernel::attached;
use sidelane_policy::Class;
use sidelane_policy::intf::counters;
use sidelane_sched::stats::{InForce, ObjectiveState, Whose};
use sidelane_smt::snapshot::Usage;
use std::time::SystemTime;

impl<S: Source> Scheduler<S> {
    /// All that is told of it.
    pub(crate) fn families(&self) -> Vec<Family> {
        let mut told = self.attachments();
        if let Some(now) = &self.now {
            told.extend(settings(now));
            told.extend(objectives(now, &self.sums));
            told.extend(pools(now, &self.sums));
            told.extend(counted(&self.sums.counters));
        }
        told
    }

    /// What is told of jobs: without the scheduler tasks have no classes, and a series that stays would look as if
    /// nothing ran.
    pub(crate) fn jobs<'a>(&self, jobs: &'a Jobs) -> Option<&'a Jobs> {
        self.now.as_ref().map(|_| jobs)
    }

    /// Whether it is attached, how often it was, and how that ended.
    fn attachments(&self) -> Vec<Family> {
        let name = self.seen.name.as_deref();
        let ours = name.is_some_and(attached::is_ours);
        let flag = |is: bool| one(f64::from(u8::from(is)));
        let other = name.filter(|_| !ours);
        let other = other.map(|name| (vec![("name", escaped(name))], 1.0));
        let ended = |how: &Exit| {
            let count = self.exits.get(how).copied().unwrap_or(0);
            (vec![("how", how.name().to_owned())], count as f64)
        };
        let last = self.last_exit.as_ref().map(|last| {
            let how = ("how", last.how.name().to_owned());
            (
                vec![how, ("reason", escaped(&last.reason))],
                unix_s(last.at),
            )
        });
        let told = [
            gauge(
                "scheduler_attached",
                "1: Sidelane's scheduler is attached",
                flag(ours),
            ),
            gauge(
                "scheduler_readable",
                "1: what the attached scheduler counts can be read",
                if ours {
                    flag(self.now.is_some())
                } else {
                    vec![]
                },
            ),
            gauge(
                "other_scheduler_attached",
                "1: another sched_ext scheduler is attached",
                other.into_iter().collect(),
            ),
            counter(
                "scheduler_attaches",
                "Times that Sidelane's scheduler was attached since this program began",
                one(self.attaches as f64),
            ),
            counter(
                "scheduler_exits",
                "Times that it was detached, by how it ended",
                Exit::ALL.iter().map(ended).collect(),
            ),
            family(
                Kind::Seconds,
                "scheduler_last_exit_timestamp",
                "When it was last detached (Unix time), and why",
                last.into_iter().collect(),
            ),
        ];
        told.into_iter()
            .filter(|family| !family.samples.is_empty())
            .collect()
    }
}

/// Without labels.
fn one(value: f64) -> Samples<'static> {
    vec![(Vec::new(), value)]
}

fn unix_s(at: SystemTime) -> f64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

fn family(kind: Kind, name: &'static str, help: &'static str, samples: Samples<'static>) -> Family {
    Family {
        name,
        help,
        kind,
        samples,
    }
}

fn counter(name: &'static str, help: &'static str, samples: Samples<'static>) -> Family {
    family(Kind::Counter, name, help, samples)
}

fn gauge(name: &'static str, help: &'static str, samples: Samples<'static>) -> Family {
    family(Kind::Gauge, name, help, samples)
}

fn settings(now: &Now) -> Vec<Family> {
    let InForce {
        scope,
        smt_level,
        budget,
        polarization,
        cores_awake,
        threads,
    } = &now.in_force;
    let objective = budget.objective.map(|objective| objective.to_string());
    let info = vec![
        ("scope", scope.name().to_owned()),
        ("borrow", budget.borrow.name().to_owned()),
        ("objective", escaped(&objective.unwrap_or_default())),
        ("polarization", polarization.name().to_owned()),
    ];
    let threads = threads.iter().flat_map(|threads| {
        let state = |name: &str, many: usize| (vec![("state", name.to_owned())], many as f64);
        [
            state("adopted", threads.adopted),
            state("lent", threads.lent),
        ]
    });
    let told = [
        family(
            Kind::Seconds,
            "scheduler_start_timestamp",
            "When the attached scheduler was loaded (Unix time)",
            now.began.map_or(vec![], |began| one(unix_s(began))),
        ),
        gauge(
            "scheduler_settings_info",
            "1: settings in force",
            vec![(info, 1.0)],
        ),
        gauge(
            "scheduler_smt_level",
            "Lanes of a core that critical and normal work may keep busy",
            one(f64::from(*smt_level)),
        ),
        gauge(
            "scheduler_cores_awake",
            "With vertical polarization: cores on which normal and batch work runs",
            cores_awake.map_or(vec![], |cores| one(f64::from(cores))),
        ),
        gauge(
            "batch_threads",
            "With scope batch: threads that the scheduler has, and those lent to the kernel's",
            threads.collect(),
        ),
        family(
            Kind::Seconds,
            "scheduler_budget",
            "How long batch may run beside critical work; not told where there is no such time",
            match budget.budget_ns {
                0 => vec![],
                ns => one(seconds(ns)),
            },
        ),
    ];
    let mut told = Vec::from(told);
    told.retain(|family| !family.samples.is_empty());
    told
}

/// A sample for each objective, by the number of its rule, 0 is that of `[scheduler]`, or by the cgroup whose label has it.
fn objectives(now: &Now, sums: &Sums) -> Vec<Family> {
    let now = &now.reading.objectives;
    let now = &now[..now.len().min(SERIES_MAX)];
    if now.is_empty() {
        return Vec::new();
    }
    let each = |value: &dyn Fn(&ObjectiveState) -> f64| -> Samples<'static> {
        let label = |of: &ObjectiveState| match &of.of {
            Whose::Rule(rule) => ("rule", rule.to_string()),
            Whose::Cgroup(path) => ("cgroup", escaped(path)),
        };
        let sample = |of: &ObjectiveState| (vec![label(of)], value(of));
        now.iter().map(sample).collect()
    };
    let sum = |of: &ObjectiveState| sums.objectives.get(&of.of).copied().unwrap_or_default();
    vec![
        family(
            Kind::Seconds,
            "objective_tail",
            "Tail of critical jobs in the last window, at the objective's percentile",
            each(&|of| of.tail_ms / 1e3),
        ),
        family(
            Kind::Seconds,
            "objective_budget",
            "Budget that the objective leaves",
            each(&|of| of.budget_ms / 1e3),
        ),
        counter(
            "objective_windows",
            "Windows of the objective",
            each(&|of| sum(of).windows.total() as f64),
        ),
        counter(
            "objective_missed_windows",
            "Windows whose tail was beyond the objective",
            each(&|of| sum(of).missed.total() as f64),
        ),
    ]
}

fn pools(now: &Now, sums: &Sums) -> Vec<Family> {
    let all = &now.reading.pools;
    let number = gauge(
        "pools",
        "Pools, cgroups with a cpu.max included",
        one(all.len() as f64),
    );
    let told = &all[..all.len().min(SERIES_MAX)];
    if told.is_empty() {
        return vec![number];
    }
    let each = |value: &dyn Fn(&PoolSums) -> f64| -> Samples<'static> {
        let sums = told.iter().filter_map(|pool| {
            let sums = sums.pools.get(&pool.cgroup)?;
            Some((vec![("pool", escaped(&pool.cgroup))], value(sums)))
        });
        sums.collect()
    };
    let capacity = told.iter().filter_map(|pool| {
        let labels = vec![
            ("pool", escaped(&pool.cgroup)),
            ("charge", pool.charge.name().to_owned()),
        ];
        Some((labels, pool.capacity_cores?))
    });
    vec![
        number,
        gauge(
            "pool_capacity_cores",
            "Cores that the pool may use, or lanes with charge raw; not told without a limit",
            capacity.collect(),
        ),
        family(
            Kind::Time,
            "pool_raw",
            "Time that the pool's tasks ran on a lane",
            each(&|sums| seconds(sums.raw_ns.total())),
        ),
        family(
            Kind::Time,
            "pool_mt1",
            "MT1-equivalent time of the pool's tasks",
            each(&|sums| seconds(sums.mt1_ns.total())),
        ),
        counter(
            "pool_periods",
            "Periods of the pool",
            each(&|sums| sums.periods.total() as f64),
        ),
        counter(
            "pool_throttled_periods",
            "Periods in which a task of the pool was held",
            each(&|sums| sums.throttled_periods.total() as f64),
        ),
        family(
            Kind::Time,
            "pool_throttled",
            "Time in which any task of the pool was held",
            each(&|sums| seconds(sums.throttled_ns.total())),
        ),
    ]
}

/// The scheduler's counters.
fn counted(counters: &counters) -> Vec<Family> {
    let classes = |values: &[u64; 3], unit: f64| -> Samples<'static> {
        let names = Class::ALL.iter().map(|class| class.name());
        let samples = names.zip(values);
        let sample =
            |(name, value): (&str, &u64)| (vec![("class", name.to_owned())], *value as f64 / unit);
        samples.map(sample).collect()
    };
    let named = |label: &'static str, values: &[(&str, u64)]| -> Samples<'static> {
        let sample =
            |(name, value): &(&str, u64)| (vec![(label, (*name).to_owned())], *value as f64);
        values.iter().map(sample).collect()
    };
    let mut told = vec![
        family(
            Kind::Time,
            "scheduler_run",
            "Time that tasks of the class ran on a lane",
            classes(&counters.run_ns, 1e9),
        ),
        counter(
            "scheduler_switches",
            "Times that a task of the class began to run",
            classes(&counters.switches, 1.0),
        ),
        counter(
            "scheduler_wakeups",
            "Wake-ups of tasks of the class",
            classes(&counters.wakeups, 1.0),
        ),
        counter(
            "scheduler_overdue",
            "Runs by the starvation bound",
            classes(&counters.overdue, 1.0),
        ),
        counter(
            "scheduler_critical_placed",
            "Wake-ups of critical tasks, by where they went",
            named(
                "place",
                &[
                    ("idle_core", counters.critical_idle_core),
                    ("borrowed_core", counters.critical_borrowed_core),
                    ("shared_core", counters.critical_shared_core),
                    ("queued", counters.critical_queued),
                ],
            ),
        ),
        counter(
            "scheduler_steals",
            "Tasks that were taken from another core's queue, by how far it is",
            named(
                "distance",
                &[
                    ("cache", counters.steals[1]),
                    ("node", counters.steals[2]),
                    ("remote", counters.steals[3]),
                ],
            ),
        ),
    ];
    let times = [
        (
            "scheduler_eviction_wait",
            "Time from when batch was asked to leave to when it was gone",
            counters.evict_wait_ns,
        ),
        (
            "scheduler_held",
            "Time that lanes were held for tasks that slept (retention)",
            counters.held_ns,
        ),
        (
            "scheduler_held_waited",
            "Of that, in holds at whose beginning or end something waited",
            counters.held_waited_ns,
        ),
    ];
    let times = times.map(|(name, help, ns)| family(Kind::Time, name, help, one(seconds(ns))));
    told.extend(times);
    let counts = plain_counts(counters);
    told.extend(counts.map(|(name, help, count)| counter(name, help, one(count as f64))));
    told
}

fn plain_counts(counters: &counters) -> [(&'static str, &'static str, u64); 14] {
    [
        (
            "scheduler_evictions",
            "Times that batch was asked to leave because its core closed",
            counters.evictions,
        ),
        (
            "scheduler_openings",
            "Times that a core was opened to batch again",
            counters.openings,
        ),
        (
            "scheduler_promotions",
            "Critical jobs that moved to a better core",
            counters.promotions,
        ),
        (
            "scheduler_promotions_dropped",
            "Critical jobs that were to, but slept or found the core taken",
            counters.promotions_dropped,
        ),
        (
            "scheduler_marked_jobs",
            "Jobs of critical work that programs marked",
            counters.marked_jobs,
        ),
        (
            "scheduler_marked_jobs_missed",
            "Marked jobs that were not looked at",
            counters.marked_jobs_missed,
        ),
        (
            "scheduler_cores_woken",
            "Cores woken for normal and batch work",
            counters.cores_woken,
        ),
        (
            "scheduler_cores_parked",
            "Cores parked",
            counters.cores_parked,
        ),
        (
            "scheduler_retentions",
            "Tasks that came back to a lane that was held for them",
            counters.retentions,
        ),
        (
            "scheduler_retentions_failed",
            "Tasks that did not, in time",
            counters.retentions_failed,
        ),
        (
            "scheduler_nap_holds",
            "Naps of batch tasks for which a lane was held",
            counters.nap_holds,
        ),
        (
            "scheduler_hand_backs",
            "Normal tasks that made room for I/O-bound ones",
            counters.hand_backs,
        ),
        (
            "scheduler_swaps",
            "Tasks that went to another core so that its tasks differ",
            counters.swaps,
        ),
        (
            "scheduler_symbiotic",
            "Tasks that were taken for what ran beside them",
            counters.symbiotic,
        ),
    ]
}

/// Name and description of a family for each way to count time on lanes: raw, MT1-equivalent, prorated.
type Times = [(&'static str, &'static str); 3];

const OF_PODS: Times = [
    ("pod_raw", "Time that the pod's tasks ran on a lane"),
    ("pod_mt1", "MT1-equivalent time of the pod's tasks"),
    ("pod_prorated", "Prorated core time of the pod's tasks"),
];

const OF_NAMESPACES: Times = [
    (
        "namespace_raw",
        "Time that tasks of the namespace's pods ran on a lane",
    ),
    (
        "namespace_mt1",
        "MT1-equivalent time of the namespace's pods",
    ),
    (
        "namespace_prorated",
        "Prorated core time of the namespace's pods",
    ),
];

/// These families of what was used.
fn times<'a, K>(
    families: Times,
    totals: impl Iterator<Item = (Option<K>, &'a Usage)> + Clone,
    labels: impl Fn(Option<K>) -> Vec<(&'static str, String)>,
) -> Vec<Family> {
    type Time = fn(&Usage) -> Option<u64>;
    let ways: [Time; 3] = [
        |usage| Some(usage.raw_ns),
        |usage| Some(usage.mt1_ns),
        |usage| usage.prorated_ns,
    ];
    let each = families.into_iter().zip(ways);
    let each = each.map(|((name, help), time)| {
        let sample = |(of, usage)| Some((labels(of), seconds(time(usage)?)));
        family(
            Kind::Time,
            name,
            help,
            totals.clone().filter_map(sample).collect(),
        )
    });
    each.collect()
}

/// What a node offers to batch, in thousandths of a core, and what its pods and their namespaces used; without a name: all others.
pub(crate) fn bill(
    offered: Option<u64>,
    pods: &Series<Pod>,
    namespaces: &Series<String>,
) -> Vec<Family> {
    let name = |name: Option<&String>| name.map_or(OTHERS.to_owned(), |name| escaped(name));
    let mut all = times(OF_PODS, pods.totals(), |pod| {
        vec![
            ("namespace", name(pod.map(|pod| &pod.0))),
            ("pod", name(pod.map(|pod| &pod.1))),
            ("class", name(pod.map(|pod| &pod.2))),
        ]
    });
    all.extend(times(OF_NAMESPACES, namespaces.totals(), |namespace| {
        vec![("namespace", name(namespace))]
    }));
    all.push(gauge(
        "batch_cpu_cores",
        "What the node offers to batch, in MT1-equivalent cores",
        offered.map_or(vec![], |milli| one(milli as f64 / 1e3)),
    ));
    all.retain(|family| !family.samples.is_empty());
    all
}
