//! Histograms of responses.

use super::{Point, place};
use crate::run::Outcome;
use serde::Deserialize;
use sidelane_draw::{self as draw, Axis, Chart, Series, Style};
use std::collections::BTreeMap;

const NS_PER_MS: f64 = 1e6;
/// Most bins of a histogram.
const BINS_MAX: usize = 2_000;

/// `[histogram]`: which responses to draw.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Histogram {
    /// Whose.
    pub workload: String,
    /// In which configurations.
    pub configurations: Vec<String>,
    /// At which points of the sweeps; none: at all.
    #[serde(default)]
    pub at: BTreeMap<String, toml::Value>,
    /// Width of a bin, ms.
    pub bin_ms: f64,
    /// What is above is left out, ms.
    pub to_ms: f64,
}

impl Histogram {
    /// # Errors
    /// Widths that make no histogram.
    pub fn check(&self) -> Result<(), String> {
        let bins = self.to_ms / self.bin_ms;
        match self.bin_ms > 0.0 && (1.0..=BINS_MAX as f64).contains(&bins) {
            true => Ok(()),
            false => Err(format!(
                "histogram: {} ms in bins of {} ms; give 1 to {BINS_MAX} bins",
                self.to_ms, self.bin_ms
            )),
        }
    }

    /// The share of responses in each bin.
    fn shares(&self, outcome: &Outcome) -> Option<Vec<f64>> {
        let bins = (self.to_ms / self.bin_ms).ceil() as usize;
        let (mut counts, mut all) = (vec![0_u64; bins], 0);
        for replication in &outcome.replications {
            let mut workloads = replication.workloads.iter();
            let measured = workloads.find(|measured| measured.name == self.workload)?;
            for step in measured.latency.as_ref()?.iter_recorded() {
                let ms = step.value_iterated_to() as f64 / NS_PER_MS;
                all += step.count_at_value();
                if let Some(count) = counts.get_mut((ms / self.bin_ms) as usize) {
                    *count += step.count_at_value();
                }
            }
        }
        let share = |count: u64| count as f64 / all as f64;
        (all > 0).then(|| counts.into_iter().map(share).collect())
    }

    /// A chart for a point of the sweeps.
    fn chart(&self, point: &Point, title: String) -> Chart {
        let mut chart = Chart::new(
            title,
            Axis::linear("response, ms").between(0.0, self.to_ms),
            Axis::linear(format!("share of responses in {} ms", self.bin_ms)),
        );
        for name in &self.configurations {
            let outcome = point.outcomes.iter().find(|o| o.configuration == *name);
            let Some(shares) = outcome.and_then(|outcome| self.shares(outcome)) else {
                continue;
            };
            let bin = |(n, share): (usize, f64)| draw::Point::new(n as f64 * self.bin_ms, share);
            let points = shares.into_iter().enumerate().map(bin).collect();
            chart.series.push(Series {
                style: Style::Steps,
                ..Series::new(name, points)
            });
        }
        chart
    }

    /// A histogram for each point that is meant.
    pub fn draw(&self, points: &[Point]) -> Vec<String> {
        let draw = |point: &Point| {
            let place = place(&point.at);
            let at = if place.is_empty() {
                place
            } else {
                format!(", {place}")
            };
            let title = format!("Responses of {}{at}", self.workload);
            self.chart(point, title).draw()
        };
        let meant = |point: &&Point| {
            let mut at = self.at.iter();
            at.all(|(name, value)| point.at.get(name) == Some(value))
        };
        points.iter().filter(meant).map(draw).collect()
    }
}
