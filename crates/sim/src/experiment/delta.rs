//! Tables as the z/VM source prints them: each metric in one configuration, in another, and by how many
//! percent they differ, as published and as it came out.

use super::{Point, place};
use crate::statistics::Estimate;
use crate::summary::CONFIDENCE;
use serde::{Deserialize, Serialize};
use sidelane_draw::escaped;
use sidelane_smt::report::digits;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Least width of a row's label.
const LABEL_WIDTH: usize = 18;

/// `[[delta]]`: a table, as its file describes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Described {
    /// Which of the source's.
    pub title: String,
    /// The configuration that is compared with.
    pub from: String,
    /// The other one.
    pub to: String,
    /// At which point of the sweeps; none: at the first that fits.
    #[serde(default)]
    pub at: BTreeMap<String, toml::Value>,
    pub rows: Vec<DescribedRow>,
}

/// A row, as its file describes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DescribedRow {
    pub what: String,
    pub workload: Option<String>,
    /// Whose in the second configuration, if not the same workload's.
    pub to_workload: Option<String>,
    /// As published; none where the source says "na".
    from: Option<f64>,
    to: Option<f64>,
}

/// A table of what was published and what came out.
#[derive(Debug, Clone, Serialize)]
pub struct Delta {
    /// Which of the source's, and the two configurations.
    pub title: String,
    /// Metric by metric.
    pub rows: Vec<DeltaRow>,
}

/// A metric.
#[derive(Debug, Clone, Serialize)]
pub struct DeltaRow {
    /// Its name.
    pub what: String,
    /// Whose, of a metric of a workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// As published, in the two configurations.
    pub published: [Option<f64>; 2],
    /// What came out.
    pub ours: [Option<Estimate>; 2],
    /// By how much the second is above the first, as a share: published.
    pub published_increase: Option<f64>,
    /// The same: what came out.
    pub our_increase: Option<Estimate>,
}

impl Described {
    /// The table; none if no point fits.
    pub fn table(&self, points: &[Point]) -> Option<Delta> {
        let fits = |point: &&Point| {
            let mut at = self.at.iter();
            at.all(|(name, value)| point.at.get(name) == Some(value))
        };
        let point = points.iter().find(fits)?;
        let place = match place(&self.at) {
            place if place.is_empty() => place,
            place => format!(", {place}"),
        };
        Some(Delta {
            title: format!("{}: {} and {}{place}", self.title, self.from, self.to),
            rows: self.rows.iter().map(|row| self.row(row, point)).collect(),
        })
    }

    fn row(&self, row: &DescribedRow, point: &Point) -> DeltaRow {
        let values = |configuration: &str, workload: Option<&String>| {
            let mut outcomes = point.outcomes.iter();
            let outcome = outcomes.find(|other| other.configuration == configuration)?;
            outcome.values(workload.map(String::as_str), &row.what)
        };
        let from = values(&self.from, row.workload.as_ref());
        let to_workload = row.to_workload.as_ref().or(row.workload.as_ref());
        let to = values(&self.to, to_workload);
        let estimate = |values: &Option<Vec<f64>>| Estimate::of(values.as_ref()?, CONFIDENCE);
        let both = from.as_ref().zip(to.as_ref());
        let ratio = both.and_then(|(from, to)| Estimate::ratio(to, from, CONFIDENCE));
        DeltaRow {
            what: row.what.clone(),
            workload: row.workload.clone(),
            published: [row.from, row.to],
            ours: [estimate(&from), estimate(&to)],
            published_increase: (row.from.zip(row.to)).map(|(from, to)| to / from - 1.0),
            our_increase: ratio.map(|mut ratio| {
                ratio.mean -= 1.0;
                ratio
            }),
        }
    }
}

impl DeltaRow {
    /// Published and ours, each in the first configuration, in the second, and the increase.
    fn cells(&self) -> [String; 6] {
        let dash = || "-".to_owned();
        let number = |value: Option<f64>| value.map_or_else(dash, digits);
        let own = |value: &Option<Estimate>| value.map_or_else(dash, |it| it.text(1.0));
        let percent = |value: Option<f64>| {
            value.map_or_else(dash, |share| format!("{:+.1} %", share * 100.0))
        };
        let own_percent = self.our_increase.map_or_else(dash, |it| {
            let width = it.half_width.unwrap_or(0.0);
            format!("{:+.1} ±{:.1} %", it.mean * 100.0, width * 100.0)
        });
        [
            number(self.published[0]),
            number(self.published[1]),
            percent(self.published_increase),
            own(&self.ours[0]),
            own(&self.ours[1]),
            own_percent,
        ]
    }
}

impl Delta {
    /// The metric of a row, with its workload where several rows have the same metric.
    fn label(&self, row: &DeltaRow) -> String {
        let several = self.rows.iter().filter(|other| other.what == row.what);
        match &row.workload {
            Some(workload) if several.count() > 1 => format!("{} {workload}", row.what),
            _ => row.what.clone(),
        }
    }

    pub(super) fn write_text(&self, out: &mut String) {
        let labels = self.rows.iter().map(|row| self.label(row).chars().count());
        let width = labels.max().unwrap_or(0).max(LABEL_WIDTH);
        let _ = writeln!(
            out,
            "{}\n  {:<width$} {:>8} {:>8} {:>9} {:>15} {:>15} {:>15}",
            self.title, "", "published", "", "delta", "ours", "", "delta"
        );
        for row in &self.rows {
            let [from, to, delta, own_from, own_to, own_delta] = row.cells();
            let _ = writeln!(
                out,
                "  {:<width$} {from:>8} {to:>8} {delta:>9} {own_from:>15} {own_to:>15} {own_delta:>15}",
                self.label(row)
            );
        }
        let _ = writeln!(out);
    }

    /// Head and rows of a table of HTML.
    pub(super) fn html(&self) -> (String, String) {
        let number = |head: &str| format!("<th class=\"number\">{head}");
        let heads = ["published", "", "delta", "ours", "", "delta"].map(number);
        let head = format!(
            "<caption>{}</caption>\n<tr><th>{}</tr>",
            escaped(&self.title),
            heads.concat()
        );
        let row = |row: &DeltaRow| {
            let cell = |cell: &String| format!("<td class=\"number\">{}", escaped(cell));
            let cells: String = row.cells().iter().map(cell).collect();
            format!("<tr><td>{}{cells}</tr>\n", escaped(&self.label(row)))
        };
        (head, self.rows.iter().map(row).collect())
    }
}
