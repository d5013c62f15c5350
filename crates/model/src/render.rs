//! Results as text.

use crate::evaluate::{Evaluation, Options};
use crate::machine::{Machine, Utilization};
use crate::sweep::{Crossover, SweepPoint};
use std::fmt::Write;

/// Rows of a sweep's table, at most.
const ROWS: usize = 20;

/// Levels at a load, as a table of at most 100 columns.
pub fn text(
    machine: &Machine,
    utilization: Utilization,
    options: Options,
    found: &Evaluation,
) -> String {
    let mut text = heading(machine, options);
    let _ = writeln!(text, "normalised utilisation {}", number(utilization.get()));
    text += "\nlevel  lanes busy   service      wait  response  against the best\n";
    let best = found.best_level().map_or(f64::NAN, |best| best.response);
    for level in &found.levels {
        let against = match level {
            _ if !level.stable => "cannot do the work".to_owned(),
            _ if level.level == found.best => "best".to_owned(),
            _ => format!("+{:.1} %", (level.response / best - 1.0) * 100.0),
        };
        let _ = writeln!(
            text,
            "{:>5}  {:>8.1} %  {:>8}  {:>8}  {:>8}  {against}",
            level.level,
            level.utilization * 100.0,
            number(level.service),
            number(level.wait),
            number(level.response),
        );
    }
    text + "\nTimes in units of the mean service time of a task that has a core to itself, with SMT off.\n"
}

/// Responses by load and level, and where the best level changes.
pub fn sweep_text(
    machine: &Machine,
    options: Options,
    points: &[SweepPoint],
    crossovers: &[Crossover],
) -> String {
    let mut text = heading(machine, options);
    text += "\nresponse by level\nutilisation";
    for level in 1..=machine.thread_perf().lanes().min(COLUMNS) {
        let _ = write!(text, "{level:>10}");
    }
    text += "  best\n";
    for point in points.iter().step_by(points.len().div_ceil(ROWS).max(1)) {
        let _ = write!(text, "{:>11}", number(point.utilization));
        for level in point.evaluation.levels.iter().take(COLUMNS) {
            let _ = write!(text, "{:>10}", number(level.response));
        }
        let _ = writeln!(text, "{:>6}", point.evaluation.best);
    }
    text.push('\n');
    let first = crossovers.first().map(|crossover| crossover.from);
    let first = first.or(points.last().map(|point| point.evaluation.best));
    let _ = write!(text, "Best: level {}", first.unwrap_or(1));
    for crossover in crossovers {
        let (utilization, to) = (crossover.utilization, crossover.to);
        let _ = write!(text, ", from {utilization:.3} level {to}");
    }
    text += ".\nTimes in units of the mean service time of a task that has a core to itself, with SMT off.\n";
    text
}

/// Levels that fit beside each other.
const COLUMNS: usize = 8;

fn heading(machine: &Machine, options: Options) -> String {
    let speeds = machine.thread_perf().speeds().iter();
    let speeds: Vec<String> = speeds.map(|speed| speed.to_string()).collect();
    let cores = match machine.cores() {
        1 => "1 core".to_owned(),
        cores => format!("{cores} cores"),
    };
    let (model, speeds) = (options.model().name(), speeds.join(", "));
    let line = format!("{cores}, threadPerf {speeds}, model {model}");
    match line.len() > 100 {
        true => format!(
            "{cores}, {} lanes each, model {model}\n",
            machine.thread_perf().lanes()
        ),
        false => line + "\n",
    }
}

/// Some four digits.
fn number(value: f64) -> String {
    match value {
        _ if value.is_infinite() => "∞".to_owned(),
        _ if value.abs() >= 1e6 => format!("{value:.2e}"),
        _ if value.abs() >= 1e3 => format!("{value:.0}"),
        _ if value.abs() >= 100.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}
