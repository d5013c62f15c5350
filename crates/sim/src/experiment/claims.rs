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
    kind: Origin,
    #[serde(default)]
    role: Role,
    #[serde(default)]
    quote: String,
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
            expectation: Expectation::Trend(e.is),
            kind: e.kind,
            role: e.role,
            quote: e.quote,
        }
    }
}
