//! Which parameters of a distribution make sense.

use super::Distribution;

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
