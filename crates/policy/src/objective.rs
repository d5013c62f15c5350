//! What an operator promises: a latency that few jobs exceed.

use std::fmt;
use std::str::FromStr;

/// Shortest and longest latency of an objective, ns.
const SHORTEST_NS: f64 = 1e4;
const LONGEST_NS: f64 = 1e11;

/// A latency that at most so many jobs of 1000 may exceed, written `p99 < 20 ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Objective {
    /// How many of 1000 jobs may be later: 10 for the 99th percentile; 1 to 500.
    pub beyond: u32,
    /// The latency, ns; 10 µs to 100 s.
    pub latency_ns: u64,
}

impl FromStr for Objective {
    type Err = String;

    fn from_str(text: &str) -> Result<Objective, String> {
        let wrong = || {
            format!(
                "objective {text:?}: expected a percentile from p50 to p99.9 and a latency from 10 us to \
                 100 s, such as \"p99 < 20 ms\""
            )
        };
        let (percentile, latency) = text.split_once('<').ok_or_else(wrong)?;
        let percentile = percentile.trim().strip_prefix('p').ok_or_else(wrong)?;
        let percentile: f64 = percentile.parse().map_err(|_| wrong())?;
        let latency = latency.trim();
        let number_end = latency
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(latency.len());
        let (number, unit) = latency.split_at(number_end);
        let unit_ns = match unit.trim() {
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            _ => return Err(wrong()),
        };
        let latency_ns = number.parse::<f64>().map_err(|_| wrong())? * unit_ns;
        let right =
            (50.0..=99.9).contains(&percentile) && (SHORTEST_NS..=LONGEST_NS).contains(&latency_ns);
        right.then_some(()).ok_or_else(wrong)?;
        Ok(Objective {
            beyond: ((100.0 - percentile) * 10.0).round() as u32,
            latency_ns: latency_ns as u64,
        })
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percentile = 100.0 - f64::from(self.beyond) / 10.0;
        write!(f, "p{percentile} < {} ms", self.latency_ns as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_read_and_written() {
        for (text, beyond, latency_ns, written) in [
            ("p99 < 20 ms", 10, 20_000_000, "p99 < 20 ms"),
            ("p99.9<1.5s", 1, 1_500_000_000, "p99.9 < 1500 ms"),
            ("p50 < 250 us", 500, 250_000, "p50 < 0.25 ms"),
        ] {
            let objective: Objective = text.parse().unwrap();
            assert_eq!(
                (objective.beyond, objective.latency_ns),
                (beyond, latency_ns)
            );
            assert_eq!(objective.to_string(), written);
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in [
            "",
            "20 ms",
            "p99",
            "p99 < 20",
            "p99 < ms",
            "p99 < -1 ms",
            "p99 < nan ms",
            "p100 < 1 ms",
            "p10 < 1 ms",
            "pnan < 1 ms",
            "p99 < 1 us",
            "p99 < 101 s",
            "p99 < 1.2.3 ms",
        ] {
            let error = text.parse::<Objective>().unwrap_err();
            assert!(error.contains("p99 < 20 ms"), "{text}: {error}");
        }
    }
}
