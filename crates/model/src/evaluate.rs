//! All levels of a machine at a load.

use crate::machine::{Machine, Utilization};
use crate::placement::Arrivals;
use crate::source::{Times, source, time_sliced};
use crate::{Error, Result, placement};
use serde::Serialize;

/// Which model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// The source's: tasks come to cores at random, first come first served; those that wait move to
    /// idle cores.
    #[default]
    Source,
    /// Naive M/M/s: every lane a server of full speed, one queue. To compare with.
    MMs,
    /// The source's with time slices instead of first come first served in each core.
    TimeSliced,
    /// Idle cores first, then any lane that is free; none idles while a task waits; running tasks stay
    /// where they are. What Sidelane does without promotion.
    Placed,
    /// The same, but a task first tries the lane where it ran last, whatever runs beside it. What the
    /// default scheduler of Linux does.
    LastLane,
    /// Always spread evenly: running tasks move whenever another core has less. What Sidelane does.
    Balanced,
}

impl Model {
    /// All models.
    pub const ALL: [Model; 6] = [
        Model::Source,
        Model::MMs,
        Model::TimeSliced,
        Model::Placed,
        Model::LastLane,
        Model::Balanced,
    ];

    /// What it is called on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Model::Source => "source",
            Model::MMs => "mms",
            Model::TimeSliced => "time-sliced",
            Model::Placed => "placed",
            Model::LastLane => "last-lane",
            Model::Balanced => "balanced",
        }
    }

    /// A response that is lower by less than this share is as good: rounding, or the solution's error.
    fn tolerance(self) -> f64 {
        match self {
            Model::Source | Model::MMs | Model::TimeSliced => 1e-13,
            Model::Balanced => 1e-11,
            Model::Placed | Model::LastLane => 2e-5,
        }
    }
}

/// How to evaluate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    model: Model,
    iterations: Option<u32>,
}

impl Options {
    /// A model, solved exactly.
    pub fn new(model: Model) -> Options {
        Options {
            model,
            iterations: None,
        }
    }

    /// The source's model after so many iterations, as
    /// [`PUBLISHED_ITERATIONS`](crate::PUBLISHED_ITERATIONS), instead of its fixed point.
    ///
    /// # Errors
    /// No iterations, or another model.
    pub fn with_iterations(self, iterations: u32) -> Result<Options> {
        match (self.model, iterations) {
            (Model::Source, 0) => Err(Error::Iterations),
            (Model::Source, n) => Ok(Options {
                iterations: Some(n),
                ..self
            }),
            (other, _) => Err(Error::IterationsOf(other.name())),
        }
    }

    /// Which model.
    pub fn model(&self) -> Model {
        self.model
    }
}

/// What is expected of an SMT level. Times in units of the mean service time of a task that has a core
/// to itself, with SMT off.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Level {
    /// How many lanes of each core may run at once.
    pub level: usize,
    /// Whether it can do the work; if not, queues grow for ever.
    pub stable: bool,
    /// Mean share of time that one of these lanes runs; 1 if not stable.
    #[serde(skip)]
    pub utilization: f64,
    /// Mean time from arrival to completion: service and wait (equation 1); infinite if not stable.
    pub response: f64,
    /// Mean time on a lane; if not stable, with all lanes running.
    pub service: f64,
    /// Mean time without one; infinite if not stable.
    pub wait: f64,
}

/// All levels at a load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evaluation {
    /// From 1 on.
    pub levels: Vec<Level>,
    /// The level with the least response; of equal ones the lowest (with [`Model::MMs`], in which lanes
    /// cost nothing, the highest). If none is stable, the one that can do most.
    pub best: usize,
}

impl Evaluation {
    /// The best level.
    pub fn best_level(&self) -> Option<&Level> {
        self.levels.iter().find(|level| level.level == self.best)
    }
}

/// Evaluates all levels of a machine at a load.
pub fn evaluate(machine: &Machine, utilization: Utilization, options: Options) -> Evaluation {
    let levels: Vec<Level> = (1..=machine.thread_perf().lanes())
        .map(|level| level_at(machine, level, utilization.get(), options))
        .collect();
    let best = best(machine, &levels, options.model);
    Evaluation { levels, best }
}

/// One level at a load.
pub(crate) fn level_at(
    machine: &Machine,
    level: usize,
    utilization: f64,
    options: Options,
) -> Level {
    let times = match utilization < capacity(machine, level, options.model) {
        true => solve(machine, level, utilization, options),
        false => None,
    };
    match times {
        Some(Times { service, wait }) => Level {
            level,
            stable: true,
            utilization: utilization * service / level as f64,
            response: service + wait,
            service,
            wait,
        },
        None => Level {
            level,
            stable: false,
            utilization: 1.0,
            response: f64::INFINITY,
            service: level as f64 / capacity(machine, level, options.model),
            wait: f64::INFINITY,
        },
    }
}

fn solve(machine: &Machine, level: usize, utilization: f64, options: Options) -> Option<Times> {
    match options.model {
        Model::Source => source(machine, level, utilization, options.iterations),
        Model::MMs => placement::without_interference(machine, level, utilization),
        Model::TimeSliced => time_sliced(machine, level, utilization),
        Model::Placed => placement::placed(machine, level, utilization, Arrivals::IdleCore),
        Model::LastLane => placement::placed(machine, level, utilization, Arrivals::LastLane),
        Model::Balanced => placement::balanced(machine, level, utilization),
    }
}

/// The normalised utilisation that a level cannot reach.
fn capacity(machine: &Machine, level: usize, model: Model) -> f64 {
    match model {
        Model::MMs => level as f64,
        _ => machine.core_rate(level, level),
    }
}

fn best(machine: &Machine, levels: &[Level], model: Model) -> usize {
    let capacity = |level: &Level| capacity(machine, level.level, model);
    let mut best: Option<&Level> = None;
    for level in levels {
        let better = match best {
            None => true,
            Some(best) if !best.stable && !level.stable => capacity(level) > capacity(best),
            Some(best) if model == Model::MMs => level.response <= best.response,
            Some(best) => level.response < best.response * (1.0 - model.tolerance()),
        };
        if better {
            best = Some(level);
        }
    }
    best.map_or(1, |best| best.level)
}
