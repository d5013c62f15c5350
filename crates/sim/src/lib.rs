//! Discrete-event simulator that drives the shipped scheduler's own source.
//!
//! The C source below `crates/policy/bpf` is compiled natively at build time, with substitute
//! headers (`native/`). A [`Simulation`] is a machine whose lanes slow each other down, and the subset
//! of sched_ext that the source uses. No clock is read and nothing is random in
//! here but by a seed: the same calls give the same run, on every machine.

pub mod analytic;
mod baseline;
mod classes;
mod control;
mod engine;
mod events;
pub mod experiment;
mod machine;
pub mod points;
mod random;
mod record;
mod recording;
mod results;
mod run;
mod scenario;
mod sched_ext;
mod scheduler;
pub mod show;
mod simulation;
mod statistics;
mod summary;
pub mod swarm;
pub mod sweep;
mod table;
mod task;
pub mod what_if;
mod workload;

pub use baseline::Baseline;
pub use control::{Control, LevelTotals, Measure};
pub use engine::{CoreTotals, EventCounts, LaneTotals};
pub use events::Events;
pub use machine::{Beside, Core, Costs, Interference, Machine};
pub use random::{Distribution, Stream};
pub use record::{Record, Step};
pub use recording::{RecordError, record, watch};
pub use results::Replication;
pub use run::{Outcome, Traced, run, trace};
pub use scenario::{Configuration, Mistake, Run, Scenario};
pub use sched_ext::{Sidelane, TimeoutSearch, symbiotic_speed};
pub use scheduler::{Counted, Counters, ObjectiveState, Pool, PoolState};
pub use sidelane_policy::{
    Borrow, Budget, Charge, Dispatching, JobOrder, Objective, Pairing, Polarization, Retention,
    Scope, Settings, StealBarriers, Symbiosis, UseCounters,
};
pub use simulation::{Kind, Occurrence, Simulation};
pub use statistics::Estimate;
pub use summary::{
    CONFIDENCE, ConfigurationSummary, LaneShares, LatencyPoint, Metric, Summary, WorkloadSummary,
};
pub use task::{Class, Policy, State, TaskId, TaskSpec, TaskTotals};
pub use workload::{Arrivals, Behaviour, Measured, Poll, Quality, Stage, TraceRequest, Workload};

/// Why a simulation could not go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The scheduler did what the kernel would eject it for.
    #[error("at {at_ns} ns the scheduler {what}")]
    Violation {
        /// When, in simulated time.
        at_ns: u64,
        /// What it did.
        what: String,
        /// The last steps up to there.
        steps: Vec<Record>,
    },
    /// The machine asked for does not make sense.
    #[error("{0}")]
    BadMachine(String),
    /// The workload asks for what the machine cannot do.
    #[error("{0}")]
    BadWorkload(String),
    /// The scheduler's globals are one set a thread.
    #[error("this thread simulates already: end that simulation, or use another thread")]
    Busy,
}

impl Error {
    /// The last steps before a violation, one a line; empty for other errors.
    pub fn steps(&self) -> String {
        let Error::Violation { steps, .. } = self else {
            return String::new();
        };
        let line = |record: &Record| format!("  {:>12} ns  {}\n", record.at_ns, record.step);
        steps.iter().map(line).collect()
    }
}

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;
