//! Rates that are known are found again in noisy intervals.

use super::*;

/// A reproducible number from 0 to 1.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Of mean 0 and standard deviation 1, nearly normal.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.next()).sum::<f64>() - 6.0
    }
}

/// Instructions in a second of a lane alone.
const ALONE: f64 = 3e9;

/// Shows intervals of 1 s with random busy lanes to `rates`; work has 5 % noise.
fn show(rates: &mut WorkRates, truth: &[f64], intervals: usize, random: &mut Random) {
    for _ in 0..intervals {
        // Shares by density: uniform, normalised, with some idle time.
        let shares: Vec<f64> = truth.iter().map(|_| random.next()).collect();
        let whole = shares.iter().sum::<f64>() + random.next();
        let times: Vec<f64> = shares.iter().map(|share| share / whole).collect();
        rates.forget(1.0).unwrap();
        rates
            .observe(work(truth, &times) * (1.0 + 0.05 * random.normal()), &times)
            .unwrap();
    }
}

fn work(truth: &[f64], times: &[f64]) -> f64 {
    let of_density = truth.iter().zip(times).zip(1..);
    of_density
        .map(|((speed, time), n)| ALONE * f64::from(n) * speed * time)
        .sum()
}

fn close(found: &[f64], truth: &[f64], by: f64) {
    let near = found
        .iter()
        .zip(truth)
        .all(|(a, b)| (a - b).abs() <= by * b);
    assert!(
        found.len() == truth.len() && near,
        "{found:?} instead of {truth:?}"
    );
}

#[test]
fn two_and_four_lanes_are_recovered() {
    for truth in [&[1.0, 0.6][..], &[1.0, 0.75, 0.57, 0.45]] {
        let mut rates = WorkRates::new(truth.len(), 300.0).unwrap();
        show(&mut rates, truth, 600, &mut Random(7));
        let found = rates.estimate(&vec![1.0; truth.len()]).unwrap();
        close(&found.thread_perf, truth, 0.05);
        for density in &found.densities {
            assert_eq!(density.origin, Origin::Measured);
            assert!(density.relative_error.unwrap() < 0.05, "{density:?}");
        }
        let alone = found.densities[0].work_per_s.unwrap();
        assert!((alone / ALONE - 1.0).abs() < 0.05);
    }
}

#[test]
fn errors_are_as_large_as_they_are_said_to_be() {
    let truth = [1.0, 0.6];
    let (mut inside, runs) = (0, 200);
    for seed in 0..runs {
        let mut rates = WorkRates::new(2, 60.0).unwrap();
        show(&mut rates, &truth, 200, &mut Random(seed));
        let found = rates.estimate(&[1.0, 0.9]).unwrap();
        let error = found.densities[1].relative_error.unwrap();
        inside += usize::from((found.thread_perf[1] / 0.6 - 1.0).abs() <= 2.0 * error);
    }
    // 95 % lie within two standard errors.
    assert!((180..=199).contains(&inside), "{inside} of {runs}");
}

#[test]
fn a_change_is_followed() {
    let (mut random, mut rates) = (Random(3), WorkRates::new(2, 20.0).unwrap());
    show(&mut rates, &[1.0, 0.9], 200, &mut random);
    close(
        &rates.estimate(&[1.0, 1.0]).unwrap().thread_perf,
        &[1.0, 0.9],
        0.07,
    );
    show(&mut rates, &[1.0, 0.5], 120, &mut random);
    close(
        &rates.estimate(&[1.0, 1.0]).unwrap().thread_perf,
        &[1.0, 0.5],
        0.07,
    );
}

#[test]
fn a_density_that_was_not_seen_is_the_calibrated_one() {
    let mut rates = WorkRates::new(3, 300.0).unwrap();
    let (mut random, truth) = (Random(5), [1.0, 0.7, 0.4]);
    for _ in 0..300 {
        let one = random.next();
        let times = [one, 1.0 - one, 1e-4 * random.next()];
        rates.observe(work(&truth, &times), &times).unwrap();
    }
    let found = rates.estimate(&[1.0, 0.6, 0.5]).unwrap();
    close(&found.thread_perf, &[1.0, 0.7, 0.5], 0.02);
    let origins: Vec<Origin> = found.densities.iter().map(|d| d.origin).collect();
    assert_eq!(
        origins,
        [Origin::Measured, Origin::Measured, Origin::Calibrated]
    );
    assert_eq!(found.densities[2].work_per_s, None);
}

#[test]
fn a_constant_mix_of_densities_says_nothing() {
    let mut rates = WorkRates::new(2, 300.0).unwrap();
    for n in 0..300 {
        let length = 0.5 + f64::from(n % 7) / 10.0;
        let times = [0.4 * length, 0.6 * length];
        rates.observe(work(&[1.0, 0.6], &times), &times).unwrap();
    }
    let found = rates.estimate(&[1.0, 0.8]).unwrap();
    assert_eq!(found.thread_perf, [1.0, 0.8]);
    assert!(
        found
            .densities
            .iter()
            .all(|d| d.origin == Origin::Calibrated),
        "{found:?}"
    );
}

#[test]
fn nothing_seen_is_the_calibration() {
    let mut rates = WorkRates::new(2, 1.0).unwrap();
    let calibrated = [1.0, 0.6];
    assert_eq!(rates.estimate(&calibrated).unwrap().thread_perf, calibrated);
    rates.observe(0.0, &[0.0, 0.0]).unwrap();
    rates.observe(5.0, &[1.0, 0.0]).unwrap();
    assert_eq!(rates.estimate(&calibrated).unwrap().thread_perf, calibrated);
}

#[test]
fn what_smt_costs_a_lane_alone_is_not_learnt() {
    let mut rates = WorkRates::new(2, 300.0).unwrap();
    show(&mut rates, &[1.0, 0.6], 600, &mut Random(7));
    let found = rates.estimate(&[0.9, 0.8]).unwrap();
    assert_eq!(found.thread_perf[0], 0.9);
    close(&found.thread_perf, &[0.9, 0.54], 0.05);
    let unseen = WorkRates::new(2, 1.0).unwrap();
    let found = unseen.estimate(&[0.9, 0.6]).unwrap();
    close(&found.thread_perf, &[0.9, 0.6], 1e-12);
}

#[test]
fn what_makes_no_sense_is_refused() {
    assert!(WorkRates::new(0, 1.0).is_err() && WorkRates::new(2, f64::NAN).is_err());
    let mut rates = WorkRates::new(2, 1.0).unwrap();
    assert!(rates.observe(1.0, &[1.0]).is_err() && rates.observe(-1.0, &[1.0, 0.0]).is_err());
    assert!(rates.observe(1.0, &[f64::INFINITY, 0.0]).is_err() && rates.forget(-1.0).is_err());
    assert!(rates.estimate(&[1.0]).is_err() && rates.estimate(&[1.0, 1.1]).is_err());
}
