//! Statistics of independent replications.

use sidelane_smt::report::digits;
use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// A mean over independent replications, and how well it is known.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Estimate {
    /// Mean of the replications.
    pub mean: f64,
    /// Half of the width of the confidence interval around it; none from a single replication,
    /// which says nothing about how much replications differ.
    pub half_width: Option<f64>,
    /// Independent replications.
    pub replications: usize,
}

impl Estimate {
    /// `8.730 ±0.051`, both times a factor; the mean alone where there is no interval.
    pub fn text(&self, factor: f64) -> String {
        let mean = digits(self.mean * factor);
        match self.half_width {
            Some(width) if width.is_finite() => format!("{mean} ±{}", digits(width * factor)),
            _ => mean,
        }
    }

    /// From one value of each replication. The interval, Student's, contains the true mean with the
    /// probability `confidence` (between 0 and 1, such as 0.95) if the values are normally
    /// distributed.
    ///
    /// None without values, or if one of them is not a finite number. No half width if the
    /// confidence is not between 0 and 1.
    pub fn of(values: &[f64], confidence: f64) -> Option<Estimate> {
        let mean = mean(values)?;
        let deviations = values.iter().map(|value| value - mean);
        let standard_error = standard_error(deviations, values.len());
        Some(Estimate::around(
            mean,
            standard_error,
            values.len(),
            confidence,
        ))
    }

    /// The ratio of the means of two quantities, of which each replication gives one value each, in
    /// the same order. What the two have in common, such as arrivals, narrows the interval.
    ///
    /// Ratio estimator of Cochran 1977, "Sampling Techniques", 2.11: an approximation that is good
    /// if the standard error of the denominators' mean is below about a tenth of that mean.
    ///
    /// None if the numbers of values differ, or as for [`of`](Self::of), or if the denominators'
    /// mean is 0.
    pub fn ratio(numerators: &[f64], denominators: &[f64], confidence: f64) -> Option<Estimate> {
        if numerators.len() != denominators.len() {
            return None;
        }
        let below = mean(denominators)?;
        let ratio = mean(numerators)? / below;
        if !ratio.is_finite() {
            return None;
        }
        let pairs = numerators.iter().zip(denominators);
        let deviations = pairs.map(|(above, denominator)| (above - ratio * denominator) / below);
        let replications = numerators.len();
        let standard_error = standard_error(deviations, replications);
        Some(Estimate::around(
            ratio,
            standard_error,
            replications,
            confidence,
        ))
    }

    fn around(mean: f64, error: Option<f64>, replications: usize, confidence: f64) -> Estimate {
        let quantile = student_t(confidence, replications.saturating_sub(1));
        Estimate {
            mean,
            half_width: error
                .zip(quantile)
                .map(|(error, quantile)| error * quantile),
            replications,
        }
    }

    /// Is a value inside the confidence interval? No if there is none.
    pub fn contains(&self, value: f64) -> bool {
        self.half_width
            .is_some_and(|half_width| (value - self.mean).abs() <= half_width)
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    Some(mean).filter(|mean| mean.is_finite()) // 0 / 0 is not, nor are sums with NaN or infinity
}

/// Of a mean, from the n deviations from it; none if there are fewer than 2.
fn standard_error(deviations: impl Iterator<Item = f64>, n: usize) -> Option<f64> {
    let squares: f64 = deviations.map(|deviation| deviation * deviation).sum();
    let n = n as f64;
    (n >= 2.0).then(|| (squares / (n - 1.0) / n).sqrt())
}

/// The t for which a variable with Student's distribution lies in -t..t with the probability
/// `confidence`; none without a degree of freedom, or if the confidence is not between 0 and 1.
fn student_t(confidence: f64, degrees: usize) -> Option<f64> {
    if degrees == 0 || !(confidence > 0.0 && confidence < 1.0) {
        return None;
    }
    let (mut low, mut high) = (0.0, FRAC_PI_2);
    loop {
        let angle = low + (high - low) / 2.0;
        if angle <= low || angle >= high {
            return Some((degrees as f64).sqrt() * libm::tan(angle));
        }
        match central_probability(angle, degrees) < confidence {
            true => low = angle,
            false => high = angle,
        }
    }
}

/// The probability that a variable with Student's distribution lies in -t..t, of the angle
/// atan(t / √degrees): Abramowitz and Stegun 1964, 26.7.3 and 26.7.4.
fn central_probability(angle: f64, degrees: usize) -> f64 {
    let (sine, cosine) = (libm::sin(angle), libm::cos(angle));
    let even = degrees.is_multiple_of(2);
    let (mut term, mut divisor) = if even { (1.0, 2.0) } else { (cosine, 3.0) };
    let mut sum = 0.0;
    for _ in 0..degrees / 2 {
        sum += term;
        term *= cosine * cosine * (divisor - 1.0) / divisor;
        divisor += 2.0;
    }
    match even {
        true => sine * sum,
        false => FRAC_2_PI * (angle + sine * sum),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Distribution, Stream};

    #[test]
    fn student_t_is_that_of_the_tables() {
        for (confidence, degrees, table) in [
            (0.95, 1, 12.706),
            (0.95, 2, 4.303),
            (0.95, 9, 2.262),
            (0.99, 9, 3.250),
            (0.99, 4, 4.604),
            (0.99, 1, 63.657),
            (0.90, 30, 1.697),
            (0.999, 29, 3.659),
            (0.95, 120, 1.980),
            (0.95, 100_000, 1.960),
        ] {
            let t = student_t(confidence, degrees).unwrap();
            assert!((t - table).abs() <= 0.000_51, "{confidence} {degrees}: {t}");
        }
        assert_eq!(student_t(0.95, 0), None);
        assert!(
            [0.0, 1.0, f64::NAN]
                .iter()
                .all(|&c| student_t(c, 5).is_none())
        );
    }

    #[test]
    fn the_interval_is_that_of_the_formula() {
        // Mean 3, variance 2.5: t(0.975, 4) √(2.5 / 5).
        let estimate = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95).unwrap();
        assert_eq!((estimate.mean, estimate.replications), (3.0, 5));
        let half_width = estimate.half_width.unwrap();
        assert!(
            (half_width - 2.776_445 * 0.5f64.sqrt()).abs() < 1e-6,
            "{half_width}"
        );
        assert!(estimate.contains(4.9) && estimate.contains(1.1));
        assert!(!estimate.contains(5.0) && !estimate.contains(f64::NAN));
    }

    #[test]
    fn a_single_replication_claims_nothing() {
        let estimate = Estimate::of(&[7.0], 0.95).unwrap();
        assert_eq!((estimate.mean, estimate.half_width), (7.0, None));
        assert!(!estimate.contains(7.0));
        assert_eq!(Estimate::of(&[], 0.95), None);
        assert_eq!(Estimate::of(&[1.0, f64::NAN], 0.95), None);
        assert_eq!(Estimate::of(&[1.0, 2.0], 1.0).unwrap().half_width, None);
    }

    #[test]
    fn equal_replications_are_certain() {
        let estimate = Estimate::of(&[2.0; 4], 0.99).unwrap();
        assert_eq!(estimate.half_width, Some(0.0));
        assert!(estimate.contains(2.0) && !estimate.contains(2.000_001));
    }

    /// How often intervals from 10 replications contain the truth, of 2000.
    fn coverage(truth: f64, interval: impl Fn(&mut Stream) -> Estimate) -> f64 {
        let mut stream = Stream::new(11, &[]);
        let hits = (0..2000).filter(|_| interval(&mut stream).contains(truth));
        hits.count() as f64 / 2000.0
    }

    #[test]
    fn intervals_contain_the_truth_as_often_as_they_say() {
        let values = Distribution::Erlang {
            stages: 20,
            mean: 1.0,
        };
        let draw =
            |stream: &mut Stream| -> Vec<f64> { (0..10).map(|_| values.sample(stream)).collect() };
        let of = coverage(1.0, |stream| Estimate::of(&draw(stream), 0.9).unwrap());
        assert!((0.88..0.92).contains(&of), "{of}");
        let ratio = coverage(0.5, |stream| {
            let (above, below) = (draw(stream), draw(stream));
            let halved: Vec<f64> = above.iter().map(|a| a / 2.0).collect();
            Estimate::ratio(&halved, &below, 0.9).unwrap()
        });
        assert!((0.875..0.925).contains(&ratio), "{ratio}");
    }

    #[test]
    fn what_pairs_have_in_common_does_not_widen_their_ratio() {
        let below = [1.0, 2.0, 4.0, 3.0];
        let above = below.map(|b| b * 1.5);
        let estimate = Estimate::ratio(&above, &below, 0.95).unwrap();
        assert_eq!((estimate.mean, estimate.half_width), (1.5, Some(0.0)));
        assert_eq!(Estimate::ratio(&above, &below[1..], 0.95), None);
        assert_eq!(Estimate::ratio(&above, &[0.0; 4], 0.95), None);
        let single = Estimate::ratio(&[3.0], &[2.0], 0.95).unwrap();
        assert_eq!((single.mean, single.half_width), (1.5, None));
    }
}
