//! How long a decision takes: all SMT levels of a machine at a load.
//!
//! `cargo bench -p sidelane-model --bench decision`
//!
//! Rounds take turns, and the best of each counts: the others were disturbed. Fails if a decision takes
//! longer than it may.

#![allow(clippy::print_stdout, missing_docs)]

use sidelane_model::{Machine, Model, Options, Result, ThreadPerf, Utilization, evaluate};
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

/// Of what the level can do that can do most.
const LOADS: [f64; 5] = [0.1, 0.5, 0.7, 0.9, 0.999];

const ROUNDS: u32 = 40;

struct Case {
    cores: u32,
    speeds: &'static [f64],
    /// Decisions in a round.
    decisions: u32,
    limit_us: f64,
}

const CASES: [Case; 2] = [
    Case {
        cores: 16,
        speeds: &[1.0, 0.75, 0.57, 0.45],
        decisions: 50,
        limit_us: 50.0,
    },
    Case {
        cores: 1024,
        speeds: &[1.0, 0.75, 0.6, 0.5, 0.44, 0.39, 0.35, 0.32],
        decisions: 1,
        limit_us: 50_000.0,
    },
];

/// Best time of a decision, by model and load, µs.
fn measure(case: &Case) -> Result<Vec<[f64; LOADS.len()]>> {
    let machine = Machine::new(case.cores, ThreadPerf::new(case.speeds.to_vec())?)?;
    let mut best = vec![[f64::INFINITY; LOADS.len()]; Model::ALL.len()];
    for _ in 0..ROUNDS {
        for (best, model) in best.iter_mut().zip(Model::ALL) {
            for (best, load) in best.iter_mut().zip(LOADS) {
                let utilization = Utilization::new(load * machine.saturation())?;
                let began = Instant::now();
                for _ in 0..case.decisions {
                    black_box(evaluate(
                        black_box(&machine),
                        black_box(utilization),
                        Options::new(model),
                    ));
                }
                let each = began.elapsed().as_secs_f64() * 1e6 / f64::from(case.decisions);
                *best = best.min(each);
            }
        }
    }
    Ok(best)
}

fn main() -> Result<ExitCode> {
    let mut is_quick = true;
    for case in &CASES {
        println!(
            "{} cores of {} lanes, µs a decision, the best of {ROUNDS} rounds; at most {:.0}",
            case.cores,
            case.speeds.len(),
            case.limit_us
        );
        println!(
            "load       {}      worst",
            LOADS.map(|l| format!("{l:>9}")).join("")
        );
        for (model, times) in Model::ALL.iter().zip(measure(case)?) {
            let worst = times.iter().copied().fold(0.0, f64::max);
            let times = times.map(|time| format!("{time:>9.1}")).join("");
            println!("{:<11}{times}  {worst:>9.1}", model.name());
            is_quick &= worst <= case.limit_us;
        }
        println!();
    }
    Ok(match is_quick {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
