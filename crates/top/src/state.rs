//! What is shown.

use crate::rows::{Row, Sort, Table, rows};
use sidelane_smt::latency::Quantile;
use sidelane_smt::snapshot::{Class, Interval, LaneState};
use std::collections::{BTreeMap, VecDeque};

/// Samples whose tail is kept for the sparkline.
pub const TREND_MAX: usize = 200;

/// What passed, and what every lane does now, by CPU number, where that is known.
#[derive(Debug, Clone)]
pub struct Sample {
    /// What passed.
    pub interval: Interval,
    /// What lanes do now.
    pub lanes: BTreeMap<u32, LaneState>,
}

/// All that is shown.
#[derive(Debug, Default)]
pub struct State {
    pub(crate) sample: Option<Sample>,
    /// 99th percentile of critical jobs, or of all where no classes are known, µs; an entry a sample.
    pub(crate) tail_us: VecDeque<u64>,
    /// What is shown of them, if there is anything.
    pub(crate) tail_critical: bool,
    /// Which table.
    pub table: Table,
    /// By what it is sorted.
    pub sort: Sort,
    /// Least first.
    pub ascending: bool,
    /// First row that is shown.
    pub(crate) first: usize,
    /// New samples are not shown.
    pub paused: bool,
    /// Only rows whose name has this in it.
    pub filter: String,
    /// Keys go into the filter.
    pub(crate) typing: bool,
    /// The keys are explained.
    pub(crate) help: bool,
    /// What to tell, such as why there are no samples.
    pub message: String,
}

impl State {
    /// Takes a sample, unless paused.
    pub fn push(&mut self, sample: Sample) {
        if self.paused {
            return;
        }
        let tasks = &sample.interval.tasks;
        self.tail_critical = tasks.iter().any(|task| task.class.is_some());
        let mut jobs = sidelane_smt::histogram::LogHistogram::default();
        for task in tasks {
            if !self.tail_critical || task.class == Some(Class::Critical) {
                jobs.merge(&task.usage.jobs);
            }
        }
        let tail_ns = jobs.quantile(Quantile::P99).unwrap_or(0);
        self.tail_us.push_back(tail_ns / 1000);
        if self.tail_us.len() > TREND_MAX {
            self.tail_us.pop_front();
        }
        self.sample = Some(sample);
    }

    /// The rows of the table that is shown, sorted and filtered.
    pub fn rows(&self) -> Vec<Row> {
        let Some(sample) = &self.sample else {
            return Vec::new();
        };
        let mut rows = rows(&sample.interval, self.table);
        let wanted = self.filter.to_lowercase();
        rows.retain(|row| row.name.to_lowercase().contains(&wanted));
        rows.sort_by(|a, b| self.sort.compare(a, b));
        if self.ascending {
            rows.reverse();
        }
        rows
    }

    /// Moves the table by so many rows.
    pub(crate) fn scroll(&mut self, by: isize) {
        let last = self.rows().len().saturating_sub(1);
        self.first = self.first.saturating_add_signed(by).min(last);
    }
}
