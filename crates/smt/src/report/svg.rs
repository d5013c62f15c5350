//! Figures of a report.

use super::{Point, Report};
use std::fmt::Write;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 20.0;
/// Height of a line plot, without its axis.
const PLOT: f64 = 160.0;
/// Height of a core's bar.
const BAR: f64 = 18.0;

/// Fill of a density: idle is light, all lanes busy is dark.
fn shade(index: usize, densities: usize) -> String {
    let lightness = 92.0 - 57.0 * index as f64 / (densities.max(2) - 1) as f64;
    format!("hsl(210,45%,{lightness:.0}%)")
}

fn text(x: f64, y: f64, anchor: &str, words: &str) -> String {
    let words = super::escape::escaped(words);
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>\n")
}

fn document(height: f64, elements: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n{elements}</svg>\n"
    )
}

/// Share of the time with no lane busy, one, two, ... of each core: a bar a core.
pub(super) fn densities(report: &Report) -> String {
    let scale = (WIDTH - LEFT - RIGHT).max(1.0);
    let most = report.cores.iter().map(|core| core.densities.len()).max();
    let mut elements = String::new();
    for (index, _) in (0..most.unwrap_or(0)).enumerate() {
        let x = LEFT + 90.0 * index as f64;
        let fill = shade(index, most.unwrap_or(0));
        let _ = writeln!(
            elements,
            "<rect x=\"{x:.1}\" y=\"4\" width=\"12\" height=\"12\" fill=\"{fill}\"/>"
        );
        elements += &text(x + 18.0, 15.0, "start", &format!("{index} lanes"));
    }
    for (row, core) in report.cores.iter().enumerate() {
        let y = 26.0 + row as f64 * (BAR + 4.0);
        elements += &text(LEFT - 8.0, y + 13.0, "end", &format!("core {}", core.core));
        let mut x = LEFT;
        for (index, share) in core.densities.iter().enumerate() {
            let width = share * scale;
            let fill = shade(index, core.densities.len());
            let _ = writeln!(
                elements,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\" \
                 fill=\"{fill}\"/>"
            );
            x += width;
        }
    }
    document(30.0 + report.cores.len() as f64 * (BAR + 4.0), &elements)
}

/// A metric over time. Without a value, or where intervals are missing, the line is broken.
pub(super) fn over_time(
    report: &Report,
    name: &str,
    most: f64,
    of: fn(&Point) -> Option<f64>,
) -> String {
    let end = report
        .series
        .last()
        .map_or(1.0, |point| point.to_s)
        .max(1e-9);
    let x = |at_s: f64| LEFT + at_s / end * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| 22.0 + PLOT * (1.0 - (value / most).clamp(0.0, 1.0));
    let mut elements = text(LEFT, 14.0, "start", name);
    for part in 0..=4u8 {
        let value = most * f64::from(part) / 4.0;
        let at = y(value);
        let _ = writeln!(
            elements,
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>",
            WIDTH - RIGHT
        );
        elements += &text(LEFT - 8.0, at + 4.0, "end", &format!("{value:.2}"));
    }
    let mut path = String::new();
    let mut last_s = None;
    for point in &report.series {
        let Some(value) = of(point) else {
            last_s = None;
            continue;
        };
        let joined = last_s.is_some_and(|last: f64| (last - point.from_s).abs() < 1e-6);
        let verb = if joined { 'L' } else { 'M' };
        let (from, to, at) = (x(point.from_s), x(point.to_s), y(value));
        let _ = write!(path, "{verb}{from:.1} {at:.1}L{to:.1} {at:.1}");
        last_s = Some(point.to_s);
    }
    let _ = writeln!(
        elements,
        "<path d=\"{path}\" fill=\"none\" stroke=\"hsl(210,60%,40%)\" stroke-width=\"1.5\"/>"
    );
    elements += &text(WIDTH - RIGHT, PLOT + 40.0, "end", &format!("{end:.1} s"));
    elements += &text(LEFT, PLOT + 40.0, "start", "0");
    document(PLOT + 48.0, &elements)
}
