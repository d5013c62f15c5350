//! Figures from messages.

use super::{Message, OptionsPlan, Run, Setup};
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
    /// Mean demand and deadline, ms.
    pub mean_demand_ms: f64,
    /// See there.
    pub deadline_ms: f64,
    /// Repetitions.
    pub repetitions: u32,
    /// One for each scheduler.
    pub rows: Vec<Row>,
    /// One for each quality.
    pub gains: Vec<Gain>,
}

/// A scheduler's figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Which.
    pub setup: Setup,
    /// One for each load.
    pub cells: Vec<Cell>,
}

/// A load under a scheduler, over the repetitions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    /// Share of all cores.
    pub load: f64,
    /// Mean quality of the requests.
    pub quality: Spread,
    /// Share of the requests that were not complete at their deadline.
    pub missed: Spread,
    /// 99th percentile of the latency, ms.
    pub p99_ms: Spread,
    /// Requests that were never answered, all repetitions.
    pub lost: u64,
}

/// The highest load at a quality.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gain {
    /// The quality.
    pub quality: f64,
    /// Of the default scheduler and of Sidelane, over the repetitions in which the loads measured reach
    /// that quality and fall below it.
    pub loads: Option<[Spread; 2]>,
    /// Sidelane's as a multiple of the default's, repetition by repetition.
    pub ratio: Option<Spread>,
    /// Repetitions that show both.
    pub repetitions: usize,
}

impl Document {
    /// # Errors
    /// Runs are missing.
    pub fn new(plan: &OptionsPlan, messages: &[Message], emulated_smt: bool) -> Result<Document> {
        let (measured, runs) = collect(messages)?;
        let complete = runs.len() == Setup::ALL.len() * plan.repetitions as usize
            && runs
                .iter()
                .all(|run| run.outcomes.len() == plan.loads.len());
        if !complete {
            return Err(Error::Incomplete(format!("{} runs", runs.len())));
        }
        Ok(Document {
            emulated_smt,
            measured,
            mean_demand_ms: plan.mean_demand_ms,
            deadline_ms: plan.deadline_ms,
            repetitions: plan.repetitions,
            rows: Setup::ALL.map(|setup| row(plan, &runs, setup)).to_vec(),
            gains: plan
                .targets
                .iter()
                .map(|target| gain(plan, &runs, *target))
                .collect(),
        })
    }
}

fn row(plan: &OptionsPlan, runs: &[Run], setup: Setup) -> Row {
    let cell = |(at, load): (usize, &f64)| {
        let own: Vec<_> = runs
            .iter()
            .filter(|run| run.setup == setup)
            .filter_map(|run| run.outcomes.get(at))
            .collect();
        let share = |count: u64, of: u64| count as f64 / of.max(1) as f64;
        let qualities: Vec<f64> = own.iter().map(|o| o.quality).collect();
        let missed: Vec<f64> = own.iter().map(|o| share(o.missed, o.requests)).collect();
        let p99_ms: Vec<f64> = own.iter().map(|o| o.latency.p99_ns as f64 / 1e6).collect();
        Some(Cell {
            load: *load,
            quality: Spread::of(&qualities)?,
            missed: Spread::of(&missed)?,
            p99_ms: Spread::of(&p99_ms)?,
            lost: own.iter().map(|o| o.lost).sum(),
        })
    };
    Row {
        setup,
        cells: plan.loads.iter().enumerate().filter_map(cell).collect(),
    }
}

fn gain(plan: &OptionsPlan, runs: &[Run], quality: f64) -> Gain {
    let load_of = |setup: Setup, repetition: u32| {
        let own = |run: &&Run| run.setup == setup && run.repetition == repetition;
        let run = runs.iter().find(own)?;
        let qualities: Vec<f64> = run.outcomes.iter().map(|o| o.quality).collect();
        highest_load(&plan.loads, &qualities, quality)
    };
    let pairs: Vec<(f64, f64)> = (0..plan.repetitions)
        .filter_map(|n| Some((load_of(Setup::Default, n)?, load_of(Setup::Sidelane, n)?)))
        .collect();
    let spread = |of: fn(&(f64, f64)) -> f64| Spread::of(&pairs.iter().map(of).collect::<Vec<_>>());
    let loads = spread(|pair| pair.0).zip(spread(|pair| pair.1));
    Gain {
        quality,
        loads: loads.map(|(default, sidelane)| [default, sidelane]),
        ratio: spread(|pair| pair.1 / pair.0),
        repetitions: pairs.len(),
    }
}

/// The load at which the quality falls below `target` for good, on straight lines between the loads
/// measured. None: it never reaches it, or is not below it at the end.
fn highest_load(loads: &[f64], qualities: &[f64], target: f64) -> Option<f64> {
    let points: Vec<(f64, f64)> = loads
        .iter()
        .copied()
        .zip(qualities.iter().copied())
        .collect();
    let last_above = points.iter().rposition(|(_, quality)| *quality >= target)?;
    let (load, quality) = *points.get(last_above)?;
    let (next_load, next_quality) = *points.get(last_above + 1)?;
    Some(load + (next_load - load) * (quality - target) / (quality - next_quality))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::MachineFacts;
    use sidelane_options::load::Outcome;
    use sidelane_smt::latency::Summary;

    #[test]
    fn the_load_at_a_quality() {
        let loads = [0.5, 0.7, 0.9];
        let at = |qualities: [f64; 3]| highest_load(&loads, &qualities, 0.99);
        let halfway = at([1.0, 0.995, 0.985]).unwrap();
        assert!((halfway - 0.8).abs() < 1e-9);
        // noise below is not the end
        assert!((at([0.98, 0.995, 0.985]).unwrap() - 0.8).abs() < 1e-9);
        assert_eq!(at([0.98, 0.98, 0.98]), None);
        assert_eq!(at([1.0, 1.0, 0.99]), None);
    }

    fn messages(plan: &OptionsPlan) -> Vec<Message> {
        let mut messages = vec![Message::Machine(MachineFacts {
            kernel: "7.0".into(),
            cores: vec![vec![0, 1]],
        })];
        for repetition in 0..plan.repetitions {
            for setup in plan.setups(repetition) {
                // Sidelane is as good at 0.2 more
                let shift = if setup == Setup::Sidelane { 0.2 } else { 0.0 };
                let outcome = |load: &f64| Outcome {
                    requests: 100,
                    missed: 4,
                    lost: 1,
                    quality: 1.0 - 0.1 * (load - shift),
                    latency: Summary::of(&mut [1_000_000]),
                };
                messages.push(Message::Speed(1e6));
                messages.push(Message::Run(Run {
                    setup,
                    repetition,
                    outcomes: plan.loads.iter().map(outcome).collect(),
                }));
            }
        }
        messages
    }

    #[test]
    fn gains_are_taken_repetition_by_repetition() {
        let plan = OptionsPlan {
            repetitions: 2,
            loads: vec![0.5, 1.0, 2.0],
            targets: vec![0.9, 0.5],
            ..OptionsPlan::default()
        };
        let mut messages = messages(&plan);
        let document = Document::new(&plan, &messages, true).unwrap();
        let gain = &document.gains[0];
        assert!((gain.ratio.unwrap().median - 1.2).abs() < 1e-9, "{gain:?}");
        assert_eq!(gain.repetitions, 2);
        assert_eq!(document.gains[1].ratio, None);
        let cell = &document.rows[1].cells[0];
        assert!((cell.missed.median - 0.04).abs() < 1e-9 && cell.lost == 2);
        messages.pop();
        assert!(Document::new(&plan, &messages, true).is_err());
    }
}
