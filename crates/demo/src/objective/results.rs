//! Figures from messages.

use super::{Finding, Message, ObjectivePlan, Run, Setup, Steps};
use crate::error::{Error, Result};
use crate::experiment::{Measured, collect};
use serde::Serialize;
use sidelane_smt::latency::Spread;

/// What is printed as JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Document {
    /// Whether SMT was emulated.
    pub emulated_smt: bool,
    /// The machine; its speed was measured before each setup.
    #[serde(flatten)]
    pub measured: Measured,
    /// The server's 99th percentile alone from which the objectives are made, ms.
    pub alone_p99_ms: f64,
    /// Repetitions.
    pub repetitions: u32,
    /// One for each setup.
    pub rows: Vec<Row>,
    /// All of them, as they were measured.
    pub runs: Vec<Run>,
    /// While the load stepped up and down.
    pub steps: Option<Steps>,
}

/// A setup's figures, over the repetitions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Which.
    pub setup: Setup,
    /// The objective, ms.
    pub objective_ms: Option<f64>,
    /// Median latency, ms.
    pub p50_ms: Spread,
    /// 99th percentile, ms.
    pub p99_ms: Spread,
    /// Repetitions whose 99th percentile is within the objective.
    pub kept: Option<usize>,
    /// Input that batch compressed, MB a second.
    pub batch_mb_per_s: Spread,
    /// The same over what it compressed under borrow-idle in the run before or after; of borrow-idle itself:
    /// over its median, each divided by the speed of a core just before.
    pub batch_against_idle: Option<Spread>,
}

impl Document {
    /// # Errors
    /// Runs are missing.
    pub fn new(plan: &ObjectivePlan, messages: &[Message], emulated_smt: bool) -> Result<Document> {
        let incomplete = |what: &str| Error::Incomplete(what.into());
        let (measured, findings) = collect(messages)?;
        let (mut runs, mut alone_ns, mut steps) = (Vec::new(), None, None);
        for finding in findings {
            match finding {
                Finding::Alone(p99_ns) => alone_ns = Some(p99_ns),
                Finding::Run(run) => runs.push(run),
                Finding::Steps(seen) => steps = Some(seen),
            }
        }
        let alone_p99_ms = alone_ns.ok_or_else(|| incomplete("no run alone"))? as f64 / 1e6;
        let setups = plan.setups();
        if runs.len() != plan.run_count() || steps.is_some() != (plan.step_ms > 0) {
            return Err(Error::Incomplete(format!("{} runs", runs.len())));
        }
        let rows: Option<Vec<Row>> = setups
            .iter()
            .map(|setup| row(&runs, *setup, alone_p99_ms))
            .collect();
        Ok(Document {
            emulated_smt,
            measured,
            alone_p99_ms,
            repetitions: plan.repetitions,
            rows: rows.ok_or_else(|| incomplete("a setup without runs"))?,
            runs,
            steps,
        })
    }
}

fn row(runs: &[Run], setup: Setup, alone_p99_ms: f64) -> Option<Row> {
    let own: Vec<&Run> = runs.iter().filter(|run| run.setup == setup).collect();
    let spread =
        |value: fn(&Run) -> f64| Spread::of(&own.iter().map(|run| value(run)).collect::<Vec<_>>());
    let p99_ms = |run: &Run| run.latency.p99_ns as f64 / 1e6;
    let objective_ms = match setup {
        Setup::Objective(factor) => Some(factor * alone_p99_ms),
        Setup::Alone | Setup::BorrowIdle => None,
    };
    let ratios: Vec<f64> = match setup {
        Setup::Alone => Vec::new(),
        Setup::BorrowIdle => {
            let at_speed = |run: &&Run| run.batch_bytes_per_s / run.units_per_core_s;
            let all: Vec<f64> = own.iter().map(at_speed).collect();
            let median = Spread::of(&all)?.median;
            all.iter().map(|one| one / median).collect()
        }
        Setup::Objective(_) => own
            .iter()
            .map(|run| Some(run.batch_bytes_per_s / idle_beside(runs, run)?.batch_bytes_per_s))
            .collect::<Option<_>>()?,
    };
    Some(Row {
        setup,
        objective_ms,
        p50_ms: spread(|run| run.latency.p50_ns as f64 / 1e6)?,
        p99_ms: spread(p99_ms)?,
        kept: objective_ms
            .map(|objective_ms| own.iter().filter(|run| p99_ms(run) <= objective_ms).count()),
        batch_mb_per_s: spread(|run| run.batch_bytes_per_s / 1e6)?,
        batch_against_idle: Spread::of(&ratios),
    })
}

/// The run under borrow-idle that took turns with another one.
fn idle_beside<'a>(runs: &'a [Run], run: &Run) -> Option<&'a Run> {
    runs.iter().find(|idle| {
        idle.setup == Setup::BorrowIdle
            && idle.turn == run.turn
            && idle.repetition == run.repetition
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::Sample;
    use super::*;
    use crate::lines::MachineFacts;
    use sidelane_smt::latency::Summary;

    /// Two repetitions; objective 2 x 10 ms, p99 19 and 21 ms; batch twice of borrow-idle's.
    pub fn document() -> Result<Document> {
        let plan = ObjectivePlan {
            repetitions: 2,
            factors: vec![2.0],
            step_ms: 1000,
            ..ObjectivePlan::default()
        };
        let mut messages = vec![
            Message::Machine(MachineFacts {
                kernel: "7.0".into(),
                cores: vec![vec![0, 1]],
            }),
            Message::Speed(1e6),
            Message::Run(Finding::Alone(10_000_000)),
        ];
        for repetition in 0..2 {
            for setup in plan.setups() {
                let (p99_ms, batch_bytes_per_s) = match setup {
                    Setup::Alone => (10, 0.0),
                    Setup::BorrowIdle => (11, 1e6 / f64::from(repetition + 1)),
                    Setup::Objective(_) => (
                        19 + 2 * u64::from(repetition),
                        2e6 / f64::from(repetition + 1),
                    ),
                };
                messages.push(Message::Run(Finding::Run(Run {
                    setup,
                    repetition,
                    turn: (setup != Setup::Alone).then_some(2.0),
                    // a machine that is half as fast in between does half as much of anything
                    units_per_core_s: 1e6 / f64::from(repetition + 1),
                    latency: Summary::of(&mut [p99_ms * 1_000_000]),
                    batch_bytes_per_s,
                })));
            }
        }
        messages.push(Message::Run(Finding::Steps(Steps {
            objective_ns: 20_000_000,
            loads: vec![(0, 0.2), (1000, 0.4), (2000, 0.2)],
            requests: (0..300).map(|n| (n * 10_000_000, 5_000_000 + n)).collect(),
            samples: (1..6)
                .map(|n| Sample {
                    at_ms: n * 500,
                    batch_bytes: n * 1_000_000,
                    budget_ms: Some(n as f64),
                })
                .collect(),
        })));
        Document::new(&plan, &messages, true)
    }

    #[test]
    fn objectives_are_kept_or_not() {
        let document = document().unwrap();
        let row = &document.rows[2];
        assert_eq!(row.objective_ms, Some(20.0));
        assert_eq!(row.kept, Some(1));
        assert!((row.batch_against_idle.unwrap().median - 2.0).abs() < 1e-9);
        assert_eq!(document.rows[0].batch_against_idle, None);
        assert_eq!(document.rows[1].kept, None);
    }

    #[test]
    fn missing_runs_are_an_error() {
        let plan = ObjectivePlan::default();
        assert!(Document::new(&plan, &[Message::Done], true).is_err());
    }
}
