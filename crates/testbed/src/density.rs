//! The arithmetic of cores that are as fast as the number of their running lanes wants: how much of a lane's run
//! time had how many siblings running, and what a core may then do.

/// What a core does with 1, 2, … lanes running, relative to the number that does most: the capacity factor
/// n × threadPerf\[n\] over the greatest one.
pub fn core_speeds(thread_perf: &[f64]) -> Vec<f64> {
    let capacity: Vec<f64> = (1..)
        .zip(thread_perf)
        .map(|(n, speed)| f64::from(n) * speed)
        .collect();
    let most = capacity.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    capacity.iter().map(|factor| factor / most).collect()
}

/// Tells by the run times of a core's lanes how many were running.
///
/// Lanes take turns on their host CPU, so of two that run all the time one may have had a turn more when it is
/// looked at. What is not matched by the siblings then has until the next look to be matched.
pub struct Densities {
    /// Run time of each lane that is not matched yet, ns.
    unmatched: Vec<f64>,
}

impl Densities {
    /// For a core with so many lanes.
    pub fn new(lanes: usize) -> Densities {
        Densities {
            unmatched: vec![0.0; lanes],
        }
    }

    /// Takes the run time of each lane since the last look, ns; adds to `by_density`\[n - 1\] what ran with n lanes
    /// running, in this time or before.
    pub fn split(&mut self, ran: &[f64], by_density: &mut [f64]) {
        for (unmatched, ran) in self.unmatched.iter_mut().zip(ran) {
            *unmatched += ran;
        }
        let running: Vec<usize> = (0..ran.len()).filter(|&lane| ran[lane] > 0.0).collect();
        let density = running.len();
        if density > 0 {
            // what all of them have in common
            let unmatched = running.iter().map(|&lane| self.unmatched[lane]);
            let common = unmatched.fold(f64::INFINITY, f64::min);
            by_density[density - 1] += common * density as f64;
            for lane in running {
                self.unmatched[lane] -= common;
            }
        }
        // what is older than this look ran without those that it could have been matched with
        for (unmatched, ran) in self.unmatched.iter_mut().zip(ran) {
            let old = (*unmatched - ran).max(0.0);
            by_density[density.saturating_sub(2)] += old;
            *unmatched -= old;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Run times by density after these looks.
    fn after(lanes: usize, looks: &[&[f64]]) -> Vec<f64> {
        let (mut densities, mut by_density) = (Densities::new(lanes), vec![0.0; lanes]);
        looks
            .iter()
            .for_each(|ran| densities.split(ran, &mut by_density));
        by_density
    }

    #[test]
    fn a_core_is_fastest_where_its_lanes_do_most() {
        assert_eq!(core_speeds(&[1.0, 0.5]), [1.0, 1.0]);
        let speeds = core_speeds(&[1.0, 0.6]);
        assert!((speeds[0] - 1.0 / 1.2).abs() < 1e-12 && speeds[1] == 1.0);
        // more lanes may do less
        assert_eq!(core_speeds(&[1.0, 0.4]), [1.0, 0.8]);
    }

    #[test]
    fn a_lane_alone_is_alone() {
        assert_eq!(after(2, &[&[400.0, 0.0], &[400.0, 0.0]]), [800.0, 0.0]);
        assert_eq!(after(1, &[&[400.0]]), [400.0]);
    }

    #[test]
    fn turns_that_end_unequal_are_matched_by_the_next() {
        let found = after(2, &[&[250.0, 150.0], &[150.0, 250.0]]);
        assert_eq!(found, [0.0, 800.0]);
    }

    #[test]
    fn what_nobody_matches_ran_alone() {
        // the second lane stops after a short time
        let found = after(2, &[&[300.0, 100.0], &[400.0, 0.0], &[400.0, 0.0]]);
        assert_eq!(found, [1000.0, 200.0]);
    }

    #[test]
    fn nothing_is_lost_or_counted_twice() {
        let looks: Vec<Vec<f64>> = (0..50)
            .map(|look| {
                (0..4)
                    .map(|lane| f64::from((look * 7 + lane * 5) % 11))
                    .collect()
            })
            .collect();
        let mut slices: Vec<&[f64]> = looks.iter().map(Vec::as_slice).collect();
        slices.push(&[0.0; 4]);
        slices.push(&[0.0; 4]);
        let ran: f64 = looks.iter().flatten().sum();
        assert!((after(4, &slices).iter().sum::<f64>() - ran).abs() < 1e-9);
    }
}
