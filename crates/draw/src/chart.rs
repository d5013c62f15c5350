//! A chart of lines, steps and points, with their uncertainty.

use crate::axis::{Axis, Ticks, rounded};
use crate::frame::{Entry, Frame, Rule, Swatch, Words};
use crate::look::Look;
use crate::svg::{Area, Svg, text_width};
use std::fmt::Write;

/// Markers of longer series would run together.
const MARKERS: usize = 60;
/// What is nearer to the last point is not seen, px.
const NEAR: f64 = 0.25;
/// Markers and lines at the edge of the plot are seen whole, px.
const EDGE: f64 = 6.0;

/// A point of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Along.
    pub x: f64,
    /// Up. A value that the axis cannot take leaves a gap.
    pub y: f64,
    /// Half the width of the interval about y; 0, or not finite: none.
    pub half_width: f64,
}

impl Point {
    /// A point of which nothing is uncertain.
    pub fn new(x: f64, y: f64) -> Point {
        Point {
            x,
            y,
            half_width: 0.0,
        }
    }

    /// The same with an interval about y.
    pub fn plus_minus(self, half_width: f64) -> Point {
        Point { half_width, ..self }
    }

    /// The ends of the interval, if there is one.
    fn interval(&self) -> Option<(f64, f64)> {
        let wide = self.half_width.is_finite() && self.half_width > 0.0;
        wide.then_some((self.y - self.half_width, self.y + self.half_width))
    }
}

/// How points are joined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Style {
    /// By straight lines, in their order.
    #[default]
    Line,
    /// Each holds until the next.
    Steps,
    /// Not at all.
    Points,
}

/// How intervals are drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Spread {
    /// A bar at each point.
    #[default]
    Bars,
    /// A band along the line.
    Band,
}

/// A series of a chart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// In the legend.
    pub name: String,
    /// In the order in which they are joined.
    pub points: Vec<Point>,
    /// How they are joined.
    pub style: Style,
    /// How their intervals are drawn.
    pub spread: Spread,
    /// Published values: dashed, with hollow markers.
    pub published: bool,
    /// Index of its colour; none: its place among the series. What belongs together, as a published
    /// series and its reproduction, can have one colour.
    pub colour: Option<usize>,
}

impl Series {
    /// Points that are joined by lines.
    pub fn new(name: impl Into<String>, points: Vec<Point>) -> Series {
        Series {
            name: name.into(),
            points,
            ..Series::default()
        }
    }

    /// The same as values that were published, in the colour of another series.
    pub fn published(self, colour: Option<usize>) -> Series {
        Series {
            published: true,
            colour,
            ..self
        }
    }

    /// The share of samples that are at most x. Samples that are not finite do not count.
    pub fn cdf(name: impl Into<String>, samples: &[f64]) -> Series {
        Series::shares(name, samples, |at_most| at_most)
    }

    /// The share of samples that are above x, for a logarithmic axis that shows the tail.
    pub fn tail(name: impl Into<String>, samples: &[f64]) -> Series {
        Series::shares(name, samples, |at_most| 1.0 - at_most)
    }

    fn shares(name: impl Into<String>, samples: &[f64], share: impl Fn(f64) -> f64) -> Series {
        let mut sorted: Vec<f64> = samples.iter().copied().filter(|x| x.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let mut points: Vec<Point> = Vec::new();
        if let Some(&least) = sorted.first() {
            points.push(Point::new(least, share(0.0)));
        }
        for (index, &x) in sorted.iter().enumerate() {
            let is_last = sorted.get(index + 1) != Some(&x);
            if is_last {
                let at_most = (index + 1) as f64 / sorted.len() as f64;
                points.push(Point::new(x, share(at_most)));
            }
        }
        Series {
            style: Style::Steps,
            ..Series::new(name, points)
        }
    }
}

/// A chart: series over two axes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chart {
    /// Above it.
    pub title: String,
    /// Below it; may be empty.
    pub note: String,
    /// From left to right.
    pub x: Axis,
    /// From below.
    pub y: Axis,
    /// What it shows; later ones lie above earlier ones.
    pub series: Vec<Series>,
    /// Horizontal lines.
    pub rules: Vec<Rule>,
}

impl Chart {
    /// A chart without data yet.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Chart {
        Chart {
            title: title.into(),
            x,
            y,
            ..Chart::default()
        }
    }

    /// Draws it as an SVG document.
    pub fn draw(&self) -> String {
        let (xs, frame) = self.lay_out();
        let canvas = Canvas {
            chart: self,
            frame: &frame,
            xs: &xs,
        };
        let mut svg = frame.begin();
        canvas.draw_ticks(&mut svg);
        frame.draw_label(&mut svg, &self.x.label);
        let plot = frame.plot;
        svg.open_clip(Area {
            left: plot.left - EDGE,
            top: plot.top - EDGE,
            width: plot.width + 2.0 * EDGE,
            height: plot.height + 2.0 * EDGE,
        });
        let looks = || self.looks().zip(&self.series);
        looks().for_each(|(look, series)| canvas.draw_band(&mut svg, look, series));
        looks().for_each(|(look, series)| canvas.draw_line(&mut svg, look, series));
        looks().for_each(|(look, series)| canvas.draw_points(&mut svg, look, series));
        svg.close_clip();
        frame.draw_rules(&mut svg);
        svg.finish()
    }

    fn looks(&self) -> impl Iterator<Item = Look> {
        let series = self.series.iter().enumerate();
        series.map(|(index, series)| Look::new(index, series.colour, series.published))
    }

    fn takes(&self, point: &Point) -> bool {
        self.x.takes(point.x) && self.y.takes(point.y)
    }

    fn lay_out(&self) -> (Ticks, Frame<'_>) {
        let shown = || {
            let points = self.series.iter().flat_map(|series| &series.points);
            points.filter(|point| self.takes(point))
        };
        let xs = Ticks::fit(&self.x, shown().map(|point| point.x), false);
        let ys = shown().flat_map(|point| {
            let (low, high) = point.interval().unwrap_or((point.y, point.y));
            [point.y, low, high]
        });
        let looks = self.looks().zip(&self.series);
        let entries = looks.map(|(look, series)| Entry {
            name: &series.name,
            look,
            swatch: match series.style {
                Style::Line => Swatch::MarkedLine,
                Style::Steps => Swatch::Line,
                Style::Points => Swatch::Mark,
            },
        });
        let words = Words {
            title: &self.title,
            note: &self.note,
            rules: &self.rules,
        };
        let frame = Frame::new(words, entries.collect(), &self.y, ys);
        (xs, frame)
    }
}

struct Canvas<'a> {
    chart: &'a Chart,
    frame: &'a Frame<'a>,
    xs: &'a Ticks,
}

impl Canvas<'_> {
    /// Where a point is, px, if it has a place.
    fn place(&self, point: &Point) -> Option<(f64, f64)> {
        let plot = &self.frame.plot;
        let x = plot.left + self.xs.part(point.x) * plot.width;
        let takes = self.chart.takes(point);
        takes.then(|| (inside(x), inside(self.frame.y(point.y))))
    }

    /// The interval of a point, px, from its low to its high end.
    fn interval(&self, point: &Point) -> Option<(f64, f64)> {
        let (low, high) = point.interval()?;
        // On a logarithmic axis an interval may reach below everything.
        let axis = &self.chart.y;
        let low_px = match axis.takes(low) {
            true => self.frame.y(low),
            false => self.frame.plot.bottom() + EDGE,
        };
        let takes = axis.takes(point.y) && axis.takes(high);
        takes.then(|| (inside(low_px), inside(self.frame.y(high))))
    }

    /// Labels that would touch the one before are left out; their lines stay.
    fn draw_ticks(&self, svg: &mut Svg) {
        let mut free = f64::NEG_INFINITY;
        for (value, words) in &self.xs.marks {
            let x = self.frame.plot.left + self.xs.part(*value) * self.frame.plot.width;
            let half = text_width(words, 12.0) / 2.0;
            let fits = x - half > free;
            if fits {
                free = x + half + 4.0;
            }
            self.frame
                .draw_tick(svg, x, if fits { words } else { "" }, true);
        }
    }

    fn draw_band(&self, svg: &mut Svg, look: Look, series: &Series) {
        if series.spread != Spread::Band {
            return;
        }
        for part in self.parts(series) {
            let (mut lower, mut upper) = (Outline::default(), Outline::default());
            for (point, (x, y)) in part {
                let (low, high) = self.interval(point).unwrap_or((y, y));
                upper.go((x, high), series.style);
                lower.go((x, low), series.style);
            }
            // Back along the lower edge.
            let back = lower.corners.iter().rev();
            let mut path = upper.path();
            for (x, y) in back {
                let _ = write!(path, "L{x:.2} {y:.2}");
            }
            let colour = look.colour;
            svg.add(format_args!(
                "<path d=\"{path}z\" fill=\"{colour}\" fill-opacity=\"0.18\"/>\n"
            ));
        }
    }

    fn draw_line(&self, svg: &mut Svg, look: Look, series: &Series) {
        if series.style == Style::Points {
            return;
        }
        for part in self.parts(series).into_iter().filter(|part| part.len() > 1) {
            let mut outline = Outline::default();
            for (_, place) in part {
                outline.go(place, series.style);
            }
            let (path, stroke) = (outline.path(), look.stroke());
            svg.add(format_args!(
                "<path d=\"{path}\" {stroke} stroke-linejoin=\"round\"/>\n"
            ));
        }
    }

    fn draw_points(&self, svg: &mut Svg, look: Look, series: &Series) {
        let parts = self.parts(series);
        let count: usize = parts.iter().map(Vec::len).sum();
        let steps = series.style == Style::Steps;
        for part in parts {
            let marked = series.style == Style::Points || part.len() == 1;
            for (point, place) in &part {
                if series.spread == Spread::Bars {
                    self.draw_interval(svg, look, point, place.0);
                }
                if marked || (!steps && count <= MARKERS) {
                    look.mark(svg, *place, &tip(series, point));
                }
            }
        }
    }

    fn draw_interval(&self, svg: &mut Svg, look: Look, point: &Point, x: f64) {
        let Some((low, high)) = self.interval(point) else {
            return;
        };
        let colour = look.colour;
        svg.add(format_args!(
            "<path d=\"M{:.2} {low:.2}h8M{x:.2} {low:.2}V{high:.2}M{:.2} {high:.2}h8\" \
             fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.2\"/>\n",
            x - 4.0,
            x - 4.0
        ));
    }

    /// The points that have a place, cut where one has none.
    fn parts<'p>(&self, series: &'p Series) -> Vec<Vec<(&'p Point, (f64, f64))>> {
        let mut parts = vec![Vec::new()];
        for point in &series.points {
            match (self.place(point), parts.last_mut()) {
                (Some(place), Some(part)) => part.push((point, place)),
                _ => parts.push(Vec::new()),
            }
        }
        parts.retain(|part| !part.is_empty());
        parts
    }
}

/// Corners of a line that can be told apart.
#[derive(Default)]
struct Outline {
    corners: Vec<(f64, f64)>,
    /// The last point, also if it is not a corner.
    last: Option<(f64, f64)>,
}

impl Outline {
    fn go(&mut self, to: (f64, f64), style: Style) {
        if let Some(last) = self.last.filter(|_| style == Style::Steps) {
            self.corner((to.0, last.1));
        }
        self.corner(to);
        self.last = Some(to);
    }

    fn corner(&mut self, to: (f64, f64)) {
        let near = |at: &(f64, f64)| (at.0 - to.0).abs() < NEAR && (at.1 - to.1).abs() < NEAR;
        if !self.corners.last().is_some_and(near) {
            self.corners.push(to);
        }
    }

    fn path(&self) -> String {
        let mut path = String::new();
        for (index, (x, y)) in self.corners.iter().enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{command}{x:.2} {y:.2}");
        }
        path
    }
}

/// Viewers lose their way in huge coordinates.
fn inside(px: f64) -> f64 {
    px.clamp(-1e5, 1e5)
}

fn tip(series: &Series, point: &Point) -> String {
    let (x, y) = (rounded(point.x), rounded(point.y));
    let interval = match point.interval() {
        Some(_) => format!(" ± {}", rounded(point.half_width)),
        None => String::new(),
    };
    format!("{}\n{x}: {y}{interval}", series.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_step_at_each_value() {
        let samples = [3.0, f64::NAN, 1.0, 3.0, 2.0, f64::INFINITY];
        let of = |series: Series| -> Vec<(f64, f64)> {
            series
                .points
                .iter()
                .map(|point| (point.x, point.y))
                .collect()
        };
        assert_eq!(
            of(Series::cdf("", &samples)),
            [(1.0, 0.0), (1.0, 0.25), (2.0, 0.5), (3.0, 1.0)]
        );
        assert_eq!(of(Series::tail("", &samples))[3], (3.0, 0.0));
        assert!(Series::cdf("", &[]).points.is_empty());
    }

    #[test]
    fn only_finite_intervals_count() {
        let interval = |half_width| Point::new(1.0, 5.0).plus_minus(half_width).interval();
        assert_eq!(interval(2.0), Some((3.0, 7.0)));
        for none in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(interval(none), None);
        }
    }
}
