//! From speeds to threadPerf: pure arithmetic.

use super::calibration::{Density, WorkSpeeds};
use sidelane_smt::latency::Spread;
use sidelane_smt::thread_perf::nearest_valid;

/// Two speeds closer than this are the same.
const SAME: f64 = 1e-9;

/// The relative speeds of one kind of work: `[n - 1]` with n lanes running, of each repetition on
/// each core, in the same order at each density and for each kind of work.
pub(super) struct Ratios {
    pub name: String,
    pub by_density: Vec<Vec<f64>>,
}

/// What follows from them.
pub(super) struct Estimate {
    pub thread_perf: Vec<f64>,
    pub densities: Vec<Density>,
    pub work: Vec<WorkSpeeds>,
}

impl Ratios {
    pub(super) fn new(name: String, lanes: usize) -> Ratios {
        Ratios {
            name,
            by_density: vec![Vec::new(); lanes],
        }
    }

    /// Adds the speeds of one repetition, by density: what disturbs one disturbs its neighbours, so
    /// they are related to the lane alone of the same repetition.
    pub(super) fn add(&mut self, speeds: &[f64]) {
        let alone = speeds.first().copied().unwrap_or(0.0);
        for (ratios, speed) in self.by_density.iter_mut().zip(speeds) {
            // A lane alone that got nowhere makes no ratio; the spread then tells that too.
            ratios.push(if alone > 0.0 { speed / alone } else { 0.0 });
        }
    }
}

/// threadPerf from all kinds of work, equally weighted: the median over repetitions and cores of the
/// mean over kinds of work. `None` without any measurement.
pub(super) fn estimate(work: &[Ratios], lanes: usize) -> Option<Estimate> {
    let mix: Option<Vec<Spread>> = (0..lanes)
        .map(|index| Spread::of(&mean_over_work(work, index)))
        .collect();
    let mix = mix?;
    let medians: Vec<f64> = mix.iter().map(|spread| spread.median).collect();
    let thread_perf = nearest_valid(&medians, &[]);
    let densities = mix.iter().zip(&thread_perf).zip(1..);
    let densities = densities.map(|((&measured, valid), lanes)| Density {
        lanes,
        measured,
        clipped: (measured.median - valid).abs() > SAME,
        clear: measured.max - measured.min <= (1.0 - measured.median).abs(),
    });
    let speeds = |ratios: &Ratios| -> Option<WorkSpeeds> {
        let of_density = ratios.by_density.iter();
        Some(WorkSpeeds {
            name: ratios.name.clone(),
            speeds: of_density.map(|of| Spread::of(of)).collect::<Option<_>>()?,
        })
    };
    Some(Estimate {
        densities: densities.collect(),
        thread_perf,
        work: work.iter().map(speeds).collect::<Option<_>>()?,
    })
}

/// Of each repetition on each core.
fn mean_over_work(work: &[Ratios], index: usize) -> Vec<f64> {
    let of_work: Vec<&[f64]> = work
        .iter()
        .map(|ratios| ratios.by_density.get(index).map_or(&[][..], Vec::as_slice))
        .collect();
    let runs = of_work.iter().map(|ratios| ratios.len()).min().unwrap_or(0);
    let sum = |run| {
        of_work
            .iter()
            .filter_map(|ratios| ratios.get(run))
            .sum::<f64>()
    };
    (0..runs).map(|run| sum(run) / work.len() as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratios(name: &str, repetitions: &[&[f64]]) -> Ratios {
        let mut ratios = Ratios::new(name.into(), repetitions[0].len());
        repetitions.iter().for_each(|speeds| ratios.add(speeds));
        ratios
    }

    #[test]
    fn kinds_of_work_weigh_the_same_whatever_their_speed() {
        // The second repetition was slow as a whole.
        let work = [
            ratios("a", &[&[100.0, 60.0], &[50.0, 30.0], &[100.0, 62.0]]),
            ratios("b", &[&[4e6, 3.2e6], &[4e6, 3.2e6], &[4e6, 3.2e6]]),
        ];
        let found = estimate(&work, 2).unwrap();
        assert!((found.thread_perf[1] - 0.7).abs() < 1e-12);
        assert_eq!(found.thread_perf[0], 1.0);
        let two = &found.densities[1];
        assert!((two.measured.max - 0.71).abs() < 1e-12 && two.clear && !two.clipped);
        assert_eq!(found.work[1].name, "b");
        assert!((found.work[0].speeds[1].min - 0.6).abs() < 1e-12);
    }

    #[test]
    fn noise_that_increases_speed_is_clipped_and_said() {
        let work = [ratios(
            "a",
            &[&[1.0, 1.02, 0.5, 0.52], &[1.0, 1.0, 0.5, 0.52]],
        )];
        let found = estimate(&work, 4).unwrap();
        assert_eq!(found.thread_perf, [1.0, 1.0, 0.51, 0.51]);
        let clipped: Vec<bool> = found.densities.iter().map(|d| d.clipped).collect();
        assert_eq!(clipped, [false, true, true, true]);
        // 1.00 to 1.02 says nothing about an effect of -0.01.
        assert!(!found.densities[1].clear && found.densities[2].clear);
    }

    #[test]
    fn nothing_measured_is_no_estimate() {
        assert!(estimate(&[], 2).is_none());
        assert!(estimate(&[Ratios::new("a".into(), 2)], 2).is_none());
        let stuck = [ratios("a", &[&[0.0, 0.0]])];
        assert_eq!(
            estimate(&stuck, 2).unwrap().densities[1].measured.median,
            0.0
        );
    }
}
