//! Rows of the table.

use sidelane_smt::latency::Quantile;
use sidelane_smt::snapshot::{Class, Interval, Usage, by_path};
use std::cmp::Ordering;

/// A task or a cgroup.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Thread id, or the cgroup's.
    pub id: u64,
    /// Name, or path.
    pub name: String,
    /// Class, if it is known.
    pub class: Option<Class>,
    /// Lanes that it used on the mean.
    pub lanes: f64,
    /// Work it got done, as lanes that run alone.
    pub work: f64,
    /// Tasks that waited on the mean.
    pub waiting: f64,
    /// Lanes that it used, as batch, beside critical work; none where that is unknown.
    pub borrowed: Option<f64>,
    /// Lanes that it kept idle, as critical work, while batch waited; none where that is unknown.
    pub forced_idle: Option<f64>,
    /// 99th percentile of its jobs, ns.
    pub tail_ns: Option<u64>,
}

/// Which table is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Table {
    /// Tasks.
    #[default]
    Tasks,
    /// Cgroups.
    Cgroups,
}

/// By what rows are sorted: most first, names from A.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sort {
    /// Lanes used.
    #[default]
    Lanes,
    /// Work done.
    Work,
    /// Waiting.
    Waiting,
    /// Borrowed.
    Borrowed,
    /// Forced to idle.
    ForcedIdle,
    /// 99th percentile of jobs.
    Tail,
    /// Thread id.
    Id,
    /// Name.
    Name,
}

impl Sort {
    /// All, in the order of the columns.
    pub const ALL: [Sort; 8] = [
        Sort::Id,
        Sort::Lanes,
        Sort::Work,
        Sort::Waiting,
        Sort::Borrowed,
        Sort::ForcedIdle,
        Sort::Tail,
        Sort::Name,
    ];

    /// The next one.
    pub fn next(self) -> Sort {
        let at = Sort::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        Sort::ALL[(at + 1) % Sort::ALL.len()]
    }

    /// The order of two rows; equal ones (many columns have zeros) the busier first, then by id.
    pub(crate) fn compare(self, a: &Row, b: &Row) -> Ordering {
        let order = match self {
            Sort::Lanes => b.lanes.total_cmp(&a.lanes),
            Sort::Work => b.work.total_cmp(&a.work),
            Sort::Waiting => b.waiting.total_cmp(&a.waiting),
            Sort::Borrowed => known_first(a.borrowed, b.borrowed),
            Sort::ForcedIdle => known_first(a.forced_idle, b.forced_idle),
            Sort::Tail => b.tail_ns.cmp(&a.tail_ns),
            Sort::Name => a.name.cmp(&b.name),
            Sort::Id => return a.id.cmp(&b.id),
        };
        order
            .then(b.lanes.total_cmp(&a.lanes))
            .then(a.id.cmp(&b.id))
    }
}

/// Most first, unknown last.
fn known_first(a: Option<f64>, b: Option<f64>) -> Ordering {
    b.unwrap_or(-1.0).total_cmp(&a.unwrap_or(-1.0))
}

/// All rows of a table.
pub(crate) fn rows(interval: &Interval, table: Table) -> Vec<Row> {
    let elapsed_ns = interval.elapsed_ns().max(1) as f64;
    let row = |id, name, class, usage: &Usage| Row {
        id,
        name,
        class,
        lanes: usage.raw_ns as f64 / elapsed_ns,
        work: usage.mt1_ns as f64 / elapsed_ns,
        waiting: usage.waiting_ns as f64 / elapsed_ns,
        borrowed: usage.borrowed_ns.map(|ns| ns as f64 / elapsed_ns),
        forced_idle: usage.forced_idle_ns.map(|ns| ns as f64 / elapsed_ns),
        tail_ns: usage.jobs.quantile(Quantile::P99),
    };
    let tasks = interval.tasks.iter();
    match table {
        Table::Tasks => tasks
            .map(|task| row(task.pid.into(), task.comm.clone(), task.class, &task.usage))
            .collect(),
        Table::Cgroups => by_path(interval.cgroups.clone())
            .into_iter()
            .map(|group| {
                let name = group.path.unwrap_or_else(|| "(unknown)".into());
                row(group.id, name, None, &group.usage)
            })
            .collect(),
    }
}
