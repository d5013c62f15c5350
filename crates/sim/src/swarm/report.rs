//! What a swarm reports.

use super::drive::Driver;
use super::verdict::{Broken, Rule};
use crate::record::Record;
use crate::scheduler::Counters;
use serde::ser::Error;
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::fmt;

/// A run in which nothing was violated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Its seed.
    pub seed: u64,
    /// Simulated time, ns.
    pub simulated_ns: u64,
    /// Lanes of the machine.
    pub lanes: usize,
    /// Tasks that there were.
    pub tasks: usize,
    /// Steps that happened.
    pub steps: u64,
    /// Times that everything was looked at closely.
    pub looks: u64,
    /// Faults that were tried.
    pub faults: u64,
    /// What the scheduler counted.
    pub counters: Counters,
}

/// A run in which something was violated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, serde::Serialize)]
pub struct Failure {
    /// The seed that makes it happen again.
    pub seed: u64,
    /// When, in simulated time, ns.
    pub at_ns: u64,
    /// Which rule.
    pub rule: Rule,
    /// What happened.
    pub what: String,
    /// The generated scenario, in words.
    pub scenario: String,
    /// The last steps, the oldest first.
    #[serde(skip)]
    pub steps: Vec<Record>,
}

/// Many runs.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct Total {
    /// Runs in which nothing was violated.
    pub passed: u64,
    /// The others, by seed.
    pub failures: Vec<Failure>,
    /// Of those that passed: simulated time, ns.
    pub simulated_ns: u64,
    /// Steps.
    pub steps: u64,
    /// Faults.
    pub faults: u64,
    /// What the scheduler counted.
    #[serde(serialize_with = "named")]
    pub counters: Counters,
}

/// Counters of which those of classes and of distances have names, too.
fn named<S: Serializer>(counters: &Counters, serializer: S) -> Result<S::Ok, S::Error> {
    const CLASSES: [&str; 3] = ["critical", "normal", "batch"];
    const DISTANCES: [&str; 4] = ["core", "cache", "node", "remote"];
    let mut value = serde_json::to_value(counters).map_err(S::Error::custom)?;
    for entry in value.as_object_mut().into_iter().flatten() {
        let name = |names: &[&str], of: &[Value]| -> Value {
            let named = names.iter().zip(of);
            named
                .map(|(name, of)| ((*name).to_owned(), of.clone()))
                .collect()
        };
        match entry.1.as_array() {
            Some(of) if of.len() == CLASSES.len() => *entry.1 = name(&CLASSES, of),
            Some(of) => *entry.1 = name(&DISTANCES, of),
            None => {}
        }
    }
    value.serialize(serializer)
}

impl Summary {
    pub(super) fn of(seed: u64, driver: &Driver) -> Summary {
        let cores = driver.plan.machine.cores.iter();
        Summary {
            seed,
            simulated_ns: driver.simulation.now_ns(),
            lanes: cores.map(|core| core.lanes.len()).sum(),
            tasks: driver.actors.len(),
            steps: driver.watch.nr_steps,
            looks: driver.looks,
            faults: driver.faults,
            counters: driver.simulation.counters(),
        }
    }
}

impl Total {
    pub(super) fn add(&mut self, outcome: Result<Summary, Box<Failure>>) {
        match outcome {
            Ok(summary) => {
                self.passed += 1;
                self.simulated_ns += summary.simulated_ns;
                self.steps += summary.steps;
                self.faults += summary.faults;
                self.counters = self.counters.plus(&summary.counters);
            }
            Err(failure) => self.failures.push(*failure),
        }
    }
}

impl Failure {
    pub(super) fn new(seed: u64, broken: Broken, scenario: String) -> Failure {
        Failure {
            seed,
            at_ns: 0,
            rule: broken.rule,
            what: broken.what,
            scenario,
            steps: Vec::new(),
        }
    }

    /// Adds what the run was like when it failed.
    pub(super) fn at(mut self, driver: &Driver) -> Failure {
        self.at_ns = driver.simulation.now_ns();
        self.steps = driver.watch.last();
        self
    }

    /// The command that makes it happen again.
    pub fn command(&self) -> String {
        format!("sidelane sim --swarm-seed {}", self.seed)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}: {}", self.seed, self.rule, self.what)?;
        writeln!(f, "at {} ns; again with: {}", self.at_ns, self.command())?;
        writeln!(f, "{}", self.scenario)?;
        writeln!(f, "last steps, ns:")?;
        for record in &self.steps {
            writeln!(f, "  {:>12}  {}", record.at_ns, record.step)?;
        }
        Ok(())
    }
}

/// How many failures are told in full.
const TOLD: usize = 3;

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in self.failures.iter().take(TOLD) {
            writeln!(f, "{failure}")?;
        }
        for failure in self.failures.iter().skip(TOLD) {
            writeln!(
                f,
                "seed {}: {}: {}",
                failure.seed, failure.rule, failure.what
            )?;
        }
        write!(
            f,
            "{} seeds passed, {} failed; {:.1} s simulated, {} steps, {} faults",
            self.passed,
            self.failures.len(),
            self.simulated_ns as f64 / 1e9,
            self.steps,
            self.faults
        )
    }
}
