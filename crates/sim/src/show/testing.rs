//! What tests of pictures need.

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
