//! Mean numbers of cores by running lanes, for each number of tasks: their balance, and Newton's method
//! to solve it.
//!
//! Both the number of cores and that of running lanes are known in each state. So with t lanes a core
//! `B` = t − 1 means are unknown, those of 0 to B − 1 running lanes; the last two follow. Each state has
//! to do with the next ones alone, so a step of Newton's method is a block tridiagonal linear system,
//! eliminated from the state with the fewest tasks up.

#![allow(clippy::needless_range_loop)] // as equations are written

use crate::machine::Machine;
use std::ops::Range;

/// No rate of completion changes by more than this share in a step.
const STEP_MAX: f64 = 0.5;

/// Mean numbers of cores that are not counted.
const SHARED_MIN: f64 = 1e-6;

type Unknown<const B: usize> = [f64; B];

/// `[i][j]`: what j does to i.
type Block<const B: usize> = [[f64; B]; B];

/// Where a task goes that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// To an idle core, else to any core with a lane that is free.
    IdleCore,
    /// To the lane where it ran last, any of all, if that is idle; else as above.
    LastLane,
}

/// What depends on the means of a state, and how it changes with them.
struct Linear<const B: usize> {
    value: Unknown<B>,
    slopes: Block<B>,
}

/// The means of a state.
struct State<const B: usize> {
    unknown: Unknown<B>,
    /// Of cores with B and B + 1 running lanes.
    last: [f64; 2],
    /// Rate of completion.
    rate: f64,
}

/// The means of all states.
pub struct Means<const B: usize> {
    arrivals: Arrivals,
    cores: f64,
    arrival_rate: f64,
    /// `[k]`: what a core does with k running lanes, and with one more.
    core_rates: [[f64; 2]; B],
    /// The same with B and B + 1.
    last_rates: [f64; 2],
    /// How the rate of completion changes with each unknown.
    rate_slopes: Unknown<B>,
    /// By number of tasks, up to that of lanes.
    states: Vec<State<B>>,
    /// Of the states that a step solves: the change, as it depends on that of the state above.
    rows: Vec<Linear<B>>,
}

impl<const B: usize> Means<B> {
    /// As if tasks were always spread evenly.
    pub fn spread_evenly(machine: &Machine, arrivals: Arrivals, arrival_rate: f64) -> Means<B> {
        let core_rates = |k| [k, k + 1].map(|k| machine.core_rate(B + 1, k));
        let last_rates = core_rates(B);
        let slope = |k: usize| core_rates(k)[0] + dot(&last_rates, &last_slopes::<B>(k));
        let mut means = Means {
            arrivals,
            cores: f64::from(machine.cores()),
            arrival_rate,
            rate_slopes: std::array::from_fn(slope),
            core_rates: std::array::from_fn(core_rates),
            last_rates,
            states: Vec::new(),
            rows: Vec::new(),
        };
        let cores = machine.cores() as usize;
        let evenly = |n: usize| {
            let mut unknown = [0.0; B];
            for (lanes, count) in [(n / cores, cores - n % cores), (n / cores + 1, n % cores)] {
                if let Some(mean) = unknown.get_mut(lanes) {
                    *mean = count as f64;
                }
            }
            means.state(n, unknown)
        };
        means.states = (0..=cores * (B + 1)).map(evenly).collect();
        means
    }

    /// Rates of completion from 1 task on.
    pub fn rates(&self) -> Vec<f64> {
        self.states.iter().skip(1).map(|state| state.rate).collect()
    }

    /// A step of Newton's method for some states, neither the first nor the last of all; those around
    /// them stay.
    pub fn step(&mut self, some: Range<usize>) {
        let mut rows = std::mem::take(&mut self.rows);
        rows.clear();
        for n in some.clone() {
            let row = self.row(n, rows.last());
            rows.push(row);
        }
        let (mut above, mut greatest) = ([0.0; B], 0.0_f64);
        for (row, state) in rows.iter_mut().zip(&self.states[some.clone()]).rev() {
            for (change, slopes) in row.value.iter_mut().zip(&row.slopes) {
                *change += dot(slopes, &above);
            }
            above = row.value;
            greatest = greatest.max(dot(&above, &self.rate_slopes).abs() / state.rate);
        }
        // A step that is too long could make rates negative.
        let part = if greatest > STEP_MAX {
            STEP_MAX / greatest
        } else {
            1.0
        };
        for (n, row) in some.zip(&rows) {
            let old = &self.states[n].unknown;
            let unknown = std::array::from_fn(|k| old[k] + part * row.value[k]);
            self.states[n] = self.state(n, unknown);
        }
        self.rows = rows;
    }

    fn state(&self, tasks: usize, unknown: Unknown<B>) -> State<B> {
        let (lanes, tasks) = ((B + 1) as f64, tasks as f64);
        let mut last = [
            lanes * self.cores - tasks,
            tasks - (lanes - 1.0) * self.cores,
        ];
        let mut rate = 0.0;
        for (k, mean) in unknown.iter().enumerate() {
            let slopes = last_slopes::<B>(k);
            last[0] += slopes[0] * mean;
            last[1] += slopes[1] * mean;
            rate += self.core_rates[k][0] * mean;
        }
        rate += dot(&self.last_rates, &last);
        State {
            unknown,
            last,
            rate,
        }
    }

    /// The balance of a state, `(λ + d) y − d × (y below after an arrival) − λ × (y above after a
    /// completion) = 0`, linear around the present means, solved for the change of this state as it
    /// depends on that of the state above; `below` says the same of the state below, if that changes.
    fn row(&self, n: usize, below: Option<&Linear<B>>) -> Linear<B> {
        let own = &self.states[n];
        let idle_core = after_arrival(&self.states[n - 1]);
        let arrived = match self.arrivals {
            Arrivals::IdleCore => idle_core,
            Arrivals::LastLane => self.last_lane_first(n - 1, idle_core),
        };
        let completed = self.after_completion(&self.states[n + 1]);
        let mut value = [0.0; B];
        let mut above = completed.slopes;
        let mut diagonal = [[0.0; B]; B];
        for k in 0..B {
            let rise = own.unknown[k] - arrived.value[k];
            let fall = own.unknown[k] - completed.value[k];
            value[k] = -own.rate * rise - self.arrival_rate * fall;
            for j in 0..B {
                above[k][j] *= self.arrival_rate;
                diagonal[k][j] = rise * self.rate_slopes[j];
            }
            diagonal[k][k] += self.arrival_rate + own.rate;
        }
        if let Some(below) = below {
            for k in 0..B {
                for (m, slope) in arrived.slopes[k].iter().enumerate() {
                    let factor = own.rate * slope;
                    value[k] += factor * below.value[m];
                    for j in 0..B {
                        diagonal[k][j] -= factor * below.slopes[m][j];
                    }
                }
            }
        }
        solve(
            diagonal,
            Linear {
                value,
                slopes: above,
            },
        )
    }

    /// Arrivals that find the lane idle where they ran last, and the others.
    fn last_lane_first(&self, tasks: usize, mut after: Linear<B>) -> Linear<B> {
        let unknown = &self.states[tasks].unknown;
        let lanes = (B + 1) as f64;
        let all = lanes * self.cores;
        let busy = tasks as f64 / all;
        for k in 0..B {
            let free = lanes - k as f64;
            let (mean, leave, join) = (unknown[k], free / all, (free + 1.0) / all);
            after.value[k] = mean + busy * (after.value[k] - mean) - leave * mean;
            for j in 0..B {
                after.slopes[k][j] *= busy;
            }
            after.slopes[k][k] += 1.0 - busy - leave;
            if k > 0 {
                after.value[k] += join * unknown[k - 1];
                after.slopes[k][k - 1] += join;
            }
        }
        after
    }

    /// A completion leaves its core with one running lane less.
    fn after_completion(&self, state: &State<B>) -> Linear<B> {
        let mut after = Linear {
            value: state.unknown,
            slopes: [[0.0; B]; B],
        };
        let each = 1.0 / state.rate;
        for k in 0..B {
            let [left, came] = self.core_rates[k].map(|rate| rate * each);
            let more = if k + 1 < B {
                state.unknown[k + 1]
            } else {
                state.last[0]
            };
            let net = left * state.unknown[k] - came * more;
            after.value[k] -= net;
            let slopes = &mut after.slopes[k];
            for j in 0..B {
                slopes[j] = net * each * self.rate_slopes[j];
                if k + 1 == B {
                    slopes[j] += came * last_slopes::<B>(j)[0];
                }
            }
            slopes[k] += 1.0 - left;
            if k + 1 < B {
                slopes[k + 1] += came;
            }
        }
        after
    }
}

/// An arrival takes an idle core, else any with a lane that is free.
fn after_arrival<const B: usize>(state: &State<B>) -> Linear<B> {
    let y = &state.unknown;
    let (finds_idle, idle_slope) = if y[0] < 1.0 { (y[0], 1.0) } else { (1.0, 0.0) };
    let mut after = Linear {
        value: *y,
        slopes: [[0.0; B]; B],
    };
    after.value[0] -= finds_idle;
    after.slopes[0][0] = 1.0 - idle_slope;
    if B == 1 {
        return after;
    }
    // Each core with some lanes running and one free is found as often.
    let shared: f64 = y[1..].iter().sum::<f64>() + state.last[0];
    // There are at least as many as arrivals that find no idle core; half of that is on the way only.
    let each = 1.0 / shared.max((1.0 - finds_idle) / 2.0).max(SHARED_MIN);
    let finds_each = (1.0 - finds_idle) * each;
    let finds_slopes: Unknown<B> = std::array::from_fn(|j| match j {
        0 => -idle_slope * each - finds_each * each * last_slopes::<B>(0)[0],
        _ => -finds_each * each * (1.0 + last_slopes::<B>(j)[0]),
    });
    after.value[1] += finds_idle;
    after.slopes[1][0] = idle_slope;
    for k in 1..B {
        let came = if k > 1 { y[k - 1] } else { 0.0 };
        after.value[k] += finds_each * (came - y[k]);
        for j in 0..B {
            after.slopes[k][j] += finds_slopes[j] * (came - y[k]);
        }
        after.slopes[k][k] += 1.0 - finds_each;
        if k > 1 {
            after.slopes[k][k - 1] += finds_each;
        }
    }
    after
}

/// How the means of cores with B and B + 1 running lanes change with that of cores with k: so that
/// neither the number of cores nor that of running lanes does.
fn last_slopes<const B: usize>(k: usize) -> [f64; 2] {
    let free = (B + 1 - k) as f64;
    [-free, free - 1.0]
}

fn dot<const B: usize>(a: &Unknown<B>, b: &Unknown<B>) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Multiplies with the inverse of a block (Gauss and Jordan). The greatest number of each row stands on
/// the diagonal, or nearly: no rows are swapped.
fn solve<const B: usize>(mut block: Block<B>, mut right: Linear<B>) -> Linear<B> {
    for k in 0..B {
        let inverse = 1.0 / block[k][k];
        for j in k + 1..B {
            block[k][j] *= inverse;
        }
        for j in 0..B {
            right.slopes[k][j] *= inverse;
        }
        right.value[k] *= inverse;
        for i in 0..B {
            if i == k {
                continue;
            }
            let factor = block[i][k];
            for j in k + 1..B {
                block[i][j] -= factor * block[k][j];
            }
            for j in 0..B {
                right.slopes[i][j] -= factor * right.slopes[k][j];
            }
            right.value[i] -= factor * right.value[k];
        }
    }
    right
}
