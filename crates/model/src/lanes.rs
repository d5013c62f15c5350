//! Normalised utilisation from how busy lanes are: each by itself, as the kernel counts it, or all on average, by a model.

use crate::evaluate::level_at;
use crate::{Error, Machine, Options, Result, Utilization};

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

/// Halvings of the interval in which the load lies; it ends up known to 10^-7 of the saturation.
const HALVINGS: u32 = 24;

/// The normalised utilisation at which, at an SMT level, each of its lanes is busy for this share of
/// the time on average, by a model: [`Level::utilization`](crate::Level) the other way round.
///
/// How often lanes of a core are busy at the same time depends on how tasks are placed. The model
/// knows; sampled utilisations of single lanes do not say.
///
/// # Errors
/// A share that is not a number from 0 to 1, or a level that the cores do not have.
pub fn utilization_from_busy(
    machine: &Machine,
    level: usize,
    busy_share: f64,
    options: Options,
) -> Result<Utilization> {
    let lanes = machine.thread_perf().lanes();
    if !(1..=lanes).contains(&level) {
        return Err(Error::Level { level, lanes });
    }
    if !(0.0..=1.0).contains(&busy_share) {
        return Err(Error::LaneUtilization {
            lane: 1,
            utilization: busy_share,
        });
    }
    let (mut low, mut high) = (0.0, level as f64);
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        if level_at(machine, level, middle, options).utilization < busy_share {
            low = middle;
        } else {
            high = middle;
        }
    }
    Utilization::new(match busy_share > 0.0 {
        true => high,
        false => 0.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Model, ThreadPerf, evaluate};

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

    #[test]
    fn it_is_the_other_way_round() {
        let speeds = ThreadPerf::new(vec![1.0, 0.75, 0.57, 0.45]).unwrap();
        let machine = Machine::new(4, speeds).unwrap();
        for model in Model::ALL {
            let options = Options::new(model);
            for load in [0.001, 0.3, 0.9, 1.3] {
                let levels = evaluate(&machine, Utilization::new(load).unwrap(), options).levels;
                for level in levels.iter().filter(|level| level.stable) {
                    let busy = level.utilization;
                    let found = utilization_from_busy(&machine, level.level, busy, options);
                    let found = found.unwrap().get();
                    assert!(
                        (found / load - 1.0).abs() < 1e-3,
                        "{model:?} {level:?}: {found}"
                    );
                }
            }
        }
    }

    #[test]
    fn full_lanes_are_saturation_and_idle_ones_nothing() {
        let machine = Machine::new(4, ThreadPerf::new(vec![1.0, 0.6]).unwrap()).unwrap();
        let of = |level, busy| {
            utilization_from_busy(&machine, level, busy, Options::default()).map(Utilization::get)
        };
        assert!((of(1, 1.0).unwrap() - 1.0).abs() < 1e-6);
        assert!((of(2, 1.0).unwrap() - 1.2).abs() < 1e-6);
        assert_eq!(of(2, 0.0), Ok(0.0));
        assert_eq!(of(3, 0.5), Err(Error::Level { level: 3, lanes: 2 }));
        assert!(of(1, 1.1).is_err() && of(1, f64::NAN).is_err());
    }
}
