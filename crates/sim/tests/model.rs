//! The queueing models' mean response beside the simulated one, by machine, load and SMT level.
//!
//! Nothing costs anything, arrivals are Poisson and demands exponential: what differs is how the models
//! see placement. docs/model.md has the tables that these print:
//!
//! ```text
//! cargo test --release -p sidelane-sim --test sim -- --ignored --nocapture model::
//! ```
#![allow(clippy::print_stdout)]

use sidelane_model::{Evaluation, Model, Options, ThreadPerf, Utilization, evaluate};
use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

const XEON: [f64; 2] = [1.0, 0.6];
const POWER7: [f64; 4] = [1.0, 0.75, 0.57, 0.45];

/// Neither these loads nor the seed were used to make a model.
const SEED: u64 = 20_260_417;
const LOADS: [f64; 12] = [
    0.05, 0.15, 0.24, 0.33, 0.42, 0.5, 0.58, 0.67, 0.75, 0.83, 0.9, 0.95,
];

fn of(model: Model) -> usize {
    Model::ALL.iter().position(|m| *m == model).unwrap()
}

/// Where running jobs stay, `placed` is nearest; where they move, `balanced`. Each is always right.
#[test]
fn the_model_that_fits_is_nearest_and_right() {
    for (promote, model) in [(false, Model::Placed), (true, Model::Balanced)] {
        let points = Grid {
            decider: Decider::Sidelane { promote },
            machines: vec![(4, XEON.to_vec())],
            loads: vec![0.3, 0.7],
            seed: 1,
            replications: 10,
            requests: 4_000.0,
            demand_ns: 1e6,
        }
        .points();
        details(&points);
        let scores = scores(&points);
        let fits = &scores[of(model)];
        assert!(fits.mean_error < 0.02, "{}", fits.mean_error);
        assert_eq!(fits.right, points.len());
        for model in Model::ALL {
            let other = scores[of(model)].mean_error;
            println!("promote {promote}: {} {other:.4}", model.name());
            assert!(fits.mean_error <= other, "{}: {other}", model.name());
        }
    }
}

fn whole(decider: Decider, demand_ns: f64) -> Grid {
    let machines = [1, 4, 16].map(|cores| [(cores, XEON.to_vec()), (cores, POWER7.to_vec())]);
    let requests = std::env::var("REQUESTS").map_or(10_000.0, |n| n.parse().unwrap());
    let seed = std::env::var("SEED").map_or(SEED, |n| n.parse().unwrap());
    Grid {
        decider,
        machines: machines.concat(),
        loads: LOADS.to_vec(),
        seed,
        replications: 10,
        requests,
        demand_ns,
    }
}

fn print_all(points: &[Point], models: &[Model]) {
    println!("{:?}", Model::ALL.map(Model::name));
    details(points);
    by_load(points, models);
    summary(points);
}

#[test]
#[ignore = "minutes"]
fn whole_table_sidelane() {
    let points = whole(Decider::Sidelane { promote: false }, 1e6).points();
    print_all(&points, &[Model::Source, Model::Placed]);
    assert_improved(&points, Model::Placed);
}

fn assert_improved(points: &[Point], model: Model) {
    let scores = scores(points);
    let (source, improved) = (&scores[of(Model::Source)], &scores[of(model)]);
    assert!(improved.mean_error < source.mean_error);
    assert!(improved.right as f64 >= 0.95 * points.len() as f64);
}

#[test]
#[ignore = "minutes"]
fn whole_table_default() {
    let demand_ns = std::env::var("DEMAND_MS").map_or(10.0, |n| n.parse::<f64>().unwrap()) * 1e6;
    let points = whole(Decider::Default, demand_ns).points();
    print_all(&points, &[Model::Source, Model::LastLane]);
    assert_improved(&points, Model::LastLane);
}

/// How well a model does over a grid.
struct Score {
    /// Mean of the sizes of the relative errors, over points and levels.
    mean_error: f64,
    /// By how much the response at the level that it chooses is above the best, as a share: the mean
    /// over points, and the most.
    mean_loss: f64,
    most_loss: f64,
    /// Points at which it chooses a level than which none is better.
    right: usize,
    /// Those of them at which some level is worse.
    right_decided: usize,
    /// Those of them at which all others are worse.
    right_single: usize,
}

/// Points at which some level is known to be worse, and those at which all others are.
fn decided(points: &[Point]) -> (usize, usize) {
    let bests = points.iter().map(|point| (point.best().len(), point));
    bests.fold((0, 0), |(some, single), (best, point)| {
        let levels = point.simulated.len();
        (
            some + usize::from(best < levels),
            single + usize::from(best == 1 && levels > 1),
        )
    })
}

/// Scores, in the order of [`Model::ALL`].
fn scores(points: &[Point]) -> Vec<Score> {
    (0..Model::ALL.len())
        .map(|model| {
            let errors: Vec<f64> = points.iter().flat_map(|p| p.errors(model)).collect();
            let sizes = errors.iter().map(|error| error.abs());
            let losses: Vec<f64> = points.iter().map(|point| point.loss(model)).collect();
            let right = |least: fn(usize, usize) -> bool| {
                let is_right = |point: &&Point| {
                    let best = point.best();
                    least(best.len(), point.simulated.len())
                        && best.contains(&point.modelled[model].best)
                };
                points.iter().filter(is_right).count()
            };
            Score {
                mean_error: sizes.sum::<f64>() / errors.len() as f64,
                mean_loss: losses.iter().sum::<f64>() / losses.len() as f64,
                most_loss: losses.iter().copied().fold(0.0, f64::max),
                right: right(|_, _| true),
                right_decided: right(|best, levels| best < levels),
                right_single: right(|best, _| best == 1),
            }
        })
        .collect()
}

/// Each point: simulated responses, and errors of all models by level; where models are wrong.
fn details(points: &[Point]) {
    for point in points {
        let best = point.best();
        let wrong = |(model, found): &(Model, &Evaluation)| {
            (!best.contains(&found.best)).then(|| format!("{} {}", model.name(), found.best))
        };
        let models = Model::ALL.into_iter().zip(&point.modelled);
        let wrong: Vec<String> = models.filter_map(|pair| wrong(&pair)).collect();
        println!(
            "{} x {:?}, load {:.2}, utilisation {:.3}, best {best:?}, wrong: {}",
            point.cores,
            point.speeds,
            point.load,
            point.utilization,
            wrong.join(", "),
        );
        for (level, values) in point.simulated.iter().enumerate() {
            let Some(found) = values
                .as_ref()
                .and_then(|values| Estimate::of(values, CONFIDENCE))
            else {
                continue;
            };
            let errors = point.modelled.iter().map(|model| {
                let error = model.levels[level].response / found.mean - 1.0;
                let mark = if model.best == level + 1 { "<" } else { " " };
                format!("{:>+8.1} %{mark}", 100.0 * error)
            });
            println!(
                "  {} {:>7.3} ± {:<6.3} {}",
                level + 1,
                found.mean,
                found.half_width.unwrap_or(f64::NAN),
                errors.collect::<String>()
            );
        }
    }
}

/// Mean size of the errors by load and machine, of some models.
fn by_load(points: &[Point], models: &[Model]) {
    let mut machines: Vec<(u32, &[f64])> = Vec::new();
    let mut loads: Vec<f64> = Vec::new();
    for point in points {
        let machine = (point.cores, &point.speeds[..]);
        if !machines.contains(&machine) {
            machines.push(machine);
        }
        if !loads.contains(&point.load) {
            loads.push(point.load);
        }
    }
    let heading = machines
        .iter()
        .map(|(cores, speeds)| format!(" {cores}×{} |", speeds.len()));
    println!("| load |{}", heading.collect::<String>());
    println!("| --- |{}", " --- |".repeat(machines.len()));
    for load in loads {
        let cells = machines.iter().map(|machine| {
            let is_here = |p: &&Point| (p.cores, &p.speeds[..]) == *machine && p.load == load;
            let errors = |model: &Model| {
                let index = Model::ALL.iter().position(|m| m == model).unwrap();
                let here = points.iter().filter(is_here);
                let errors: Vec<f64> = here.flat_map(|p| p.errors(index)).collect();
                let sum: f64 = errors.iter().map(|error| error.abs()).sum();
                format!("{:.1}", 100.0 * sum / errors.len() as f64)
            };
            let cell: Vec<String> = models.iter().map(errors).collect();
            format!(" {} |", cell.join(" / "))
        });
        println!("| {load:.2} |{}", cells.collect::<String>());
    }
}

/// Scores of all models.
fn summary(points: &[Point]) {
    let (some, single) = decided(points);
    let all = points.len();
    println!(
        "| model | mean error | best level of {all} | of {some} | of {single} | loss: mean | most |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for (model, score) in Model::ALL.iter().zip(scores(points)) {
        let share = |right: usize, of: usize| 100.0 * right as f64 / of as f64;
        println!(
            "| {} | {:.1} % | {:.1} % | {:.1} % | {:.1} % | {:.2} % | {:.1} % |",
            model.name(),
            100.0 * score.mean_error,
            share(score.right, all),
            share(score.right_decided, some),
            share(score.right_single, single),
            100.0 * score.mean_loss,
            100.0 * score.most_loss,
        );
    }
}

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
