//! Values that stand in tables of several kinds: names, classes, CPUs, and distributions of times (a number, or a table
//! with one key; in a file ms, afterwards ns).

use super::machine::cpu_list;
use crate::{Class, Distribution, Machine};
use sidelane_policy::file::{LONGEST_MS, Limits, MS, Result, Section, Shape, Value};
use sidelane_topology::printable;

/// A name that can stand in a table.
pub(super) fn name(value: Value) -> Result<String> {
    let what = "a name of 1 to 40 characters without control characters";
    let name = value.string(what)?;
    let shown = name.replace('\\', ""); // which is shown twice, and harmless
    match (1..=40).contains(&name.chars().count()) && printable(shown.as_bytes()) == shown {
        true => Ok(name.to_owned()),
        false => Err(value.expected(what)),
    }
}

/// CPUs of which at least one is online.
pub(super) fn usable(value: Value, machine: &Machine) -> Result<Vec<u32>> {
    let cpus = cpu_list(value, machine)?;
    match cpus.iter().any(|&cpu| machine.online[cpu as usize]) {
        true => Ok(cpus),
        false => Err(value.error("cpus: none of them is online; name one that is")),
    }
}

/// A class by its name.
pub(super) fn class(value: Value) -> Result<Class> {
    value.word(&Class::ALL.map(|class| (class.name(), class)))
}

const FORMS: &[&str] = &[
    "constant",
    "exponential",
    "uniform",
    "lognormal",
    "bounded_pareto",
    "hyperexponential",
    "erlang",
    "empirical",
    "mixture",
];

const DISTRIBUTION: Shape = Shape {
    title: "a distribution",
    form: "a number of ms, or a distribution such as { exponential = 8 }",
    keys: FORMS,
    elsewhere: &[
        ("mean", "lognormal or erlang"),
        ("cv", "lognormal"),
        ("alpha", "bounded_pareto"),
        ("stages", "erlang"),
    ],
};
const LOGNORMAL: Shape = Shape {
    title: "lognormal",
    form: "a table such as { mean = 8, cv = 1.5 }",
    keys: &["mean", "cv"],
    elsewhere: &[],
};
const BOUNDED_PARETO: Shape = Shape {
    title: "bounded_pareto",
    form: "a table such as { alpha = 3, min = 1, max = 10 }",
    keys: &["alpha", "min", "max"],
    elsewhere: &[],
};
const ERLANG: Shape = Shape {
    title: "erlang",
    form: "a table such as { stages = 3, mean = 8 }",
    keys: &["stages", "mean"],
    elsewhere: &[],
};

const TIME: Limits = Limits::from(0.0, LONGEST_MS);
const MEAN: Limits = Limits::above(0.0, LONGEST_MS);
const CV: Limits = Limits::from(0.0, 1000.0);
const ALPHA: Limits = Limits::above(0.0, 100.0);
const PROBABILITY: Limits = Limits::from(0.0, 1.0);
const WEIGHT: Limits = Limits::from(0.0, 1e9);

/// A distribution of times, ns.
pub(super) fn distribution(value: Value) -> Result<Distribution> {
    let distribution = in_ms(value)?;
    match distribution.check() {
        Ok(()) => Ok(distribution.scaled(MS)),
        Err(what) => Err(value.error(format!("{}: {what}", value.key()))),
    }
}

/// The same, at least 1 ns on the mean: nothing may go on forever at one moment.
pub(super) fn lasting(value: Value) -> Result<Distribution> {
    let distribution = distribution(value)?;
    match distribution.mean() >= 1.0 {
        true => Ok(distribution),
        false => Err(value.error(format!(
            "{}: the mean is below 0.000001 ms (1 ns); give a longer time",
            value.key()
        ))),
    }
}

/// As the file has it.
fn in_ms(value: Value) -> Result<Distribution> {
    if value.is_number() {
        return Ok(Distribution::Constant(value.number(TIME)?));
    }
    let section = value.section(&DISTRIBUTION)?;
    let (form, value) = section.one_of(FORMS, "{ exponential = 8 }")?;
    Ok(match form {
        "constant" => Distribution::Constant(value.number(TIME)?),
        "exponential" => Distribution::Exponential(value.number(MEAN)?),
        "uniform" => {
            let [min, max] = value.pair("an array of minimum and maximum such as [2, 4]")?;
            let (min, max) = (min.number(TIME)?, max.number(TIME)?);
            Distribution::Uniform { min, max }
        }
        "lognormal" => lognormal(&value.section(&LOGNORMAL)?)?,
        "bounded_pareto" => bounded_pareto(&value.section(&BOUNDED_PARETO)?)?,
        "erlang" => erlang(&value.section(&ERLANG)?)?,
        "hyperexponential" => {
            let what = "pairs of probability and mean such as [[0.9, 2], [0.1, 60]]";
            let phase = |[probability, mean]: [Value; 2]| {
                Ok((probability.number(PROBABILITY)?, mean.number(MEAN)?))
            };
            Distribution::Hyperexponential(pairs(value, what, phase)?)
        }
        "empirical" => {
            let what = "pairs of cumulative probability and value such as [[0.5, 2], [1, 10]]";
            let point = |[probability, time]: [Value; 2]| {
                Ok((probability.number(PROBABILITY)?, time.number(TIME)?))
            };
            Distribution::Empirical(pairs(value, what, point)?)
        }
        _ => {
            let what =
                "pairs of weight and distribution such as [[3, 2], [1, { exponential = 8 }]]";
            let part = |[weight, part]: [Value; 2]| Ok((weight.number(WEIGHT)?, in_ms(part)?));
            Distribution::Mixture(pairs(value, what, part)?)
        }
    })
}

fn lognormal(section: &Section) -> Result<Distribution> {
    Ok(Distribution::Lognormal {
        mean: section.need("mean", "such as 8")?.number(MEAN)?,
        cv: section
            .need("cv", "standard deviation ÷ mean, such as 1.5")?
            .number(CV)?,
    })
}

fn bounded_pareto(section: &Section) -> Result<Distribution> {
    Ok(Distribution::BoundedPareto {
        alpha: section
            .need("alpha", "its shape, such as 3")?
            .number(ALPHA)?,
        min: section
            .need("min", "the smallest value, such as 1")?
            .number(MEAN)?,
        max: section
            .need("max", "the largest value, such as 10")?
            .number(MEAN)?,
    })
}

fn erlang(section: &Section) -> Result<Distribution> {
    let stages = section.need("stages", "how many exponential stages, such as 3")?;
    Ok(Distribution::Erlang {
        stages: stages.integer(1..=1000)?,
        mean: section
            .need("mean", "of the sum of all stages, such as 8")?
            .number(MEAN)?,
    })
}

/// An array of pairs.
fn pairs<'a, T>(
    value: Value<'a>,
    what: &str,
    read: impl Fn([Value<'a>; 2]) -> Result<T>,
) -> Result<Vec<T>> {
    let pairs = value.array(what)?;
    if pairs.is_empty() {
        return Err(value.expected(what));
    }
    pairs
        .into_iter()
        .map(|pair| read(pair.pair(what)?))
        .collect()
}
