//! Times as text, and a time axis: whole numbers of ns all the way, so that labels are exact.

/// Units: word and ns.
const UNITS: [(&str, u64); 4] = [
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("µs", 1_000),
    ("ns", 1),
];

/// A time in the largest unit that it fills, exactly: `1.2345 ms`.
pub(super) fn time_text(ns: u64) -> String {
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
pub(super) struct TimeAxis {
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
    fn ticks_are_round() {
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
