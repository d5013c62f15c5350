//! Normalised utilisation from what the kernel counts: how long each lane was busy.

use crate::{Error, Machine, Result, Utilization};

/// How the lanes of a core are busy together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneOrder {
    /// No lane is preferred: they are busy independently of each other (x86).
    Independent,
    /// Lower lanes are used first (asymmetric SMT scheduling, POWER): a lane is busy only while those
    /// that are busier are.
    LowerFirst,
}

/// The share of time that n lanes of a core run, `[n]` from 0, from the share that each lane does.
///
/// # Errors
/// A share that is not a number from 0 to 1.
pub fn running_lanes(lane_utilizations: &[f64], order: LaneOrder) -> Result<Vec<f64>> {
    for (&utilization, lane) in lane_utilizations.iter().zip(1..) {
        if !(0.0..=1.0).contains(&utilization) {
            return Err(Error::LaneUtilization { lane, utilization });
        }
    }
    Ok(match order {
        LaneOrder::Independent => independent(lane_utilizations),
        LaneOrder::LowerFirst => nested(lane_utilizations),
    })
}

/// One lane after the other is busy or not.
fn independent(lane_utilizations: &[f64]) -> Vec<f64> {
    let mut shares = vec![1.0];
    for &busy in lane_utilizations {
        let mut next = vec![0.0; shares.len() + 1];
        for (n, share) in shares.iter().enumerate() {
            next[n] += share * (1.0 - busy);
            next[n + 1] += share * busy;
        }
        shares = next;
    }
    shares
}

/// n lanes run while the n-th is busy and the next is not. Sampled utilisations may be out of order
/// by a little.
fn nested(lane_utilizations: &[f64]) -> Vec<f64> {
    let mut sorted = lane_utilizations.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let at_least = std::iter::once(1.0).chain(sorted.iter().copied());
    let more = sorted.iter().copied().chain(std::iter::once(0.0));
    at_least.zip(more).map(|(n, more)| n - more).collect()
}

/// The normalised utilisation of a core at a level: Σ n × speed of n lanes × the share of time that n run.
///
/// # Errors
/// A share that is not a number from 0 to 1, or more lanes than threadPerf has.
pub fn normalized_utilization(
    machine: &Machine,
    level: usize,
    lane_utilizations: &[f64],
    order: LaneOrder,
) -> Result<Utilization> {
    let (given, lanes) = (lane_utilizations.len(), machine.thread_perf().lanes());
    if given > lanes {
        return Err(Error::LaneCount { given, lanes });
    }
    let shares = running_lanes(lane_utilizations, order)?;
    let work = |(n, share): (usize, &f64)| machine.core_rate(level, n) * share;
    Utilization::new(shares.iter().enumerate().map(work).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ThreadPerf;

    fn machine(speeds: &[f64]) -> Machine {
        Machine::new(16, ThreadPerf::new(speeds.to_vec()).unwrap()).unwrap()
    }

    fn close(actual: &[f64], expected: &[f64]) {
        assert_eq!(actual.len(), expected.len());
        for (a, e) in actual.iter().zip(expected) {
            assert!((a - e).abs() < 1e-12, "{actual:?} instead of {expected:?}");
        }
    }

    #[test]
    fn the_examples_of_the_source() {
        let shares = |order| running_lanes(&[0.8, 0.5], order).unwrap();
        close(&shares(LaneOrder::Independent), &[0.1, 0.5, 0.4]);
        close(&shares(LaneOrder::LowerFirst), &[0.2, 0.3, 0.5]);
        let machine = machine(&[1.0, 0.6]);
        let of = |order| normalized_utilization(&machine, 2, &[0.8, 0.5], order).unwrap();
        close(&[of(LaneOrder::Independent).get()], &[0.5 + 1.2 * 0.4]);
        close(&[of(LaneOrder::LowerFirst).get()], &[0.3 + 1.2 * 0.5]);
    }

    #[test]
    fn four_lanes() {
        let shares = running_lanes(&[0.9, 0.2, 0.4, 0.1], LaneOrder::LowerFirst).unwrap();
        close(&shares, &[0.1, 0.5, 0.2, 0.1, 0.1]);
        let shares = running_lanes(&[0.5; 4], LaneOrder::Independent).unwrap();
        close(&shares, &[1.0, 4.0, 6.0, 4.0, 1.0].map(|n| n / 16.0));
        close(&running_lanes(&[], LaneOrder::LowerFirst).unwrap(), &[1.0]);
    }

    #[test]
    fn what_is_no_share_is_refused() {
        for wrong in [-0.1, 1.01, f64::NAN, f64::INFINITY] {
            let error = running_lanes(&[0.5, wrong], LaneOrder::Independent).unwrap_err();
            assert!(error.to_string().contains("lane 2"), "{error}");
        }
        let one = machine(&[1.0]);
        let refused = normalized_utilization(&one, 1, &[0.1, 0.1], LaneOrder::Independent);
        assert_eq!(refused, Err(Error::LaneCount { given: 2, lanes: 1 }));
    }
}
