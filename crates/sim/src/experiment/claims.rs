//! What was published.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A published value or trend, and what of ours it is compared with.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Claim {
    /// Name of the metric.
    pub what: String,
    /// The configuration it is of.
    pub configuration: String,
    /// The workload it is of; none: the machine.
    pub workload: Option<String>,
    /// The configuration it is compared with.
    pub relative_to: Option<String>,
    /// The workload there; none: the same.
    pub relative_workload: Option<String>,
    /// How, with `relative_to`.
    pub compare: Comparison,
    /// The greatest over this sweep counts.
    pub greatest_over: Option<String>,
    /// The mean over this sweep counts.
    pub mean_over: Option<String>,
    /// Not the metric itself, but how far a sweep goes before it falls below a bound.
    pub reaches: Option<Reach>,
    /// At which values of the sweeps, by their names; those left out: at all.
    pub at: BTreeMap<String, toml::Value>,
    /// What is claimed.
    pub expectation: Expectation,
    /// How the value came from the source.
    pub kind: Origin,
    /// What it is to the model.
    pub role: Role,
    /// Where in the source, and the arithmetic.
    pub quote: String,
    /// Why ours differs, with the run that shows it; none: unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// The greatest value of a sweep of rising numbers at which a metric is at least so great.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reach {
    /// Name of the sweep.
    pub over: String,
    /// The bound, in units of the metric.
    pub at_least: f64,
}

/// The value of the sweep at which the metric crosses the bound first, by replication; between two
/// values by a straight line. `course` has the value of the sweep and the metric by replication, in
/// the order of the sweep. None if a replication is below the bound from the start, or never.
pub(super) fn reached(reach: &Reach, course: &[(f64, Vec<f64>)]) -> Option<Vec<f64>> {
    let replications = course.iter().map(|(_, values)| values.len()).min()?;
    let crossing = |replication: usize| {
        let pairs = course.windows(2).filter_map(|pair| {
            let [(from, before), (to, after)] = pair else {
                return None;
            };
            let (before, after) = (before[replication], after[replication]);
            let crosses = before >= reach.at_least && after < reach.at_least;
            let share = (before - reach.at_least) / (before - after);
            crosses.then_some(from + (to - from) * share)
        });
        pairs.into_iter().next()
    };
    let all: Option<Vec<f64>> = (0..replications).map(crossing).collect();
    all.filter(|all| !all.is_empty())
}

/// How two configurations are compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Comparison {
    /// One ÷ the other.
    #[default]
    Ratio,
    /// One − the other.
    Difference,
    /// One ÷ the other − 1.
    Increase,
    /// 1 − one ÷ the other.
    Reduction,
}

/// What is claimed of a metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Expectation {
    /// A number, and the relative difference up to which ours agrees with it.
    Value {
        /// As published.
        value: f64,
        /// At least 0.
        tolerance: f64,
    },
    /// A trend.
    Trend(Limit),
}

/// A trend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// Above a number.
    Above(f64),
    /// Below a number.
    Below(f64),
    /// Between two numbers.
    Between([f64; 2]),
    /// From each value of this sweep to the next.
    Rises(String),
    /// The same downwards.
    Falls(String),
}

impl Limit {
    /// The same with bounds further away by this share of them: for bounds that are measured values themselves.
    fn widened(self, tolerance: f64) -> Limit {
        let low = |bound: f64| bound - bound.abs() * tolerance;
        let high = |bound: f64| bound + bound.abs() * tolerance;
        match self {
            Limit::Above(bound) => Limit::Above(low(bound)),
            Limit::Below(bound) => Limit::Below(high(bound)),
            Limit::Between([from, to]) => Limit::Between([low(from), high(to)]),
            Limit::Rises(_) | Limit::Falls(_) => self,
        }
    }
}

/// How a published value came from the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// It stands there.
    Stated,
    /// It follows by arithmetic.
    Derived,
    /// Nobody published it: a question of our own.
    Own,
}

/// What a published value is to the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The model says it by itself.
    #[default]
    Prediction,
    /// The scenario was calibrated with it.
    Input,
    /// A parameter was derived from the same value.
    Consistency,
    /// The same value under another assumption. It counts where the experiment's own assumption stands.
    Sensitivity,
}

/// `[[published]]` as it stands in a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Published {
    what: String,
    configuration: String,
    workload: Option<String>,
    relative_to: Option<String>,
    relative_workload: Option<String>,
    #[serde(default)]
    compare: Comparison,
    greatest_over: Option<String>,
    mean_over: Option<String>,
    reaches: Option<Reach>,
    #[serde(default)]
    at: BTreeMap<String, toml::Value>,
    value: f64,
    tolerance: f64,
    kind: Origin,
    #[serde(default)]
    role: Role,
    #[serde(default)]
    quote: String,
    cause: Option<String>,
}

/// `[[expect]]` as it stands in a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expect {
    what: String,
    configuration: String,
    workload: Option<String>,
    relative_to: Option<String>,
    relative_workload: Option<String>,
    #[serde(default)]
    compare: Comparison,
    greatest_over: Option<String>,
    mean_over: Option<String>,
    reaches: Option<Reach>,
    #[serde(default)]
    at: BTreeMap<String, toml::Value>,
    is: Limit,
    #[serde(default)]
    tolerance: f64,
    kind: Origin,
    #[serde(default)]
    role: Role,
    #[serde(default)]
    quote: String,
    cause: Option<String>,
}

impl From<Published> for Claim {
    fn from(p: Published) -> Claim {
        Claim {
            what: p.what,
            configuration: p.configuration,
            workload: p.workload,
            relative_to: p.relative_to,
            relative_workload: p.relative_workload,
            compare: p.compare,
            greatest_over: p.greatest_over,
            mean_over: p.mean_over,
            reaches: p.reaches,
            at: p.at,
            expectation: Expectation::Value {
                value: p.value,
                tolerance: p.tolerance,
            },
            kind: p.kind,
            role: p.role,
            quote: p.quote,
            cause: p.cause,
        }
    }
}

impl From<Expect> for Claim {
    fn from(e: Expect) -> Claim {
        Claim {
            what: e.what,
            configuration: e.configuration,
            workload: e.workload,
            relative_to: e.relative_to,
            relative_workload: e.relative_workload,
            compare: e.compare,
            greatest_over: e.greatest_over,
            mean_over: e.mean_over,
            reaches: e.reaches,
            at: e.at,
            expectation: Expectation::Trend(e.is.widened(e.tolerance)),
            kind: e.kind,
            role: e.role,
            quote: e.quote,
            cause: e.cause,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn reach(course: &[(f64, Vec<f64>)]) -> Option<Vec<f64>> {
        let reach = Reach {
            over: "load".into(),
            at_least: 0.9,
        };
        reached(&reach, course)
    }

    #[test]
    fn a_crossing_lies_between_two_points() {
        let course = [
            (0.5, vec![1.0, 1.0]),
            (0.7, vec![0.95, 0.9]),
            (0.9, vec![0.85, 0.8]),
        ];
        let found = reach(&course).unwrap();
        assert!((found[0] - 0.8).abs() < 1e-9 && (found[1] - 0.7).abs() < 1e-9);
    }

    #[test]
    fn no_crossing_is_no_value() {
        assert_eq!(reach(&[(0.5, vec![1.0]), (0.7, vec![0.95])]), None);
        assert_eq!(reach(&[(0.5, vec![0.8]), (0.7, vec![0.7])]), None);
        assert_eq!(reach(&[]), None);
    }
}
