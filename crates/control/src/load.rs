//! From how busy lanes are to the load of the machine that the model is about.

use crate::Result;
use sidelane_model::{
    LaneOrder, Machine, Options, Utilization, normalized_utilization, utilization_from_busy,
};
use std::collections::BTreeMap;

/// How normalised utilisation follows from how busy lanes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalization {
    /// As the source: lanes of a core are busy independently, or the lower ones first.
    Lanes(LaneOrder),
    /// The load at which the model expects them to be as busy.
    Model,
}

/// The normalised utilisation of a machine.
///
/// `cores`: the lanes of each core. `busy`: the share of time that a CPU was busy; CPUs of which
/// nothing is known are not there. `level`: how many lanes of each core may run. None if nothing is
/// known of any core.
///
/// # Errors
/// More lanes than the machine has.
pub fn normalized(
    machine: &Machine,
    cores: &[Vec<u32>],
    busy: &BTreeMap<u32, f64>,
    level: usize,
    (normalization, options): (Normalization, Options),
) -> Result<Option<Utilization>> {
    let lanes_of = |core: &Vec<u32>| -> Vec<f64> {
        core.iter()
            .filter_map(|cpu| busy.get(cpu).copied())
            .collect()
    };
    let cores: Vec<Vec<f64>> = cores
        .iter()
        .map(lanes_of)
        .filter(|c| !c.is_empty())
        .collect();
    if cores.is_empty() {
        return Ok(None);
    }
    let mean = |sum: f64| sum / cores.len() as f64;
    Ok(Some(match normalization {
        Normalization::Lanes(order) => {
            let mut sum = 0.0;
            for core in &cores {
                sum += normalized_utilization(machine.thread_perf(), core, order)?.get();
            }
            Utilization::new(mean(sum))?
        }
        Normalization::Model => {
            let running = mean(cores.iter().flatten().sum());
            let share = (running / level as f64).min(1.0);
            utilization_from_busy(machine, level, share, options)?
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidelane_model::{Model, ThreadPerf};

    fn machine() -> Machine {
        Machine::new(2, ThreadPerf::new(vec![1.0, 0.6]).unwrap()).unwrap()
    }

    fn load(busy: &[(u32, f64)], normalization: Normalization) -> Option<f64> {
        let cores = [vec![0, 2], vec![1, 3]];
        let busy = busy.iter().copied().collect();
        let how = (normalization, Options::new(Model::Placed));
        let load = normalized(&machine(), &cores, &busy, 2, how).unwrap();
        load.map(Utilization::get)
    }

    #[test]
    fn the_mean_of_the_cores_of_which_something_is_known() {
        let independent = Normalization::Lanes(LaneOrder::Independent);
        let both = [(0, 0.8), (2, 0.5), (1, 0.2), (3, 0.0)];
        assert!((load(&both, independent).unwrap() - (0.98 + 0.2) / 2.0).abs() < 1e-12);
        let lane_gone = [(0, 0.8), (1, 0.2), (3, 0.0)];
        assert!((load(&lane_gone, independent).unwrap() - (0.8 + 0.2) / 2.0).abs() < 1e-12);
        let core_gone = [(0, 0.8), (2, 0.5), (9, 1.0)];
        assert!((load(&core_gone, independent).unwrap() - 0.98).abs() < 1e-12);
        assert_eq!(load(&[], independent), None);
    }

    #[test]
    fn on_many_cores_lanes_that_are_placed_with_care_overlap_less() {
        let speeds = machine().thread_perf().clone();
        let machine = Machine::new(16, speeds).unwrap();
        let cores: Vec<Vec<u32>> = (0..16).map(|core| vec![core, core + 16]).collect();
        let of = |share: f64, normalization| {
            let busy = (0..32).map(|cpu| (cpu, share)).collect();
            let how = (normalization, Options::new(Model::Placed));
            normalized(&machine, &cores, &busy, 2, how)
                .unwrap()
                .unwrap()
                .get()
        };
        let independent = of(0.3, Normalization::Lanes(LaneOrder::Independent));
        let placed = of(0.3, Normalization::Model);
        assert!(
            placed > independent && placed < 0.6,
            "{placed} {independent}"
        );
        assert!((of(1.0, Normalization::Model) - 1.2).abs() < 1e-6);
    }
}
