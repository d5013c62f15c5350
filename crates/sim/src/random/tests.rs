//! Streams: apart, even, and as published. Distributions: what they return, against what they say.

use super::{Distribution, GOLDEN, Stream, mix, normal_quantile};
use Distribution::{
    BoundedPareto, Constant, Empirical, Erlang, Exponential, Hyperexponential, Lognormal, Mixture,
    Uniform,
};
use proptest::prelude::*;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;

/// One of each, and those with special cases.
fn examples() -> Vec<Distribution> {
    vec![
        Constant(3.0),
        Exponential(2.0),
        Uniform { min: 1.0, max: 4.0 },
        Lognormal { mean: 5.0, cv: 0.8 },
        BoundedPareto {
            alpha: 1.5,
            min: 1.0,
            max: 50.0,
        },
        BoundedPareto {
            alpha: 1.0,
            min: 1.0,
            max: 50.0,
        },
        BoundedPareto {
            alpha: 2.0,
            min: 1.0,
            max: 50.0,
        },
        Hyperexponential(vec![(0.9, 1.0), (0.1, 10.0)]),
        Erlang {
            stages: 4,
            mean: 2.0,
        },
        Empirical(vec![
            (0.2, 1.0),
            (0.5, 2.0),
            (0.7, 2.0),
            (0.7, 4.0),
            (1.0, 10.0),
        ]),
        Mixture(vec![
            (3.0, Uniform { min: 0.0, max: 1.0 }),
            (1.0, Exponential(6.0)),
        ]),
    ]
}

#[test]
fn samples_have_the_mean_and_the_variance() {
    for (i, distribution) in examples().iter().enumerate() {
        assert_eq!(distribution.check(), Ok(()));
        let mut stream = Stream::new(1, &[i as u64]);
        let samples: Vec<f64> = (0..50_000)
            .map(|_| distribution.sample(&mut stream))
            .collect();
        let n = samples.len() as f64;
        let moment = |about: f64, power: i32| {
            samples.iter().map(|x| (x - about).powi(power)).sum::<f64>() / n
        };
        let (mean, variance) = (distribution.mean(), distribution.variance());
        let mean_error = (variance / n).sqrt() + 1e-12;
        let z = (moment(0.0, 1) - mean) / mean_error;
        assert!(
            z.abs() < 4.0,
            "{distribution:?}: mean off by {z} standard errors"
        );
        let variance_error = ((moment(mean, 4) - variance * variance).max(0.0) / n).sqrt() + 1e-12;
        let z = (moment(mean, 2) - variance) / variance_error;
        assert!(
            z.abs() < 4.0,
            "{distribution:?}: variance off by {z} standard errors"
        );
    }
}

#[test]
fn samples_have_the_cumulative_distribution() {
    let exponential = |x: f64, mean: f64| 1.0 - (-x / mean).exp();
    let pareto = |x: f64| (1.0 - x.powf(-1.5)) / (1.0 - 50f64.powf(-1.5));
    let median = 5.0 / (1.0f64 + 0.64).sqrt();
    for (distribution, value, probability) in [
        (Exponential(2.0), 3.0, exponential(3.0, 2.0)),
        (Lognormal { mean: 5.0, cv: 0.8 }, median, 0.5),
        (
            BoundedPareto {
                alpha: 1.5,
                min: 1.0,
                max: 50.0,
            },
            10.0,
            pareto(10.0),
        ),
        (
            Erlang {
                stages: 2,
                mean: 2.0,
            },
            3.0,
            1.0 - (-3.0f64).exp() * 4.0,
        ),
        (
            Hyperexponential(vec![(0.9, 1.0), (0.1, 10.0)]),
            2.0,
            0.9 * exponential(2.0, 1.0) + 0.1 * exponential(2.0, 10.0),
        ),
        (
            Empirical(vec![(0.0, 0.0), (0.9, 3.0), (1.0, 9.0)]),
            1.0,
            0.3,
        ),
        (
            Empirical(vec![(0.0, 0.0), (0.9, 3.0), (1.0, 9.0)]),
            6.0,
            0.95,
        ),
    ] {
        let mut stream = Stream::new(2, &[]);
        let n = 40_000.0;
        let below = (0..40_000).filter(|_| distribution.sample(&mut stream) <= value);
        let share = below.count() as f64 / n;
        let error = (probability * (1.0 - probability) / n).sqrt();
        assert!(
            (share - probability).abs() < 4.0 * error,
            "{distribution:?}: {share}"
        );
    }
}

#[test]
fn moments_are_those_of_the_formulas() {
    let close = |a: f64, b: f64| assert!((a - b).abs() <= 1e-12 * b.abs(), "{a} instead of {b}");
    close(Constant(3.0).squared_cv(), 0.0);
    close(Exponential(2.0).squared_cv(), 1.0);
    close(Uniform { min: 0.0, max: 2.0 }.squared_cv(), 1.0 / 3.0);
    close(Lognormal { mean: 5.0, cv: 0.8 }.squared_cv(), 0.64);
    close(
        Erlang {
            stages: 4,
            mean: 2.0,
        }
        .squared_cv(),
        0.25,
    );
    let hyper = Hyperexponential(vec![(0.9, 1.0), (0.1, 10.0)]);
    close(hyper.mean(), 1.9);
    close(
        hyper.squared_cv(),
        2.0 * (0.9 + 0.1 * 100.0) / (1.9 * 1.9) - 1.0,
    );
    let pareto = |alpha| BoundedPareto {
        alpha,
        min: 1.0,
        max: 4.0,
    };
    close(pareto(1.0).mean(), 4f64.ln() / 0.75);
    close(pareto(2.0).mean(), 2.0 * 0.75 / (1.0 - 1.0 / 16.0));
    close(
        pareto(2.0).variance(),
        2.0 * 4f64.ln() / (1.0 - 1.0 / 16.0) - 1.6 * 1.6,
    );
    close(
        pareto(3.0).mean(),
        1.5 * (1.0 - 1.0 / 16.0) / (1.0 - 1.0 / 64.0),
    );
    close(Empirical(vec![(0.5, 1.0), (1.0, 3.0)]).mean(), 1.5);
    close(
        Mixture(vec![(1.0, Constant(1.0)), (1.0, Constant(3.0))]).variance(),
        1.0,
    );
    close(Constant(0.0).squared_cv(), 0.0);
}

/// If this fails, what simulations print changes with it, and a changelog has to say so.
#[test]
fn first_values_stay_what_they_are() {
    let golden: [[f64; 3]; 11] = [
        [3.0, 3.0, 3.0],
        [0.6264589927420576, 2.9736225448194644, 1.5384778224663236],
        [1.8692251067880479, 2.247447808359252, 2.562860001158507],
        [2.313881239485927, 7.078633690978955, 1.7365266612830723],
        [1.2762682444159956, 1.2294230154155836, 1.448642312452535],
        [1.0150753868266453, 1.3025095484805107, 1.7555293922637025],
        [1.3839973591134438, 2.9183003109163854, 1.6210352249115954],
        [0.3543530947110354, 1.6453965020964592, 0.5737351967736251],
        [1.4865523752432415, 3.576282979235727, 2.093838998598866],
        [1.6280942808784613, 1.0, 1.0],
        [
            0.13212154745662674,
            0.48767803461416703,
            0.14985569107345487,
        ],
    ];
    for (i, (distribution, expected)) in examples().iter().zip(golden).enumerate() {
        let mut stream = Stream::new(42, &[0, i as u64]);
        let values: [f64; 3] = std::array::from_fn(|_| distribution.sample(&mut stream));
        assert_eq!(values, expected, "{distribution:?}");
    }
    let mut stream = Stream::new(42, &[1, 2, 3]);
    assert_eq!(stream.next_u64(), 0xdfe9_7c0b_2f37_0d83);
    assert_eq!(stream.uniform(), 0.09929003089375688);
    assert_eq!(stream.below(1000), 449);
}

#[test]
fn bad_parameters_are_refused_with_what_is_allowed() {
    let refused = |distribution: Distribution, message: &str| {
        assert_eq!(distribution.check(), Err(message.into()));
    };
    refused(
        Constant(-1.0),
        "the value is -1: it must be a number not below 0",
    );
    refused(
        Exponential(0.0),
        "the mean is 0: it must be a number above 0",
    );
    refused(
        Exponential(f64::NAN),
        "the mean is NaN: it must be a number above 0",
    );
    refused(
        Uniform { min: 2.0, max: 1.0 },
        "the maximum is 1: it must be a number not below the minimum, 2",
    );
    refused(
        Lognormal {
            mean: 1.0,
            cv: f64::INFINITY,
        },
        "the coefficient of variation is inf: it must be a number not below 0",
    );
    refused(
        BoundedPareto {
            alpha: 1.0,
            min: 2.0,
            max: 2.0,
        },
        "the maximum is 2: it must be a number above the minimum, 2",
    );
    refused(
        Hyperexponential(vec![(0.5, 1.0), (0.4, 2.0)]),
        "the probabilities of the phases sum to 0.9: it must be 1",
    );
    refused(
        Hyperexponential(vec![(1.0, -2.0)]),
        "the mean of phase 1 is -2: it must be a number above 0",
    );
    refused(
        Erlang {
            stages: 0,
            mean: 1.0,
        },
        "there are 0 stages: allowed are 1 to 1000",
    );
    refused(
        Empirical(vec![]),
        "the last point must have the cumulative probability 1",
    );
    refused(
        Empirical(vec![(0.5, 1.0), (0.4, 2.0)]),
        "the cumulative probability of point 2 is 0.4: it must be from 0.5 to 1",
    );
    refused(
        Empirical(vec![(0.5, 1.0), (1.0, 0.5)]),
        "the value of point 2 is 0.5: it must be a number not below 1",
    );
    refused(
        Mixture(vec![]),
        "at least one part must have a weight above 0",
    );
    refused(
        Mixture(vec![(1.0, Constant(1.0)), (1.0, Exponential(-1.0))]),
        "in part 2, the mean is -1: it must be a number above 0",
    );
    refused(
        Lognormal {
            mean: 1e200,
            cv: 1.0,
        },
        "the numbers are too large or too far apart to compute a mean and a variance",
    );
}

/// Distributions with any parameters, sensible or not.
fn any_distribution(number: BoxedStrategy<f64>) -> impl Strategy<Value = Distribution> {
    let pairs = || prop::collection::vec((number.clone(), number.clone()), 0..4);
    let two = || (number.clone(), number.clone());
    let leaf = prop_oneof![
        number.clone().prop_map(Constant),
        number.clone().prop_map(Exponential),
        two().prop_map(|(min, max)| Uniform { min, max }),
        two().prop_map(|(mean, cv)| Lognormal { mean, cv }),
        (number.clone(), two()).prop_map(|(alpha, (min, max))| BoundedPareto { alpha, min, max }),
        pairs().prop_map(Hyperexponential),
        (0..20u32, number.clone()).prop_map(|(stages, mean)| Erlang { stages, mean }),
        pairs().prop_map(Empirical),
    ];
    leaf.prop_recursive(2, 8, 3, move |part| {
        prop::collection::vec((0.0..3.0, part), 0..3).prop_map(Mixture)
    })
}

/// Sorts what has to ascend, so that more distributions make sense.
fn tidied(distribution: Distribution) -> Distribution {
    match distribution {
        Uniform { min, max } => Uniform {
            min: min.min(max),
            max: max.max(min),
        },
        BoundedPareto { alpha, min, max } => BoundedPareto {
            alpha,
            min: min.min(max),
            max: max.max(min),
        },
        Hyperexponential(mut phases) => {
            let sum: f64 = phases.iter().map(|(p, _)| p).sum();
            phases.iter_mut().for_each(|(p, _)| *p /= sum);
            Hyperexponential(phases)
        }
        Empirical(points) => {
            let (mut p, mut v): (Vec<f64>, Vec<f64>) = points.into_iter().unzip();
            p.sort_by(f64::total_cmp);
            v.sort_by(f64::total_cmp);
            let last = p.last().copied().unwrap_or(1.0);
            Empirical(p.iter().map(|p| p / last).zip(v).collect())
        }
        Mixture(parts) => Mixture(
            parts
                .into_iter()
                .map(|(w, part)| (w, tidied(part)))
                .collect(),
        ),
        other => other,
    }
}

/// Smallest and largest value.
fn support(distribution: &Distribution) -> (f64, f64) {
    match distribution {
        Constant(value) => (*value, *value),
        Uniform { min, max } | BoundedPareto { min, max, .. } => (*min, *max),
        Empirical(points) => (points[0].1, points[points.len() - 1].1),
        Mixture(parts) => parts
            .iter()
            .filter(|(weight, _)| *weight > 0.0)
            .map(|(_, part)| support(part))
            .fold((f64::INFINITY, 0.0), |(a, b), (min, max)| {
                (a.min(min), b.max(max))
            }),
        _ => (0.0, f64::INFINITY),
    }
}

proptest! {
    #[test]
    fn samples_are_in_the_support(
        distribution in any_distribution((0.01..100.0f64).boxed()).prop_map(tidied),
        seed: u64,
    ) {
        prop_assume!(distribution.check().is_ok());
        let (min, max) = support(&distribution);
        let mut stream = Stream::new(seed, &[]);
        for _ in 0..20 {
            let value = distribution.sample(&mut stream);
            prop_assert!(value.is_finite() && value >= min && value <= max, "{}", value);
        }
        let mean = distribution.mean();
        prop_assert!(mean >= min * (1.0 - 1e-9) && mean <= max * (1.0 + 1e-9), "{}", mean);
        prop_assert!(distribution.squared_cv() >= 0.0);
    }

    #[test]
    fn scaling_scales_values_and_mean_alone(
        distribution in any_distribution((0.01..100.0f64).boxed()).prop_map(tidied),
        factor in 0.01..100.0f64,
    ) {
        prop_assume!(distribution.check().is_ok());
        let scaled = distribution.scaled(factor);
        let (mut one, mut other) = (Stream::new(1, &[]), Stream::new(1, &[]));
        for (whole, part) in [
            (scaled.sample(&mut one), distribution.sample(&mut other) * factor),
            (scaled.mean(), distribution.mean() * factor),
            (scaled.squared_cv() + 1.0, distribution.squared_cv() + 1.0),
        ] {
            prop_assert!((whole - part).abs() <= 1e-9 * part, "{} and {}", whole, part);
        }
    }

    #[test]
    fn nothing_panics_whatever_the_parameters(
        distribution in any_distribution(any::<f64>().boxed()),
    ) {
        let _ = (distribution.check(), distribution.squared_cv(), distribution.scaled(2.0));
        distribution.sample(&mut Stream::new(1, &[]));
    }
}

#[test]
fn the_generator_is_the_published_one() {
    // pcg64 of the reference implementation's demo, seeded with 42 and 54.
    let mut generator = Pcg64::new(42, 54);
    let first = [0x86b1_da1d_7206_2b68, 0x1304_aa46_c985_3d39];
    assert_eq!(first, std::array::from_fn(|_| generator.next_u64()));
}

#[test]
fn the_mixing_is_that_of_splitmix64() {
    // First values of SplitMix64 from 1234567, as its descriptions list them.
    let states = [1u64, 2].map(|i| 1_234_567u64.wrapping_add(GOLDEN.wrapping_mul(i)));
    let first = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
    assert_eq!(states.map(mix), first);
}

#[test]
fn seeds_purposes_and_lengths_give_other_streams() {
    let mut first = Vec::new();
    for seed in 0..20 {
        first.push(Stream::new(seed, &[]).next_u64());
        for a in 0..20 {
            first.push(Stream::new(seed, &[a]).next_u64());
            first.extend((0..20).map(|b| Stream::new(seed, &[a, b]).next_u64()));
        }
    }
    let all = first.len();
    first.sort_unstable();
    first.dedup();
    assert_eq!(first.len(), all);
    assert_eq!(Stream::new(3, &[1, 2]), Stream::new(3, &[1, 2]));
}

/// Mean of the products of two uniform variables, in standard errors from independence.
fn correlation(pairs: impl Iterator<Item = (f64, f64)>) -> f64 {
    let products: Vec<f64> = pairs.map(|(a, b)| (a - 0.5) * (b - 0.5)).collect();
    let n = products.len() as f64;
    products.iter().sum::<f64>() / n * 12.0 * n.sqrt()
}

#[test]
fn neighbouring_streams_do_not_follow_each_other() {
    for (one, other) in [([0, 0], [0, 1]), ([0, 0], [1, 0]), ([7, 1], [7, 3])] {
        let (mut a, mut b) = (Stream::new(1, &one), Stream::new(1, &other));
        let z = correlation((0..20_000).map(|_| (a.uniform(), b.uniform())));
        assert!(z.abs() < 4.0, "{one:?} and {other:?}: {z}");
    }
    let first = |i| Stream::new(1, &[i]).uniform();
    let z = correlation((0..20_000).map(|i| (first(i), first(i + 1))));
    assert!(z.abs() < 4.0, "first values: {z}");
}

#[test]
fn uniform_fills_the_interval_evenly() {
    let mut stream = Stream::new(5, &[]);
    let mut bins = [0u32; 64];
    for _ in 0..64_000 {
        let u = stream.uniform();
        assert!(u > 0.0 && u < 1.0);
        bins[(u * 64.0) as usize] += 1;
    }
    let squares = bins.map(|n| (f64::from(n) - 1000.0).powi(2) / 1000.0);
    let chi_squared: f64 = squares.iter().sum();
    assert!((30.0..110.0).contains(&chi_squared), "{chi_squared}");
}

#[test]
fn below_is_even_for_numbers_that_do_not_divide_2_to_the_64() {
    let n = 3 << 62; // without rejection one of three would come up half of the time
    let mut stream = Stream::new(6, &[]);
    let mut thirds = [0u32; 3];
    for _ in 0..30_000 {
        let value = stream.below(n);
        assert!(value < n);
        thirds[(value >> 62) as usize] += 1;
    }
    assert!(
        thirds.iter().all(|t| t.abs_diff(10_000) < 400),
        "{thirds:?}"
    );
    assert_eq!((stream.below(0), stream.below(1)), (0, 0));
}

#[test]
fn published_quantiles_of_the_normal_distribution_come_out() {
    for (probability, quantile) in [
        (0.25, -0.674_489_750_196_081_7),
        (0.001, -3.090_232_306_167_813_5),
        (1e-20, -9.262_340_089_798_408),
    ] {
        let error: f64 = normal_quantile(probability) / quantile - 1.0;
        assert!(error.abs() < 1e-15, "{probability}: {error}");
    }
}

#[test]
fn the_normal_quantile_is_symmetric_and_joins_at_the_seams() {
    for i in 1..500 {
        let p = f64::from(i) / 1024.0;
        assert_eq!(normal_quantile(p), -normal_quantile(1.0 - p));
    }
    for seam in [0.075, (-25.0f64).exp()] {
        let (below, above) = (seam * (1.0 - 1e-9), seam * (1.0 + 1e-9));
        let step = normal_quantile(above) - normal_quantile(below);
        assert!(step > 0.0 && step < 1e-8, "{seam}: {step}");
    }
    assert!(
        [0.0, 1.0, -1.0, f64::NAN]
            .iter()
            .all(|&p| normal_quantile(p).is_nan())
    );
}
