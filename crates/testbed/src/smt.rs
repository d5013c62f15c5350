//! The arithmetic of emulated SMT: which CPU quota makes which threadPerf.
//!
//! The lanes of an emulated core share one host CPU. With n lanes running, each gets 1/n of it, and
//! never more than its quota, the share q. Normalised by what a lane has alone, which is q:
//!
//! threadPerf\[n\] = min(q, 1/n) / q
//!
//! One number, q, thus shapes the whole vector. With two lanes every {1, x} with 0.5 ≤ x ≤ 1 can be
//! had (q = 0.5 / x). With more lanes, choosing threadPerf\[T\] for all T lanes fixes the rest. A steady host
//! ([`crate::steady`]) needs no quota, and gives any vector.

use crate::error::{Error, Result};

/// How far an entry of the wanted vector may lie from the deliverable one.
const TOLERANCE: f64 = 0.005;

/// What the emulation without a quota gives `lanes` lanes: {1, 1/2, 1/3, …}.
pub fn even_shares(lanes: usize) -> Vec<f64> {
    deliverable(lanes, 1.0)
}

/// threadPerf\[1..=lanes\] under a quota of `share` of a host CPU a lane (0 < share ≤ 1).
pub fn deliverable(lanes: usize, share: f64) -> Vec<f64> {
    (1..=lanes)
        .map(|n| share.min(1.0 / n as f64) / share)
        .collect()
}

/// Refuses what is no threadPerf. Gives its last number.
///
/// # Errors
/// [`Error::BadSpec`]: nothing, a number that is not above 0, or a first one that is not 1.
pub fn check(thread_perf: &[f64]) -> Result<f64> {
    let (Some(&first), Some(&last)) = (thread_perf.first(), thread_perf.last()) else {
        return Err(bad(
            "thread-perf is empty: give one number for each lane of a core",
        ));
    };
    if thread_perf.iter().any(|x| !x.is_finite() || *x <= 0.0) {
        return Err(bad("thread-perf: every number must be greater than 0"));
    }
    if (first - 1.0).abs() > f64::EPSILON {
        return Err(bad(format!(
            "thread-perf begins with {first}: the first number is the speed of a lane that runs \
             alone, which is 1"
        )));
    }
    Ok(last)
}

/// The quota, as a share of a host CPU, that delivers the wanted threadPerf. Its length is the
/// number of lanes of a core. Fails with the nearest deliverable vector when no quota does.
pub fn quota_share(thread_perf: &[f64]) -> Result<f64> {
    let lanes = thread_perf.len();
    let last = check(thread_perf)?;
    // With all lanes running the host CPU is shared out: 1/T = threadPerf[T] × q, where q is at
    // most 1.
    let share = (1.0 / (lanes as f64 * last)).clamp(1.0 / lanes as f64, 1.0);
    let nearest = deliverable(lanes, share);
    let fits = thread_perf
        .iter()
        .zip(&nearest)
        .all(|(want, have)| (want - have).abs() <= TOLERANCE);
    if fits {
        return Ok(share);
    }
    Err(bad(format!(
        "thread-perf {}: quotas cannot deliver it; one quota q shapes all, threadPerf[n] = min(q, 1/n) / q. \
         The nearest is {}; a steady host (as root) delivers any",
        list(thread_perf),
        list(&nearest)
    )))
}

/// A vector as it is typed: `1,0.63`.
pub fn list(thread_perf: &[f64]) -> String {
    let texts: Vec<String> = thread_perf
        .iter()
        .map(|x| format!("{}", (x * 1e4).round() / 1e4))
        .collect();
    texts.join(",")
}

fn bad(text: impl Into<String>) -> Error {
    Error::BadSpec(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_lanes_take_any_value_from_a_half_to_one() {
        for (want, share) in [(0.5, 1.0), (0.63, 0.7937), (0.75, 0.6667), (1.0, 0.5)] {
            let got = quota_share(&[1.0, want]).unwrap();
            assert!((got - share).abs() < 1e-4, "{want}: {got}");
        }
        assert_eq!(quota_share(&[1.0]).unwrap(), 1.0);
    }

    #[test]
    fn more_lanes_take_what_one_quota_makes() {
        assert_eq!(quota_share(&[1.0, 0.5, 1.0 / 3.0, 0.25]).unwrap(), 1.0);
        // q = 0.4: one and two lanes are not slowed, three get 1/3 of the CPU, four 1/4.
        let four = deliverable(4, 0.4);
        assert_eq!(list(&four), "1,1,0.8333,0.625");
        assert!((quota_share(&four).unwrap() - 0.4).abs() < 1e-9);
        assert!((quota_share(&[1.0, 1.0, 0.833, 0.625]).unwrap() - 0.4).abs() < 1e-9);
    }

    #[test]
    fn the_impossible_is_refused_with_the_nearest() {
        let text = |v: &[f64]| quota_share(v).unwrap_err().to_string();
        assert!(text(&[1.0, 0.4]).contains("nearest is 1,0.5"));
        assert!(text(&[1.0, 1.2]).contains("nearest is 1,1"));
        assert!(text(&[1.0, 0.75, 0.57, 0.45]).contains("nearest is 1,0.9,0.6,0.45"));
    }

    #[test]
    fn nonsense_is_refused() {
        for v in [
            &[][..],
            &[0.9, 0.5],
            &[1.0, 0.0],
            &[1.0, f64::NAN],
            &[1.0, -0.5],
        ] {
            assert!(quota_share(v).is_err(), "{v:?}");
        }
    }
}
