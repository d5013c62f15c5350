//! The steps of the load as a drawing: latency, what batch does, and the budget, over time.

use super::{Document, Steps};
use sidelane_draw::{Anchor, Axis, BLUE, FRAME, GRID, INK, Svg, Ticks, VERMILION};
use sidelane_smt::latency::Summary;

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
    let height = TOP + 3.0 * (PANEL + GAP);
    let mut svg = Svg::new(LEFT + WIDTH + 30.0, height).coarse();
    let bold = "font-size=\"17\" font-weight=\"bold\"";
    svg.text((LEFT, 26.0), Anchor::Start, bold, &title(document, steps));
    let panel = |number: u32, name: &str, points: &[Point], least: f64| {
        let values = points.iter().map(|point| point.1);
        Panel {
            top: TOP + f64::from(number) * (PANEL + GAP),
            end_s: end_s(steps),
            values: Ticks::fit(&Axis::linear(name), values.chain([0.0, least]), true),
        }
    };
    let objective_ms = steps.objective_ns as f64 / 1e6;
    let requests = latencies(steps);
    let latency = panel(0, "latency, ms", &requests, objective_ms);
    latency.draw_axes(&mut svg, "latency, ms", steps);
    latency.draw_dots(&mut svg, &requests);
    latency.draw_line(&mut svg, &percentiles(steps), VERMILION, 2.5);
    let (y, dashed) = (
        latency.y(objective_ms),
        format!("stroke=\"{INK}\" stroke-dasharray=\"6 4\""),
    );
    svg.line((LEFT, y), (LEFT + WIDTH, y), &dashed);
    let others = [
        ("batch, MB/s", batch_rates(steps)),
        ("budget, ms", budgets(steps)),
    ];
    for ((name, points), number) in others.iter().zip(1..) {
        let panel = panel(number, name, points, 0.0);
        panel.draw_axes(&mut svg, name, steps);
        panel.draw_line(&mut svg, points, BLUE, 2.0);
    }
    Some(svg.finish())
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

/// A panel's place and its axes.
struct Panel {
    top: f64,
    end_s: f64,
    values: Ticks,
}

impl Panel {
    fn x(&self, at_s: f64) -> f64 {
        LEFT + at_s / self.end_s * WIDTH
    }

    fn y(&self, value: f64) -> f64 {
        self.top + PANEL * (1.0 - self.values.part(value).clamp(0.0, 1.0))
    }

    /// Its name, grid and tick labels, and when the load changed.
    fn draw_axes(&self, svg: &mut Svg, name: &str, steps: &Steps) {
        let (bottom, right) = (self.top + PANEL, LEFT + WIDTH);
        let bold = "font-weight=\"bold\"";
        svg.text((LEFT, self.top - 8.0), Anchor::Start, bold, name);
        let grid = format!("stroke=\"{GRID}\"");
        for (value, words) in &self.values.marks {
            let y = self.y(*value);
            svg.line((LEFT, y), (right, y), &grid);
            svg.text((LEFT - 6.0, y + 4.0), Anchor::End, "", words);
        }
        let frame = format!("stroke=\"{FRAME}\"");
        svg.line((LEFT, bottom), (right, bottom), &frame);
        for (begin_ms, _) in &steps.loads {
            let at_s = *begin_ms as f64 / 1e3;
            let x = self.x(at_s);
            svg.line((x, self.top), (x, bottom), &frame);
            let place = (x, bottom + 16.0);
            svg.text(place, Anchor::Middle, "", &format!("{at_s:.0} s"));
        }
    }

    fn draw_dots(&self, svg: &mut Svg, points: &[Point]) {
        let style = format!("fill=\"{BLUE}\" fill-opacity=\"0.5\"");
        for (at_s, value) in points {
            svg.circle((self.x(*at_s), self.y(*value)), 1.2, &style);
        }
    }

    fn draw_line(&self, svg: &mut Svg, points: &[Point], colour: &str, width: f64) {
        let points = points
            .iter()
            .map(|(at_s, value)| (self.x(*at_s), self.y(*value)));
        svg.polyline(
            points,
            &format!("stroke=\"{colour}\" stroke-width=\"{width}\""),
        );
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
