//! How far a sweep goes before a metric falls below a bound: such as the load that a server bears
//! at a quality.

use super::claims::Reach;

/// The value of the sweep at which the metric crosses the bound first, by replication; between two
/// values by a straight line. `course` has the value of the sweep and the metric by replication, in
/// the order of the sweep. None if a replication is below the bound from the start, or never.
pub(super) fn reached(reach: &Reach, course: &[(f64, Vec<f64>)]) -> Option<Vec<f64>> {
    let replications = course.iter().map(|(_, values)| values.len()).min()?;
    let crossing = |replication: usize| {
        let pairs = course.windows(2).filter_map(|pair| {
            let [(from, before), (to, after)] = pair else {
                return None;
            };
            let (before, after) = (before[replication], after[replication]);
            let crosses = before >= reach.at_least && after < reach.at_least;
            let share = (before - reach.at_least) / (before - after);
            crosses.then_some(from + (to - from) * share)
        });
        pairs.into_iter().next()
    };
    let all: Option<Vec<f64>> = (0..replications).map(crossing).collect();
    all.filter(|all| !all.is_empty())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn reach(course: &[(f64, Vec<f64>)]) -> Option<Vec<f64>> {
        let reach = Reach {
            over: "load".into(),
            at_least: 0.9,
        };
        reached(&reach, course)
    }

    #[test]
    fn a_crossing_lies_between_two_points() {
        let course = [
            (0.5, vec![1.0, 1.0]),
            (0.7, vec![0.95, 0.9]),
            (0.9, vec![0.85, 0.8]),
        ];
        let found = reach(&course).unwrap();
        assert!((found[0] - 0.8).abs() < 1e-9 && (found[1] - 0.7).abs() < 1e-9);
    }

    #[test]
    fn no_crossing_is_no_value() {
        assert_eq!(reach(&[(0.5, vec![1.0]), (0.7, vec![0.95])]), None);
        assert_eq!(reach(&[(0.5, vec![0.8]), (0.7, vec![0.7])]), None);
        assert_eq!(reach(&[]), None);
    }
}
