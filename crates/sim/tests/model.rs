//! The queueing models' mean response beside the simulated one, by machine, load and SMT level.
//!
//! Nothing costs anything, arrivals are Poisson and demands exponential: what differs is how the models
//! see placement. docs/model.md has the tables that these print:
//!
//! ```text
//! cargo test --release -p sidelane-sim --test model -- --ignored --nocapture
//! ```

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

#[path = "model/grid.rs"]
mod grid;
#[path = "model/table.rs"]
mod table;

use grid::{Decider, Grid};
use sidelane_model::Model;

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
        table::details(&points);
        let scores = table::scores(&points);
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
    table::details(points);
    table::by_load(points, models);
    table::summary(points);
}

#[test]
#[ignore = "minutes"]
fn whole_table_sidelane() {
    let points = whole(Decider::Sidelane { promote: false }, 1e6).points();
    print_all(&points, &[Model::Source, Model::Placed]);
    assert_improved(&points, Model::Placed);
}

fn assert_improved(points: &[grid::Point], model: Model) {
    let scores = table::scores(points);
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
