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
        (&[1.1, 0.5], "begins with 1.1"),
        (&[0.0, 0.5], "begins with 0;"),
        (&[-0.5], "begins with -0.5"),
        (&[f64::NAN, 0.5], "begins with NaN"),
        (&[0.9, 0.95], "of 2 lanes, 0.95, is above"),
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

/// All that the models say of tables that begin with 1, hashed (FNV-1a): they said the same, to the last bit, when
/// no table could begin with less.
#[test]
fn tables_that_begin_with_1_mean_what_they_always_did() {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |number: f64| {
        for byte in number.to_bits().to_le_bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    let tables = [
        &[1.0][..],
        &XEON,
        &POWER7,
        &[1.0, 1.0],
        &[1.0, 0.4, 0.3, 0.3],
    ];
    for (cores, speeds) in [1, 4, 16]
        .into_iter()
        .flat_map(|n| tables.map(|table| (n, table)))
    {
        let machine = machine(cores, speeds);
        add(machine.saturation());
        for model in Model::ALL {
            let options = Options::new(model);
            for step in 0..24 {
                let found = at(&machine, f64::from(step) * 0.08, model);
                add(found.best as f64);
                for level in &found.levels {
                    [level.response, level.service, level.wait, level.utilization]
                        .into_iter()
                        .for_each(&mut add);
                }
                let published = Options::default().with_iterations(PUBLISHED_ITERATIONS);
                let load = Utilization::new(found.levels[0].utilization).unwrap();
                for level in evaluate(&machine, load, published.unwrap()).levels {
                    add(level.response);
                }
            }
            for normalization in [
                Normalization::Model,
                Normalization::Lanes(LaneOrder::Independent),
                Normalization::Averaged(LaneOrder::LowerFirst),
            ] {
                let busy: Vec<f64> = (1..=speeds.len()).map(|lane| 0.9 / lane as f64).collect();
                for level in 1..=speeds.len() {
                    let of = |busy| load(&machine, &[busy], level, normalization, options);
                    let found = of(busy.clone()).unwrap().unwrap();
                    [found.expected.get(), found.most.get()]
                        .into_iter()
                        .for_each(&mut add);
                }
            }
        }
        for crossover in crossovers(&machine, Options::default()) {
            add(crossover.utilization);
        }
    }
    assert_eq!(hash, 0x2c4b_ded6_97b8_090e);
}

const OVERHEAD: [f64; 2] = [0.9, 0.6];

#[test]
fn smt_that_is_switched_off_costs_nothing() {
    for model in Model::ALL.into_iter().filter(|model| *model != Model::MMs) {
        let machine = machine(1, &OVERHEAD);
        let rate = |level, running| machine.core_rate(level, running);
        assert_eq!([rate(1, 1), rate(2, 1), rate(2, 2)], [1.0, 0.9, 1.2]);
        assert_eq!(machine.speed(1, 0), 0.0);
        assert_eq!(machine.saturation(), 1.2);
        let alone = at(&machine, 0.0, model).levels;
        close(alone[0].response, 1.0);
        close(alone[1].response, 1.0 / 0.9);
        close(alone[1].service, 1.0 / 0.9);
        let stays_on = at(&machine.with_smt_on(), 0.0, model).levels;
        close(stays_on[0].response, 1.0 / 0.9);
        close(stays_on[1].response, 1.0 / 0.9);
    }
}

/// As POWER7's SMT4 in the source's figure 1: what SMT costs idle siblings decides at low load.
#[test]
fn at_low_load_the_overhead_is_worth_switching_smt_off() {
    let best =
        |speeds: &[f64], utilization| at(&machine(1, speeds), utilization, Model::Source).best;
    for (utilization, without, with) in [(0.05, 2, 1), (0.8, 2, 2), (0.99, 2, 2)] {
        assert_eq!(best(&XEON, utilization), without, "{utilization}");
        assert_eq!(best(&OVERHEAD, utilization), with, "{utilization}");
    }
    // where SMT stays on, it costs as much at either level
    let stays_on = machine(1, &OVERHEAD).with_smt_on();
    assert_eq!(at(&stays_on, 0.05, Model::Source).best, 2);
}

#[test]
fn a_lane_beside_idle_ones_shows_less_load_than_one_with_smt_off() {
    let machine = machine(1, &OVERHEAD);
    let lanes = Normalization::Lanes(LaneOrder::LowerFirst);
    let of = |machine: &Machine, busy: &[f64], level, normalization| {
        let load = load(
            machine,
            &[busy.to_vec()],
            level,
            normalization,
            Options::default(),
        );
        load.unwrap().unwrap().expected.get()
    };
    for normalization in [
        lanes,
        Normalization::Averaged(LaneOrder::LowerFirst),
        Normalization::Model,
    ] {
        close(of(&machine, &[0.5], 1, normalization), 0.5);
        close(
            of(&machine.clone().with_smt_on(), &[0.5], 1, normalization),
            0.45,
        );
    }
    close(of(&machine, &[0.8, 0.5], 2, lanes), 0.9 * 0.3 + 1.2 * 0.5);
    // two lanes of a core run at level 1 if they must
    close(of(&machine, &[0.8, 0.5], 1, lanes), 0.3 + 1.2 * 0.5);
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

/// The same where SMT costs a lane alone something, at most as much as a second lane that runs.
fn any_overhead() -> impl Strategy<Value = Vec<f64>> {
    (any_speeds(true), 0.0..1.0f64).prop_map(|(mut speeds, part)| {
        let least = speeds.get(1).copied().unwrap_or(0.5);
        speeds[0] = least + part * (1.0 - least);
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
    fn response_grows_with_utilisation_whatever_smt_costs(
        cores in 1u32..24,
        speeds in any_overhead(),
        smt_on in any::<bool>(),
        model in any_model(),
        (low, high) in (0.0..1.0f64, 0.0..1.0f64),
    ) {
        let machine = machine(cores, &speeds);
        let machine = if smt_on { machine.with_smt_on() } else { machine };
        let (low, high) = (low.min(high), low.max(high));
        let all = |share: f64| at(&machine, share * machine.saturation(), model).levels;
        for (a, b) in all(low).into_iter().zip(all(high)) {
            prop_assert!(b.response >= a.response * (1.0 - 1e-7), "{:?} {:?}", a, b);
            prop_assert!(a.response >= a.service && a.service.is_finite());
            if model != Model::MMs {
                prop_assert!(a.service * machine.speed(a.level, 1) >= 1.0 - 1e-9, "{:?}", a);
            }
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
        // a table that begins with 1 does not know whether SMT is on
        let stays_on = machine.clone().with_smt_on();
        prop_assert_eq!(&found, &at(&stays_on, share * machine.saturation(), model));
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
