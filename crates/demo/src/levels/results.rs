//! Figures from messages.

use super::{Level, LevelsPlan, Message, Run, Setup};
use crate::error::{Error, Result};
use crate::message::MachineFacts;
use serde::Serialize;
use sidelane_metrics::latency::Spread;

/// What is printed as JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Document {
    /// Release.
    pub kernel: String,
    /// Lanes of each core, CPU numbers.
    pub cores: Vec<Vec<u32>>,
    /// Speed of a core before each repetition and after the last, units of work a second.
    pub units_per_core_s: Spread,
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
    /// Mean response of all repetitions, ms.
    pub mean_ms: f64,
    /// Least and greatest of the repetitions, ms.
    pub range_ms: [f64; 2],
    /// Mean of the 99th percentiles, ms.
    pub p99_ms: f64,
    /// Levels at the plateau's end, of each repetition.
    pub levels: Vec<usize>,
    /// Changes of the level, all repetitions.
    pub changes: u32,
    /// Under control: the response as a multiple of that under the better fixed level of the same
    /// scheduler, mean of the repetitions, and the least and the greatest of them.
    pub against_best: Option<[f64; 3]>,
}

impl Document {
    /// # Errors
    /// Runs are missing.
    pub fn new(plan: &LevelsPlan, messages: &[Message]) -> Result<Document> {
        let machine = messages.iter().find_map(|message| match message {
            Message::Machine(facts) => Some(facts.clone()),
            _ => None,
        });
        let MachineFacts { kernel, cores } =
            machine.ok_or_else(|| Error::Incomplete("no machine".into()))?;
        let speed = |message: &Message| match message {
            Message::Speed(speed) => Some(*speed),
            _ => None,
        };
        let speeds: Vec<f64> = messages.iter().filter_map(speed).collect();
        let units_per_core_s =
            Spread::of(&speeds).ok_or_else(|| Error::Incomplete("no speed".into()))?;
        let run = |message: &Message| match message {
            Message::Run(run) => Some(run.clone()),
            _ => None,
        };
        let runs: Vec<Run> = messages.iter().filter_map(run).collect();
        let lanes = cores.iter().map(Vec::len).max().unwrap_or(1);
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
                .map(|at| cell(&runs, setup, at, lanes))
                .collect(),
        };
        Ok(Document {
            kernel,
            cores,
            units_per_core_s,
            loads: plan.plateaus.iter().map(|plateau| plateau.load).collect(),
            rows: plan.setups(lanes, 0).into_iter().map(row).collect(),
        })
    }
}

fn cell(runs: &[Run], setup: Setup, plateau: usize, lanes: usize) -> Cell {
    let own: Vec<&Run> = runs.iter().filter(|run| run.setup == setup).collect();
    let of = |run: &&Run| run.plateaus[plateau].clone();
    let means_ms: Vec<f64> = own.iter().map(|run| of(run).mean_ns / 1e6).collect();
    let p99_ms: Vec<f64> = own.iter().map(|run| of(run).p99_ns as f64 / 1e6).collect();
    Cell {
        mean_ms: mean(&means_ms),
        range_ms: range(&means_ms),
        p99_ms: mean(&p99_ms),
        levels: own.iter().map(|run| of(run).level).collect(),
        changes: own.iter().map(|run| of(run).changes).sum(),
        against_best: (setup.level == Level::Controlled).then(|| {
            let fixed = (1..=lanes).map(|level| Setup {
                level: Level::Fixed(level),
                ..setup
            });
            against_best(runs, setup, &fixed.collect::<Vec<_>>(), plateau)
        }),
    }
}

/// Repetition by repetition: the same requests.
fn against_best(runs: &[Run], setup: Setup, fixed: &[Setup], plateau: usize) -> [f64; 3] {
    let mean_of = |setup: &Setup| {
        let own = runs.iter().filter(|run| run.setup == *setup);
        mean(
            &own.map(|run| run.plateaus[plateau].mean_ns)
                .collect::<Vec<_>>(),
        )
    };
    let best = fixed
        .iter()
        .min_by(|a, b| mean_of(a).total_cmp(&mean_of(b)));
    let ratios: Vec<f64> = runs
        .iter()
        .filter(|run| run.setup == setup)
        .filter_map(|run| {
            let same =
                |other: &&Run| Some(&other.setup) == best && other.repetition == run.repetition;
            let best = runs.iter().find(same)?;
            Some(run.plateaus[plateau].mean_ns / best.plateaus[plateau].mean_ns)
        })
        .collect();
    let [least, greatest] = range(&ratios);
    [mean(&ratios), least, greatest]
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn range(values: &[f64]) -> [f64; 2] {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    [least, greatest]
}

#[cfg(test)]
mod tests {
    use super::super::PlateauRun;
    use super::*;

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
        assert!((document.units_per_core_s.max - 2e6).abs() < 1.0);
        let controlled = &document.rows[5];
        assert_eq!(controlled.name, "sidelane, controlled (cap)");
        let cell = &controlled.cells[0];
        assert_eq!(
            (cell.mean_ms, cell.range_ms, cell.changes),
            (14.5, [11.0, 18.0], 1)
        );
        let [ratio, least, greatest] = cell.against_best.unwrap();
        assert!((ratio - 1.0).abs() < 1e-9 && (least - 0.9).abs() < 1e-9);
        assert!((greatest - 1.1).abs() < 1e-9);
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
