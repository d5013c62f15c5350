//! Axes of charts: what they span, and round ticks.

/// How an axis is divided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps.
    #[default]
    Linear,
    /// Equal factors; what is not above 0 has no place.
    Log,
}

/// An axis of a chart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Axis {
    /// What it shows, with the unit.
    pub label: String,
    /// How it is divided.
    pub scale: Scale,
    /// What it spans; none, or a range that is none: all of the data, and 0 if that is near enough.
    pub range: Option<(f64, f64)>,
}

impl Axis {
    /// Equal steps, as long as the data.
    pub fn linear(label: impl Into<String>) -> Axis {
        Axis {
            label: label.into(),
            ..Axis::default()
        }
    }

    /// Equal factors, as long as the data.
    pub fn log(label: impl Into<String>) -> Axis {
        Axis {
            scale: Scale::Log,
            ..Axis::linear(label)
        }
    }

    /// The same with a fixed range; what lies outside is not seen.
    pub fn between(self, low: f64, high: f64) -> Axis {
        Axis {
            range: Some((low, high)),
            ..self
        }
    }

    /// Whether a value has a place on some axis of this kind.
    pub(super) fn takes(&self, value: f64) -> bool {
        // Beyond, differences and steps would overflow.
        let sound = value == 0.0 || (1e-300..=1e300).contains(&value.abs());
        sound && (self.scale == Scale::Linear || value > 0.0)
    }
}

/// An axis that fits its data.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ticks {
    scale: Scale,
    pub low: f64,
    pub high: f64,
    /// Where ticks are, and what they say.
    pub marks: Vec<(f64, String)>,
}

impl Ticks {
    /// Fits an axis to values that it takes. Its ends are ticks if it is to be rounded out.
    pub fn fit(axis: &Axis, values: impl Iterator<Item = f64>, round_out: bool) -> Ticks {
        let fixed = axis
            .range
            .filter(|&(low, high)| low < high && axis.takes(low) && axis.takes(high));
        let data =
            values
                .filter(|&value| axis.takes(value))
                .fold(None, |range, value| match range {
                    None => Some((value, value)),
                    Some((low, high)) => Some((value.min(low), value.max(high))),
                });
        let (low, high) = match (fixed, axis.scale) {
            (Some(range), _) => range,
            (None, Scale::Linear) => linear_range(data),
            (None, Scale::Log) => log_range(data),
        };
        let mut ticks = Ticks {
            scale: axis.scale,
            low,
            high,
            marks: Vec::new(),
        };
        match axis.scale {
            Scale::Linear => ticks.mark_linear(round_out && fixed.is_none()),
            Scale::Log => ticks.mark_log(),
        }
        ticks
    }

    /// Where a value is on the way from the low end, 0, to the high end, 1.
    pub fn part(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => {
                let low = libm::log10(self.low);
                (libm::log10(value) - low) / (libm::log10(self.high) - low)
            }
        }
    }

    fn mark_linear(&mut self, round_out: bool) {
        const AT_MOST: f64 = 8.0;
        let (factor, exponent) = step((self.high - self.low) / AT_MOST);
        let step = decimal(factor, exponent);
        // What rounding lost must not cost the first or last tick.
        let slack = 1e-9;
        let (first, last) = if round_out {
            let first = (self.low / step + slack).floor() as i64;
            let last = (self.high / step - slack).ceil() as i64;
            self.low = decimal(first * factor, exponent);
            self.high = decimal(last * factor, exponent);
            (first, last)
        } else {
            let first = (self.low / step - slack).ceil() as i64;
            (first, (self.high / step + slack).floor() as i64)
        };
        let plain = self.low.abs().max(self.high.abs()) < 1e7 && exponent >= -6;
        for index in first..=last {
            let value = decimal(index * factor, exponent);
            let words = match plain {
                true => format!("{value:.*}", exponent.min(0).unsigned_abs() as usize),
                false => number(value),
            };
            self.marks.push((value, words));
        }
    }

    fn mark_log(&mut self) {
        let (first, last) = (exponent(self.low), exponent(self.high));
        let decades = last - first;
        let factors: &[i64] = match decades {
            ..=0 => &[1, 2, 3, 4, 5, 6, 7, 8, 9],
            1..=2 => &[1, 2, 5],
            _ => &[1],
        };
        let every = (decades / 8 + 1) as usize;
        for exponent in (first..=last).step_by(every) {
            for value in factors.iter().map(|&factor| decimal(factor, exponent)) {
                if (self.low..=self.high).contains(&value) {
                    self.marks.push((value, number(value)));
                }
            }
        }
    }
}

/// The data; from 0 if that does not waste most of the axis; something if there is nothing.
fn linear_range(data: Option<(f64, f64)>) -> (f64, f64) {
    let Some((low, high)) = data else {
        return (0.0, 1.0);
    };
    let low = if low > 0.0 && low < 0.6 * high {
        0.0
    } else {
        low
    };
    let size = low.abs().max(high.abs());
    if high - low > size * 1e-9 {
        (low, high)
    } else if size > 0.0 {
        (low - 0.1 * size, high + 0.1 * size)
    } else {
        (0.0, 1.0)
    }
}

/// The data, rounded out to one, two or five times a power of ten.
fn log_range(data: Option<(f64, f64)>) -> (f64, f64) {
    let (low, high) = data.unwrap_or((1.0, 10.0));
    let low = round_number(low, |round| round <= low * (1.0 + 1e-9), true);
    let high = round_number(high, |round| round >= high * (1.0 - 1e-9), false);
    if low < high {
        (low, high)
    } else {
        (low / 2.0, high * 2.0)
    }
}

/// The last or first of the round numbers about a value for which something holds.
fn round_number(value: f64, holds: impl Fn(f64) -> bool, last: bool) -> f64 {
    let exponent = exponent(value);
    let exponents = exponent - 1..=exponent + 1;
    let mut round = exponents
        .flat_map(|exponent| [1, 2, 5].map(|factor| decimal(factor, exponent)))
        .filter(|&round| holds(round));
    let found = if last { round.last() } else { round.next() };
    found.unwrap_or(value)
}

/// The power of ten at or below a value above 0.
fn exponent(value: f64) -> i32 {
    let exponent = libm::floor(libm::log10(value)) as i32;
    // The logarithm of a power of ten may be a little less than whole.
    exponent + i32::from(decimal(1, exponent + 1) <= value)
}

/// The smallest of 1, 2 or 5 times a power of ten that is not smaller, as factor and exponent.
fn step(size: f64) -> (i64, i32) {
    let exponent = exponent(size);
    let fits = |factor: &i64| decimal(*factor, exponent) >= size * (1.0 - 1e-9);
    match [1, 2, 5].into_iter().find(fits) {
        Some(factor) => (factor, exponent),
        None => (1, exponent + 1),
    }
}

/// A decimal number as near as can be: products would print as 0.30000000000000004.
fn decimal(digits: i64, exponent: i32) -> f64 {
    format!("{digits}e{exponent}").parse().unwrap_or(0.0)
}

/// A number in its shortest form.
fn number(value: f64) -> String {
    let plain = value == 0.0 || (1e-4..1e7).contains(&value.abs());
    match plain {
        true => format!("{value}"),
        false => format!("{value:e}"),
    }
}

/// A number with at most six digits that count.
pub(super) fn rounded(value: f64) -> String {
    number(format!("{value:.5e}").parse().unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(axis: &Axis, values: &[f64], round_out: bool) -> Vec<String> {
        let ticks = Ticks::fit(axis, values.iter().copied(), round_out);
        ticks.marks.into_iter().map(|mark| mark.1).collect()
    }

    #[test]
    fn linear_ticks_are_round() {
        let linear = Axis::linear("");
        assert_eq!(
            words(&linear, &[0.11, 0.87], true),
            ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
        );
        assert_eq!(
            words(&linear, &[-30.0, 95.0], false),
            ["-20", "0", "20", "40", "60", "80"]
        );
        assert_eq!(words(&linear, &[97.0, 99.0], false)[0], "97.0");
        assert_eq!(words(&linear, &[0.0, 6e8], true)[1], "1e8");
    }

    #[test]
    fn log_ticks_are_round() {
        let log = Axis::log("");
        assert_eq!(
            words(&log, &[3.0, 40.0], true),
            ["2", "5", "10", "20", "50"]
        );
        assert_eq!(
            words(&log, &[0.001, 100.0], true),
            ["0.001", "0.01", "0.1", "1", "10", "100"]
        );
        assert_eq!(words(&log, &[3.0, 4.0], true), ["2", "3", "4", "5"]);
        assert!(words(&log, &[1e-300, 1e300], true).len() < 12);
        let ticks = Ticks::fit(&log, [1.0, 100.0].into_iter(), true);
        assert_eq!(ticks.part(10.0), 0.5);
    }

    #[test]
    fn odd_data_has_an_axis() {
        let odd: [&[f64]; 8] = [
            &[],
            &[0.0],
            &[5.0],
            &[-1e-9],
            &[f64::NAN, f64::INFINITY],
            &[f64::MAX, f64::MIN_POSITIVE],
            &[-1e300, 1e300],
            &[1e-300, 2e-300],
        ];
        for axis in [Axis::linear(""), Axis::log("")] {
            for data in odd {
                for round_out in [false, true] {
                    let ticks = Ticks::fit(&axis, data.iter().copied(), round_out);
                    let marks = ticks.marks.len();
                    assert!((1..20).contains(&marks), "{axis:?} {data:?} {ticks:?}");
                    assert!(ticks.low < ticks.high, "{data:?} {ticks:?}");
                    assert_eq!(ticks.part(ticks.high), 1.0, "{data:?} {ticks:?}");
                }
            }
        }
    }

    #[test]
    fn a_range_is_kept_if_it_is_one() {
        let span = |axis: Axis| {
            let ticks = Ticks::fit(&axis, [1.0, 8.0].into_iter(), true);
            (ticks.low, ticks.high)
        };
        assert_eq!(span(Axis::linear("").between(0.0, 3.3)), (0.0, 3.3));
        assert_eq!(span(Axis::linear("").between(3.0, 3.0)), (0.0, 8.0));
        assert_eq!(span(Axis::log("").between(0.0, 3.0)), (1.0, 10.0));
        assert_eq!(span(Axis::log("").between(f64::NAN, 3.0)), (1.0, 10.0));
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(rounded(1.0 / 3.0), "0.333333");
        assert_eq!(rounded(123_456_789.0), "1.23457e8");
        assert_eq!(rounded(-20.0), "-20");
        assert_eq!(rounded(0.0), "0");
    }
}
