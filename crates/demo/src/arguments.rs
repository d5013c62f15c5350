//! Arguments of plans: how they are read, and what they may be.

use crate::error::{Error, Result};
use std::ops::{Bound, RangeBounds};

/// Refuses a number outside a range; `what` is the argument that gives it.
///
/// # Errors
/// [`Error::BadPlan`].
pub fn within(what: &str, value: f64, range: impl RangeBounds<f64>) -> Result<()> {
    if range.contains(&value) {
        return Ok(());
    }
    let from = match range.start_bound() {
        Bound::Included(from) => format!(" from {from}"),
        Bound::Excluded(above) => format!(" above {above}"),
        Bound::Unbounded => String::new(),
    };
    let to = match (range.start_bound(), range.end_bound()) {
        (Bound::Included(_), Bound::Included(to)) => format!(" to {to}"),
        (_, Bound::Included(to)) => format!(", at most {to}"),
        (_, Bound::Excluded(below)) => format!(" and below {below}"),
        (_, Bound::Unbounded) => String::new(),
    };
    let problem = format!("{what} is {value}; give a number{from}{to}");
    Err(Error::BadPlan(problem))
}

/// Above the one, below the other.
pub fn between(above: f64, below: f64) -> (Bound<f64>, Bound<f64>) {
    (Bound::Excluded(above), Bound::Excluded(below))
}

/// Mean demands, ms: of the least that can be measured up to ten seconds.
pub fn demands_ms() -> (Bound<f64>, Bound<f64>) {
    (Bound::Excluded(0.0), Bound::Included(10_000.0))
}

/// Refuses a time, given in seconds, outside a range of ms.
///
/// # Errors
/// [`Error::BadPlan`].
pub fn within_ms(what: &str, ms: u64, least_ms: u64) -> Result<()> {
    let s = |ms: u64| ms as f64 / 1000.0;
    within(what, s(ms), s(least_ms)..=600.0)
}

/// Reads seconds as ms. Negative and absurd lengths become 0 and the longest there is.
///
/// # Errors
/// It is no number.
pub fn seconds_as_ms(text: &str) -> std::result::Result<u64, std::num::ParseFloatError> {
    text.parse::<f64>().map(|seconds| (seconds * 1000.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_outside_is_refused_with_its_range() {
        let refused = |value, range: (Bound<f64>, Bound<f64>)| {
            let result = within("--load", value, range);
            result.err().map(|error| error.to_string())
        };
        assert_eq!(refused(0.5, between(0.0, 1.0)), None);
        let said = "--load is 1; give a number above 0 and below 1";
        assert_eq!(refused(1.0, between(0.0, 1.0)).as_deref(), Some(said));
        assert!(refused(0.0, between(0.0, 1.0)).is_some());
        assert!(refused(f64::NAN, between(0.0, 1.0)).is_some());
        assert!(refused(f64::INFINITY, demands_ms()).is_some());
        assert_eq!(refused(10_000.0, demands_ms()), None);
        let said = within_ms("--seconds", 50, 100).unwrap_err().to_string();
        assert_eq!(said, "--seconds is 0.05; give a number from 0.1 to 600");
        let said = within("--repetitions", 0.0, 1.0..).unwrap_err().to_string();
        assert_eq!(said, "--repetitions is 0; give a number from 1");
    }

    #[test]
    fn seconds_are_ms() {
        assert_eq!(seconds_as_ms("3.5"), Ok(3500));
        assert_eq!(seconds_as_ms("-1"), Ok(0));
        assert_eq!(seconds_as_ms("inf"), Ok(u64::MAX));
        assert!(seconds_as_ms("x").is_err());
    }
}
