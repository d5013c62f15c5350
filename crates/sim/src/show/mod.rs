//! Pictures and traces of runs: pure functions from values to text, the same on every machine.
//!
//! - [`Trace::gantt`]: what ran where, as an SVG timeline by lane, for short runs.
//! - [`Trace::write_perfetto`]: the same run for <https://ui.perfetto.dev>, of any length.

mod gantt;
mod perfetto;
mod rows;
mod timeline;

use crate::machine::Machine;
use crate::record::Record;
use crate::task::{Class, TaskId};

/// What a task is called in a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskLabel {
    /// Thread name.
    pub name: String,
    /// Its class. The steps do not tell classes: a task has one colour throughout, also where its
    /// class changed.
    pub class: Class,
}

impl TaskLabel {
    /// A label.
    pub fn new(name: impl Into<String>, class: Class) -> TaskLabel {
        TaskLabel {
            name: name.into(),
            class,
        }
    }
}

/// What there is to show of a run.
///
/// Steps are in the order of time. If the first ones are missing, what happened before them is
/// inferred as far as they tell: a task that leaves a lane has run there since the first step.
#[derive(Debug, Clone, Copy)]
pub struct Trace<'a> {
    /// The machine at the start.
    pub machine: &'a Machine,
    /// Indexed by [`TaskId`]; a task that is not in it is shown with its number, as normal.
    pub tasks: &'a [TaskLabel],
    /// The steps.
    pub records: &'a [Record],
}

impl Trace<'_> {
    fn name(&self, task: TaskId) -> String {
        let label = self.tasks.get(task.0 as usize);
        label.map_or_else(|| task.to_string(), |label| label.name.clone())
    }

    fn class(&self, task: TaskId) -> Class {
        let label = self.tasks.get(task.0 as usize);
        label.map_or(Class::Normal, |label| label.class)
    }
}

/// What tests of pictures need.
#[cfg(test)]
mod testing {
    use super::TaskLabel;
    use crate::machine::{Costs, Interference, Machine};
    use crate::record::{Record, Step};
    use crate::task::Class;
    use sidelane_topology::{Regular, Topology};

    /// Two cores with two lanes each: 0 and 1, 2 and 3.
    pub(super) fn machine() -> Machine {
        let topology = Topology::regular(&Regular::one_package(2, 2));
        let speeds = Interference::ThreadPerf(vec![1.0, 0.6]);
        Machine::new(&topology.unwrap(), speeds, Costs::none()).unwrap()
    }

    pub(super) fn record(at_ns: u64, step: Step) -> Record {
        Record { at_ns, step }
    }

    /// A critical task whose name needs care, and a batch task.
    pub(super) fn tasks() -> Vec<TaskLabel> {
        vec![
            TaskLabel::new("a<b>&\"c\"\u{1}", Class::Critical),
            TaskLabel::new("batch", Class::Batch),
        ]
    }
}
