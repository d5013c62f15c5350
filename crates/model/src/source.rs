//! The source's model: each core by itself, then waiting tasks that move to idle cores.

use crate::chain::Chain;
use crate::machine::Machine;

/// Iterations that the source makes at most.
pub const PUBLISHED_ITERATIONS: u32 = 10;

/// Rounds of bisection: more than a double has digits.
const BISECTIONS: u32 = 64;

/// A level that is stable.
pub(crate) struct Times {
    /// Mean time on a lane.
    pub service: f64,
    /// Mean time in a queue.
    pub wait: f64,
}

/// One core with some lanes, as equations 2 to 5 see it.
struct Core<'a> {
    machine: &'a Machine,
    level: usize,
    /// Normalised utilisation.
    utilization: f64,
}

/// Equations 1 to 8 at a level that is stable. None: until nothing changes.
pub(crate) fn source(
    machine: &Machine,
    level: usize,
    utilization: f64,
    iterations: Option<u32>,
) -> Option<Times> {
    let core = Core {
        machine,
        level,
        utilization,
    };
    let lane_utilization = match iterations {
        Some(iterations) => core.iterate(iterations),
        None => core.converge(),
    };
    // Equation 3, solved for avgThreadPerf; equation 2.
    let alone = 1.0 / machine.speed(level, 1);
    let service = match utilization > 0.0 {
        true => (lane_utilization / utilization * level as f64).max(alone),
        false => alone,
    };
    let wait = lanes(lane_utilization, level)?.wait() * service; // equation 4
    let stays = 1.0 - migratable_ratio(machine.cores(), level, lane_utilization)?;
    Some(Times {
        service,
        wait: wait * stays, // equation 8
    })
}

/// The same with time slices instead of first come first served, in a core.
///
/// Where tasks take turns, all share what the core does: n × threadPerf\[n\] with n tasks, all its
/// lanes with more. That chain is solved as it is, without an average threadPerf. Its means hold for
/// any distribution of demand, and for first come first served if demand is exponential. "Wait" is the
/// time without a lane, at whatever moments. Between cores, equations 6 to 8 as they are.
pub(crate) fn time_sliced(machine: &Machine, level: usize, utilization: f64) -> Option<Times> {
    let rates = (1..=level).map(|n| machine.core_rate(level, n));
    let core = Chain::new(utilization, rates.collect())?;
    let service = core.service();
    let lane_utilization = (utilization * service / level as f64).min(BELOW_ONE);
    let stays = 1.0 - migratable_ratio(machine.cores(), level, lane_utilization)?;
    Some(Times {
        service,
        wait: core.wait() * stays,
    })
}

/// The greatest utilisation that is not saturation.
const BELOW_ONE: f64 = 1.0 - f64::EPSILON / 2.0;

impl Core<'_> {
    /// ρ of equation 3 after so many iterations, from an average threadPerf of lanes that run alone.
    fn iterate(&self, iterations: u32) -> f64 {
        let mut reached = self.refined(self.alone());
        for _ in 1..iterations {
            let next = self.refine(reached);
            if next <= reached {
                break; // converged
            }
            reached = next;
        }
        reached
    }

    /// ρ at which equations 2 to 5 agree.
    ///
    /// Each iteration raises ρ: the more lanes run, the slower each. So the fixed point lies above, and
    /// where iterations creep, near saturation, it is found by halves.
    fn converge(&self) -> f64 {
        let mut low = self.iterate(2 * PUBLISHED_ITERATIONS);
        let mut high = BELOW_ONE;
        for _ in 0..BISECTIONS {
            let middle = low + (high - low) / 2.0;
            if middle <= low || middle >= high {
                break;
            }
            match self.refine(middle) > middle {
                true => low = middle,
                false => high = middle,
            }
        }
        low
    }

    /// One iteration: the ρ that follows from the average threadPerf at a ρ.
    fn refine(&self, lane_utilization: f64) -> f64 {
        let average = lanes(lane_utilization, self.level).map(|core| self.average_perf(&core));
        self.refined(average.unwrap_or(self.alone()))
    }

    /// Equation 3.
    fn refined(&self, average_perf: f64) -> f64 {
        (self.utilization / (average_perf * self.level as f64)).min(BELOW_ONE)
    }

    /// threadPerf\[n\] weighted with n × P(n lanes run).
    fn average_perf(&self, core: &Chain) -> f64 {
        let (mut work, mut running) = (0.0, 0.0);
        for (n, probability) in core.busy().into_iter().enumerate().skip(1) {
            work += self.machine.core_rate(self.level, n) * probability;
            running += n as f64 * probability;
        }
        match running > 0.0 {
            true => work / running,
            false => self.alone(),
        }
    }

    /// The speed of a lane that runs alone.
    fn alone(&self) -> f64 {
        self.machine.speed(self.level, 1)
    }
}

/// M/M/s with a utilisation; times in units of a service (equations 4 and 5).
fn lanes(utilization: f64, servers: usize) -> Option<Chain> {
    let rates = (1..=servers).map(|n| n as f64).collect();
    Chain::new(utilization * servers as f64, rates)
}

/// The probability that another core is idle, to which a waiting task moves (equations 6 and 7).
///
/// The last part of equation 7, put right, makes the parts sum to 1: those from 1 to t, of which
/// equation 6 takes the sum, are 1 − a\[0\]. So a\[0\], that a core is empty, is all that is needed.
fn migratable_ratio(cores: u32, level: usize, lane_utilization: f64) -> Option<f64> {
    let lanes = lanes(lane_utilization, cores as usize * level)?;
    let elsewhere = f64::from(cores - 1) / f64::from(cores);
    let mut all_elsewhere = 1.0;
    let mut empty = 0.0; // a[0]
    for probability in lanes.present() {
        empty += probability * all_elsewhere;
        all_elsewhere *= elsewhere;
    }
    Some(1.0 - libm::pow((1.0 - empty).max(0.0), f64::from(cores - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ThreadPerf;

    fn machine(cores: u32, speeds: &[f64]) -> Machine {
        Machine::new(cores, ThreadPerf::new(speeds.to_vec()).unwrap()).unwrap()
    }

    fn close(actual: f64, expected: f64) {
        let error = (actual / expected - 1.0).abs();
        assert!(error < 1e-10, "{actual} instead of {expected}");
    }

    /// Equation 5 as printed.
    fn pi(servers: u32, utilization: f64, n: u32) -> f64 {
        let offered = f64::from(servers) * utilization;
        let factorial = |n: u32| (1..=n).map(f64::from).product::<f64>();
        let term = |j: u32| offered.powi(j as i32) / factorial(j);
        let idle = (0..servers).map(term).sum::<f64>() + term(servers) / (1.0 - utilization);
        let shape = match n <= servers {
            true => term(n),
            false => term(servers) * utilization.powi((n - servers) as i32),
        };
        shape / idle
    }

    /// Equation 4 as printed.
    fn wait(level: u32, utilization: f64, service: f64) -> f64 {
        let t = f64::from(level);
        let factorial: f64 = (1..=level).map(f64::from).product();
        t.powi(level as i32 - 1) * utilization.powi(level as i32) * service
            / (factorial * (1.0 - utilization).powi(2))
            * pi(level, utilization, 0)
    }

    /// Equations 6 and 7 as printed, with the last part put right.
    fn migratable(cores: u32, level: u32, utilization: f64) -> f64 {
        let choose = |n: u32, k: u32| {
            (0..k)
                .map(|i| f64::from(n - i) / f64::from(k - i))
                .product::<f64>()
        };
        let part = |i: u32| -> f64 {
            let term = |j: u32| {
                pi(cores * level, utilization, j)
                    * choose(j, i)
                    * f64::from(cores - 1).powi((j - i) as i32)
                    / f64::from(cores).powi(j as i32)
            };
            (i..=cores * level).map(term).sum()
        };
        let mut parts: Vec<f64> = (0..level).map(part).collect();
        parts.push(1.0 - parts.iter().sum::<f64>());
        1.0 - parts[1..].iter().sum::<f64>().powi(cores as i32 - 1)
    }

    #[test]
    fn equations_as_printed() {
        for (cores, level, utilization) in [(1, 1, 0.5), (4, 2, 0.3), (4, 3, 0.85), (16, 4, 0.6)] {
            let core = lanes(utilization, level as usize).unwrap();
            close(core.wait() * 1.7, wait(level, utilization, 1.7));
            for n in 0..=level {
                close(core.present()[n as usize], pi(level, utilization, n));
            }
            if cores > 1 {
                let ratio = migratable_ratio(cores, level as usize, utilization).unwrap();
                close(ratio, migratable(cores, level, utilization));
            }
        }
    }

    #[test]
    fn a_fixed_point_by_hand() {
        // One core of two lanes, {1, 0.6}. With ρ of each lane: π = (1-ρ)/(1+ρ) × 1, 2ρ, then 2ρ².
        // Work: π[1] + 1.2 × P(2) = (2ρ(1-ρ) + 2.4ρ²) / (1+ρ), for ρ = 1/2: 1.1 / 1.5 = 11/15.
        let times = source(&machine(1, &[1.0, 0.6]), 2, 11.0 / 15.0, None).unwrap();
        // avgThreadPerf = (11/15) / (2 × 1/2); wait = ρ² / (1-ρ²) × service = service / 3.
        close(times.service, 15.0 / 11.0);
        close(times.wait, 5.0 / 11.0);
    }

    #[test]
    fn the_first_iterations_by_hand() {
        // First: avgThreadPerf 1, ρ = 0.25. Then π = 3/5 × 1, 1/2, 1/8 ..., P(2) = 1/10, so
        // avgThreadPerf = (0.3 + 2 × 0.1 × 0.6) / (0.3 + 0.2) = 0.84.
        let machine = machine(1, &[1.0, 0.6]);
        let of = |n| source(&machine, 2, 0.5, Some(n)).unwrap().service;
        close(of(1), 1.0);
        close(of(2), 1.0 / 0.84);
        let converged = source(&machine, 2, 0.5, None).unwrap().service;
        assert!(of(3) > of(2) && of(10) > of(3) && of(10) <= converged);
        close(of(1000), converged);
    }

    #[test]
    fn one_lane_is_mm1_whose_waiting_tasks_move() {
        let one = source(&machine(1, &[1.0]), 1, 0.8, None).unwrap();
        close(one.service, 1.0);
        close(one.wait, 4.0);
        // Two cores: a[0] = Σ π[j] / 2^j with M/M/2 at 0.5: 1/3 + 1/6 + 1/24; wait × (1 - a[0]).
        let two = source(&machine(2, &[1.0]), 1, 0.5, None).unwrap();
        close(two.wait, 1.0 - 13.0 / 24.0);
    }

    #[test]
    fn sliced_time_by_hand() {
        // Rates 1 and 1.2 at 0.6: weights 1, 0.6, 0.3, then half each: sum 2.2.
        let times = time_sliced(&machine(1, &[1.0, 0.6]), 2, 0.6).unwrap();
        close(
            times.service,
            (1.0 + 0.6 * 2.0 / 1.2 + 0.6 * 2.0 / 1.2) / 2.2,
        );
        close(times.wait, 0.3 / (1.2 * 0.25) / 2.2);
        let one = time_sliced(&machine(1, &[1.0]), 1, 0.8).unwrap();
        close(one.service + one.wait, 5.0);
    }
}
