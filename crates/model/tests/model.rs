//! The models against each other, against published values, and at their limits.

#![allow(clippy::unwrap_used, missing_docs)]

use proptest::prelude::*;
use sidelane_model::*;
use std::time::Instant;

const XEON: [f64; 2] = [1.0, 0.6];
const POWER7: [f64; 4] = [1.0, 0.75, 0.57, 0.45];

fn machine(cores: u32, speeds: &[f64]) -> Machine {
    Machine::new(cores, ThreadPerf::new(speeds.to_vec()).unwrap()).unwrap()
}

fn at(machine: &Machine, utilization: f64, model: Model) -> Evaluation {
    let utilization = Utilization::new(utilization).unwrap();
    evaluate(machine, utilization, Options::new(model))
}

fn close(actual: f64, expected: f64) {
    let error = (actual / expected - 1.0).abs();
    assert!(error < 1e-9, "{actual} instead of {expected}");
}

/// Mean response of M/M/s in units of its service, by Erlang's C.
fn mms(servers: u32, load: f64) -> f64 {
    let blocked = (1..=servers).fold(1.0, |b, k| load * b / (f64::from(k) + load * b));
    let s = f64::from(servers);
    1.0 + s * blocked / (s - load * (1.0 - blocked)) / (s - load)
}

#[test]
fn one_core_of_one_lane_is_mm1() {
    for model in Model::ALL {
        for (utilization, response) in [(0.0, 1.0), (0.5, 2.0), (0.75, 4.0), (0.99, 100.0)] {
            let found = at(&machine(1, &[1.0]), utilization, model);
            close(found.levels[0].response, response);
            close(found.levels[0].service, 1.0);
        }
    }
}

#[test]
fn cores_of_one_lane_are_mms_where_tasks_are_placed() {
    for model in [Model::MMs, Model::Placed, Model::LastLane, Model::Balanced] {
        for cores in [2, 16, 300] {
            let found = at(&machine(cores, &[1.0]), 0.8, model);
            close(found.levels[0].response, mms(cores, 0.8 * f64::from(cores)));
        }
    }
}

#[test]
fn lanes_that_cost_nothing_are_cores() {
    for model in [Model::MMs, Model::Placed, Model::LastLane, Model::Balanced] {
        let found = at(&machine(4, &[1.0, 1.0, 1.0]), 2.5, model);
        close(found.levels[2].response, mms(12, 10.0));
        assert!(!found.levels[1].stable);
    }
    let found = at(&machine(1, &[1.0, 1.0]), 1.5, Model::Source);
    close(found.levels[1].response, mms(2, 1.5));
}

/// The crossovers that the source shows in Figure 3, as read from it: about 0.92 and 0.90 on 16 cores,
/// 0.67 and 0.58 on 4.
#[test]
fn crossovers_of_figure_3() {
    let first = |cores, speeds: &[f64]| {
        let found = crossovers(&machine(cores, speeds), Options::default());
        println!("{cores} cores {speeds:?}: {found:?}");
        assert_eq!(found.last().map(|last| last.to), Some(speeds.len()));
        assert!(found.windows(2).all(|pair| pair[0].to == pair[1].from));
        assert_eq!(found[0].from, 1);
        found[0].utilization
    };
    for (cores, speeds, published) in [
        (16, &XEON[..], 0.92),
        (16, &POWER7[..], 0.90),
        (4, &XEON[..], 0.67),
        (4, &POWER7[..], 0.58),
    ] {
        let found = first(cores, speeds);
        assert!((found - published).abs() < 0.015, "{found} for {published}");
    }
}

#[test]
fn on_one_core_the_highest_level_is_best_at_every_load() {
    for speeds in [&XEON[..], &POWER7[..]] {
        let machine = machine(1, speeds);
        assert_eq!(crossovers(&machine, Options::default()), []);
        assert_eq!(at(&machine, 0.01, Model::Source).best, speeds.len());
        assert_eq!(at(&machine, 0.99, Model::Source).best, speeds.len());
    }
}

#[test]
fn naive_mms_always_favours_the_highest_level() {
    for cores in [1, 4, 16, 1024] {
        for speeds in [&XEON[..], &POWER7[..]] {
            for percent in 0..200 {
                let found = at(
                    &machine(cores, speeds),
                    f64::from(percent) / 100.0,
                    Model::MMs,
                );
                assert_eq!(found.best, speeds.len());
            }
        }
    }
}

#[test]
fn a_level_that_is_saturated_is_unstable() {
    let machine = machine(4, &XEON);
    for model in [
        Model::Source,
        Model::TimeSliced,
        Model::Placed,
        Model::LastLane,
        Model::Balanced,
    ] {
        let found = at(&machine, 1.0, model);
        assert!(!found.levels[0].stable && found.levels[0].response.is_infinite());
        assert!(found.levels[1].stable && found.best == 2);
        let found = at(&machine, 1.2, model);
        assert!(found.levels.iter().all(|level| !level.stable));
        assert_eq!((found.best, found.levels[1].service), (2, 1.0 / 0.6));
        let found = at(&machine, 1.2_f64.next_down(), model);
        assert!(found.levels[1].stable && found.levels[1].response.is_finite());
        assert_eq!(at(&machine, f64::MAX, model).best, 2);
    }
}

#[test]
fn iterations_of_the_source() {
    let machine = machine(4, &POWER7);
    let utilization = Utilization::new(0.4).unwrap();
    let published = Options::default()
        .with_iterations(PUBLISHED_ITERATIONS)
        .unwrap();
    let published = evaluate(&machine, utilization, published);
    let converged = evaluate(&machine, utilization, Options::default());
    for (a, b) in published.levels.iter().zip(&converged.levels) {
        assert!((a.response / b.response - 1.0).abs() < 1e-3, "{a:?} {b:?}");
    }
    assert_eq!(
        Options::default().with_iterations(0),
        Err(Error::Iterations)
    );
    let other = Options::new(Model::Placed).with_iterations(3);
    assert_eq!(other, Err(Error::IterationsOf("placed")));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let speeds = |speeds: &[f64]| ThreadPerf::new(speeds.to_vec()).unwrap_err().to_string();
    for (given, said) in [
        (&[][..], "0 numbers"),
        (&[1.0; 17], "17 numbers"),
        (&[0.9, 0.5], "begins with 0.9"),
        (&[1.0, 1.5], "of 2 lanes is 1.5"),
        (&[1.0, 0.0], "of 2 lanes is 0"),
        (&[1.0, f64::NAN], "is NaN"),
        (&[1.0, 0.5, 0.6], "may not increase"),
    ] {
        assert!(speeds(given).contains(said), "{}", speeds(given));
    }
    let one = ThreadPerf::new(vec![1.0]).unwrap();
    for cores in [0, CORES_MAX + 1, u32::MAX] {
        assert_eq!(Machine::new(cores, one.clone()), Err(Error::Cores(cores)));
    }
    for utilization in [-0.1, f64::NAN, f64::INFINITY] {
        assert!(Utilization::new(utilization).is_err());
    }
    assert!(sweep(&machine(1, &[1.0]), Options::default(), 1).is_err());
}

#[test]
fn a_big_machine_is_quick_and_sound() {
    let speeds = [1.0, 0.75, 0.6, 0.5, 0.44, 0.39, 0.35, 0.32];
    for model in Model::ALL {
        let big = machine(1024, &speeds);
        let mut slowest = 0.0;
        for utilization in [0.0, 1e-300, 1e-9, 0.3, 0.999_999, 1.8, 2.55, 2.559_999_9] {
            let began = Instant::now();
            let found = at(&big, utilization, model);
            slowest = began.elapsed().as_secs_f64().max(slowest);
            for level in &found.levels {
                let numbers = [level.response, level.service, level.wait, level.utilization];
                assert!(
                    numbers.iter().all(|n| !n.is_nan() && *n >= 0.0),
                    "{level:?}"
                );
                assert_eq!(level.stable, level.response.is_finite());
            }
        }
        println!("{}: at most {:.1} ms", model.name(), slowest * 1e3);
    }
}

fn any_speeds(growing: bool) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(0.0..1.0f64, 0..7).prop_map(move |parts| {
        let mut speeds: Vec<f64> = vec![1.0];
        for part in parts {
            let (n, last) = (speeds.len() as f64, speeds[speeds.len() - 1]);
            let least = if growing {
                last * n / (n + 1.0)
            } else {
                0.3 * last
            };
            speeds.push(least + part * (last - least));
        }
        speeds
    })
}

fn any_model() -> impl Strategy<Value = Model> {
    prop::sample::select(Model::ALL.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn response_grows_with_utilisation(
        cores in 1u32..24,
        speeds in any_speeds(true),
        model in any_model(),
        (low, high) in (0.0..1.0f64, 0.0..1.0f64),
    ) {
        let machine = machine(cores, &speeds);
        let (low, high) = (low.min(high), low.max(high));
        let all = |share: f64| at(&machine, share * machine.saturation(), model).levels;
        for (a, b) in all(low).into_iter().zip(all(high)) {
            prop_assert!(b.response >= a.response * (1.0 - 1e-7), "{:?} {:?}", a, b);
            prop_assert!(a.service >= 1.0 - 1e-9 && a.response >= a.service);
            prop_assert!(a.utilization <= 1.0 + 1e-9);
        }
    }

    #[test]
    fn any_machine_has_sound_results(
        cores in prop::sample::select(vec![1u32, 2, 5, 64]),
        speeds in any_speeds(false),
        model in any_model(),
        share in 0.0..1.2f64,
    ) {
        let machine = machine(cores, &speeds);
        let found = at(&machine, share * machine.saturation(), model);
        for level in &found.levels {
            prop_assert!(!level.response.is_nan() && !level.wait.is_nan());
            prop_assert_eq!(level.stable, level.response.is_finite());
            prop_assert!(level.wait >= 0.0 && level.service.is_finite());
        }
        prop_assert!((1..=speeds.len()).contains(&found.best));
    }

    #[test]
    fn the_best_level_of_the_source_never_falls_with_load(
        cores in 1u32..20,
        speeds in any_speeds(true),
    ) {
        let machine = machine(cores, &speeds);
        let mut before = 0;
        for point in sweep(&machine, Options::default(), 25).unwrap() {
            prop_assert!(point.evaluation.best >= before);
            before = point.evaluation.best;
        }
    }
}
