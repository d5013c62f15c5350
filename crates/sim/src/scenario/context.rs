//! What a workload and a configuration may refer to.

use super::pools::Described;
use crate::{Machine, TaskSpec, Workload};

/// What a workload may refer to.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub machine: &'a Machine,
    /// Names of the rows of the interference table; none without one.
    pub kinds: &'a [String],
    pub pools: &'a [Described],
    /// The workloads above it.
    pub before: &'a [Workload],
    /// Of all cores that have a lane online, in fastest cores.
    pub capacity: f64,
    /// Reads a trace.
    pub read: &'a dyn Fn(&str) -> std::io::Result<String>,
}

impl Context<'_> {
    /// How many online lanes are open to a task.
    pub fn lanes_of(&self, task: &TaskSpec) -> usize {
        let online = (0_u32..).zip(&self.machine.online);
        let open_to_it = |cpu: u32| {
            let cpus = task.cpus.as_ref();
            cpus.is_none_or(|cpus| cpus.binary_search(&cpu).is_ok())
        };
        online
            .filter(|(cpu, online)| **online && open_to_it(*cpu))
            .count()
    }
}
