//! A drawing of the latency distributions: the share of requests slower than a time, both axes
//! logarithmic, one panel for each workload, one line for each configuration.

use super::machine_note;
use crate::plan::Configuration;
use crate::results::{ConfigurationResults, Results, WorkloadResults};
use sidelane_draw::{Anchor, BLUE, GREEN, Svg, VERMILION};

/// Sizes, px.
const PANEL_WIDTH: f64 = 430.0;
const PANEL_HEIGHT: f64 = 320.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 96.0;
const GAP: f64 = 110.0;
const BOTTOM: f64 = 86.0;

/// Percentiles that have a line of their own: label and share of slower requests.
const GUIDES: [(&str, f64); 3] = [("p50", 0.5), ("p95", 0.05), ("p99", 0.01)];

/// The order of drawing: what matters most on top.
const ORDER: [Configuration; 5] = [
    Configuration::Default,
    Configuration::SmtOff,
    Configuration::BatchOnly,
    Configuration::Sidelane,
    Configuration::Alone,
];

/// Draws all workloads as one SVG document.
pub fn draw(results: &Results) -> String {
    let panels = results.workloads.len().max(1) as f64;
    let width = LEFT + panels * (PANEL_WIDTH + GAP);
    let height = TOP + PANEL_HEIGHT + BOTTOM;
    let mut svg = Svg::new(width, height).coarse();
    let emulated = if results.emulated_smt {
        " (emulated SMT)"
    } else {
        ""
    };
    let title = format!("Latency of critical work beside batch{emulated}");
    let bold = "font-size=\"17\" font-weight=\"bold\"";
    svg.text((LEFT, 26.0), Anchor::Start, bold, &title);
    for (line, note) in machine_note(results).lines().enumerate() {
        let y = 46.0 + 16.0 * line as f64;
        svg.text((LEFT, y), Anchor::Start, "fill=\"#555\"", note);
    }
    for (index, workload) in results.workloads.iter().enumerate() {
        let left = LEFT + index as f64 * (PANEL_WIDTH + GAP);
        Panel::new(left, workload).draw(&mut svg, workload);
    }
    draw_legend(&mut svg, results, height - 18.0);
    svg.finish()
}

/// A panel's place and its axes, both logarithmic.
struct Panel {
    left: f64,
    /// Smallest and largest latency, ms, both powers of ten.
    ms: (f64, f64),
    /// Smallest share shown, a power of ten; the largest is 1.
    share_min: f64,
}

impl Panel {
    fn new(left: f64, workload: &WorkloadResults) -> Panel {
        let curves = workload
            .configurations
            .iter()
            .map(|c| c.histogram.cumulative());
        let (mut min, mut max) = (f64::INFINITY, 0.0f64);
        for curve in curves {
            // The fastest hundredth is of no interest and would squeeze the rest.
            let first = curve.iter().find(|step| step.at_most > 0.01);
            min = first.map_or(min, |step| min.min(step.value as f64 / 1e6));
            max = curve
                .last()
                .map_or(max, |step| max.max(step.value as f64 / 1e6));
        }
        // Without samples: any decade.
        let (min, max) = if min <= max {
            (min.max(1e-6), max.max(1e-6))
        } else {
            (1.0, 1.0)
        };
        let low = 10f64.powf(min.log10().floor());
        let high = 10f64.powf(max.log10().ceil()).max(low * 10.0);
        let requests = workload
            .configurations
            .iter()
            .map(|c| c.requests)
            .max()
            .unwrap_or(1);
        let share_min = 10f64.powf(-(requests.max(10) as f64).log10().ceil());
        Panel {
            left,
            ms: (low, high),
            share_min,
        }
    }

    fn x(&self, ms: f64) -> f64 {
        let (low, high) = self.ms;
        let part = (ms.max(low) / low).log10() / (high / low).log10();
        self.left + part.min(1.0) * PANEL_WIDTH
    }

    fn y(&self, share: f64) -> f64 {
        let part = share.max(self.share_min).log10() / self.share_min.log10();
        TOP + part * PANEL_HEIGHT
    }

    fn draw(&self, svg: &mut Svg, workload: &WorkloadResults) {
        self.draw_axes(svg);
        let name = format!("{}: latency, ms", workload.name);
        let place = (self.left + PANEL_WIDTH / 2.0, TOP + PANEL_HEIGHT + 36.0);
        svg.text(place, Anchor::Middle, "", &name);
        for configuration in ORDER {
            let results = workload
                .configurations
                .iter()
                .find(|c| c.name == configuration);
            if let Some(results) = results {
                svg.polyline(self.line(results), &style(configuration));
            }
        }
    }

    /// Grid, tick labels and the percentiles' lines.
    fn draw_axes(&self, svg: &mut Svg) {
        let (right, bottom) = (self.left + PANEL_WIDTH, TOP + PANEL_HEIGHT);
        for ms in decades(self.ms.0, self.ms.1) {
            let x = self.x(ms);
            svg.line((x, TOP), (x, bottom), "stroke=\"#ddd\"");
            svg.text((x, bottom + 16.0), Anchor::Middle, "", &ms.to_string());
        }
        for share in decades(self.share_min, 1.0) {
            let y = self.y(share);
            svg.line((self.left, y), (right, y), "stroke=\"#ddd\"");
            let words = share.to_string();
            svg.text((self.left - 6.0, y + 4.0), Anchor::End, "", &words);
        }
        for (name, share) in GUIDES.into_iter().filter(|guide| guide.1 >= self.share_min) {
            let y = self.y(share);
            let dotted = "stroke=\"#999\" stroke-dasharray=\"1 3\"";
            svg.line((self.left, y), (right, y), dotted);
            let place = (right + 4.0, y + 4.0);
            svg.text(place, Anchor::Start, "fill=\"#777\"", name);
        }
        let (x, y) = (self.left - 48.0, TOP + PANEL_HEIGHT / 2.0);
        let turned = format!("transform=\"rotate(-90 {x} {y})\"");
        let name = "share of requests that are slower";
        svg.text((x, y), Anchor::Middle, &turned, name);
    }

    /// The line of one configuration: falls by a step at each latency that occurred.
    fn line(&self, results: &ConfigurationResults) -> Vec<(f64, f64)> {
        let mut points = vec![(self.left, self.y(1.0))];
        let mut slower = 1.0;
        for step in results.histogram.cumulative() {
            let x = self.x(step.value as f64 / 1e6);
            points.push((x, self.y(slower)));
            slower = 1.0 - step.at_most;
            points.push((x, self.y(slower)));
        }
        points
    }
}

/// `alone` is dashed so that what it covers is seen.
fn style(configuration: Configuration) -> String {
    let (colour, rest) = match configuration {
        Configuration::Alone => ("#222", "stroke-width=\"1.5\" stroke-dasharray=\"6 4\""),
        Configuration::Default => (VERMILION, "stroke-width=\"2\""),
        Configuration::SmtOff => (BLUE, "stroke-width=\"2\""),
        Configuration::Sidelane => (GREEN, "stroke-width=\"3\""),
        Configuration::BatchOnly => (GREEN, "stroke-width=\"1.5\" stroke-dasharray=\"2 3\""),
    };
    format!("stroke=\"{colour}\" {rest}")
}

fn draw_legend(svg: &mut Svg, results: &Results, y: f64) {
    let shown = |name: &Configuration| {
        results
            .workloads
            .iter()
            .any(|w| w.configurations.iter().any(|c| c.name == *name))
    };
    for (index, name) in Configuration::ALL
        .iter()
        .filter(|name| shown(name))
        .enumerate()
    {
        let x = LEFT + 120.0 * index as f64;
        svg.line((x, y - 4.0), (x + 30.0, y - 4.0), &style(*name));
        svg.text((x + 36.0, y), Anchor::Start, "", name.name());
    }
}

/// The powers of ten from `low` to `high`, both powers of ten themselves.
fn decades(low: f64, high: f64) -> impl Iterator<Item = f64> {
    let exponent = |value: f64| value.log10().round() as i32;
    // Parsed, because 10f64.powi(-2) is not exactly 0.01 and would be printed in full.
    (exponent(low)..=exponent(high)).filter_map(|e| format!("1e{e}").parse().ok())
}
