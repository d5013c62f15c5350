//! Machines, loads and SMT levels, simulated and modelled.

use sidelane_model::{Evaluation, Model, Options, ThreadPerf, Utilization, evaluate};
use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

/// Confidence of all intervals.
pub const CONFIDENCE: f64 = 0.99;

/// Levels beyond this share of what they can do are not simulated: their mean depends on how long one
/// measures. They count as worst.
const SHARE_MAX: f64 = 0.97;

/// What decides in the simulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decider {
    /// Sidelane's own source, its SMT level set.
    Sidelane {
        /// Whether running jobs move to cores that fall free.
        promote: bool,
    },
    /// The default scheduler, the other lanes offline.
    Default,
}

/// What to simulate.
pub struct Grid {
    pub decider: Decider,
    pub machines: Vec<(u32, Vec<f64>)>,
    /// Of what the level can do that can do most.
    pub loads: Vec<f64>,
    pub seed: u64,
    pub replications: u32,
    /// Of each replication.
    pub requests: f64,
    /// Mean demand.
    pub demand_ns: f64,
}

/// A machine at a load.
pub struct Point {
    pub cores: u32,
    pub speeds: Vec<f64>,
    pub load: f64,
    /// Normalised.
    pub utilization: f64,
    /// By level, mean response of each replication in units of the mean demand; none if not simulated.
    pub simulated: Vec<Option<Vec<f64>>>,
    /// In the order of [`Model::ALL`].
    pub modelled: Vec<Evaluation>,
}

impl Grid {
    /// All points, by machine, then load.
    pub fn points(&self) -> Vec<Point> {
        let machines = self.machines.iter();
        machines
            .flat_map(|(cores, speeds)| {
                let point = |load: &f64| self.point(*cores, speeds, *load);
                self.loads.iter().map(point).collect::<Vec<_>>()
            })
            .collect()
    }

    fn point(&self, cores: u32, speeds: &[f64], load: f64) -> Point {
        let perf = ThreadPerf::new(speeds.to_vec()).unwrap();
        let machine = sidelane_model::Machine::new(cores, perf).unwrap();
        let utilization = load * machine.saturation();
        let at = Utilization::new(utilization).unwrap();
        let modelled = Model::ALL.map(|model| evaluate(&machine, at, Options::new(model)));
        let mut point = Point {
            cores,
            speeds: speeds.to_vec(),
            load,
            utilization,
            simulated: Vec::new(),
            modelled: modelled.to_vec(),
        };
        let simulated = (1..=speeds.len()).map(|level| {
            let can = utilization <= SHARE_MAX * machine.core_rate(level, level);
            can.then(|| self.simulate(&point, level))
        });
        point.simulated = simulated.collect();
        point
    }

    fn simulate(&self, point: &Point, level: usize) -> Vec<f64> {
        let scenario = self.scenario(point, level);
        let outcome = run(&scenario, &|| ()).unwrap().remove(0);
        let mean = |r: &Replication| r.workloads[0].mean_ns().unwrap() / self.demand_ns;
        outcome.replications.iter().map(mean).collect()
    }

    fn scenario(&self, point: &Point, level: usize) -> Scenario {
        let (cores, lanes) = (point.cores, point.speeds.len() as u32);
        let topology = Topology::regular(&Regular::one_package(cores, lanes)).unwrap();
        let interference = Interference::ThreadPerf(point.speeds.clone());
        let mut machine = Machine::new(&topology, interference, Costs::none()).unwrap();
        let scheduler = match self.decider {
            Decider::Sidelane { promote } => Kind::from(Settings {
                smt_level: level as u32,
                promote,
                ..Settings::default()
            }),
            Decider::Default => {
                for core in &machine.cores {
                    for &cpu in &core.lanes[level..] {
                        machine.online[cpu as usize] = false;
                    }
                }
                Kind::Baseline(Baseline::Eevdf)
            }
        };
        let rate = point.utilization * f64::from(cores) / self.demand_ns;
        // Near saturation, responses depend on each other for longer.
        let length_ns = (self.requests / (1.0 - point.load) / rate) as u64;
        Scenario {
            name: "model".into(),
            about: String::new(),
            assumptions: Vec::new(),
            workloads: vec![self.server(&machine, rate)],
            machine,
            configurations: vec![Configuration {
                name: String::new(),
                scheduler,
                smt: None,
                control: None,
                workloads: vec![0],
            }],
            run: Run {
                seed: self.seed,
                replications: self.replications,
                length_ns,
                warmup_ns: length_ns / 10,
            },
        }
    }

    /// Poisson arrivals, exponential demand, and workers enough for requests to wait in the scheduler.
    fn server(&self, machine: &Machine, rate: f64) -> Workload {
        Workload {
            task: TaskSpec::new("server", Class::Critical),
            behaviour: Behaviour::Requests {
                arrivals: Arrivals::Open {
                    interarrival: Distribution::Exponential(1.0 / rate),
                },
                stages: vec![Stage {
                    workers: (4 * machine.nr_lanes).max(64),
                    by: None,
                    demand: Distribution::Exponential(self.demand_ns),
                    task: None,
                }],
                deadline_ns: None,
                quality: Quality::AllOrNothing,
                marks: false,
            },
        }
    }
}

impl Point {
    /// Response of a model at each level over the simulated one, less 1.
    pub fn errors(&self, model: usize) -> Vec<f64> {
        let levels = self.simulated.iter().zip(&self.modelled[model].levels);
        let error = |(simulated, level): (&Option<Vec<f64>>, &sidelane_model::Level)| {
            let found = Estimate::of(simulated.as_ref()?, CONFIDENCE)?;
            Some(level.response / found.mean - 1.0)
        };
        levels.filter_map(error).collect()
    }

    /// Response at the level that a model chooses over that at the best, less 1; infinite if the level
    /// was not simulated.
    pub fn loss(&self, model: usize) -> f64 {
        let sum = |values: &Vec<f64>| values.iter().sum::<f64>();
        let sums = self.simulated.iter().map(|values| values.as_ref().map(sum));
        let sums: Vec<f64> = sums.map(|sum| sum.unwrap_or(f64::INFINITY)).collect();
        let best = sums.iter().copied().fold(f64::INFINITY, f64::min);
        sums[self.modelled[model].best - 1] / best - 1.0
    }

    /// The levels of which none is known to be better: the best, and those whose responses differ from
    /// it by no more than chance explains, replication by replication.
    pub fn best(&self) -> Vec<usize> {
        let mean = |values: &Vec<f64>| values.iter().sum::<f64>();
        let simulated = self.simulated.iter().flatten();
        let best = simulated.min_by(|a, b| mean(a).total_cmp(&mean(b)));
        let Some(best) = best else {
            return Vec::new();
        };
        let is_as_good = |values: &Vec<f64>| {
            let pairs = values.iter().zip(best);
            let differences: Vec<f64> = pairs.map(|(a, b)| a - b).collect();
            Estimate::of(&differences, CONFIDENCE).is_some_and(|found| found.contains(0.0))
        };
        let levels = self.simulated.iter().zip(1..);
        levels
            .filter(|(values, _)| values.as_ref().is_some_and(is_as_good))
            .map(|(_, level)| level)
            .collect()
    }
}
