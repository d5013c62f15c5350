//! A chart of bars in groups.

use crate::axis::{Axis, Scale, rounded};
use crate::frame::{Entry, Frame, Rule, Swatch, Words};
use crate::look::{INK, Look};
use crate::svg::{Anchor, Area, Svg, cut, text_width};

/// Readable also on a line.
const LABEL: &str = "font-size=\"10\" fill=\"#222222\" stroke=\"#ffffff\" stroke-width=\"3\" \
                     paint-order=\"stroke\"";

/// A bar.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// How high. A value that the axis cannot take leaves a gap.
    pub value: f64,
    /// Half the width of the interval about it; 0, or not finite: none.
    pub half_width: f64,
}

/// A bar for each group.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BarSeries {
    /// In the legend.
    pub name: String,
    /// In the order of the groups; those that are missing leave a gap.
    pub bars: Vec<Bar>,
    /// Published values: hollow.
    pub published: bool,
    /// Index of its colour; none: its place among the series.
    pub colour: Option<usize>,
}

/// Bars side by side in groups. They begin at 0, or at the low end of a logarithmic axis.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BarChart {
    /// Above it.
    pub title: String,
    /// Below it; may be empty.
    pub note: String,
    /// What the groups are.
    pub groups_label: String,
    /// Names of the groups.
    pub groups: Vec<String>,
    /// From below.
    pub y: Axis,
    /// What it shows, from left to right in each group.
    pub series: Vec<BarSeries>,
    /// Horizontal lines.
    pub rules: Vec<Rule>,
}

impl BarChart {
    /// Draws it as an SVG document.
    pub fn draw(&self) -> String {
        let frame = self.frame();
        let mut svg = frame.begin();
        let room = frame.plot.width / self.groups.len().max(1) as f64;
        for (index, group) in self.groups.iter().enumerate() {
            let middle = frame.plot.left + (index as f64 + 0.5) * room;
            frame.draw_tick(&mut svg, middle, &cut(group, 12.0, room - 6.0), false);
        }
        frame.draw_label(&mut svg, &self.groups_label);
        let mut labels = Vec::new();
        for (index, series) in self.series.iter().enumerate() {
            for (group, bar) in series.bars.iter().enumerate().take(self.groups.len()) {
                if self.y.takes(bar.value) {
                    labels.extend(self.draw_bar(&mut svg, &frame, (index, group), bar));
                }
            }
        }
        frame.draw_rules(&mut svg);
        for (place, words) in labels {
            svg.text(place, Anchor::Middle, LABEL, &words);
        }
        svg.finish()
    }

    fn look(&self, index: usize) -> Look {
        let series = &self.series[index];
        Look::new(index, series.colour, series.published)
    }

    fn frame(&self) -> Frame<'_> {
        let entries = self.series.iter().enumerate().map(|(index, series)| Entry {
            name: &series.name,
            look: self.look(index),
            swatch: Swatch::Bar,
        });
        let words = Words {
            title: &self.title,
            note: &self.note,
            rules: &self.rules,
        };
        let bars = self.series.iter().flat_map(|series| &series.bars);
        let values = bars.filter(|bar| self.y.takes(bar.value)).flat_map(|bar| {
            let (low, high) = bar.interval().unwrap_or((bar.value, bar.value));
            // Where the smallest bar begins.
            let base = match self.y.scale {
                Scale::Linear => 0.0,
                Scale::Log => bar.value / 2.0,
            };
            [bar.value, low, high, base]
        });
        Frame::new(words, entries.collect(), &self.y, values)
    }

    /// Draws a bar; returns its label and where that belongs, if there is room for it.
    fn draw_bar(
        &self,
        svg: &mut Svg,
        frame: &Frame<'_>,
        (index, group): (usize, usize),
        bar: &Bar,
    ) -> Option<((f64, f64), String)> {
        let plot = &frame.plot;
        let room = plot.width / self.groups.len() as f64;
        let width = room * 0.8 / self.series.len() as f64;
        let left = plot.left + (group as f64 + 0.1) * room + index as f64 * width;
        // What leaves the plot ends at its edge.
        let px = |value| match self.y.takes(value) {
            true => frame.y(value).clamp(plot.top, plot.bottom()),
            false => plot.bottom(),
        };
        let (base, end) = (px(0.0), px(bar.value));
        let area = Area {
            left: left + 0.06 * width,
            top: base.min(end),
            width: width * 0.88,
            height: (base - end).abs(),
        };
        let tip = self.tip((index, group), bar);
        svg.rect(area, &self.look(index).fill(), &tip);
        let (mut top, middle) = (end, left + width / 2.0);
        if let Some((low, high)) = bar.interval() {
            draw_interval(svg, (middle, px(low), px(high)), width.min(16.0) / 4.0);
            top = top.min(px(high));
        }
        let words = short(bar.value);
        let fits = text_width(&words, 10.0) <= width && top - 12.0 > plot.top;
        (fits && bar.value >= 0.0).then_some(((middle, top - 4.0), words))
    }

    fn tip(&self, (index, group): (usize, usize), bar: &Bar) -> String {
        let interval = match bar.interval() {
            Some(_) => format!(" ± {}", rounded(bar.half_width)),
            None => String::new(),
        };
        let (series, group) = (&self.series[index].name, &self.groups[group]);
        format!("{series}, {group}\n{}{interval}", rounded(bar.value))
    }
}

impl Bar {
    /// A bar of which nothing is uncertain.
    pub fn new(value: f64) -> Bar {
        Bar {
            value,
            half_width: 0.0,
        }
    }

    fn interval(&self) -> Option<(f64, f64)> {
        let wide = self.half_width.is_finite() && self.half_width > 0.0;
        wide.then_some((self.value - self.half_width, self.value + self.half_width))
    }
}

/// Draws an interval at x from its low to its high end, px.
fn draw_interval(svg: &mut Svg, (x, low, high): (f64, f64, f64), half_width: f64) {
    let (left, width) = (x - half_width, 2.0 * half_width);
    svg.add(format_args!(
        "<path d=\"M{left:.2} {low:.2}h{width:.2}M{x:.2} {low:.2}V{high:.2}M{left:.2} \
         {high:.2}h{width:.2}\" fill=\"none\" stroke=\"{INK}\" stroke-width=\"1.2\"/>\n"
    ));
}

/// A number with at most three digits that count.
fn short(value: f64) -> String {
    rounded(format!("{value:.2e}").parse().unwrap_or(value))
}
