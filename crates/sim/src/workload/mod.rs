//! Workloads: what tasks there are, and what they have to do; and what was measured of them.
//!
//! All times are ns; demands are ns of an unshared lane of the fastest core.

mod driver;
mod requests;

pub(crate) use driver::Driver;

use crate::random::Distribution;
use crate::task::{Class, TaskSpec, TaskTotals};
use hdrhistogram::Histogram;

/// A group of tasks that behave alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// What each of its tasks is; their thread name is the workload's too.
    pub task: TaskSpec,
    /// What they do.
    pub behaviour: Behaviour,
}

impl Workload {
    /// What the tasks at a place are: the workers of a stage, or any task without stages.
    pub(crate) fn task_at(&self, place: usize) -> &TaskSpec {
        match &self.behaviour {
            Behaviour::Requests { stages, .. } => {
                let own = stages.get(place).and_then(|stage| stage.task.as_deref());
                own.unwrap_or(&self.task)
            }
            _ => &self.task,
        }
    }

    /// For how long its tasks poll at first.
    pub(crate) fn first_poll_ns(&self) -> u64 {
        match &self.behaviour {
            Behaviour::Io {
                poll: Some(poll), ..
            } => poll.next_ns(0, 0),
            _ => 0,
        }
    }

    /// All kinds of tasks that it has.
    pub(crate) fn tasks(&self) -> Vec<&TaskSpec> {
        match &self.behaviour {
            Behaviour::Requests { stages, .. } => {
                let works = |place: &usize| stages[*place].workers > 0;
                let places = (0..stages.len()).filter(works);
                places.map(|place| self.task_at(place)).collect()
            }
            _ => vec![&self.task],
        }
    }
}

/// What a group of tasks does.
#[derive(Debug, Clone, PartialEq)]
pub enum Behaviour {
    /// Requests arrive and pass through stages, each with a queue and workers of its own.
    Requests {
        /// When.
        arrivals: Arrivals,
        /// Where to, in order; at least one. One stage with one worker is a serial stage.
        stages: Vec<Stage>,
        /// A request that is not complete so long after its arrival ends there, as far as it is.
        deadline_ns: Option<u64>,
        /// What a request is worth that ends before it is complete.
        quality: Quality,
        /// Its program marks requests as jobs, with their deadlines.
        marks: bool,
    },
    /// Tasks that always have work.
    Batch {
        /// How many.
        tasks: usize,
    },
    /// Tasks that serve stages of other workloads' requests, which wait in one queue for them.
    Serve {
        /// How many.
        tasks: usize,
    },
    /// Tasks that compute, then wait for a device, over and over: a request is one round.
    Io {
        /// How many.
        tasks: usize,
        /// Demand of a computation.
        burst: Distribution,
        /// How long the device takes.
        wait: Distribution,
        /// Polling before they sleep.
        poll: Option<Poll>,
        /// Probability that another of them receives the device's answer and passes it on: if that one waits for a
        /// lane, the answer waits with it.
        relayed: f64,
    },
}

/// A task polls on its lane for a device before it sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Poll {
    /// For so long at most.
    pub longest_ns: u64,
    /// Not always for so long: twice as long as before after a wait that polling for so long would have met, and not
    /// at all after a longer one (KVM's halt polling, `halt_poll_ns`).
    pub adapts: bool,
}

impl Poll {
    /// What KVM's halt polling begins with.
    const FIRST_NS: u64 = 10_000;

    /// For how long to poll, after a wait of `waited_ns` for which it was `poll_ns`.
    pub(crate) fn next_ns(self, poll_ns: u64, waited_ns: u64) -> u64 {
        if !self.adapts {
            return self.longest_ns;
        }
        if waited_ns <= poll_ns {
            poll_ns
        } else if waited_ns > self.longest_ns {
            0
        } else {
            (2 * poll_ns).max(Self::FIRST_NS).min(self.longest_ns)
        }
    }
}

/// When requests arrive.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    /// Whatever happens to earlier ones: time from one arrival to the next.
    Open {
        /// ns.
        interarrival: Distribution,
    },
    /// Each of so many clients thinks, sends a request, waits for its end, and thinks again.
    Closed {
        /// How many.
        clients: usize,
        /// ns.
        think: Distribution,
    },
    /// At these moments, with these demands, which are shared among the stages in proportion to
    /// their mean demand.
    Trace(Vec<TraceRequest>),
}

/// A request of a trace.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TraceRequest {
    /// When, ns.
    pub at_ns: u64,
    /// How much, ns of an unshared lane of the fastest core.
    pub demand_ns: f64,
}

/// A stage of a service.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// Worker tasks of its own. 0 without `by`: requests need none here, they wait beside the CPU, as
    /// for a network or a database elsewhere.
    pub workers: usize,
    /// Instead of workers of its own: those of this workload of the scenario, by its index, which
    /// [serves](Behaviour::Serve).
    pub by: Option<usize>,
    /// Demand of a request here; without workers how long it waits.
    pub demand: Distribution,
    /// What its workers are, where they are not like the workload's other tasks.
    pub task: Option<Box<TaskSpec>>,
}

impl Stage {
    /// Whether requests only wait here.
    pub fn is_delay(&self) -> bool {
        self.workers == 0 && self.by.is_none()
    }

    /// Mean work of a request here, ns.
    pub(crate) fn mean_work_ns(&self) -> f64 {
        match self.is_delay() {
            true => 0.0,
            false => self.demand.mean(),
        }
    }
}

/// What a request is worth that ends before it is complete; complete ones are worth 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Quality {
    /// Nothing.
    AllOrNothing,
    /// The share of its demand that was served.
    Proportional,
    /// FOF: q(x) = (1 − e^(−c·x)) / (1 − e^(−c)), with x the part of `full_ns` that was
    /// served, at most 1.
    Exponential {
        /// c, above 0.
        concavity: f64,
        /// Demand from which on quality is 1, ns.
        full_ns: f64,
    },
}

impl Behaviour {
    /// Of requests that their program marks as jobs: how long each may take, ns, if that is said.
    pub(crate) fn marks(&self) -> Option<Option<u64>> {
        match self {
            Behaviour::Requests {
                marks: true,
                deadline_ns,
                ..
            } => Some(*deadline_ns),
            _ => None,
        }
    }
}

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
    /// Its tasks are those clients: they wait for devices.
    pub waits_itself: bool,
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
            waits_itself: matches!(workload.behaviour, Behaviour::Io { .. }),
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

#[cfg(test)]
mod tests {
    use super::Poll;

    /// As `grow_halt_poll_ns` and `shrink_halt_poll_ns` of Linux 5.3's KVM, with its defaults.
    #[test]
    fn halt_polling_adapts_to_the_last_wait() {
        let poll = Poll {
            longest_ns: 200_000,
            adapts: true,
        };
        for (poll_ns, waited_ns, next_ns) in [
            (0, 50_000, 10_000),
            (10_000, 50_000, 20_000),
            (160_000, 190_000, 200_000),
            (20_000, 15_000, 20_000),
            (160_000, 300_000, 0),
            (0, 300_000, 0),
        ] {
            assert_eq!(
                poll.next_ns(poll_ns, waited_ns),
                next_ns,
                "{poll_ns}, {waited_ns}"
            );
        }
        let always = Poll {
            adapts: false,
            ..poll
        };
        assert_eq!(always.next_ns(0, 1_000_000_000), 200_000);
    }
}
