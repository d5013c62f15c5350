//! Figures of an experiment.

use super::claims::{Expectation, Limit};
use super::{Point, Report};
use crate::statistics::Estimate;
use crate::summary::CONFIDENCE;
use sidelane_draw::{self as draw, Axis, Bar, BarChart, BarSeries, Chart, Rule, Series};

/// More bars in a picture are not read.
const BARS_MAX: usize = 24;
/// Values that differ by more than this factor need a logarithmic axis.
const WIDE: f64 = 50.0;

impl Report {
    /// Pictures (SVG): each metric that was published against each sweep of numbers; what was
    /// published beside ours where there is no such sweep; what the model predicts; histograms.
    pub fn figures(&self) -> Vec<String> {
        let predictions = self.points.iter().flat_map(|point| &point.predictions);
        let predicted = predictions.map(|prediction| prediction.chart().draw());
        let mut figures: Vec<String> = predicted.collect();
        if figures.is_empty() {
            figures = self.simulated();
        }
        if let Some(histogram) = &self.histogram {
            figures.extend(histogram.draw(&self.points));
        }
        figures
    }

    fn simulated(&self) -> Vec<String> {
        let numbers = |name: &&String| {
            let value = |point: &Point| point.at.get(*name).and_then(number);
            self.points.iter().all(|point| value(point).is_some())
        };
        let sweeps: Vec<&String> = self.sweeps.iter().filter(numbers).collect();
        match sweeps.as_slice() {
            [sweep] if self.sweeps.len() == 1 => self.curves(sweep),
            _ => self.bars().into_iter().collect(),
        }
    }

    /// A chart for each metric of the claims.
    fn curves(&self, sweep: &str) -> Vec<String> {
        let mut drawn: Vec<(&str, Option<&str>)> = Vec::new();
        for finding in &self.findings {
            let claim = &finding.claim;
            let metric = (claim.what.as_str(), claim.workload.as_deref());
            if !drawn.contains(&metric) {
                drawn.push(metric);
            }
        }
        let chart = |(what, workload)| self.curve(sweep, what, workload);
        drawn.into_iter().map(chart).collect()
    }

    fn curve(&self, sweep: &str, what: &str, workload: Option<&str>) -> String {
        let of = workload.map_or(String::new(), |name| format!(" of {name}"));
        let mut chart = Chart::new(
            format!("{what}{of}"),
            Axis::linear(sweep),
            Axis::linear(what),
        );
        let names = self.points.first().map_or(&[][..], |point| &point.outcomes);
        for (index, outcome) in names.iter().enumerate() {
            let points = self.points.iter().filter_map(|point| {
                let x = number(point.at.get(sweep)?)?;
                let values = point.outcomes[index].values(workload, what)?;
                let estimate = Estimate::of(&values, CONFIDENCE)?;
                let width = estimate.half_width.unwrap_or(0.0);
                Some(draw::Point::new(x, estimate.mean).plus_minus(width))
            });
            let points: Vec<draw::Point> = points.collect();
            if !points.is_empty() {
                chart.series.push(Series {
                    colour: Some(index), // the same in all figures
                    ..Series::new(&outcome.configuration, points)
                });
            }
        }
        self.add_published(&mut chart, sweep, what, workload);
        chart.y = value_axis(what, &chart.series, self.draw_to.get(what).copied());
        let along: Vec<f64> = (self.points.iter())
            .filter_map(|point| number(point.at.get(sweep)?))
            .collect();
        match along.is_sorted() {
            true => chart.draw(),
            false => in_groups(chart, &along).draw(),
        }
    }

    /// Published values of that metric itself; relative ones have no place on its axis.
    fn add_published(&self, chart: &mut Chart, sweep: &str, what: &str, workload: Option<&str>) {
        for finding in &self.findings {
            let claim = &finding.claim;
            let own = claim.what == what && claim.workload.as_deref() == workload;
            if !own || claim.relative_to.is_some() {
                continue;
            }
            match claim.expectation {
                Expectation::Value { value, .. } => {
                    let Some(x) = finding.at.get(sweep).and_then(number) else {
                        continue;
                    };
                    let point = draw::Point::new(x, value);
                    let name = format!("{} (published)", claim.configuration);
                    let mut series = chart.series.iter_mut();
                    match series.find(|series| series.name == name) {
                        Some(series) => series.points.push(point),
                        None => {
                            let own = |series: &&Series| series.name == claim.configuration;
                            let colour = chart.series.iter().find(own).and_then(|it| it.colour);
                            let series = Series {
                                style: draw::Style::Points, // nothing was published in between
                                ..Series::new(name, vec![point])
                            };
                            chart.series.push(series.published(colour));
                        }
                    }
                }
                Expectation::Trend(Limit::Above(y) | Limit::Below(y)) => {
                    let rule = Rule {
                        y,
                        label: claim.published(),
                    };
                    if !chart.rules.iter().any(|other| other.y == y) {
                        chart.rules.push(rule);
                    }
                }
                Expectation::Trend(_) => {}
            }
        }
    }

    /// Published values and ours, relative to what was published.
    fn bars(&self) -> Option<String> {
        let mut groups = Vec::new();
        let mut bars = Vec::new();
        for (row, finding) in (1..).zip(&self.findings) {
            let (Some(ratio), Some(ours)) = (finding.ratio, &finding.ours) else {
                continue;
            };
            if finding.claim.role != super::Role::Prediction || groups.len() == BARS_MAX {
                continue;
            }
            groups.push(format!("{row}"));
            let width = ours.half_width.unwrap_or(0.0) * (ratio / ours.mean).abs();
            let mut bar = Bar::new(ratio);
            bar.half_width = width;
            bars.push(bar);
        }
        (!groups.is_empty()).then(|| {
            BarChart {
                title: "ours ÷ published".into(),
                note: "Predictions only, by their row in the table.".into(),
                groups,
                y: Axis::linear("ours ÷ published"),
                series: vec![BarSeries {
                    name: "simulated".into(),
                    bars,
                    ..BarSeries::default()
                }],
                rules: vec![Rule {
                    y: 1.0,
                    label: "published".into(),
                }],
                ..BarChart::default()
            }
            .draw()
        })
    }
}

/// The same as bars, for a sweep whose numbers stand for cases and are in no order: nothing is between them.
fn in_groups(chart: Chart, along: &[f64]) -> BarChart {
    let series = chart.series.into_iter().map(|series| {
        let bar = |x: &f64| {
            let point = series.points.iter().find(|point| point.x == *x);
            point.map_or(Bar::new(f64::NAN), |point| Bar {
                value: point.y,
                half_width: point.half_width,
            })
        };
        BarSeries {
            bars: along.iter().map(bar).collect(),
            colour: series.colour,
            published: series.published,
            name: series.name,
        }
    });
    let mut series: Vec<BarSeries> = series.collect();
    series.sort_by_key(|series| series.colour); // what was published beside ours
    BarChart {
        title: chart.title,
        groups_label: chart.x.label,
        groups: along.iter().map(f64::to_string).collect(),
        y: chart.y,
        series,
        rules: chart.rules,
        ..BarChart::default()
    }
}

/// Up to a value if one is wanted; logarithmic where values differ much.
fn value_axis(what: &str, series: &[Series], to: Option<f64>) -> Axis {
    let values = || series.iter().flat_map(|s| &s.points).map(|point| point.y);
    let low = values().fold(f64::INFINITY, f64::min);
    if let Some(to) = to.filter(|to| low < *to) {
        return Axis::linear(what).between(low, to);
    }
    let high = values().fold(0.0, f64::max);
    match low > 0.0 && high > WIDE * low {
        true => Axis::log(what),
        false => Axis::linear(what),
    }
}

fn number(value: &toml::Value) -> Option<f64> {
    value.as_float().or(value.as_integer().map(|n| n as f64))
}
