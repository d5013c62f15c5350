//! What to simulate: a machine, workloads, and the configurations to compare.

mod behaviour;
mod configuration;
mod control;
mod cores;
mod machine;
mod parse;
mod pools;
#[cfg(test)]
mod tests;
mod trace;
mod values;
mod workload;

pub(crate) use parse::{FILE, scenario};
pub use sidelane_policy::file::Mistake;

use crate::TaskSpec;
use crate::control::Control;
use crate::machine::Machine;
use crate::simulation::Kind;
use crate::workload::Workload;
use pools::Described;

/// A scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// What it is called.
    pub name: String,
    /// One sentence about it; may be empty.
    pub about: String,
    /// What rests on neither a measurement nor a publication; shown with every result.
    pub assumptions: Vec<String>,
    /// The machine, with the lanes that are online.
    pub machine: Machine,
    /// What runs.
    pub workloads: Vec<Workload>,
    /// What is compared, at least one; the first is what the others are compared with.
    pub configurations: Vec<Configuration>,
    /// How it is run.
    pub run: Run,
}

/// A way to run the workloads.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// Its name.
    pub name: String,
    /// Which scheduler decides.
    pub scheduler: Kind,
    /// Only the first so many online lanes of each core are there; none: all.
    pub smt: Option<usize>,
    /// What sets the SMT level while it runs, from all lanes of `smt` on; none: nothing does.
    pub control: Option<Control>,
    /// Indices of the workloads that take part.
    pub workloads: Vec<usize>,
}

/// How long, how often, and from which seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Start of all random numbers.
    pub seed: u64,
    /// Independent replications, at least 1.
    pub replications: u32,
    /// Measured time of each, ns.
    pub length_ns: u64,
    /// Time before it that does not count, ns.
    pub warmup_ns: u64,
}

impl Run {
    /// When a replication ends, ns.
    pub(crate) fn end_ns(&self) -> u64 {
        self.warmup_ns.saturating_add(self.length_ns)
    }
}

impl Scenario {
    /// Forgets all configurations but one.
    ///
    /// # Errors
    /// If there is no such configuration; names those that there are.
    pub fn keep_only(&mut self, name: &str) -> std::result::Result<(), String> {
        if !self
            .configurations
            .iter()
            .any(|configuration| configuration.name == name)
        {
            let names = self.configurations.iter().map(|c| c.name.as_str());
            let names = names.collect::<Vec<_>>().join(", ");
            return Err(format!(
                "there is no configuration {name:?}; there are {names}"
            ));
        }
        self.configurations
            .retain(|configuration| configuration.name == name);
        Ok(())
    }
}

/// What a workload may refer to.
#[derive(Clone, Copy)]
struct Context<'a> {
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
