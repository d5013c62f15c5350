//! A chart of bars in groups.

use super::frame::{Entry, Frame, Rule, Words};
use super::marker::Look;
use super::palette::INK;
use super::svg::{Anchor, Area, Svg, cut, text_width};
use super::ticks::{Axis, Scale, rounded};

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
    /// Values that somebody else published: hollow.
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
        svg.open_clip(frame.plot);
        for (index, series) in self.series.iter().enumerate() {
            for (group, bar) in series.bars.iter().enumerate().take(self.groups.len()) {
                self.draw_bar(&mut svg, &frame, (index, group), bar);
            }
        }
        svg.close_clip();
        frame.finish(svg)
    }

    fn look(&self, index: usize) -> Look {
        let series = &self.series[index];
        Look::new(index, series.colour, series.published)
    }

    fn frame(&self) -> Frame<'_> {
        let entries = self.series.iter().enumerate().map(|(index, series)| Entry {
            name: &series.name,
            look: self.look(index),
            filled: true,
        });
        let words = Words {
            title: &self.title,
            note: &self.note,
            rules: &self.rules,
        };
        let zero = (self.y.scale == Scale::Linear).then_some(0.0);
        let bars = self.series.iter().flat_map(|series| &series.bars);
        let values = bars.filter(|bar| self.y.takes(bar.value)).flat_map(|bar| {
            let (low, high) = bar.interval().unwrap_or((bar.value, bar.value));
            [bar.value, low, high]
        });
        Frame::new(words, entries.collect(), &self.y, values.chain(zero))
    }

    fn draw_bar(&self, svg: &mut Svg, frame: &Frame<'_>, place: (usize, usize), bar: &Bar) {
        if !self.y.takes(bar.value) {
            return;
        }
        let (index, group) = place;
        let room = frame.plot.width / self.groups.len() as f64;
        let width = room * 0.8 / self.series.len() as f64;
        let left = frame.plot.left + (group as f64 + 0.1) * room + index as f64 * width;
        let base = match self.y.scale {
            Scale::Linear => frame.y(0.0),
            Scale::Log => frame.plot.bottom(),
        };
        // Not further than the plot, so that labels of bars that leave it stay in it.
        let clamped = |y: f64| y.clamp(frame.plot.top, frame.plot.bottom());
        let (base, end) = (clamped(base), clamped(frame.y(bar.value)));
        let area = Area {
            left: left + 0.06 * width,
            top: base.min(end),
            width: width * 0.88,
            height: (base - end).abs(),
        };
        svg.rect(area, &self.look(index).fill(), &self.tip(place, bar));
        let (mut top, middle) = (end, left + width / 2.0);
        if let Some((low, high)) = bar.interval() {
            let px = |value| match self.y.takes(value) {
                true => clamped(frame.y(value)),
                false => frame.plot.bottom(),
            };
            let (low, high) = (px(low), px(high));
            top = top.min(high);
            let h = width.min(16.0) / 4.0;
            svg.add(format_args!(
                "<path d=\"M{:.2} {low:.2}h{:.2}M{middle:.2} {low:.2}V{high:.2}M{:.2} \
                 {high:.2}h{:.2}\" fill=\"none\" stroke=\"{INK}\" stroke-width=\"1.2\"/>\n",
                middle - h,
                2.0 * h,
                middle - h,
                2.0 * h
            ));
        }
        let words = short(bar.value);
        if bar.value >= 0.0 && text_width(&words, 10.0) <= width && top - 12.0 > frame.plot.top {
            let style = format!("font-size=\"10\" fill=\"{INK}\"");
            svg.text((middle, top - 4.0), Anchor::Middle, &style, &words);
        }
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

/// A number with at most three digits that count.
fn short(value: f64) -> String {
    rounded(format!("{value:.2e}").parse().unwrap_or(value))
}
