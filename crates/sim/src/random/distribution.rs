//! Distributions, by inversion.

use super::Stream;
use super::normal_quantile;

/// A distribution of non-negative numbers.
///
/// [`check`](Self::check) says whether the parameters make sense. If they do not, the other methods
/// still return, but what they return means nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    /// Always the same.
    Constant(f64),
    /// Exponential, by its mean.
    Exponential(f64),
    /// Uniform.
    Uniform {
        /// Smallest value.
        min: f64,
        /// Largest value, at least `min`.
        max: f64,
    },
    /// Lognormal, by its own mean, not that of the logarithm.
    Lognormal {
        /// Mean, above 0.
        mean: f64,
        /// Coefficient of variation: standard deviation divided by mean.
        cv: f64,
    },
    /// Pareto, cut off at both ends: the probability to exceed x falls as x^-alpha.
    BoundedPareto {
        /// Shape, above 0; the smaller, the heavier the tail.
        alpha: f64,
        /// Smallest value, above 0.
        min: f64,
        /// Largest value, above `min`.
        max: f64,
    },
    /// One of several exponentials: (probability, mean) of each. The probabilities sum to 1.
    Hyperexponential(Vec<(f64, f64)>),
    /// The sum of so many exponentials with the same mean.
    Erlang {
        /// How many, 1..=1000.
        stages: u32,
        /// Mean of the sum.
        mean: f64,
    },
    /// Measured: points (cumulative probability, value), with straight lines between them. Both
    /// ascend, and the last probability is 1. What the first point leaves below it has its value;
    /// points that repeat a value make that value as likely as the probability between them.
    Empirical(Vec<(f64, f64)>),
    /// One of several: (weight, distribution) of each. Only the proportion of the weights counts.
    Mixture(Vec<(f64, Distribution)>),
}

impl Distribution {
    /// The next value. The same stream gives the same values.
    pub fn sample(&self, stream: &mut Stream) -> f64 {
        match self {
            Distribution::Constant(value) => *value,
            Distribution::Exponential(mean) => exponential(*mean, stream),
            Distribution::Uniform { min, max } => (min + (max - min) * stream.uniform()).min(*max),
            Distribution::Lognormal { mean, cv } => lognormal(*mean, *cv, stream),
            Distribution::BoundedPareto { alpha, min, max } => {
                let part = stream.uniform() * libm::expm1(-alpha * libm::log(max / min));
                let value = min * libm::exp(-libm::log1p(part) / alpha);
                value.max(*min).min(*max)
            }
            Distribution::Hyperexponential(phases) => {
                let mean = pick(phases, stream).copied().unwrap_or_default();
                exponential(mean, stream)
            }
            Distribution::Erlang { stages, mean } => {
                let stage_mean = mean / f64::from(*stages);
                (0..*stages).map(|_| exponential(stage_mean, stream)).sum()
            }
            Distribution::Empirical(points) => interpolate(points, stream.uniform()),
            Distribution::Mixture(parts) => {
                pick(parts, stream).map_or(0.0, |part| part.sample(stream))
            }
        }
    }

    /// Its mean.
    pub fn mean(&self) -> f64 {
        self.moments().0
    }

    /// Its variance.
    pub fn variance(&self) -> f64 {
        self.moments().1
    }

    /// The square of its coefficient of variation: variance divided by the mean's square. 0 if the
    /// mean is 0.
    pub fn squared_cv(&self) -> f64 {
        let (mean, variance) = self.moments();
        if mean == 0.0 {
            0.0
        } else {
            variance / mean / mean
        }
    }

    /// Mean and variance.
    fn moments(&self) -> (f64, f64) {
        match self {
            Distribution::Constant(value) => (*value, 0.0),
            Distribution::Exponential(mean) => (*mean, mean * mean),
            Distribution::Uniform { min, max } => line(*min, *max),
            Distribution::Lognormal { mean, cv } => (*mean, (mean * cv) * (mean * cv)),
            Distribution::BoundedPareto { alpha, min, max } => {
                bounded_pareto_moments(*alpha, *min, *max)
            }
            Distribution::Hyperexponential(phases) => blend(
                phases
                    .iter()
                    .map(|&(weight, mean)| (weight, (mean, mean * mean))),
            ),
            Distribution::Erlang { stages, mean } => (*mean, mean * mean / f64::from(*stages)),
            Distribution::Empirical(points) => {
                let first = points.iter().take(1).map(|&(p, value)| (p, (value, 0.0)));
                let lines = points
                    .windows(2)
                    .map(|pair| (pair[1].0 - pair[0].0, line(pair[0].1, pair[1].1)));
                blend(first.chain(lines))
            }
            Distribution::Mixture(parts) => {
                blend(parts.iter().map(|(weight, part)| (*weight, part.moments())))
            }
        }
    }

    /// The distribution of its values times a factor above 0.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Distribution {
        let scaled_values = |pairs: &[(f64, f64)]| {
            pairs
                .iter()
                .map(|&(p, value)| (p, value * factor))
                .collect()
        };
        match self {
            Distribution::Constant(value) => Distribution::Constant(value * factor),
            Distribution::Exponential(mean) => Distribution::Exponential(mean * factor),
            Distribution::Uniform { min, max } => Distribution::Uniform {
                min: min * factor,
                max: max * factor,
            },
            Distribution::Lognormal { mean, cv } => Distribution::Lognormal {
                mean: mean * factor,
                cv: *cv,
            },
            Distribution::BoundedPareto { alpha, min, max } => Distribution::BoundedPareto {
                alpha: *alpha,
                min: min * factor,
                max: max * factor,
            },
            Distribution::Hyperexponential(phases) => {
                Distribution::Hyperexponential(scaled_values(phases))
            }
            Distribution::Erlang { stages, mean } => Distribution::Erlang {
                stages: *stages,
                mean: mean * factor,
            },
            Distribution::Empirical(points) => Distribution::Empirical(scaled_values(points)),
            Distribution::Mixture(parts) => {
                let scaled = |(weight, part): &(f64, Distribution)| (*weight, part.scaled(factor));
                Distribution::Mixture(parts.iter().map(scaled).collect())
            }
        }
    }
}

fn exponential(mean: f64, stream: &mut Stream) -> f64 {
    -mean * libm::log(stream.uniform())
}

fn lognormal(mean: f64, cv: f64, stream: &mut Stream) -> f64 {
    let log_variance = libm::log1p(cv * cv);
    let normal = normal_quantile(stream.uniform());
    mean * libm::exp(log_variance.sqrt() * normal - log_variance / 2.0)
}

/// One of several, as likely as its weight; none if no weight is above 0.
fn pick<'a, T>(parts: &'a [(f64, T)], stream: &mut Stream) -> Option<&'a T> {
    let total: f64 = parts.iter().map(|(weight, _)| weight).sum();
    let mut left = stream.uniform() * total;
    let mut last = None;
    for (weight, part) in parts.iter().filter(|(weight, _)| *weight > 0.0) {
        last = Some(part);
        left -= weight;
        if left < 0.0 {
            break;
        }
    }
    last // also if rounding left a remainder
}

/// The value of a cumulative probability.
fn interpolate(points: &[(f64, f64)], probability: f64) -> f64 {
    let above = points.partition_point(|&(p, _)| p < probability);
    match (
        above.checked_sub(1).map(|below| points[below]),
        points.get(above),
    ) {
        (Some((p0, v0)), Some(&(p1, v1))) => {
            (v0 + (v1 - v0) * ((probability - p0) / (p1 - p0))).min(v1)
        }
        (None, Some(&(_, value))) | (Some((_, value)), None) => value,
        (None, None) => 0.0,
    }
}

/// Mean and variance of the uniform distribution.
fn line(min: f64, max: f64) -> (f64, f64) {
    (min + (max - min) / 2.0, (max - min) * (max - min) / 12.0)
}

/// Mean and variance of one of several: (weight, (mean, variance)) of each.
fn blend(parts: impl Iterator<Item = (f64, (f64, f64))> + Clone) -> (f64, f64) {
    let total: f64 = parts.clone().map(|(weight, _)| weight).sum();
    let mean: f64 = parts
        .clone()
        .map(|(weight, (m, _))| weight / total * m)
        .sum();
    let about =
        |(weight, (m, v)): (f64, (f64, f64))| weight / total * (v + (m - mean) * (m - mean));
    (mean, parts.map(about).sum())
}

/// Mean and variance, from E[X^k] = min^k g(k − alpha) / g(−alpha) with
/// g(x) = (e^(x ln(max/min)) − 1) / x, which has no gap where alpha is 1 or 2.
fn bounded_pareto_moments(alpha: f64, min: f64, max: f64) -> (f64, f64) {
    let log_range = libm::log(max / min);
    let g = |x: f64| match x {
        0.0 => log_range,
        _ => libm::expm1(x * log_range) / x,
    };
    let mean = min * g(1.0 - alpha) / g(-alpha);
    let second = min * min * g(2.0 - alpha) / g(-alpha);
    (mean, (second - mean * mean).max(0.0))
}

/// Sampling an Erlang distribution takes a draw for each stage.
const MAX_STAGES: u32 = 1000;

/// Probabilities written with a few digits rarely sum to exactly 1.
const TOLERANCE: f64 = 1e-6;

impl Distribution {
    /// Do its parameters make sense?
    ///
    /// # Errors
    /// With what is wrong, and what is allowed.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Distribution::Constant(value) => not_negative("the value", *value),
            Distribution::Exponential(mean) => positive("the mean", *mean),
            Distribution::Uniform { min, max } => {
                not_negative("the minimum", *min)?;
                require(max.is_finite() && max >= min, || {
                    format!(
                        "the maximum is {max}: it must be a number not below the minimum, {min}"
                    )
                })
            }
            Distribution::Lognormal { mean, cv } => {
                positive("the mean", *mean)?;
                not_negative("the coefficient of variation", *cv)
            }
            Distribution::BoundedPareto { alpha, min, max } => {
                positive("alpha", *alpha)?;
                positive("the minimum", *min)?;
                require(max.is_finite() && max > min, || {
                    format!("the maximum is {max}: it must be a number above the minimum, {min}")
                })
            }
            Distribution::Hyperexponential(phases) => check_phases(phases),
            Distribution::Erlang { stages, mean } => {
                require((1..=MAX_STAGES).contains(stages), || {
                    format!("there are {stages} stages: allowed are 1 to {MAX_STAGES}")
                })?;
                positive("the mean", *mean)
            }
            Distribution::Empirical(points) => check_points(points),
            Distribution::Mixture(parts) => check_parts(parts),
        }?;
        let (mean, variance) = (self.mean(), self.variance());
        require(mean.is_finite() && variance.is_finite(), || {
            "the numbers are too large or too far apart to compute a mean and a variance".into()
        })
    }
}

fn check_phases(phases: &[(f64, f64)]) -> Result<(), String> {
    for (i, &(probability, mean)) in phases.iter().enumerate() {
        let n = i + 1;
        not_negative(&format!("the probability of phase {n}"), probability)?;
        positive(&format!("the mean of phase {n}"), mean)?;
    }
    let sum: f64 = phases.iter().map(|(probability, _)| probability).sum();
    require((sum - 1.0).abs() <= TOLERANCE, || {
        format!("the probabilities of the phases sum to {sum}: it must be 1")
    })
}

fn check_points(points: &[(f64, f64)]) -> Result<(), String> {
    let (mut last_probability, mut last_value) = (0.0, 0.0);
    for (i, &(probability, value)) in points.iter().enumerate() {
        let n = i + 1;
        require(
            probability >= last_probability && probability <= 1.0,
            || {
                format!(
                    "the cumulative probability of point {n} is {probability}: it must be from \
                 {last_probability} to 1"
                )
            },
        )?;
        require(value.is_finite() && value >= last_value, || {
            format!("the value of point {n} is {value}: it must be a number not below {last_value}")
        })?;
        (last_probability, last_value) = (probability, value);
    }
    require(last_probability >= 1.0 - TOLERANCE, || {
        "the last point must have the cumulative probability 1".into()
    })
}

fn check_parts(parts: &[(f64, Distribution)]) -> Result<(), String> {
    for (i, (weight, part)) in parts.iter().enumerate() {
        let n = i + 1;
        not_negative(&format!("the weight of part {n}"), *weight)?;
        part.check()
            .map_err(|what| format!("in part {n}, {what}"))?;
    }
    let sum: f64 = parts.iter().map(|(weight, _)| weight).sum();
    require(sum > 0.0 && sum.is_finite(), || {
        "at least one part must have a weight above 0".into()
    })
}

fn not_negative(what: &str, value: f64) -> Result<(), String> {
    require(value.is_finite() && value >= 0.0, || {
        format!("{what} is {value}: it must be a number not below 0")
    })
}

fn positive(what: &str, value: f64) -> Result<(), String> {
    require(value.is_finite() && value > 0.0, || {
        format!("{what} is {value}: it must be a number above 0")
    })
}

fn require(holds: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message()) }
}
