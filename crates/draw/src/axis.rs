//! Axes: what they span, and round ticks. Times are whole numbers of ns all the way, so that their labels are exact.

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
    pub fn takes(&self, value: f64) -> bool {
        // Beyond, differences and steps would overflow.
        let sound = value == 0.0 || (1e-300..=1e300).contains(&value.abs());
        sound && (self.scale == Scale::Linear || value > 0.0)
    }
}

/// An axis that fits its data.
#[derive(Debug, Clone, PartialEq)]
pub struct Ticks {
    scale: Scale,
    /// Its low end.
    pub low: f64,
    /// Its high end.
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
pub(crate) fn rounded(value: f64) -> String {
    number(format!("{value:.5e}").parse().unwrap_or(value))
}

/// Units: word and ns.
const UNITS: [(&str, u64); 4] = [
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("µs", 1_000),
    ("ns", 1),
];

/// A time in the largest unit that it fills, exactly: `1.2345 ms`.
pub fn time_text(ns: u64) -> String {
    let fits = |unit: &&(&str, u64)| ns >= unit.1;
    let (word, unit_ns) = UNITS.iter().find(fits).copied().unwrap_or(UNITS[3]);
    format!("{} {word}", in_unit(ns, unit_ns))
}

/// A time in a unit, without trailing zeros.
fn in_unit(ns: u64, unit_ns: u64) -> String {
    let (whole, rest) = (ns / unit_ns, ns % unit_ns);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = unit_ns.ilog10() as usize;
    let fraction = format!("{rest:0digits$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

/// A time axis with round ticks.
#[derive(Debug, PartialEq, Eq)]
pub struct TimeAxis {
    /// Where the ticks are, ns, and what they say.
    pub ticks: Vec<(u64, String)>,
    /// What the axis is called, with its unit.
    pub label: String,
}

impl TimeAxis {
    /// An axis from one time to a later one, ns, with at most so many ticks and one more.
    pub fn new(from_ns: u64, to_ns: u64, at_most: u64) -> TimeAxis {
        let span_ns = to_ns.saturating_sub(from_ns);
        let step_ns = step_ns(span_ns / at_most.max(1));
        let fits = |unit: &&(&str, u64)| span_ns >= 2 * unit.1;
        let (word, unit_ns) = UNITS.iter().find(fits).copied().unwrap_or(UNITS[3]);
        // Long numbers that differ in the last digits are hard to read: count from the first.
        let far = to_ns / unit_ns >= 1_000_000;
        let base_ns = if far { from_ns / step_ns * step_ns } else { 0 };
        let mut ticks = Vec::new();
        let mut next_ns = from_ns.div_ceil(step_ns).checked_mul(step_ns);
        while let Some(at_ns) = next_ns.filter(|&at_ns| at_ns <= to_ns) {
            ticks.push((at_ns, in_unit(at_ns - base_ns, unit_ns)));
            next_ns = at_ns.checked_add(step_ns);
        }
        let label = match far {
            true => format!("time after {}, {word}", time_text(base_ns)),
            false => format!("time, {word}"),
        };
        TimeAxis { ticks, label }
    }
}

/// The smallest of 1, 2, 5, 10, 20, … that is larger.
fn step_ns(ns: u64) -> u64 {
    let mut decade_ns: u64 = 1;
    loop {
        for factor in [1, 2, 5] {
            match decade_ns.checked_mul(factor) {
                Some(step_ns) if step_ns > ns => return step_ns,
                Some(_) => {}
                None => return u64::MAX,
            }
        }
        decade_ns = match decade_ns.checked_mul(10) {
            Some(decade_ns) => decade_ns,
            None => return u64::MAX,
        };
    }
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

    #[test]
    fn times_are_exact() {
        assert_eq!(time_text(0), "0 ns");
        assert_eq!(time_text(999), "999 ns");
        assert_eq!(time_text(1_050), "1.05 µs");
        assert_eq!(time_text(8_001_500), "8.0015 ms");
        assert_eq!(time_text(12_000_000_000), "12 s");
        assert_eq!(time_text(u64::MAX), "18446744073.709551615 s");
    }

    #[test]
    fn ticks_of_times_are_round() {
        let axis = TimeAxis::new(0, 100_000_000, 8);
        let words: Vec<&str> = axis.ticks.iter().map(|tick| tick.1.as_str()).collect();
        assert_eq!(words, ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(axis.label, "time, ms");
        let axis = TimeAxis::new(1_300_000_000, 9_800_000_000, 20);
        assert_eq!(axis.ticks[0], (1_500_000_000, "1.5".into()));
        assert_eq!(axis.label, "time, s");
    }

    #[test]
    fn far_times_are_counted_from_the_first() {
        let axis = TimeAxis::new(12_345_600_100, 12_345_640_000, 10);
        assert_eq!(axis.label, "time after 12.3456 s, µs");
        assert_eq!(axis.ticks[0], (12_345_605_000, "5".into()));
    }

    #[test]
    fn odd_windows_have_an_axis() {
        assert_eq!(TimeAxis::new(5, 5, 8).ticks.len(), 1);
        assert_eq!(TimeAxis::new(9, 5, 8).ticks.len(), 0);
        assert!(TimeAxis::new(0, u64::MAX, 8).ticks.len() >= 3);
        assert!(TimeAxis::new(u64::MAX - 1, u64::MAX, 8).ticks.len() <= 2);
    }
}
