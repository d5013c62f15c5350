//! threadPerf as a list of numbers: what makes one valid, and the nearest valid one to measured
//! speeds.
//!
//! `[n - 1]` is the speed of a thread when n lanes of its core run, relative to a core with SMT off. The first is
//! below 1 where SMT costs a lane something though its siblings are idle. That cannot be told without switching SMT
//! off: measured speeds are relative to a lane alone, and begin with 1.

/// The lowest speed that is ever reported: a thread that runs is never at rest.
const SPEED_MIN: f64 = 1e-6;

/// Why numbers are no threadPerf, or nothing: the first is at most 1, none is above the one before, all
/// are above 0.
pub fn fault(speeds: &[f64]) -> Option<String> {
    match speeds.first() {
        None => return Some("it has no number".to_owned()),
        Some(first) if *first > 0.0 && *first <= 1.0 => {}
        Some(first) => {
            return Some(format!(
                "it begins with {first}; a lane that runs alone is 1, or less where SMT costs it something, and above 0"
            ));
        }
    }
    for (pair, lanes) in speeds.windows(2).zip(2..) {
        let [before, speed] = pair else { continue };
        if !(*speed > 0.0 && speed <= before) {
            return Some(format!(
                "the speed with {lanes} lanes is {speed}; it must be above 0 and at most {before}"
            ));
        }
    }
    None
}

/// Published speeds: of a Xeon with two lanes, of POWER7 with four for cores of more.
pub fn typical(lanes: usize) -> Vec<f64> {
    match lanes {
        0..=2 => vec![1.0, 0.6],
        _ => vec![1.0, 0.75, 0.57, 0.45],
    }
}

/// At least so many speeds: lanes beyond those that are known add nothing, so that the core's rate stays.
pub fn extended(mut known: Vec<f64>, lanes: usize) -> Vec<f64> {
    let count = known.len();
    let last = known.last().copied().unwrap_or(1.0);
    known.extend((count + 1..=lanes).map(|n| last * count as f64 / n as f64));
    known
}

/// The valid threadPerf that is nearest to measured speeds, by weighted least squares: the first is
/// 1; neighbours that increase are replaced by their weighted mean; what is above 1 becomes 1.
/// Weights are above 0; a missing one is 1.
pub fn nearest_valid(measured: &[f64], weights: &[f64]) -> Vec<f64> {
    // Pools of neighbours that share a speed: sum of weighted speeds, sum of weights, members.
    let mut pools: Vec<(f64, f64, usize)> = Vec::new();
    for (index, &speed) in measured.iter().enumerate().skip(1) {
        let weight = weights.get(index).copied().unwrap_or(1.0);
        let mut pool = (speed * weight, weight, 1);
        while let Some(&last) = pools.last() {
            if last.0 / last.1 >= pool.0 / pool.1 {
                break;
            }
            pool = (last.0 + pool.0, last.1 + pool.1, last.2 + pool.2);
            pools.pop();
        }
        pools.push(pool);
    }
    let first = measured.iter().take(1).map(|_| 1.0);
    let rest = pools.iter().flat_map(|&(sum, weight, members)| {
        std::iter::repeat_n((sum / weight).clamp(SPEED_MIN, 1.0), members)
    });
    first.chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn valid_speeds_stay_as_they_are() {
        let speeds = [1.0, 0.75, 0.57, 0.45];
        assert_eq!(fault(&speeds), None);
        assert_eq!(nearest_valid(&speeds, &[]), speeds);
        assert_eq!(nearest_valid(&[], &[]), Vec::<f64>::new());
        assert_eq!(fault(&[0.9, 0.6]), None);
        assert_eq!(fault(&[0.9]), None);
    }

    #[test]
    fn increasing_speeds_share_their_mean_and_none_exceeds_one() {
        let close = |a: &[f64], b: &[f64]| {
            assert!(
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12),
                "{a:?} {b:?}"
            );
        };
        close(
            &nearest_valid(&[1.0, 0.5, 0.6, 0.4], &[]),
            &[1.0, 0.55, 0.55, 0.4],
        );
        close(&nearest_valid(&[1.0, 1.02, 0.9], &[]), &[1.0, 1.0, 0.9]);
        close(
            &nearest_valid(&[1.0, 0.5, 0.8], &[1.0, 3.0, 1.0]),
            &[1.0, 0.575, 0.575],
        );
        close(
            &nearest_valid(&[0.97, 0.3, 0.5, 0.7], &[]),
            &[1.0, 0.5, 0.5, 0.5],
        );
    }

    #[test]
    fn faults_are_named() {
        for (speeds, said) in [
            (&[][..], "no number"),
            (&[1.1, 0.5], "begins with 1.1"),
            (&[0.0], "begins with 0;"),
            (&[f64::NAN, 0.5], "begins with NaN"),
            (
                &[0.9, 0.95],
                "with 2 lanes is 0.95; it must be above 0 and at most 0.9",
            ),
            (&[1.0, 0.5, 0.6], "with 3 lanes is 0.6"),
            (&[1.0, 0.0], "with 2 lanes is 0"),
            (&[1.0, f64::NAN], "NaN"),
        ] {
            let fault = fault(speeds).unwrap();
            assert!(fault.contains(said), "{fault}");
        }
    }

    proptest! {
        #[test]
        fn the_nearest_is_always_valid(measured in prop::collection::vec(0.0f64..1.5, 1..9)) {
            let valid = nearest_valid(&measured, &[]);
            prop_assert_eq!(valid.len(), measured.len());
            prop_assert_eq!(fault(&valid), None);
        }
    }
}
