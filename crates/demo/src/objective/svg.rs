//! The steps of the load as a drawing: latency, what batch does, and the budget, over time.

use super::{Document, Steps};
use crate::svg::{document as page, rule, text};
use sidelane_smt::latency::Summary;
use std::fmt::Write;

/// Sizes, px.
const WIDTH: f64 = 760.0;
const PANEL: f64 = 150.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 60.0;
const GAP: f64 = 46.0;
/// Requests of so long are one point of the 99th percentile, s.
const WINDOW_S: f64 = 2.0;

/// A point: s from the start, and a value.
type Point = (f64, f64);

/// Draws the steps; none if the load was not stepped.
pub fn draw(document: &Document) -> Option<String> {
    let steps = document.steps.as_ref()?;
    let mut svg = text(
        LEFT,
        26.0,
        "start",
        "font-size=\"17\" font-weight=\"bold\"",
        &title(document, steps),
    );
    let panels = [
        ("latency, ms", latencies(steps), "circle"),
        ("batch, MB/s", batch_rates(steps), "line"),
        ("budget, ms", budgets(steps), "line"),
    ];
    let end_s = end_s(steps);
    for ((name, points, kind), number) in panels.iter().zip(0u32..) {
        let top = TOP + f64::from(number) * (PANEL + GAP);
        let objective_ms = steps.objective_ns as f64 / 1e6;
        let (marks, least) = match number {
            0 => (percentiles(steps), objective_ms),
            _ => (Vec::new(), 0.0),
        };
        let max = points.iter().map(|point| point.1).fold(least, f64::max);
        let panel = Panel {
            top,
            end_s,
            max: max.max(1e-3) * 1.05,
        };
        svg.push_str(&panel.axes(name, steps));
        svg.push_str(&match *kind {
            "circle" => panel.dots(points),
            _ => panel.line(points, "stroke=\"#0072b2\" stroke-width=\"2\""),
        });
        if number == 0 {
            svg.push_str(&panel.line(&marks, "stroke=\"#d55e00\" stroke-width=\"2.5\""));
            let (y, dashed) = (
                panel.y(objective_ms),
                "stroke=\"#222\" stroke-dasharray=\"6 4\"",
            );
            svg.push_str(&rule((LEFT, y), (LEFT + WIDTH, y), dashed));
        }
    }
    let height = TOP + 3.0 * (PANEL + GAP);
    Some(page(LEFT + WIDTH + 30.0, height, &svg))
}

fn title(document: &Document, steps: &Steps) -> String {
    let loads: Vec<String> = steps
        .loads
        .iter()
        .map(|(_, load)| format!("{:.0} %", load * 100.0))
        .collect();
    let smt = match document.emulated_smt {
        true => " (emulated SMT)",
        false => "",
    };
    format!(
        "Load {}, objective p99 < {:.1} ms{smt}; line: p99 of {WINDOW_S} s",
        loads.join(", "),
        steps.objective_ns as f64 / 1e6
    )
}

fn end_s(steps: &Steps) -> f64 {
    let last_request = steps
        .requests
        .last()
        .map_or(0.0, |(at_ns, _)| *at_ns as f64 / 1e9);
    let last_sample = steps.samples.last().map_or(0.0, |s| s.at_ms as f64 / 1e3);
    last_request.max(last_sample).max(1e-3)
}

fn latencies(steps: &Steps) -> Vec<Point> {
    let point = |(at_ns, latency_ns): &(u64, u64)| (*at_ns as f64 / 1e9, *latency_ns as f64 / 1e6);
    steps.requests.iter().map(point).collect()
}

/// The 99th percentile of each window, at its end.
fn percentiles(steps: &Steps) -> Vec<Point> {
    let windows = (end_s(steps) / WINDOW_S) as u64;
    let of = |window: u64| {
        let from_s = window as f64 * WINDOW_S;
        let inside = |at_ns: u64| (from_s..from_s + WINDOW_S).contains(&(at_ns as f64 / 1e9));
        let requests = steps.requests.iter().filter(|(at_ns, _)| inside(*at_ns));
        let mut latency_ns: Vec<u64> = requests.map(|(_, latency_ns)| *latency_ns).collect();
        (!latency_ns.is_empty()).then(|| {
            let p99_ns = Summary::of(&mut latency_ns).p99_ns;
            (from_s + WINDOW_S, p99_ns as f64 / 1e6)
        })
    };
    (0..windows).filter_map(of).collect()
}

fn batch_rates(steps: &Steps) -> Vec<Point> {
    let rate = |pair: &[super::Sample]| match pair {
        [before, after] if after.at_ms > before.at_ms => {
            let bytes = after.batch_bytes.saturating_sub(before.batch_bytes) as f64;
            let seconds = (after.at_ms - before.at_ms) as f64 / 1e3;
            Some((after.at_ms as f64 / 1e3, bytes / seconds / 1e6))
        }
        _ => None,
    };
    steps.samples.windows(2).filter_map(rate).collect()
}

fn budgets(steps: &Steps) -> Vec<Point> {
    let samples = steps.samples.iter();
    samples
        .filter_map(|sample| Some((sample.at_ms as f64 / 1e3, sample.budget_ms?)))
        .collect()
}

struct Panel {
    top: f64,
    end_s: f64,
    max: f64,
}

impl Panel {
    fn x(&self, at_s: f64) -> f64 {
        LEFT + at_s / self.end_s * WIDTH
    }

    fn y(&self, value: f64) -> f64 {
        self.top + PANEL * (1.0 - (value / self.max).clamp(0.0, 1.0))
    }

    fn axes(&self, name: &str, steps: &Steps) -> String {
        let (bottom, right) = (self.top + PANEL, LEFT + WIDTH);
        let mut svg = rule((LEFT, bottom), (right, bottom), "stroke=\"#444\"");
        svg.push_str(&text(
            LEFT,
            self.top - 8.0,
            "start",
            "font-weight=\"bold\"",
            name,
        ));
        // enough digits to tell the marks apart
        let decimals = (1.0 - self.max.log10().floor()).clamp(0.0, 4.0) as usize;
        for part in [0.0, 0.5, 1.0] {
            let (value, grid) = (self.max * part / 1.05, "stroke=\"#ddd\"");
            let y = self.y(value);
            svg.push_str(&rule((LEFT, y), (right, y), grid));
            svg.push_str(&text(
                LEFT - 6.0,
                y + 4.0,
                "end",
                "",
                &format!("{value:.decimals$}"),
            ));
        }
        for (begin_ms, _) in &steps.loads {
            let at_s = *begin_ms as f64 / 1e3;
            let x = self.x(at_s);
            svg.push_str(&rule((x, self.top), (x, bottom), "stroke=\"#999\""));
            svg.push_str(&text(
                x,
                bottom + 16.0,
                "middle",
                "",
                &format!("{at_s:.0} s"),
            ));
        }
        svg
    }

    fn dots(&self, points: &[Point]) -> String {
        let mut svg = String::new();
        for (at_s, value) in points {
            let _ = writeln!(
                svg,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"1.2\" fill=\"#0072b2\" fill-opacity=\"0.5\"/>",
                self.x(*at_s),
                self.y(*value)
            );
        }
        svg
    }

    fn line(&self, points: &[Point], style: &str) -> String {
        let at = |(at_s, value): &Point| format!("{:.1},{:.1}", self.x(*at_s), self.y(*value));
        let points: Vec<String> = points.iter().map(at).collect();
        format!(
            "<polyline fill=\"none\" {style} points=\"{}\"/>\n",
            points.join(" ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::document;
    use super::*;

    #[test]
    fn everything_is_drawn() {
        let mut document = document().unwrap();
        let svg = draw(&document).unwrap();
        assert_eq!(svg.matches("<circle").count(), 300);
        assert_eq!(svg.matches("<polyline").count(), 3);
        assert!(svg.contains("objective p99 &lt; 20.0 ms"), "{svg}");
        assert!(!svg.contains("NaN"), "{svg}");
        document.steps = None;
        assert_eq!(draw(&document), None);
    }

    #[test]
    fn rates_are_differences() {
        let document = document().unwrap();
        let rates = batch_rates(document.steps.as_ref().unwrap());
        assert_eq!(rates.len(), 4);
        assert!(rates.iter().all(|(_, rate)| (rate - 2.0).abs() < 1e-9));
    }
}
