//! Birth-death chains: Poisson arrivals, and a rate of completion that depends on how many are there
//! (Kleinrock 1975, "Queueing Systems, Volume 1", 3.1).

/// A weight leaves a double's range after a few of these steps; a power of two, so that nothing rounds.
const STEP: f64 = 1.157_920_892_373_162e77; // 2^256

/// The stationary state of as many servers as there are rates, with one queue.
///
/// With rates n × μ this is M/M/s: its probabilities are equation 5 of the source.
pub struct Chain {
    /// `[n]` that n are there, up to the number of servers.
    probabilities: Vec<f64>,
    /// `[n]` that n + 1 there complete so many per unit of time; with more than the last, as many.
    rates: Vec<f64>,
    /// Each further state is so many times as likely as the one before; below 1.
    ratio: f64,
}

impl Chain {
    /// None if the queue grows for ever. Rates are above 0.
    pub fn new(arrival_rate: f64, rates: Vec<f64>) -> Option<Chain> {
        let last = *rates.last()?;
        if !(arrival_rate >= 0.0 && arrival_rate < last) {
            return None;
        }
        // Rounding may not reach 1 where the rates have not.
        let ratio = (arrival_rate / last).min(1.0 - f64::EPSILON / 2.0);
        let mut probabilities = weights(rates.iter().map(|rate| arrival_rate / rate));
        let beyond = probabilities.last()? * ratio / (1.0 - ratio);
        let total = probabilities.iter().sum::<f64>() + beyond;
        probabilities.iter_mut().for_each(|weight| *weight /= total);
        Some(Chain {
            probabilities,
            rates,
            ratio,
        })
    }

    /// `[n]` that n are there, up to the number of servers; more are possible.
    pub fn present(&self) -> &[f64] {
        &self.probabilities
    }

    /// `[n]`: the rate of completion with n + 1 there.
    pub fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// `[n]` that n servers are busy; the last includes all states with a queue.
    pub fn busy(&self) -> Vec<f64> {
        let mut busy = self.probabilities.clone();
        if let Some(all) = busy.last_mut() {
            *all /= 1.0 - self.ratio;
        }
        busy
    }

    /// Mean time in service: mean busy servers over the arrival rate, by Little's law.
    ///
    /// Summed over the state n + 1 that an arrival makes of n, whose probability over the arrival rate
    /// is that of n over the rate of completion: no division by an arrival rate of nearly 0.
    pub fn service(&self) -> f64 {
        let servers = self.rates.len() as f64;
        let all_busy = self.probabilities.last().zip(self.rates.last());
        let queued = all_busy.map_or(0.0, |(p, rate)| p / (1.0 - self.ratio) * servers / rate);
        let others = self.probabilities.iter().zip(&self.rates).zip(1_u32..);
        let term = |((p, rate), after): ((&f64, &f64), u32)| p * f64::from(after) / rate;
        others.map(term).sum::<f64>() + queued
    }

    /// Mean time in the queue. For M/M/s it is equation 4 of the source.
    pub fn wait(&self) -> f64 {
        let full = self.probabilities.last().zip(self.rates.last());
        let idle = 1.0 - self.ratio;
        full.map_or(0.0, |(p, rate)| p / (rate * idle * idle))
    }
}

/// Products of the first 0, 1, 2, … ratios, times a common factor with which the greatest is finite
/// and not near 0. What is below it by more than a double's range is 0.
fn weights(ratios: impl Iterator<Item = f64>) -> Vec<f64> {
    let ratios: Vec<f64> = ratios.collect();
    let plain = |weight: &mut f64, ratio: &f64| {
        *weight *= ratio;
        (1.0 / STEP..=STEP).contains(weight).then_some(*weight)
    };
    let mut products = Vec::with_capacity(ratios.len() + 1);
    products.push(1.0);
    products.extend(ratios.iter().scan(1.0, plain));
    match products.len() > ratios.len() {
        true => products,
        false => scaled_weights(&ratios),
    }
}

/// The same where products leave a double's range.
fn scaled_weights(ratios: &[f64]) -> Vec<f64> {
    let (mut mantissa, mut exponent) = (1.0_f64, 0_i64);
    let mut scaled = Vec::with_capacity(ratios.len() + 1);
    scaled.push((mantissa, exponent));
    for ratio in ratios {
        mantissa *= ratio;
        if mantissa > STEP {
            (mantissa, exponent) = (mantissa / STEP, exponent + 1);
        } else if mantissa > 0.0 && mantissa < 1.0 / STEP {
            (mantissa, exponent) = (mantissa * STEP, exponent - 1);
        }
        scaled.push((mantissa, exponent));
    }
    let alive = scaled.iter().filter(|(mantissa, _)| *mantissa > 0.0);
    let greatest = alive.map(|(_, exponent)| *exponent).max().unwrap_or(0);
    let unscaled = |(mantissa, exponent)| match greatest - exponent {
        0 => mantissa,
        1 => mantissa / STEP,
        2 => mantissa / STEP / STEP,
        3 => mantissa / STEP / STEP / STEP,
        _ => 0.0,
    };
    scaled.into_iter().map(unscaled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(actual: f64, expected: f64) {
        let error = (actual - expected).abs() / expected.abs().max(1e-300);
        assert!(error < 1e-12, "{actual} instead of {expected}");
    }

    #[test]
    fn one_server_is_mm1() {
        let chain = Chain::new(0.75, vec![1.0]).unwrap();
        close(chain.wait(), 3.0);
        close(chain.service(), 1.0);
        close(chain.present()[0], 0.25);
        close(chain.busy()[1], 0.75);
    }

    #[test]
    fn two_servers_by_hand() {
        // Load 1 on 2 servers: π = 1/3, 1/3, 1/6, ...; C = 1/3, wait = C / (2 - 1).
        let chain = Chain::new(1.0, vec![1.0, 2.0]).unwrap();
        close(chain.present()[0], 1.0 / 3.0);
        close(chain.present()[2], 1.0 / 6.0);
        close(chain.busy()[2], 1.0 / 3.0);
        close(chain.wait(), 1.0 / 3.0);
        close(chain.service(), 1.0);
    }

    #[test]
    fn lanes_that_share_a_core_by_hand() {
        // Arrivals 1, rates 1, 2, 1.25: weights 1, 1, 1/2, 2/5, then × 4/5; sum 9/2.
        // Busy: (1 + 1 + 3 × 2) × 2/9; waiting: 2/5 × 0.8 / 0.04 × 2/9. Together 32/9.
        let chain = Chain::new(1.0, vec![1.0, 2.0, 1.25]).unwrap();
        close(chain.service(), 16.0 / 9.0);
        close(chain.wait(), 16.0 / 9.0);
    }

    #[test]
    fn huge_and_tiny_weights_keep_their_proportion() {
        let rates: Vec<f64> = (1..=8192).map(f64::from).collect();
        let chain = Chain::new(8000.0, rates).unwrap();
        close(chain.busy().iter().sum(), 1.0);
        close(chain.service(), 1.0);
        assert!(chain.wait() > 0.0 && chain.wait() < 1.0);
        // Down by 10^-600, up again, and down.
        let mut rates = vec![1e6; 100];
        rates.extend(vec![1e-7; 100]);
        rates.extend(vec![2.0; 10]);
        let chain = Chain::new(1.0, rates).unwrap();
        close(chain.busy().iter().sum(), 1.0);
        close(chain.present()[0] * 1e100, chain.present()[200]);
        assert_eq!(chain.present()[100], 0.0); // 10^-700
    }

    #[test]
    fn saturated_or_empty_there_is_no_chain() {
        assert!(Chain::new(1.0, vec![1.0]).is_none());
        assert!(Chain::new(0.0, vec![]).is_none());
        assert!(Chain::new(f64::NAN, vec![1.0]).is_none());
        let almost = Chain::new(1.0_f64.next_down(), vec![1.0]).unwrap();
        assert!(almost.wait().is_finite() && almost.wait() > 1e15);
        let idle = Chain::new(0.0, vec![1.0, 1.2]).unwrap();
        assert_eq!((idle.service(), idle.wait()), (1.0, 0.0));
        assert_eq!(Chain::new(5e-324, vec![1.0, 1.2]).unwrap().service(), 1.0);
    }
}
