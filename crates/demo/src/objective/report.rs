//! The table.

use super::{Document, Row};
use crate::reference;
use sidelane_smt::latency::Spread;
use std::fmt::Write;

/// The table, for people.
pub fn render(document: &Document) -> String {
    let mut text = format!(
        "{}\nObjectives are multiples of the 99th percentile alone, {:.2} \
         ms; medians of {} repetitions.\nBatch / borrow-idle: over the run under borrow-idle just before or after.\n\n",
        document.measured.heading(document.emulated_smt),
        document.alone_p99_ms,
        document.repetitions
    );
    let _ = writeln!(
        text,
        "{:16}{:>10}{:>8}{:>8}  {:17}{:>8}{:>11}  / borrow-idle",
        "", "objective", "p50 ms", "p99 ms", "(min … max)", "kept", "batch MB/s"
    );
    for row in &document.rows {
        line(&mut text, row, document.repetitions);
    }
    text.push_str(reference::warning(document.measured.units_per_core_s));
    text
}

fn line(text: &mut String, row: &Row, repetitions: u32) {
    let objective = row
        .objective_ms
        .map_or(String::new(), |ms| format!("{ms:.2}"));
    let kept = row
        .kept
        .map_or(String::new(), |kept| format!("{kept} of {repetitions}"));
    let Spread { min, median, max } = row.p99_ms;
    let range = format!("({min:.2} … {max:.2})");
    let against = row.batch_against_idle.map_or(String::new(), |ratio| {
        format!("{:.2} ({:.2} … {:.2})", ratio.median, ratio.min, ratio.max)
    });
    let name = row.setup.to_string();
    let all = format!(
        "{name:16}{objective:>10}{:>8.2}{median:>8.2}  {range:17}{kept:>8}{:>11.2}  {against}",
        row.p50_ms.median, row.batch_mb_per_s.median
    );
    let _ = writeln!(text, "{}", all.trim_end());
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::document;
    use super::*;

    #[test]
    fn the_table_fits_and_has_all_rows() {
        let text = render(&document().unwrap());
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
        assert!(text.contains("1 of 2"), "{text}");
        assert!(text.contains("2.00 (2.00 … 2.00)"), "{text}");
    }
}
