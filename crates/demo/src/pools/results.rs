//! Figures from messages.

use super::{Message, PoolRun, PoolsPlan, Run, Setup};
use crate::error::{Error, Result};
use crate::experiment::{Measured, collect};
use serde::Serialize;
use sidelane_smt::latency::Spread;

/// What is printed as JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Document {
    /// Whether SMT was emulated.
    pub emulated_smt: bool,
    /// The machine; its speed was measured before each run.
    #[serde(flatten)]
    pub measured: Measured,
    /// Speed of a lane when 1, 2, ... lanes of its core work, measured with this work; the scheduler was
    /// told so.
    pub thread_perf: Vec<f64>,
    /// Entitlement of each pool: cores, or lanes where raw time is charged.
    pub capacity_cores: f64,
    /// Repetitions.
    pub repetitions: u32,
    /// One for each setup.
    pub rows: Vec<Row>,
}

/// A setup's figures, over the repetitions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Which.
    pub setup: Setup,
    /// Lanes that the pool alone on its core used.
    pub alone_lanes: Spread,
    /// Its work, cores.
    pub alone_work: Spread,
    /// Lanes that the pool used whose processes share a core.
    pub sharing_lanes: Spread,
    /// Its work, cores.
    pub sharing_work: Spread,
    /// Work of the pool that shares over that of the one alone, in the same run.
    pub sharing_over_alone: Spread,
    /// Work of both over theirs with SMT off, in the same repetition.
    pub over_smt_off: Spread,
}

impl Document {
    /// # Errors
    /// Runs are missing, or a pool did nothing that can be measured.
    pub fn new(plan: &PoolsPlan, messages: &[Message], emulated_smt: bool) -> Result<Document> {
        let (measured, runs) = collect(messages)?;
        if runs.len() != Setup::ALL.len() * plan.repetitions as usize {
            return Err(Error::Incomplete(format!("{} runs", runs.len())));
        }
        let rows: Option<Vec<Row>> = Setup::ALL.iter().map(|setup| row(&runs, *setup)).collect();
        Ok(Document {
            emulated_smt,
            measured,
            thread_perf: runs
                .first()
                .map_or(Vec::new(), |run| run.thread_perf.clone()),
            capacity_cores: plan.capacity_cores,
            repetitions: plan.repetitions,
            rows: rows.ok_or_else(|| Error::Incomplete("a figure is not a number".into()))?,
        })
    }
}

fn row(runs: &[Run], setup: Setup) -> Option<Row> {
    let own = || runs.iter().filter(|run| run.setup == setup);
    let spread = |value: &dyn Fn(&Run) -> f64| Spread::of(&own().map(value).collect::<Vec<_>>());
    let smt_off = |repetition| {
        let same = |run: &&Run| run.setup == Setup::SmtOff && run.repetition == repetition;
        runs.iter().find(same).map_or(f64::NAN, both)
    };
    Some(Row {
        setup,
        alone_lanes: spread(&|run| run.alone.lanes)?,
        alone_work: spread(&|run| run.alone.work_cores)?,
        sharing_lanes: spread(&|run| run.sharing.lanes)?,
        sharing_work: spread(&|run| run.sharing.work_cores)?,
        sharing_over_alone: spread(&|run| run.sharing.work_cores / run.alone.work_cores)?,
        over_smt_off: spread(&|run| both(run) / smt_off(run.repetition))?,
    })
}

/// Work of both pools, cores.
fn both(run: &Run) -> f64 {
    let work = |pool: PoolRun| pool.work_cores;
    work(run.alone) + work(run.sharing)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::lines::MachineFacts;

    /// Two repetitions; the second on a machine that says to do half as much.
    fn messages() -> (PoolsPlan, Vec<Message>) {
        let plan = PoolsPlan {
            repetitions: 2,
            ..PoolsPlan::default()
        };
        let mut messages = vec![Message::Machine(MachineFacts {
            kernel: "7.0".into(),
            cores: vec![vec![0, 1], vec![2, 3]],
        })];
        for repetition in 0..2 {
            for setup in plan.setups(repetition) {
                let (lanes, work) = match setup {
                    Setup::SmtOff => (0.4, 0.4),
                    Setup::Mt1 => (0.8, 0.4),
                    Setup::Raw => (0.4, 0.2),
                };
                let pool = |lanes, work: f64| PoolRun {
                    work_cores: work / f64::from(repetition + 1),
                    lanes,
                };
                messages.push(Message::Speed(1e6));
                messages.push(Message::Run(Run {
                    setup,
                    repetition,
                    thread_perf: vec![1.0, 0.5],
                    alone: pool(0.4, 0.4),
                    sharing: pool(lanes, work),
                }));
            }
        }
        (plan, messages)
    }

    pub(in crate::pools) fn document() -> Result<Document> {
        let (plan, messages) = messages();
        Document::new(&plan, &messages, true)
    }

    #[test]
    fn ratios_are_those_within_a_run_and_a_repetition() {
        let document = document().unwrap();
        let of = |index: usize| {
            let row = &document.rows[index];
            (row.sharing_over_alone, row.over_smt_off)
        };
        let exactly = |value| Spread {
            min: value,
            median: value,
            max: value,
        };
        assert_eq!(of(0), (exactly(1.0), exactly(1.0)));
        assert_eq!(of(1), (exactly(1.0), exactly(1.0)));
        assert_eq!(of(2).0, exactly(0.5));
        assert!((of(2).1.max - 0.75).abs() < 1e-9);
        assert!((document.rows[1].sharing_work.median - 0.3).abs() < 1e-9);
    }

    #[test]
    fn missing_runs_and_idle_pools_are_errors() {
        let (plan, mut messages) = messages();
        for message in &mut messages {
            if let Message::Run(run) = message {
                run.alone.work_cores = 0.0;
                run.sharing.work_cores = 0.0;
            }
        }
        assert!(Document::new(&plan, &messages, true).is_err());
        messages.pop();
        assert!(Document::new(&plan, &messages, true).is_err());
    }
}
