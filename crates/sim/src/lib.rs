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
mod error;
mod events;
pub mod experiment;
mod machine;
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
mod table;
mod task;
mod workload;

pub use baseline::Baseline;
pub use control::{Control, LevelTotals, Measure};
pub use engine::{CoreTotals, EventCounts, LaneTotals};
pub use error::{Error, Result};
pub use events::Events;
pub use machine::{Beside, Core, Costs, Interference, Machine};
pub use random::{Distribution, Stream};
pub use record::{Record, Step};
pub use recording::{RecordError, record, watch};
pub use results::Replication;
pub use run::{Outcome, Traced, run, trace};
pub use scenario::{Configuration, Mistake, Run, Scenario};
pub use sched_ext::{Sidelane, TimeoutSearch};
pub use scheduler::{Counted, Counters, ObjectiveState, Pool, PoolState};
pub use sidelane_policy::{
    Borrow, Budget, Charge, Dispatching, Objective, Pairing, Polarization, Retention, Scope,
    Settings, StealBarriers, Symbiosis, UseCounters,
};
pub use simulation::{Kind, Occurrence, Simulation};
pub use statistics::Estimate;
pub use summary::{
    CONFIDENCE, ConfigurationSummary, LaneShares, LatencyPoint, Metric, Summary, WorkloadSummary,
};
pub use task::{Class, Policy, State, TaskId, TaskSpec, TaskTotals};
pub use workload::{Arrivals, Behaviour, Measured, Poll, Quality, Stage, TraceRequest, Workload};
