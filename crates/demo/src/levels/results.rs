//! Figures from messages.

use super::{Level, LevelsPlan, Message, PlateauRun, Run, Setup};
use crate::error::{Error, Result};
use crate::experiment::{Measured, collect};
use serde::Serialize;
use sidelane_smt::latency::Spread;

/// What is printed as JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Document {
    /// The machine; its speed was measured before each run and after the last.
    #[serde(flatten)]
    pub measured: Measured,
    /// Loads of the plateaus.
    pub loads: Vec<f64>,
    /// One for each setup.
    pub rows: Vec<Row>,
}

/// A setup's figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Which.
    pub setup: Setup,
    /// One for each plateau.
    pub cells: Vec<Cell>,
}

/// A plateau under a setup.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    /// Mean response, the median of the repetitions, ms.
    pub mean_ms: f64,
    /// Least and greatest of the repetitions, ms.
    pub range_ms: [f64; 2],
    /// 99th percentile of the response, the median of the repetitions, ms.
    pub p99_ms: f64,
    /// Levels at the plateau's end, of each repetition.
    pub levels: Vec<usize>,
    /// Changes of the level, all repetitions.
    pub changes: u32,
    /// Under control: the response as a multiple of that under the better fixed level of the same
    /// scheduler, repetition by repetition.
    pub against_best: Option<Spread>,
}

impl Document {
    /// # Errors
    /// Runs are missing.
    pub fn new(plan: &LevelsPlan, messages: &[Message]) -> Result<Document> {
        let (measured, runs) = collect(messages)?;
        let lanes = measured.lanes();
        let complete = runs.len() == plan.setups(lanes, 0).len() * plan.repetitions as usize
            && runs
                .iter()
                .all(|run| run.plateaus.len() == plan.plateaus.len());
        if !complete {
            return Err(Error::Incomplete(format!("{} runs", runs.len())));
        }
        let row = |setup: Setup| Row {
            name: setup.to_string(),
            setup,
            cells: (0..plan.plateaus.len())
                .filter_map(|at| cell(&runs, setup, at, lanes))
                .collect(),
        };
        Ok(Document {
            measured,
            loads: plan.plateaus.iter().map(|plateau| plateau.load).collect(),
            rows: plan.setups(lanes, 0).into_iter().map(row).collect(),
        })
    }
}

fn cell(runs: &[Run], setup: Setup, plateau: usize, lanes: usize) -> Option<Cell> {
    let own: Vec<&PlateauRun> = runs
        .iter()
        .filter(|run| run.setup == setup)
        .filter_map(|run| run.plateaus.get(plateau))
        .collect();
    let spread = |value: fn(&PlateauRun) -> f64| {
        Spread::of(&own.iter().map(|run| value(run)).collect::<Vec<_>>())
    };
    let mean_ms = spread(|run| run.mean_ns / 1e6)?;
    let against_best = match setup.level {
        Level::Fixed(_) => None,
        Level::Controlled => {
            let fixed = (1..=lanes).map(|level| Setup {
                level: Level::Fixed(level),
                ..setup
            });
            against_best(runs, setup, &fixed.collect::<Vec<_>>(), plateau)
        }
    };
    Some(Cell {
        mean_ms: mean_ms.median,
        range_ms: [mean_ms.min, mean_ms.max],
        p99_ms: spread(|run| run.p99_ns as f64 / 1e6)?.median,
        levels: own.iter().map(|run| run.level).collect(),
        changes: own.iter().map(|run| run.changes).sum(),
        against_best,
    })
}

/// Repetition by repetition: the same requests.
fn against_best(runs: &[Run], setup: Setup, fixed: &[Setup], plateau: usize) -> Option<Spread> {
    let mean_ns = |run: &Run| run.plateaus.get(plateau).map_or(f64::NAN, |p| p.mean_ns);
    let of = |setup: &Setup| {
        let own = runs.iter().filter(move |run| run.setup == *setup);
        let means: Vec<f64> = own.map(mean_ns).collect();
        Spread::of(&means).map_or(f64::INFINITY, |spread| spread.median)
    };
    let best = fixed.iter().min_by(|a, b| of(a).total_cmp(&of(b)))?;
    let ratio = |run: &Run| {
        let same = |other: &&Run| other.setup == *best && other.repetition == run.repetition;
        Some(mean_ns(run) / mean_ns(runs.iter().find(same)?))
    };
    let own = runs.iter().filter(|run| run.setup == setup);
    Spread::of(&own.filter_map(ratio).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::MachineFacts;

    /// 2 lanes, 2 repetitions, one plateau; means 10 and 20 at level 1, 30 and 40 at level 2, control
    /// 11 and 18.
    fn messages() -> (LevelsPlan, Vec<Message>) {
        let mut plan = LevelsPlan {
            repetitions: 2,
            ..LevelsPlan::default()
        };
        plan.plateaus.truncate(1);
        let mut messages = vec![Message::Machine(MachineFacts {
            kernel: "7.0".into(),
            cores: vec![vec![0, 1]],
        })];
        for repetition in 0..2 {
            messages.push(Message::Speed(1e6 * f64::from(repetition + 1)));
            for setup in plan.setups(2, repetition) {
                let mean_ms = match (setup.level, repetition) {
                    (Level::Fixed(level), n) => {
                        10.0 + 20.0 * (level - 1) as f64 + 10.0 * f64::from(n)
                    }
                    (Level::Controlled, 0) => 11.0,
                    (Level::Controlled, _) => 18.0,
                };
                let plateau = PlateauRun {
                    requests: 100,
                    mean_ns: mean_ms * 1e6,
                    p99_ns: 1,
                    level: 1,
                    changes: repetition,
                };
                messages.push(Message::Run(Run {
                    setup,
                    repetition,
                    plateaus: vec![plateau],
                }));
            }
        }
        (plan, messages)
    }

    #[test]
    fn control_is_compared_with_the_better_level() {
        let (plan, messages) = messages();
        let document = Document::new(&plan, &messages).unwrap();
        assert_eq!(document.rows.len(), 6);
        assert!((document.measured.units_per_core_s.max - 2e6).abs() < 1.0);
        let controlled = &document.rows[5];
        assert_eq!(controlled.name, "sidelane, controlled (cap)");
        let cell = &controlled.cells[0];
        assert_eq!(
            (cell.mean_ms, cell.range_ms, cell.changes),
            (14.5, [11.0, 18.0], 1)
        );
        let ratio = cell.against_best.unwrap();
        assert!((ratio.median - 1.0).abs() < 1e-9 && (ratio.min - 0.9).abs() < 1e-9);
        assert!((ratio.max - 1.1).abs() < 1e-9);
        assert_eq!(document.rows[0].cells[0].against_best, None);
    }

    #[test]
    fn missing_runs_are_an_error() {
        let (plan, mut messages) = messages();
        messages.pop();
        assert!(Document::new(&plan, &messages).is_err());
        assert!(Document::new(&plan, &messages[1..]).is_err());
    }
}
