//! The queueing models' mean response beside the simulated one, by machine, load and SMT level.
//!
//! Nothing costs anything, arrivals are Poisson and demands exponential: what differs is how the models
//! see placement. docs/model.md has the tables that these print:
//!
//! ```text
//! cargo test --release -p sidelane-sim --test sim -- --ignored --nocapture model::
//! ```

#![allow(clippy::print_stdout)]

mod grid;

use grid::{CONFIDENCE, Decider, Grid, Point};
use sidelane_model::{Evaluation, Model};
use sidelane_sim::Estimate;

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

fn print_all(points: &[grid::Point], models: &[Model]) {
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

fn assert_improved(points: &[grid::Point], model: Model) {
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
