//! What was measured of a workload.

use super::{Arrivals, Behaviour, Workload};
use crate::task::{Class, TaskTotals};
use hdrhistogram::Histogram;

/// Significant digits of latencies.
const DIGITS: u8 = 3;

/// What was measured of a workload in one replication.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Name of the workload.
    pub name: String,
    /// Its class.
    pub class: Class,
    /// Clients of a closed loop; tasks that wait for devices.
    pub clients: Option<usize>,
    /// Requests that arrived.
    pub arrived: u64,
    /// Requests that were answered, in part or completely.
    pub completed: u64,
    /// Requests that were on their way at the end.
    pub unfinished: u64,
    /// Requests whose time was up.
    pub deadline_misses: u64,
    /// Sum of the qualities of the answers.
    pub quality_sum: f64,
    /// From arrival to answer, ns.
    pub latency: Option<Histogram<u64>>,
    /// The exact sum of the same.
    pub latency_sum_ns: u128,
    /// What its tasks got.
    pub totals: TaskTotals,
    pub(super) totals_before: TaskTotals,
}

impl Measured {
    pub(super) fn new(workload: &Workload) -> Measured {
        Measured {
            name: workload.task.name.clone(),
            class: workload.task.class,
            clients: match &workload.behaviour {
                Behaviour::Requests {
                    arrivals: Arrivals::Closed { clients, .. },
                    ..
                } => Some(*clients),
                Behaviour::Io { tasks, .. } => Some(*tasks),
                _ => None,
            },
            arrived: 0,
            completed: 0,
            unfinished: 0,
            deadline_misses: 0,
            quality_sum: 0.0,
            latency: Histogram::new(DIGITS).ok(),
            latency_sum_ns: 0,
            totals: TaskTotals::default(),
            totals_before: TaskTotals::default(),
        }
    }

    pub(super) fn complete(&mut self, latency_ns: u64, quality: f64) {
        self.completed += 1;
        self.quality_sum += quality;
        self.latency_sum_ns += u128::from(latency_ns);
        if let Some(latency) = &mut self.latency {
            let _ = latency.record(latency_ns); // it grows as needed
        }
    }

    /// Mean latency, ns; none without an answer.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.completed > 0).then(|| self.latency_sum_ns as f64 / self.completed as f64)
    }

    /// A quantile of latency, ns; none without an answer.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        let latency = self
            .latency
            .as_ref()
            .filter(|latency| !latency.is_empty())?;
        Some(latency.value_at_quantile(quantile))
    }
}
