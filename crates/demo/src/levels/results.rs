//! Figures of what was found, and their table.

use super::{Found, Level, LevelsPlan, Plateau, Run, Setup};
use crate::error::Result;
use crate::experiment::Experiment;
use crate::figures::{Document, Facts, Runs, ms, spread_of};
use crate::table::Table;
use serde::Serialize;
use sidelane_smt::latency::Spread;

/// What is printed as JSON, beside the machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
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

/// Figures of all runs.
///
/// # Errors
/// Runs are missing.
pub(super) fn document(
    plan: &LevelsPlan,
    facts: Facts,
    runs: Vec<Run>,
) -> Result<Document<Figures>> {
    let lanes = facts.lanes();
    let runs = Runs::complete(runs, plan.turns(lanes).len())?;
    let row = |setup: Setup| {
        let cells = (0..plan.loads.len()).map(|at| cell(&runs, setup, at, lanes));
        Some(Row {
            name: setup.to_string(),
            setup,
            cells: cells.collect::<Option<_>>()?,
        })
    };
    let rows: Option<Vec<Row>> = plan.setups(lanes).into_iter().map(row).collect();
    facts.document(rows.map(|rows| Figures {
        loads: plan.loads.clone(),
        rows,
    }))
}

/// The table, for people.
pub(super) fn render(document: &Document<Figures>) -> String {
    let mut table = Table::of(&document.rows).left("", 28, |row| row.name.clone());
    for (at, load) in document.loads.iter().enumerate() {
        let title = format!("load {:.0} %", load * 100.0);
        let cell = |row: &Row| row.cells.get(at).map_or(String::new(), in_words);
        table = table.left(&title, 25, cell);
    }
    let against = document.rows.iter().map(against_better_level);
    let Spread { min, median, max } = document.measured.units_per_core_s;
    document.page(&format!(
        "Mean response in ms, median [least - greatest] of the repetitions,\nand the SMT level at the plateau's \
         end\n\n{table}{}\n\nSpeed of a core, between the runs: {:.0} k units of work a second \
         ({:.0} … {:.0})\n",
        against.collect::<String>(),
        median / 1e3,
        min / 1e3,
        max / 1e3
    ))
}

fn cell(runs: &Runs<Setup, Found>, setup: Setup, at: usize, lanes: usize) -> Option<Cell> {
    let spread =
        |value: fn(&Plateau) -> f64| runs.spread(setup, |run| run.plateaus.get(at).map(value));
    let own: Vec<&Plateau> = runs
        .of(setup)
        .filter_map(|run| run.found.plateaus.get(at))
        .collect();
    let mean_ms = spread(|plateau| plateau.mean_ns / 1e6)?;
    Some(Cell {
        mean_ms: mean_ms.median,
        range_ms: [mean_ms.min, mean_ms.max],
        p99_ms: spread(|plateau| ms(plateau.p99_ns))?.median,
        levels: own.iter().map(|plateau| plateau.level).collect(),
        changes: own.iter().map(|plateau| plateau.changes).sum(),
        against_best: match setup.level {
            Level::Fixed(_) => None,
            Level::Controlled => against_best(runs, setup, at, lanes),
        },
    })
}

/// Repetition by repetition: the same requests.
fn against_best(
    runs: &Runs<Setup, Found>,
    setup: Setup,
    at: usize,
    lanes: usize,
) -> Option<Spread> {
    let mean_ns = |run: &Found| run.plateaus.get(at).map_or(f64::NAN, |p| p.mean_ns);
    let of = |setup: &Setup| {
        let means = spread_of(runs.of(*setup).map(|run| mean_ns(&run.found)));
        means.map_or(f64::INFINITY, |spread| spread.median)
    };
    let fixed = (1..=lanes).map(|level| Setup {
        level: Level::Fixed(level),
        ..setup
    });
    let best = fixed.min_by(|a, b| of(a).total_cmp(&of(b)))?;
    runs.ratio(setup, best, mean_ns)
}

fn in_words(cell: &Cell) -> String {
    let [least, greatest] = cell.range_ms;
    let mut levels: Vec<String> = cell.levels.iter().map(usize::to_string).collect();
    levels.dedup();
    let levels = levels.join("/");
    format!("{:.2} [{least:.2}-{greatest:.2}]  {levels}", cell.mean_ms)
}

/// A line for a row under control.
fn against_better_level(row: &Row) -> String {
    let ratios = row.cells.iter().filter_map(|cell| cell.against_best);
    let ratio = |Spread { min, median, max }| format!("{median:.2} [{min:.2}-{max:.2}]");
    let ratios: Vec<String> = ratios.map(ratio).collect();
    match ratios.is_empty() {
        true => String::new(),
        false => format!(
            "\n{}, against the better level: {}",
            row.name,
            ratios.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Turn;
    use crate::experiment::testing::{facts, fits, is_described, plan};
    use sidelane_interface::Kind;

    /// 2 lanes, 2 repetitions, one plateau; means 10 and 20 at level 1, 30 and 40 at level 2, control
    /// 11 and 18.
    #[test]
    fn control_is_compared_with_the_better_level() {
        let plan: LevelsPlan = plan("--repetitions 2 --loads 0.1");
        let run = |turn: Turn<Setup>| {
            let mean_ms = match (turn.setup.level, turn.repetition) {
                (Level::Fixed(level), n) => 10.0 + 20.0 * (level - 1) as f64 + 10.0 * f64::from(n),
                (Level::Controlled, 0) => 11.0,
                (Level::Controlled, _) => 18.0,
            };
            let plateau = Plateau {
                requests: 100,
                mean_ns: mean_ms * 1e6,
                p99_ns: 1,
                level: 1,
                changes: turn.repetition,
            };
            let plateaus = vec![plateau];
            turn.run(Found { plateaus })
        };
        let mut runs: Vec<Run> = plan.turns(2).into_iter().map(run).collect();
        let document = plan.document(facts(1), runs.clone()).unwrap();
        assert_eq!(document.rows.len(), 6);
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
        is_described(Kind::DemoLevels, &document);
        fits(
            &LevelsPlan::render(&document),
            document.rows.iter().map(|row| &*row.name),
        );
        runs[0].found.plateaus.clear();
        assert!(
            plan.document(facts(1), runs.clone()).is_err(),
            "a plateau is missing"
        );
        runs.pop();
        assert!(plan.document(facts(1), runs).is_err());
    }
}
