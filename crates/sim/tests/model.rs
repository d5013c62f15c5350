//! The queueing models' mean response beside the simulated one, by SMT level and load.
//!
//! Sidelane's own source decides, nothing costs anything, arrivals are Poisson and demands exponential:
//! what differs is how the models see placement. docs/model.md has the table that this prints.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use sidelane_model as model;
use sidelane_model::{Model, ThreadPerf, Utilization, evaluate};
use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

const MEAN_NS: f64 = 1e6;
const CORES: u32 = 4;
const SPEEDS: [f64; 2] = [1.0, 0.6];

/// Mean response at a level in units of the mean demand, with its 99 % confidence interval.
fn simulated(level: u32, utilization: f64) -> Estimate {
    let topology = Topology::regular(&Regular::one_package(CORES, SPEEDS.len() as u32)).unwrap();
    let interference = Interference::ThreadPerf(SPEEDS.to_vec());
    let machine = Machine::new(&topology, interference, Costs::none()).unwrap();
    let server = Workload {
        task: TaskSpec::new("server", Class::Critical),
        behaviour: Behaviour::Requests {
            arrivals: Arrivals::Open {
                interarrival: Distribution::Exponential(MEAN_NS / utilization / f64::from(CORES)),
            },
            stages: vec![Stage {
                workers: machine.nr_lanes,
                demand: Distribution::Exponential(MEAN_NS),
            }],
            deadline_ns: None,
            quality: Quality::AllOrNothing,
        },
    };
    let settings = Settings {
        smt_level: Some(level),
        ..Settings::default()
    };
    let scenario = Scenario {
        name: "model".into(),
        about: String::new(),
        assumptions: Vec::new(),
        machine,
        workloads: vec![server],
        configurations: vec![Configuration {
            name: "sidelane".into(),
            scheduler: Kind::Sidelane(settings),
            // What the models mean by level 1. The scheduler's own cap lets a core exceed it at times.
            smt: (level == 1).then_some(1),
            control: None,
            workloads: vec![0],
        }],
        run: Run {
            seed: 1,
            replications: 10,
            length_ns: 20_000 * MEAN_NS as u64,
            warmup_ns: 200 * MEAN_NS as u64,
        },
    };
    let outcome = run(&scenario, &|| ()).unwrap().remove(0);
    let mean = |r: &Replication| r.workloads[0].mean_ns().unwrap() / MEAN_NS;
    let means: Vec<f64> = outcome.replications.iter().map(mean).collect();
    Estimate::of(&means, 0.99).unwrap()
}

#[test]
fn errors_against_the_simulator() {
    let speeds = ThreadPerf::new(SPEEDS.to_vec()).unwrap();
    let machine = model::Machine::new(CORES, speeds).unwrap();
    println!(
        "level load  simulated        {:?}",
        Model::ALL.map(Model::name)
    );
    let mut errors = [0.0; Model::ALL.len()];
    for utilization in [0.3, 0.6, 0.9] {
        let load = Utilization::new(utilization).unwrap();
        for level in 1..=2_u32 {
            let found = simulated(level, utilization);
            let response = |model| {
                let evaluation = evaluate(&machine, load, model::Options::new(model));
                evaluation.levels[level as usize - 1].response
            };
            let responses = Model::ALL.map(response);
            let own = responses.map(|response| response / found.mean - 1.0);
            println!(
                "{level:>5} {utilization:>4} {:>6.3} ± {:.3}  {}",
                found.mean,
                found.half_width.unwrap(),
                own.map(|error| format!("{:+.1} %", error * 100.0))
                    .join("  "),
            );
            for (sum, error) in errors.iter_mut().zip(own) {
                *sum += error.abs() / 6.0;
            }
            if level == 1 {
                // One queue for four lanes: there both are exact.
                let exact = responses[4];
                assert!(found.contains(exact), "{exact} not in {found:?}");
            }
        }
    }
    println!(
        "mean {:?}",
        errors.map(|error| format!("{:.1} %", error * 100.0))
    );
    let of = |model| {
        Model::ALL
            .iter()
            .zip(errors)
            .find(|(m, _)| **m == model)
            .unwrap()
            .1
    };
    assert!(of(Model::Placed) < 0.02, "{}", of(Model::Placed));
    for other in [
        Model::Source,
        Model::MMs,
        Model::TimeSliced,
        Model::Balanced,
    ] {
        assert!(of(Model::Placed) < of(other), "{}", other.name());
    }
}
