//! Distributions of times: a number, or a table with one key. In a file ms, afterwards ns.

use super::error::Result;
use super::limits::{LONGEST_MS, Limits, MS};
use super::reader::{Shape, Value};
use crate::Distribution;

const FORMS: &[&str] = &["constant", "exponential"];

const DISTRIBUTION: Shape = Shape {
    title: "a distribution",
    keys: FORMS,
    elsewhere: &[],
};

const TIME: Limits = Limits::from(0.0, LONGEST_MS);
const MEAN: Limits = Limits::above(0.0, LONGEST_MS);

/// A distribution of times, ns.
pub(super) fn distribution(value: Value) -> Result<Distribution> {
    if value.is_number() {
        return Ok(Distribution::Constant(value.number(TIME)? * MS));
    }
    let section = value.section(&DISTRIBUTION).map_err(|mut error| {
        error.message = error.message.replace(
            "expected a table a distribution",
            "expected a number of ms or a distribution such as { exponential = 8 }",
        );
        error
    })?;
    let (form, value) = section.one_of(FORMS, "{ exponential = 8 }")?;
    Ok(match form {
        "constant" => Distribution::Constant(value.number(TIME)? * MS),
        _ => Distribution::Exponential(value.number(MEAN)? * MS),
    })
}

/// The same, at least 1 ns on the mean: nothing may go on forever at one moment.
pub(super) fn lasting(value: Value) -> Result<Distribution> {
    let distribution = distribution(value)?;
    match mean_ns(&distribution) >= 1.0 {
        true => Ok(distribution),
        false => Err(value.error(format!(
            "{}: the mean is below 0.000001 ms (1 ns); give a longer time",
            value.key()
        ))),
    }
}

/// Mean, ns.
pub(super) fn mean_ns(distribution: &Distribution) -> f64 {
    match distribution {
        Distribution::Constant(mean) | Distribution::Exponential(mean) => *mean,
    }
}
