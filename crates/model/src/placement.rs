//! Beyond the source: tasks that are placed with care instead of at random.
//!
//! Both variants have one queue for the machine, as of a scheduler whose idle lanes take waiting tasks
//! from other cores: no lane idles while a task waits.

use crate::chain::Chain;
use crate::machine::Machine;
use crate::source::Times;
use std::ops::Range;

/// Changes of mean numbers of cores below this, times the square of all cores, are none: on 16 cores
/// 10^-9 of them, on 1,024 10^-7.
const TOLERANCE: f64 = 1e-10;

/// How many times as far as it would have to each step goes (successive over-relaxation), and for how
/// many sweeps over the states at most. The first is quick; where it swings, the other does not.
const RELAXATIONS: [(f64, u32); 2] = [(1.8, 2_000), (1.0, 10_000)];

/// The approximation can make means of unlikely states negative by this share of all cores; further
/// down is another solution than the one that is meant.
const STRAY: f64 = 0.01;

/// How often the states that matter are chosen anew, at most.
const ROUNDS_MAX: u32 = 6;

/// States less likely than this, relative to the likeliest, do not matter.
const NEGLIGIBLE: f64 = 1e-10;

/// Tasks are always spread evenly: also a running one moves as soon as another core has less.
///
/// With n tasks n mod p cores have one more than the others, so that n up to p never share a core. A
/// birth-death chain over n with the sum of what the cores do; exact for exponential demand, for first
/// come first served as for time slices.
pub(crate) fn balanced(machine: &Machine, level: usize, utilization: f64) -> Option<Times> {
    let cores = machine.cores() as usize;
    let rate = |n: usize| -> f64 {
        let (each, more) = (n / cores, n % cores);
        let of = |lanes, count: usize| match count {
            0 => 0.0,
            _ => machine.thread_perf().core_rate(lanes) * count as f64,
        };
        of(each + 1, more) + of(each, cores - more)
    };
    let rates = (1..=cores * level).map(rate).collect();
    times(machine, utilization, rates)
}

/// A task goes to an idle core, else to any core with a lane that is free, and stays on it until it is
/// done: what the scheduler's `place.bpf.h` does.
///
/// So two tasks may share a core while another has fallen idle. The chain over the number of tasks
/// needs the mean rate of completion in each of its states, that is the mean number of cores with k
/// running lanes, y(n)[k]. Balance of what enters and leaves a state gives
///
/// ```text
/// (λ + d(n)) y(n) = d(n) × (y(n − 1) after an arrival) + λ × (y(n + 1) after a completion)
/// d(n) = Σ k threadPerf[k] y(n)[k]
/// ```
///
/// where the numbers of cores of different kinds are taken as uncorrelated in each state. That is the
/// one approximation, for exponential demand.
pub(crate) fn placed(machine: &Machine, level: usize, utilization: f64) -> Option<Times> {
    if level == 1 {
        return balanced(machine, level, utilization);
    }
    let mut states = States::spread_evenly(machine, level, utilization);
    let mut settled = 0..0_usize;
    for _ in 0..ROUNDS_MAX {
        let chain = Chain::new(states.arrival_rate, states.rates())?;
        let likely = likely(chain.present());
        let near = likely.len() / 16;
        let is_near = |a: usize, b: usize| a.abs_diff(b) <= near;
        if is_near(settled.start, likely.start) && is_near(settled.end, likely.end) {
            break;
        }
        states.settle(&likely);
        settled = likely;
    }
    times(machine, utilization, states.rates())
}

/// Naive M/M/s: lanes do not slow each other down.
pub(crate) fn without_interference(
    machine: &Machine,
    level: usize,
    utilization: f64,
) -> Option<Times> {
    let lanes = machine.cores() as usize * level;
    let times = times(
        machine,
        utilization,
        (1..=lanes).map(|n| n as f64).collect(),
    )?;
    Some(Times {
        service: 1.0, // also in the last digit
        ..times
    })
}

fn times(machine: &Machine, utilization: f64, rates: Vec<f64>) -> Option<Times> {
    let chain = Chain::new(utilization * f64::from(machine.cores()), rates)?;
    Some(Times {
        service: chain.service(),
        wait: chain.wait(),
    })
}

/// The states that matter, without the first and the last, which are known.
fn likely(probabilities: &[f64]) -> Range<usize> {
    let greatest = probabilities.iter().copied().fold(0.0, f64::max);
    let matters = |p: &f64| *p >= NEGLIGIBLE * greatest;
    let first = probabilities.iter().position(matters).unwrap_or(0);
    let last = probabilities.iter().rposition(matters).unwrap_or(0);
    let end = (last + 1).min(probabilities.len() - 1);
    first.max(1).min(end)..end
}

/// Mean numbers of cores by running lanes, for each number of tasks up to that of lanes.
struct States {
    /// `[k]`: what a core does with k running lanes.
    core_rates: Vec<f64>,
    cores: f64,
    arrival_rate: f64,
    /// Lanes of a core that may run, plus 1.
    width: usize,
    /// `[n * width + k]`: mean number of cores with k running lanes when there are n tasks.
    means: Vec<f64>,
}

impl States {
    fn spread_evenly(machine: &Machine, level: usize, utilization: f64) -> States {
        let (cores, width) = (machine.cores() as usize, level + 1);
        let mut means = vec![0.0; (cores * level + 1) * width];
        for (n, state) in means.chunks_exact_mut(width).enumerate() {
            state[n / cores] += (cores - n % cores) as f64;
            if n % cores > 0 {
                state[n / cores + 1] += (n % cores) as f64;
            }
        }
        States {
            core_rates: (0..width)
                .map(|k| machine.thread_perf().core_rate(k))
                .collect(),
            cores: cores as f64,
            arrival_rate: utilization * cores as f64,
            width,
            means,
        }
    }

    /// Rates of completion from 1 task on.
    fn rates(&self) -> Vec<f64> {
        let states = self.means.chunks_exact(self.width).skip(1);
        states.map(|state| self.rate(state)).collect()
    }

    fn rate(&self, state: &[f64]) -> f64 {
        let cores = state.iter().zip(&self.core_rates);
        cores.map(|(cores, rate)| cores * rate).sum()
    }

    /// Solves the balance of some states. Whether that came to an end.
    fn settle(&mut self, some: &Range<usize>) -> bool {
        let before = self.means.clone();
        RELAXATIONS.iter().any(|&(relaxation, sweeps_max)| {
            self.means.clone_from(&before);
            (0..sweeps_max)
                .any(|_| self.sweep(some, relaxation) <= TOLERANCE * self.cores * self.cores)
                && self.means.iter().all(|mean| *mean >= -STRAY * self.cores)
        })
    }

    /// Settles one state after the other, down and up; how much they changed at most.
    fn sweep(&mut self, some: &Range<usize>, relaxation: f64) -> f64 {
        let order = some.clone().rev().chain(some.clone());
        order.fold(0.0, |change: f64, n| match self.settle_one(n, relaxation) {
            own if own.is_nan() => f64::INFINITY,
            own => change.max(own),
        })
    }

    /// The balance of one state with its neighbours; how much it changed.
    fn settle_one(&mut self, n: usize, relaxation: f64) -> f64 {
        let at = n * self.width;
        let (below, rest) = self.means.split_at(at);
        let (own, above) = rest.split_at(self.width);
        let (below, above) = (&below[at - self.width..], &above[..self.width]);
        let (completions, completions_above) = (self.rate(own), self.rate(above));
        let upwards = completions / (self.arrival_rate + completions);
        let downwards = 1.0 - upwards;
        let mut next = [0.0; crate::LANES_MAX + 1];
        let finds_idle = below[0].min(1.0);
        let shared: f64 = below[1..self.width - 1].iter().sum();
        let finds_shared = ((1.0 - finds_idle) / shared.max(f64::MIN_POSITIVE)).min(1.0);
        for k in 0..self.width {
            // An arrival takes an idle core, else any with a lane that is free.
            let placed = match k {
                0 => finds_idle,
                _ if k + 1 < self.width => below[k] * finds_shared,
                _ => 0.0,
            };
            next[k] += upwards * (below[k] - placed);
            // A completion leaves its core with one less.
            let left = self.core_rates[k] * above[k] / completions_above;
            next[k] += downwards * (above[k] - left);
            if let Some(to) = next.get_mut(k + 1).filter(|_| k + 1 < self.width) {
                *to += upwards * placed;
            }
            if let Some(to) = k.checked_sub(1).and_then(|k| next.get_mut(k)) {
                *to += downwards * left;
            }
        }
        let own = &mut self.means[at..at + self.width];
        let mut change: f64 = 0.0;
        for (mean, next) in own.iter_mut().zip(next) {
            change += (next - *mean).abs();
            *mean += relaxation * (next - *mean);
        }
        change
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ThreadPerf;

    fn machine(cores: u32, speeds: &[f64]) -> Machine {
        Machine::new(cores, ThreadPerf::new(speeds.to_vec()).unwrap()).unwrap()
    }

    fn close(actual: f64, expected: f64, tolerance: f64) {
        let error = (actual / expected - 1.0).abs();
        assert!(error < tolerance, "{actual} instead of {expected}");
    }

    fn response(times: Option<Times>) -> f64 {
        times.map(|times| times.service + times.wait).unwrap()
    }

    #[test]
    fn balanced_by_hand() {
        // 2 cores, {1, 0.75}: rates 1, 2, 2.5, 3; arrivals 1.5.
        // Weights 1, 3/2, 9/8, 27/40, 27/80, then half each.
        let times = balanced(&machine(2, &[1.0, 0.75]), 2, 0.75).unwrap();
        let sum = 1.0 + 1.5 + 1.125 + 0.675 + 2.0 * 0.3375;
        let busy = 1.5 + 2.0 * 1.125 + 3.0 * 0.675 + 4.0 * 0.675;
        close(times.service, busy / sum / 1.5, 1e-12);
        close(times.wait, 0.3375 / (3.0 * 0.25) / sum, 1e-12);
    }

    /// Cores of two lanes, of which new tasks take idle ones first: all states, solved by iteration.
    /// At most 300 wait.
    fn exact_response(cores: usize, speed: f64, utilization: f64) -> f64 {
        let arrivals = utilization * cores as f64;
        let index = |one: usize, two: usize| one * (cores + 1) + two;
        let full = index(0, cores);
        // Where to, how often; the states with a queue come after the others.
        let states = index(cores, cores) + 1;
        let mut moves: Vec<(usize, usize, f64)> = Vec::new();
        let mut present = vec![0; states + 300];
        for one in 0..=cores {
            for two in 0..=cores - one {
                let from = index(one, two);
                present[from] = one + 2 * two;
                let to = match (one + two < cores, one > 0) {
                    (true, _) => index(one + 1, two),
                    (false, true) => index(one - 1, two + 1),
                    (false, false) => states,
                };
                moves.push((from, to, arrivals));
                if one > 0 {
                    moves.push((from, index(one - 1, two), one as f64));
                }
                if two > 0 {
                    moves.push((from, index(one + 1, two - 1), 2.0 * speed * two as f64));
                }
            }
        }
        for waiting in 0..300 {
            let from = states + waiting;
            present[from] = 2 * cores + waiting + 1;
            let back = if waiting == 0 { full } else { from - 1 };
            moves.push((from, back, 2.0 * speed * cores as f64));
            if waiting < 299 {
                moves.push((from, from + 1, arrivals));
            }
        }
        let step = 0.9 / (arrivals + 2.0 * cores as f64);
        let mut p = vec![0.0; states + 300];
        p[0] = 1.0;
        for _ in 0..6000 {
            let mut next = p.clone();
            for &(from, to, rate) in &moves {
                let flow = p[from] * rate * step;
                next[from] -= flow;
                next[to] += flow;
            }
            p = next;
        }
        let mean: f64 = p.iter().zip(&present).map(|(p, n)| p * *n as f64).sum();
        mean / arrivals
    }

    #[test]
    fn placed_is_nearly_exact() {
        for (cores, speed, utilization) in [
            (1, 0.6, 0.7),
            (2, 0.75, 0.8),
            (4, 0.6, 0.3),
            (4, 0.6, 0.7),
            (4, 0.75, 1.1),
            (8, 0.6, 0.9),
        ] {
            let exact = exact_response(cores, speed, utilization);
            let machine = machine(cores as u32, &[1.0, speed]);
            let approximate = response(placed(&machine, 2, utilization));
            close(approximate, exact, 0.01);
        }
    }

    #[test]
    fn on_one_core_or_one_lane_placing_is_no_matter() {
        for (machine, level) in [
            (machine(1, &[1.0, 0.75, 0.57, 0.45]), 4),
            (machine(5, &[1.0, 0.6]), 1),
        ] {
            for utilization in [0.0, 0.3, 0.99] {
                let one = response(balanced(&machine, level, utilization));
                close(response(placed(&machine, level, utilization)), one, 1e-9);
            }
        }
    }

    #[test]
    fn sweeps_come_to_an_end() {
        for cores in [2, 3, 16, 50] {
            for speeds in [&[1.0, 0.6][..], &[1.0, 0.75, 0.57, 0.45], &[1.0, 0.3, 0.3]] {
                let machine = machine(cores, speeds);
                for share in [0.01, 0.3, 0.6, 0.9, 0.999] {
                    let utilization = share * machine.thread_perf().core_rate(speeds.len());
                    let mut states = States::spread_evenly(&machine, speeds.len(), utilization);
                    let lanes = cores as usize * speeds.len();
                    assert!(states.settle(&(1..lanes)), "{cores} {speeds:?} {share}");
                    for state in states.means.chunks_exact(speeds.len() + 1) {
                        close(state.iter().sum(), f64::from(cores), 1e-3);
                    }
                }
            }
        }
    }

    #[test]
    fn staying_is_never_better_than_moving() {
        let machine = machine(6, &[1.0, 0.75, 0.57, 0.45]);
        for percent in (0..180).step_by(7) {
            let utilization = f64::from(percent) / 100.0;
            let moving = response(balanced(&machine, 4, utilization));
            let staying = response(placed(&machine, 4, utilization));
            assert!(staying >= moving * (1.0 - 1e-9), "{utilization}");
            assert!(staying <= moving * 1.2, "{utilization}");
        }
    }
}
