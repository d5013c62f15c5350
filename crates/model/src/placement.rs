//! Beyond the source: tasks that are placed with care instead of at random.
//!
//! Both variants have one queue for the machine, as of a scheduler whose idle lanes take waiting tasks
//! from other cores: no lane idles while a task waits.

use crate::chain::Chain;
use crate::machine::Machine;
use crate::source::Times;
pub(crate) use means::Arrivals;
use means::Means;
use std::ops::Range;

mod means;

/// A step that changes no rate of completion by more than this share is the last, each as important as
/// its state is likely: the next would change them by about the square.
const TOLERANCE: f64 = 1e-5;

/// Steps at most.
const STEPS_MAX: u32 = 40;

/// States less likely than this, relative to the likeliest, do not matter.
const NEGLIGIBLE: f64 = 1e-7;

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
            _ => machine.core_rate(level, lanes) * count as f64,
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
///
/// With [`Arrivals::LastLane`] a task first tries the lane where it ran last, as in the default scheduler
/// of Linux (`select_idle_sibling` in `kernel/sched/fair.c`).
pub(crate) fn placed(
    machine: &Machine,
    level: usize,
    utilization: f64,
    arrivals: Arrivals,
) -> Option<Times> {
    let at = (machine, utilization, arrivals);
    match level {
        0 => None,
        1 => balanced(machine, 1, utilization),
        2 => settled::<1>(at),
        3 => settled::<2>(at),
        4 => settled::<3>(at),
        5 => settled::<4>(at),
        6 => settled::<5>(at),
        7 => settled::<6>(at),
        8 => settled::<7>(at),
        9 => settled::<8>(at),
        10 => settled::<9>(at),
        11 => settled::<10>(at),
        12 => settled::<11>(at),
        13 => settled::<12>(at),
        14 => settled::<13>(at),
        15 => settled::<14>(at),
        _ => settled::<15>(at),
    }
}

/// A machine, its normalised utilisation, and where tasks go.
type At<'a> = (&'a Machine, f64, Arrivals);

fn settled<const B: usize>(at: At) -> Option<Times> {
    let (chain, _) = settle::<B>(at, TOLERANCE)?;
    Some(Times {
        service: chain.service(),
        wait: chain.wait(),
    })
}

/// Steps of Newton's method, each on the states that are likely after the one before; and how many.
fn settle<const B: usize>(
    (machine, utilization, arrivals): At,
    tolerance: f64,
) -> Option<(Chain, u32)> {
    let arrival_rate = utilization * f64::from(machine.cores());
    let mut means = Means::<B>::spread_evenly(machine, arrivals, arrival_rate);
    let mut chain = Chain::new(arrival_rate, means.rates())?;
    for steps in 1..=STEPS_MAX {
        means.step(likely(chain.present()));
        let before = chain;
        chain = Chain::new(arrival_rate, means.rates())?;
        if is_settled(&before, &chain, tolerance) {
            return Some((chain, steps));
        }
    }
    Some((chain, STEPS_MAX))
}

/// Whether rates of completion changed by no more than the tolerance.
fn is_settled(before: &Chain, now: &Chain, tolerance: f64) -> bool {
    let greatest = now.present().iter().copied().fold(0.0, f64::max);
    let rates = before.rates().iter().zip(now.rates());
    let mut states = now.present().iter().skip(1).zip(rates);
    states.all(|(p, (before, now))| p * (now - before).abs() <= tolerance * greatest * before)
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

    /// Cores of two lanes: all states, solved by iteration. At most 300 wait.
    fn exact_response(cores: usize, speed: f64, utilization: f64, first: Arrivals) -> f64 {
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
                // Among all lanes, those that are idle beside a busy one, and those of idle cores.
                let (shared, alone) = match first {
                    Arrivals::IdleCore => (0.0, 0.0),
                    Arrivals::LastLane => {
                        let share = |lanes| lanes as f64 / (2 * cores) as f64;
                        (share(one), share(2 * (cores - one - two)))
                    }
                };
                moves.push((from, to, arrivals * (1.0 - shared - alone)));
                if shared > 0.0 {
                    moves.push((from, index(one - 1, two + 1), arrivals * shared));
                }
                if alone > 0.0 {
                    moves.push((from, index(one + 1, two), arrivals * alone));
                }
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
            for first in [Arrivals::IdleCore, Arrivals::LastLane] {
                let exact = exact_response(cores, speed, utilization, first);
                let machine = machine(cores as u32, &[1.0, speed]);
                let approximate = response(placed(&machine, 2, utilization, first));
                println!(
                    "{cores} {speed} {utilization} {first:?}: {:.4}",
                    approximate / exact
                );
                close(approximate, exact, 0.01);
            }
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
                for first in [Arrivals::IdleCore, Arrivals::LastLane] {
                    let found = response(placed(&machine, level, utilization, first));
                    close(found, one, 1e-9);
                }
            }
        }
    }

    /// Steps, and how far the response is from that of many more steps.
    fn settle_at<const B: usize>(machine: &Machine, share: f64, first: Arrivals) -> (u32, f64) {
        let at = (machine, share * machine.core_rate(B + 1, B + 1), first);
        let (chain, steps) = settle::<B>(at, TOLERANCE).unwrap();
        let (exact, _) = settle::<B>(at, 0.0).unwrap();
        let response = |chain: &Chain| chain.service() + chain.wait();
        (steps, (response(&chain) / response(&exact) - 1.0).abs())
    }

    #[test]
    fn few_steps_settle() {
        for cores in [2, 3, 16, 50] {
            for speeds in [
                [1.0, 0.6, 0.45, 0.4],
                [1.0, 0.75, 0.57, 0.45],
                [1.0, 0.3, 0.3, 0.2],
            ] {
                let machine = machine(cores, &speeds);
                for share in [0.01, 0.3, 0.6, 0.9, 0.999] {
                    for (steps, error) in [
                        settle_at::<1>(&machine, share, Arrivals::IdleCore),
                        settle_at::<2>(&machine, share, Arrivals::IdleCore),
                        settle_at::<3>(&machine, share, Arrivals::IdleCore),
                        settle_at::<1>(&machine, share, Arrivals::LastLane),
                        settle_at::<2>(&machine, share, Arrivals::LastLane),
                        settle_at::<3>(&machine, share, Arrivals::LastLane),
                    ] {
                        let what = format!("{cores} {speeds:?} {share}: {steps}, {error:e}");
                        assert!(steps <= 12 && error < 2e-5, "{what}");
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
            let staying = response(placed(&machine, 4, utilization, Arrivals::IdleCore));
            assert!(staying >= moving * (1.0 - 1e-9), "{utilization}");
            assert!(staying <= moving * 1.2, "{utilization}");
        }
    }

    #[test]
    fn a_task_that_finds_its_lane_idle_may_share_a_core() {
        let machine = machine(6, &[1.0, 0.6]);
        for percent in (10..120).step_by(10) {
            let utilization = f64::from(percent) / 100.0;
            let at = |first| response(placed(&machine, 2, utilization, first));
            let (idle_core, last_lane) = (at(Arrivals::IdleCore), at(Arrivals::LastLane));
            assert!(
                last_lane > idle_core && last_lane < 1.2 * idle_core,
                "{utilization}"
            );
        }
    }
}
