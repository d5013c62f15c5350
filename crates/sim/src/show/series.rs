//! What a chart shows: points with their uncertainty.

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
    pub(super) fn interval(&self) -> Option<(f64, f64)> {
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
    /// Values that somebody else published: dashed, with hollow markers.
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
