//! One decision: all SMT levels of a machine at a load.

#![allow(clippy::unwrap_used, missing_docs)]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use sidelane_model::{Machine, Model, Options, ThreadPerf, Utilization, evaluate};
use std::hint::black_box;
use std::time::Duration;

/// Of what the level that can do most can do.
const LOADS: [f64; 4] = [0.1, 0.5, 0.9, 0.999];

fn decisions(criterion: &mut Criterion, cores: u32, speeds: &[f64]) {
    let machine = Machine::new(cores, ThreadPerf::new(speeds.to_vec()).unwrap()).unwrap();
    let mut group = criterion.benchmark_group(format!("{cores}x{}", speeds.len()));
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(500));
    for model in Model::ALL {
        for load in LOADS {
            let utilization = Utilization::new(load * machine.saturation()).unwrap();
            let options = Options::new(model);
            group.bench_function(BenchmarkId::new(model.name(), load), |bencher| {
                bencher.iter(|| evaluate(black_box(&machine), black_box(utilization), options));
            });
        }
    }
    group.finish();
}

fn both(criterion: &mut Criterion) {
    decisions(criterion, 16, &[1.0, 0.75, 0.57, 0.45]);
    decisions(
        criterion,
        1024,
        &[1.0, 0.75, 0.6, 0.5, 0.44, 0.39, 0.35, 0.32],
    );
}

criterion_group!(benches, both);
criterion_main!(benches);
