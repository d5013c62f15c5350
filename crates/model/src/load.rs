//! The load of a machine, from how busy its lanes are: what can be said for sure, and what is expected.

use crate::{
    LaneOrder, Machine, Model, Options, Result, Utilization, normalized_utilization, running_lanes,
    utilization_from_busy,
};

/// How normalised utilisation follows from how busy lanes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalization {
    /// Core by core: lanes of a core are busy independently, or the lower ones first.
    Lanes(LaneOrder),
    /// As the source: the same of one core whose lanes are as busy as those at each place are on average (section III-C, util\[n\]).
    Averaged(LaneOrder),
    /// The load at which the model expects them to be as busy.
    Model,
}

impl Normalization {
    /// What goes with a model: the source's rule, in this order of lanes, with its model, and each other
    /// model's own expectation.
    pub fn of(model: Model, order: LaneOrder) -> Normalization {
        match model {
            Model::Source => Normalization::Lanes(order),
            _ => Normalization::Model,
        }
    }
}

/// The load of an interval: how busy lanes were leaves open how often those of a core were at once, and lanes that
/// are alone do more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// What is expected, between the least and the most.
    pub expected: Utilization,
    /// What it is at most, at whatever level: each lane that was busy would have filled a core of its own.
    pub most: Utilization,
}

impl Load {
    /// None at all.
    pub const NONE: Load = Load {
        expected: Utilization::NONE,
        most: Utilization::NONE,
    };

    /// The same with the peak of several intervals as what is expected.
    pub(crate) fn with_peak(self, peak: Utilization) -> Load {
        Load {
            expected: peak,
            most: match peak > self.most {
                true => peak,
                false => self.most,
            },
        }
    }
}

impl From<Utilization> for Load {
    /// A load that is known.
    fn from(known: Utilization) -> Load {
        Load {
            expected: known,
            most: known,
        }
    }
}

/// The load of a machine whose cores' lanes were busy for these shares of the time; lanes and cores of which nothing
/// is known are left out. `level`: how many lanes of each core might run. None if nothing is known of any core.
///
/// Each core's load is bounded by what its lanes' shares allow, whatever the normalisation expects: a lane
/// that was always busy beside idle ones did one core's work. Not so the source's.
///
/// # Errors
/// A share that is not a number from 0 to 1, more lanes than the machine has, or a level that it does not have.
pub fn load(
    machine: &Machine,
    cores: &[Vec<f64>],
    level: usize,
    normalization: Normalization,
    options: Options,
) -> Result<Option<Load>> {
    let cores: Vec<&Vec<f64>> = cores.iter().filter(|core| !core.is_empty()).collect();
    if cores.is_empty() {
        return Ok(None);
    }
    let (mut least, mut most, mut wanted, mut by_lanes) = (0.0, 0.0, 0.0, 0.0);
    for core in &cores {
        let order = match normalization {
            Normalization::Lanes(order) => order,
            Normalization::Averaged(_) | Normalization::Model => LaneOrder::LowerFirst,
        };
        by_lanes += normalized_utilization(machine, level, core, order)?.get();
        let [low, high] = bounds(machine, level, core)?;
        least += low;
        most += high;
        wanted += core.iter().sum::<f64>();
    }
    let mean = |sum: f64| sum / cores.len() as f64;
    let expected = match normalization {
        Normalization::Lanes(_) => mean(by_lanes),
        Normalization::Averaged(order) => {
            let expected = normalized_utilization(machine, level, &by_place(&cores), order)?;
            let most = Utilization::new(mean(wanted))?;
            return Ok(Some(Load { expected, most }));
        }
        Normalization::Model => by_model(machine, &cores, level, options)?.get(),
    };
    Ok(Some(Load {
        expected: Utilization::new(expected.max(mean(least)).min(mean(most)))?,
        most: Utilization::new(mean(wanted))?,
    }))
}

/// How busy the lanes at each place of their core are on average.
fn by_place(cores: &[&Vec<f64>]) -> Vec<f64> {
    let widest = cores.iter().map(|core| core.len()).max().unwrap_or(0);
    let mean = |place: usize| {
        let shares: Vec<f64> = cores
            .iter()
            .filter_map(|core| core.get(place))
            .copied()
            .collect();
        shares.iter().sum::<f64>() / shares.len() as f64
    };
    (0..widest).map(mean).collect()
}

/// The load at which the model expects lanes to be as busy, on average, as those that may run are.
fn by_model(
    machine: &Machine,
    cores: &[&Vec<f64>],
    level: usize,
    options: Options,
) -> Result<Utilization> {
    let may_run: usize = cores.iter().map(|core| core.len().min(level)).sum();
    let running: f64 = cores.iter().copied().flatten().sum();
    let share = (running / may_run.max(1) as f64).min(1.0);
    utilization_from_busy(machine, level, share, options)
}

/// The least and the most that a core can have done: its lanes were busy at once as often as they could be, or no
/// more than they had to be. Where more lanes do less work it is the other way round.
fn bounds(machine: &Machine, level: usize, lanes: &[f64]) -> Result<[f64; 2]> {
    let work = |shares: &[f64]| -> f64 {
        let each = shares.iter().enumerate();
        each.map(|(n, share)| machine.core_rate(level, n) * share)
            .sum()
    };
    let together = work(&running_lanes(lanes, LaneOrder::LowerFirst)?);
    let apart = work(&spread(lanes));
    Ok([together.min(apart), together.max(apart)])
}

/// The share of time that n lanes run, `[n]`, if at each time as many run as at any other, or one more.
fn spread(lanes: &[f64]) -> Vec<f64> {
    let sum: f64 = lanes.iter().sum();
    let fewer = sum.floor().min(lanes.len() as f64);
    let mut shares = vec![0.0; lanes.len() + 2];
    shares[fewer as usize] = 1.0 - (sum - fewer);
    shares[fewer as usize + 1] = sum - fewer;
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ThreadPerf;
    use proptest::prelude::*;

    fn machine(cores: u32, speeds: &[f64]) -> Machine {
        Machine::new(cores, ThreadPerf::new(speeds.to_vec()).unwrap()).unwrap()
    }

    fn expected(machine: &Machine, cores: &[Vec<f64>], normalization: Normalization) -> f64 {
        let level = machine.thread_perf().lanes();
        for model in Model::ALL {
            let load = load(machine, cores, level, normalization, Options::new(model));
            let load = load.unwrap().unwrap();
            assert!(load.expected <= load.most, "{model:?}");
        }
        let load = load(
            machine,
            cores,
            level,
            normalization,
            Options::new(Model::Placed),
        );
        load.unwrap().unwrap().expected.get()
    }

    const INDEPENDENT: Normalization = Normalization::Lanes(LaneOrder::Independent);

    #[test]
    fn the_mean_of_the_cores_of_which_something_is_known() {
        let machine = machine(2, &[1.0, 0.6]);
        let of = |cores: &[Vec<f64>]| expected(&machine, cores, INDEPENDENT);
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        close(of(&[vec![0.8, 0.5], vec![0.2, 0.0]]), (0.98 + 0.2) / 2.0);
        close(of(&[vec![0.8], vec![0.2, 0.0]]), (0.8 + 0.2) / 2.0);
        close(of(&[vec![0.8, 0.5], vec![]]), 0.98);
        let nothing = load(&machine, &[vec![]], 2, INDEPENDENT, Options::default());
        assert_eq!(nothing, Ok(None));
    }

    #[test]
    fn as_in_the_source_places_are_averaged_over_cores_first() {
        use LaneOrder::{Independent, LowerFirst};
        let of = |cores: &[Vec<f64>], speeds: &[f64], order| {
            let machine = machine(cores.len() as u32, speeds);
            let averaged = Normalization::Averaged(order);
            let load = load(&machine, cores, speeds.len(), averaged, Options::default());
            load.unwrap().unwrap().expected.get()
        };
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        // the examples of section III-C
        let (example, speeds) = (vec![vec![0.8, 0.5]; 16], [1.0, 0.6]);
        close(of(&example, &speeds, LowerFirst), 0.3 + 1.2 * 0.5);
        close(of(&example, &speeds, Independent), 0.5 + 1.2 * 0.4);
        // half of the cores fully busy: core by core 0.6
        let half: Vec<_> = (0..16).map(|core| vec![f64::from(core / 8); 2]).collect();
        close(of(&half, &speeds, Independent), 0.8);
        close(of(&half, &speeds, LowerFirst), 0.6);
        // cores with fewer lanes have no say in places that they lack
        close(
            of(&[vec![1.0, 0.4], vec![0.6]], &speeds, LowerFirst),
            0.4 + 1.2 * 0.4,
        );
    }

    #[test]
    fn on_many_cores_lanes_that_are_placed_with_care_overlap_less() {
        let machine = machine(16, &[1.0, 0.6]);
        let of =
            |share, normalization| expected(&machine, &vec![vec![share; 2]; 16], normalization);
        let (independent, placed) = (of(0.3, INDEPENDENT), of(0.3, Normalization::Model));
        assert!(
            placed > independent && placed < 0.6,
            "{placed} {independent}"
        );
        assert!((of(1.0, Normalization::Model) - 1.2).abs() < 1e-6);
    }

    #[test]
    fn a_lane_alone_does_one_cores_work() {
        for cores in [1, 2, 16, 32] {
            let one_each = vec![vec![1.0, 0.0]; cores];
            let machine = machine(cores as u32, &[1.0, 0.6]);
            let load = expected(&machine, &one_each, Normalization::Model);
            assert!((load - 1.0).abs() < 1e-12, "{cores}: {load}");
        }
    }

    #[test]
    fn cores_with_fewer_lanes_are_full_when_all_their_lanes_are() {
        let machine = machine(2, &[1.0, 0.6]);
        let load = expected(&machine, &[vec![1.0, 1.0], vec![1.0]], Normalization::Model);
        assert!((load - 1.1).abs() < 1e-12, "{load}");
    }

    proptest! {
        /// Any overlap that the shares allow lies between the bounds, where each further lane adds less than the
        /// one before.
        #[test]
        fn every_overlap_is_within_the_bounds(
            slices in prop::collection::vec((0.0..1.0f64, prop::collection::vec(any::<bool>(), 4)), 1..6),
        ) {
            let machine = machine(1, &[1.0, 0.75, 0.57, 0.45]);
            let time: f64 = slices.iter().map(|(time, _)| time).sum();
            prop_assume!(time > 0.0);
            let lanes: Vec<f64> = (0..4).map(|lane| {
                let busy = slices.iter().filter(|(_, running)| running[lane]);
                (busy.map(|(time, _)| time).sum::<f64>() / time).min(1.0)
            }).collect();
            let done: f64 = slices.iter().map(|(time, running)| {
                time * machine.core_rate(4, running.iter().filter(|on| **on).count())
            }).sum::<f64>() / time;
            let [least, most] = bounds(&machine, 4, &lanes).unwrap();
            prop_assert!(least - 1e-9 <= done && done <= most + 1e-9, "{least} {done} {most}");
        }
    }
}
