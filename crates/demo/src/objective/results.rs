//! Figures of what was found, and their table.

use super::{Finding, Found, ObjectivePlan, Run, Setup, Steps, median_ns};
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::figures::{self, Facts, Runs, ms, spread_of};
use crate::table::{Table, range, spread};
use serde::Serialize;
use sidelane_smt::latency::Spread;

/// What is printed as JSON.
pub type Document = figures::Document<Figures>;

/// What stands beside the machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
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

/// Figures of all findings.
///
/// # Errors
/// Runs are missing.
pub(super) fn document(
    plan: &ObjectivePlan,
    facts: Facts,
    findings: Vec<Finding>,
) -> Result<Document> {
    let (mut runs, mut steps) = (Vec::new(), None);
    for finding in findings {
        match finding {
            Finding::Run(run) => runs.push(run),
            Finding::Steps(seen) => steps = Some(seen),
        }
    }
    if steps.is_some() != (plan.step_ms > 0) {
        return Err(Error::Incomplete("no load steps".into()));
    }
    let runs = Runs::complete(runs, plan.run_count())?;
    let first = runs
        .of(Setup::Alone)
        .filter(|run| run.repetition < plan.first_alone());
    let first: Vec<f64> = first.map(|run| run.found.latency.p99_ns as f64).collect();
    let alone_p99_ms = ms(median_ns(&first));
    let rows = plan
        .setups(facts.lanes())
        .into_iter()
        .map(|setup| row(&runs, setup, alone_p99_ms));
    let rows: Option<Vec<Row>> = rows.collect();
    facts.document(rows.map(|rows| Figures {
        alone_p99_ms,
        repetitions: plan.repetitions,
        rows,
        runs: runs.0,
        steps,
    }))
}

fn row(runs: &Runs<Setup, Found>, setup: Setup, alone_p99_ms: f64) -> Option<Row> {
    let p99_ms = |run: &Found| ms(run.latency.p99_ns);
    let objective_ms = match setup {
        Setup::Objective(factor) => Some(factor * alone_p99_ms),
        Setup::Alone | Setup::BorrowIdle => None,
    };
    let kept = |objective_ms: f64| {
        let own = runs.of(setup);
        own.filter(|run| p99_ms(&run.found) <= objective_ms).count()
    };
    Some(Row {
        setup,
        objective_ms,
        p50_ms: runs.spread(setup, |run| ms(run.latency.p50_ns))?,
        p99_ms: runs.spread(setup, p99_ms)?,
        kept: objective_ms.map(kept),
        batch_mb_per_s: runs.spread(setup, |run| run.batch_bytes_per_s / 1e6)?,
        batch_against_idle: match setup {
            Setup::Alone => None,
            Setup::BorrowIdle => {
                let at_speed = |run: &Found| run.batch_bytes_per_s / run.units_per_core_s;
                let median = runs.spread(setup, at_speed)?.median;
                Some(runs.spread(setup, |run| at_speed(run) / median)?)
            }
            Setup::Objective(_) => Some(spread_of(runs.of(setup).map(|run| {
                let idle = idle_beside(runs, run)?;
                Some(run.found.batch_bytes_per_s / idle.found.batch_bytes_per_s)
            }))?),
        },
    })
}

/// The run under borrow-idle that took turns with another one.
fn idle_beside<'a>(runs: &'a Runs<Setup, Found>, run: &Run) -> Option<&'a Run> {
    let mut idle = runs.of(Setup::BorrowIdle);
    idle.find(|idle| idle.found.turn == run.found.turn && idle.repetition == run.repetition)
}

/// The table, for people.
pub(super) fn render(document: &Document) -> String {
    let of = document.repetitions;
    let table = Table::of(&document.rows)
        .left("", 16, |row| row.setup.to_string())
        .right("objective", 10, |row| {
            row.objective_ms
                .map_or(String::new(), |ms| format!("{ms:.2}"))
        })
        .number("p50 ms", 8, 2, |row| row.p50_ms.median)
        .number("p99 ms", 8, 2, |row| row.p99_ms.median)
        .left("(min … max)", 17, |row| range(row.p99_ms, 2))
        .right("kept", 8, |row| {
            row.kept
                .map_or(String::new(), |kept| format!("{kept} of {of}"))
        })
        .number("batch MB/s", 11, 2, |row| row.batch_mb_per_s.median)
        .left("/ borrow-idle", 0, |row| {
            row.batch_against_idle
                .map_or(String::new(), |ratio| spread(ratio, 2))
        });
    document.page(&format!(
        "Objectives are multiples of the 99th percentile alone, {:.2} ms; medians of {of} repetitions.\n\
         Batch / borrow-idle: over the run under borrow-idle just before or after.\n\n{table}",
        document.alone_p99_ms
    ))
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::Sample;
    use super::*;
    use crate::experiment::Turn;
    use crate::experiment::testing::{facts, fits, is_described, plan};
    use sidelane_interface::Kind;
    use sidelane_smt::latency::Summary;

    /// Two repetitions; objective 2 x 10 ms, p99 19 and 21 ms; batch twice of borrow-idle's.
    fn findings(plan: &ObjectivePlan) -> Vec<Finding> {
        let found = |turn: Turn<Setup>| {
            let part = f64::from(turn.repetition + 1);
            let (p99_ms, batch_bytes_per_s) = match turn.setup {
                Setup::Alone => (10, 0.0),
                Setup::BorrowIdle => (11, 1e6 / part),
                Setup::Objective(_) => (19 + 2 * u64::from(turn.repetition), 2e6 / part),
            };
            Finding::Run(turn.run(Found {
                turn: (turn.setup != Setup::Alone).then_some(2.0),
                // a machine that is half as fast in between does half as much of anything
                units_per_core_s: 1e6 / part,
                latency: Summary::of(&mut [p99_ms * 1_000_000]),
                batch_bytes_per_s,
            }))
        };
        let sample = |n: u64| Sample {
            at_ms: n * 500,
            batch_bytes: n * 1_000_000,
            budget_ms: Some(n as f64),
        };
        let steps = Finding::Steps(Steps {
            objective_ns: 20_000_000,
            loads: vec![(0, 0.2), (1000, 0.4), (2000, 0.2)],
            requests: (0..300).map(|n| (n * 10_000_000, 5_000_000 + n)).collect(),
            samples: (1..6).map(sample).collect(),
        });
        let runs = plan.turns(2).into_iter().flat_map(ObjectivePlan::runs);
        runs.map(found).chain([steps]).collect()
    }

    pub fn document() -> Result<Document> {
        let plan: ObjectivePlan = plan("--repetitions 2 --factors 2 --step-seconds 1");
        super::document(&plan, facts(1), findings(&plan))
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
        is_described(Kind::DemoObjective, &document);
        let text = render(&document);
        fits(&text, ["alone", "borrow-idle", "slo 2 x alone"]);
        assert!(
            text.contains("1 of 2") && text.contains("2.00 (2.00 … 2.00)"),
            "{text}"
        );
    }

    #[test]
    fn missing_runs_and_steps_are_errors() {
        let plan: ObjectivePlan = plan("--repetitions 2 --factors 2 --step-seconds 1");
        let mut findings = findings(&plan);
        let refused =
            |findings: &[Finding]| super::document(&plan, facts(1), findings.to_vec()).is_err();
        assert!(!refused(&findings) && refused(&findings[1..]));
        findings.pop();
        assert!(refused(&findings));
    }
}
