//! What is around the data of a chart: title, legend above it, value axis, rules, a note below.

use crate::axis::{Axis, Ticks};
use crate::look::{FAINT_INK, FRAME, GRID, INK, Look};
use crate::svg::{Anchor, Area, Svg, cut, text_width, wrapped};

/// Sizes, px.
const WIDTH: f64 = 760.0;
const PLOT_HEIGHT: f64 = 300.0;
const MARGIN: f64 = 14.0;
const SIDE: f64 = 24.0;
const LEGEND_ROW: f64 = 18.0;
const SWATCH: f64 = 30.0;
const NOTE_ROW: f64 = 15.0;
const LABELS_MAX: f64 = 150.0;

/// A horizontal line across a chart, as at a service level.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Where.
    pub y: f64,
    /// Beside it.
    pub label: String,
}

/// A legend's entry.
pub(crate) struct Entry<'a> {
    pub name: &'a str,
    pub look: Look,
    pub swatch: Swatch,
}

/// What a legend shows of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Swatch {
    Line,
    Mark,
    MarkedLine,
    Bar,
}

/// The words of a chart.
pub(crate) struct Words<'a> {
    pub title: &'a str,
    pub note: &'a str,
    pub rules: &'a [Rule],
}

/// A chart without its data.
pub(crate) struct Frame<'a> {
    words: Words<'a>,
    legend: Vec<(f64, f64, String, Entry<'a>)>,
    y_label: &'a str,
    pub y: Ticks,
    /// Where the data goes.
    pub plot: Area,
}

impl<'a> Frame<'a> {
    /// Lays a chart out about its value axis.
    pub fn new(
        words: Words<'a>,
        entries: Vec<Entry<'a>>,
        axis: &'a Axis,
        values: impl Iterator<Item = f64>,
    ) -> Frame<'a> {
        let of_rules = words.rules.iter().map(|rule| rule.y);
        let y = Ticks::fit(axis, values.chain(of_rules), true);
        let widest = |words: &mut dyn Iterator<Item = &str>| {
            words
                .map(|words| text_width(words, 12.0))
                .fold(0.0, f64::max)
        };
        let ticks = widest(&mut y.marks.iter().map(|mark| mark.1.as_str()));
        let rules = widest(&mut words.rules.iter().map(|rule| rule.label.as_str()));
        let left = MARGIN + 18.0 + ticks.min(LABELS_MAX) + 8.0;
        let right = SIDE.max(rules.min(LABELS_MAX) + 10.0);
        let top = if words.title.is_empty() { 6.0 } else { 34.0 };
        let (legend, top) = lay_legend(entries, left, top);
        Frame {
            words,
            legend,
            y_label: &axis.label,
            y,
            plot: Area {
                left,
                top: top + 10.0,
                width: WIDTH - left - right,
                height: PLOT_HEIGHT,
            },
        }
    }

    /// Where a value is, px.
    pub fn y(&self, value: f64) -> f64 {
        self.plot.bottom() - self.y.part(value) * self.plot.height
    }

    /// Begins the drawing with all that lies behind the data.
    pub fn begin(&self) -> Svg {
        let notes = wrapped(self.words.note, 11.0, WIDTH - 2.0 * MARGIN);
        let height = self.plot.bottom() + 46.0 + NOTE_ROW * notes.len() as f64;
        let mut svg = Svg::new(WIDTH, height);
        let title = cut(self.words.title, 16.0, WIDTH - 2.0 * MARGIN);
        if !title.is_empty() {
            let bold = format!("font-size=\"16\" font-weight=\"bold\" fill=\"{INK}\"");
            svg.text((MARGIN, 25.0), Anchor::Start, &bold, &title);
        }
        for (index, note) in notes.iter().enumerate() {
            let y = self.plot.bottom() + 54.0 + NOTE_ROW * index as f64;
            let style = format!("font-size=\"11\" fill=\"{FAINT_INK}\"");
            svg.text((MARGIN, y), Anchor::Start, &style, note);
        }
        self.draw_legend(&mut svg);
        self.draw_values(&mut svg);
        svg
    }

    fn draw_legend(&self, svg: &mut Svg) {
        for (x, y, name, entry) in &self.legend {
            let middle = y - 4.0;
            if entry.swatch == Swatch::Bar {
                let area = Area {
                    left: x + 12.0,
                    top: middle - 5.0,
                    width: 18.0,
                    height: 10.0,
                };
                svg.rect(area, &entry.look.fill(), "");
            }
            if matches!(entry.swatch, Swatch::Line | Swatch::MarkedLine) {
                let stroke = entry.look.stroke();
                svg.line((*x, middle), (x + SWATCH, middle), &stroke);
            }
            if matches!(entry.swatch, Swatch::Mark | Swatch::MarkedLine) {
                entry.look.mark(svg, (x + SWATCH / 2.0, middle), "");
            }
            let style = format!("fill=\"{INK}\"");
            svg.text((x + SWATCH + 6.0, *y), Anchor::Start, &style, name);
        }
    }

    /// Grid, tick labels and name of the value axis, and the edge of the plot.
    fn draw_values(&self, svg: &mut Svg) {
        let (left, right) = (self.plot.left, self.plot.right());
        let (grid, ink) = (format!("stroke=\"{GRID}\""), format!("fill=\"{INK}\""));
        for (value, words) in &self.y.marks {
            let y = self.y(*value);
            svg.line((left, y), (right, y), &grid);
            svg.text((left - 7.0, y + 4.0), Anchor::End, &ink, words);
        }
        let frame = format!("fill=\"none\" stroke=\"{FRAME}\"");
        svg.rect(self.plot, &frame, "");
        let (x, y) = (MARGIN + 6.0, self.plot.top + self.plot.height / 2.0);
        let turned = format!("{ink} transform=\"rotate(-90 {x:.2} {y:.2})\"");
        let label = cut(self.y_label, 12.0, self.plot.height);
        svg.text((x, y), Anchor::Middle, &turned, &label);
    }

    /// A tick of the other axis: a line, if it is wanted, and a label.
    pub fn draw_tick(&self, svg: &mut Svg, x: f64, words: &str, with_line: bool) {
        if with_line {
            let grid = format!("stroke=\"{GRID}\"");
            svg.line((x, self.plot.top), (x, self.plot.bottom()), &grid);
        }
        let ink = format!("fill=\"{INK}\"");
        // The last label stays in the drawing.
        let x = x.min(WIDTH - 2.0 - text_width(words, 12.0) / 2.0);
        svg.text((x, self.plot.bottom() + 17.0), Anchor::Middle, &ink, words);
    }

    /// The name of the other axis.
    pub fn draw_label(&self, svg: &mut Svg, words: &str) {
        let words = cut(words, 12.0, self.plot.width);
        let place = (
            self.plot.left + self.plot.width / 2.0,
            self.plot.bottom() + 35.0,
        );
        svg.text(place, Anchor::Middle, &format!("fill=\"{INK}\""), &words);
    }

    /// Draws the lines across, above the data.
    pub fn draw_rules(&self, svg: &mut Svg) {
        let (left, right) = (self.plot.left, self.plot.right());
        for rule in self.words.rules {
            let y = self.y(rule.y);
            if !(self.plot.top - 0.5..=self.plot.bottom() + 0.5).contains(&y) {
                continue;
            }
            let dotted = format!("stroke=\"{INK}\" stroke-dasharray=\"2 3\"");
            svg.line((left, y), (right, y), &dotted);
            let label = cut(&rule.label, 12.0, LABELS_MAX);
            let style = format!("fill=\"{INK}\"");
            svg.text((right + 5.0, y + 4.0), Anchor::Start, &style, &label);
        }
    }
}

/// Places entries in rows, px: x, baseline, and the name as far as it fits. Also where they end.
fn lay_legend<'a>(
    entries: Vec<Entry<'a>>,
    left: f64,
    top: f64,
) -> (Vec<(f64, f64, String, Entry<'a>)>, f64) {
    let (mut x, mut y) = (left, top + 12.0);
    let mut placed = Vec::new();
    let one = entries.len() == 1 && entries.iter().all(|entry| entry.name.is_empty());
    for entry in entries.into_iter().filter(|_| !one) {
        let name = cut(entry.name, 12.0, WIDTH - left - MARGIN - SWATCH);
        let width = SWATCH + 6.0 + text_width(&name, 12.0);
        if x > left && x + width > WIDTH - MARGIN {
            (x, y) = (left, y + LEGEND_ROW);
        }
        placed.push((x, y, name, entry));
        x += width + 20.0;
    }
    let end = if placed.is_empty() { top } else { y + 6.0 };
    (placed, end)
}
