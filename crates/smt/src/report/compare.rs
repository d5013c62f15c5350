//! Two recordings side by side: the delta table of the source.

use super::Report;
use serde::{Serialize, Serializer};

/// Two recordings compared.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// Names of the two.
    #[serde(serialize_with = "pair")]
    pub names: [String; 2],
    /// What is compared.
    pub rows: Vec<Row>,
    /// What limits the figures, each a sentence that begins with the recording's name.
    pub warnings: Vec<String>,
}

/// A line of the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// What it is.
    pub what: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// The values; none where it is not known.
    #[serde(serialize_with = "pair")]
    pub values: [Option<f64>; 2],
    /// The second less the first.
    pub delta: Option<f64>,
    /// The same relative to the first, per cent.
    pub percent: Option<f64>,
}

/// Something of both recordings, by name.
fn pair<T: Serialize, S: Serializer>(of: &[T; 2], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Pair<'a, T> {
        first: &'a T,
        second: &'a T,
    }
    let [first, second] = of;
    Pair { first, second }.serialize(serializer)
}

/// How a value is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// A whole number.
    Count,
    /// A second.
    Rate,
    /// Milliseconds.
    Ms,
    /// A share of 1, shown in per cent.
    Share,
    /// A ratio.
    Ratio,
}

impl Unit {
    /// A value in words.
    pub fn show(self, value: f64) -> String {
        match self {
            Unit::Count => format!("{value:.0}"),
            Unit::Rate => format!("{value:.2}"),
            Unit::Ms => format!("{value:.3}"),
            Unit::Share => format!("{:.1}", value * 100.0),
            Unit::Ratio => format!("{value:.3}"),
        }
    }
}

impl Comparison {
    /// Compares two reports.
    pub fn new(first: &Report, second: &Report) -> Comparison {
        let of = |what, unit, value: &dyn Fn(&Report) -> Option<f64>| {
            row(what, unit, [value(first), value(second)])
        };
        let transactions = |r: &Report| r.transactions.clone();
        let rows = vec![
            of("Logical processors", Unit::Count, &|r| Some(r.lanes as f64)),
            of("ETR, transactions/s", Unit::Rate, &|r| {
                transactions(r).map(|t| t.per_s)
            }),
            of("ITR, transactions/busy s", Unit::Rate, &|r| {
                transactions(r)?.per_busy_s
            }),
            of("Response p50, ms", Unit::Ms, &|r| transactions(r)?.p50_ms),
            of("Response p99, ms", Unit::Ms, &|r| transactions(r)?.p99_ms),
            of("Waiting, % of wanted", Unit::Share, &|r| r.waiting),
            of("Total util/proc, %", Unit::Share, &|r| {
                r.metrics.lane_utilization
            }),
            of("Core busy, %", Unit::Share, &|r| r.metrics.core_utilization),
            of("Avg thread density", Unit::Ratio, &|r| {
                r.metrics.thread_density
            }),
            of("Productivity", Unit::Ratio, &|r| r.metrics.productivity),
            of("Capacity factor", Unit::Ratio, &|r| {
                r.metrics.capacity_factor
            }),
            of("Maximum capacity factor", Unit::Ratio, &|r| {
                r.metrics.max_capacity_factor
            }),
            of("MT utilisation, %", Unit::Share, &|r| {
                r.metrics.mt_utilization
            }),
            of("Borrowed, % of lanes", Unit::Share, &|r| r.borrowed),
            of("Forced idle, % of lanes", Unit::Share, &|r| r.forced_idle),
        ];
        let warnings = [first, second].into_iter().flat_map(|report| {
            let name = report.name.clone();
            (report.limits().into_iter()).map(move |warning| format!("{name}: {warning}"))
        });
        let unknown = [first, second]
            .into_iter()
            .filter(|report| report.transactions.is_none());
        let why = unknown.map(|report| {
            format!(
                "{}: ETR, ITR and response times are not known: no scheduler told which tasks are critical. \
                 --transactions tells ETR and ITR; 'sidelane advise SERVICE' tells the waits of one service, and \
                 'sidelane trial' compares",
                report.name
            )
        });
        let warnings = warnings.chain(why);
        Comparison {
            names: [first.name.clone(), second.name.clone()],
            rows,
            warnings: warnings.collect(),
        }
    }
}

fn row(what: &'static str, unit: Unit, values: [Option<f64>; 2]) -> Row {
    let both = values[0].zip(values[1]);
    let percent = both.filter(|(first, _)| *first != 0.0);
    Row {
        what,
        unit,
        values,
        delta: both.map(|(first, second)| second - first),
        percent: percent.map(|(first, second)| (second - first) / first * 100.0),
    }
}
