//! What a timeline shows in each row, and how much of it: what is too short to be seen is drawn together.

use super::Trace;
use super::timeline::{Span, Timeline, What};
use crate::task::{Class, TaskId};

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

/// A task on a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub task: TaskId,
    pub class: Class,
    /// What lies in the window.
    pub from_ns: u64,
    pub to_ns: u64,
    /// All of it.
    pub whole_ns: (u64, u64),
}

/// What is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A run.
    One(Run),
    /// Runs that are shorter than a column each, and begin in the same one.
    Several {
        from_ns: u64,
        to_ns: u64,
        runs: usize,
        /// In the order of [`Class::ALL`].
        class_ns: [u64; 3],
    },
}

impl Shape {
    /// How many rectangles it takes.
    pub fn rectangles(&self) -> usize {
        match self {
            Shape::One(_) => 1,
            Shape::Several { class_ns, .. } => class_ns.iter().filter(|&&ns| ns > 0).count(),
        }
    }

    fn with(self, run: Run) -> Shape {
        let (from_ns, runs, mut class_ns) = match self {
            Shape::One(first) => {
                let mut class_ns = [0; 3];
                class_ns[first.class as usize] = first.to_ns - first.from_ns;
                (first.from_ns, 1, class_ns)
            }
            Shape::Several {
                from_ns,
                runs,
                class_ns,
                ..
            } => (from_ns, runs, class_ns),
        };
        class_ns[run.class as usize] += run.to_ns - run.from_ns;
        Shape::Several {
            from_ns,
            to_ns: run.to_ns,
            runs: runs + 1,
            class_ns,
        }
    }
}

/// The shapes of a lane's runs, in the order of time, that begin at a time or later.
pub(super) fn shapes(runs: &[Run], start_ns: u64, column_ns: u64) -> Vec<Shape> {
    let mut shapes: Vec<Shape> = Vec::new();
    // The column of the last shape, if short runs can still join it.
    let mut open = None;
    for run in runs {
        let short = run.to_ns - run.from_ns < column_ns;
        let column = short.then(|| (run.from_ns - start_ns) / column_ns);
        match shapes.last_mut() {
            Some(last) if column.is_some() && column == open => *last = last.with(*run),
            _ => shapes.push(Shape::One(*run)),
        }
        open = column;
    }
    shapes
}

/// A time in which tasks waited for a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wait {
    pub from_ns: u64,
    pub to_ns: u64,
    /// Who waited, with how long, ns.
    pub tasks: Vec<(TaskId, u64)>,
}

/// Waits for a lane, those that overlap as one; shorter ones than a time, ns, are left out.
pub(super) fn joined(mut waits: Vec<Wait>, shortest_ns: u64) -> Vec<Wait> {
    waits.sort_by_key(|wait| wait.from_ns);
    let mut joined: Vec<Wait> = Vec::new();
    for wait in waits {
        match joined.last_mut() {
            Some(last) if wait.from_ns < last.to_ns => {
                last.to_ns = last.to_ns.max(wait.to_ns);
                last.tasks.extend(wait.tasks);
            }
            _ => joined.push(wait),
        }
    }
    joined.retain(|wait| wait.to_ns - wait.from_ns >= shortest_ns.max(1));
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(class: Class, from_ns: u64, to_ns: u64) -> Run {
        Run {
            task: TaskId(0),
            class,
            from_ns,
            to_ns,
            whole_ns: (from_ns, to_ns),
        }
    }

    #[test]
    fn only_short_runs_of_a_column_are_joined() {
        let runs = [
            run(Class::Critical, 100, 103),
            run(Class::Batch, 104, 109),
            run(Class::Batch, 110, 112),
            run(Class::Batch, 112, 125),
            run(Class::Batch, 125, 126),
        ];
        let several = Shape::Several {
            from_ns: 100,
            to_ns: 109,
            runs: 2,
            class_ns: [3, 0, 5],
        };
        let one = |index: usize| Shape::One(runs[index]);
        assert_eq!(shapes(&runs, 100, 10), [several, one(2), one(3), one(4)]);
        assert_eq!(several.rectangles(), 2);
        assert_eq!(shapes(&runs, 100, 1).len(), 5);
    }

    #[test]
    fn waits_that_overlap_are_one() {
        let wait = |task, from_ns: u64, to_ns: u64| Wait {
            from_ns,
            to_ns,
            tasks: vec![(TaskId(task), to_ns - from_ns)],
        };
        let waits = vec![wait(2, 30, 31), wait(1, 15, 18), wait(0, 10, 20)];
        let left = joined(waits, 2);
        assert_eq!(left.len(), 1);
        assert_eq!((left[0].from_ns, left[0].to_ns), (10, 20));
        assert_eq!(left[0].tasks, [(TaskId(0), 10), (TaskId(1), 3)]);
    }
}
