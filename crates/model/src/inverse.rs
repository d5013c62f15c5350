//! The load that keeps lanes as busy as they are.

use crate::evaluate::level_at;
use crate::{Error, Machine, Options, Result, Utilization};

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
