//! What a timeline shows in each row.

use super::Trace;
use super::detail::{Run, Wait};
use super::timeline::{Span, Timeline, What};
use crate::task::Class;

/// A lane, or what critical tasks wait for that did not run afterwards.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// Index of the core.
    pub core: Option<usize>,
    pub lane: Option<u32>,
    pub runs: Vec<Run>,
    /// Of critical tasks.
    pub waits: Vec<Wait>,
    pub offline: Vec<(u64, u64)>,
}

/// All lanes by core, and last a row for those that still wait, if any do so for some time, ns.
pub(super) fn rows(trace: &Trace<'_>, from_ns: u64, to_ns: u64, visible_ns: u64) -> Vec<Row> {
    let mut collector = Collector::new(trace, from_ns, to_ns);
    let first_ns = trace.records.first().map_or(0, |record| record.at_ns);
    let last_ns = trace.records.last().map_or(0, |record| record.at_ns);
    let mut timeline = Timeline::new(trace.machine, first_ns);
    for record in trace.records {
        timeline.step(record, &mut |span| collector.add(span));
    }
    // What goes on at the last step goes on to the end of the window.
    timeline.finish(to_ns.max(last_ns), &mut |span| collector.add(span));
    collector.finish(visible_ns)
}

struct Collector<'a> {
    trace: &'a Trace<'a>,
    from_ns: u64,
    to_ns: u64,
    rows: Vec<Row>,
    /// By CPU number.
    row_of: Vec<Option<usize>>,
    still_waiting: Row,
}

impl<'a> Collector<'a> {
    fn new(trace: &'a Trace<'a>, from_ns: u64, to_ns: u64) -> Collector<'a> {
        let mut rows = Vec::new();
        let mut row_of = vec![None; trace.machine.nr_lanes];
        for (index, core) in trace.machine.cores.iter().enumerate() {
            for &cpu in &core.lanes {
                if let Some(row) = row_of.get_mut(cpu as usize) {
                    *row = Some(rows.len());
                }
                rows.push(Row {
                    core: Some(index),
                    lane: Some(cpu),
                    ..Row::default()
                });
            }
        }
        Collector {
            trace,
            from_ns,
            to_ns,
            rows,
            row_of,
            still_waiting: Row::default(),
        }
    }

    fn row(&mut self, lane: u32) -> Option<&mut Row> {
        let index = self.row_of.get(lane as usize).copied().flatten()?;
        self.rows.get_mut(index)
    }

    fn add(&mut self, span: Span) {
        let from_ns = span.from_ns.max(self.from_ns);
        let to_ns = span.to_ns.min(self.to_ns);
        if from_ns >= to_ns {
            return;
        }
        match span.what {
            What::Ran { task, lane, .. } => {
                let run = Run {
                    task,
                    class: self.trace.class(task),
                    from_ns,
                    to_ns,
                    whole_ns: (span.from_ns, span.to_ns),
                };
                if let Some(row) = self.row(lane) {
                    row.runs.push(run);
                }
            }
            What::Waited { task, lane, .. } if self.trace.class(task) == Class::Critical => {
                let wait = Wait {
                    from_ns,
                    to_ns,
                    tasks: vec![(task, span.to_ns - span.from_ns)],
                };
                let row = match lane {
                    Some(lane) => self.row(lane),
                    None => Some(&mut self.still_waiting),
                };
                if let Some(row) = row {
                    row.waits.push(wait);
                }
            }
            What::Waited { .. } => {}
            What::Offline { lane } => {
                if let Some(row) = self.row(lane) {
                    row.offline.push((from_ns, to_ns));
                }
            }
        }
    }

    fn finish(mut self, visible_ns: u64) -> Vec<Row> {
        let is_visible = |wait: &Wait| wait.to_ns - wait.from_ns >= visible_ns;
        if self.still_waiting.waits.iter().any(is_visible) {
            self.rows.push(self.still_waiting);
        }
        for row in &mut self.rows {
            row.runs.sort_by_key(|run| run.from_ns);
        }
        self.rows
    }
}

impl Row {
    /// Whether there is nothing to see.
    pub fn is_blank(&self) -> bool {
        self.runs.is_empty() && self.waits.is_empty() && self.offline.is_empty()
    }
}
