//! The table.

use super::{Document, Gain, Row};
use crate::reference;
use sidelane_smt::latency::Spread;
use std::fmt::Write;

/// The table, for people.
pub fn render(document: &Document) -> String {
    let mut text = format!(
        "{}\nOption server: mean demand {} ms of a whole core, deadline \
         {} ms; medians of {} repetitions\n\n",
        document.measured.heading(document.emulated_smt),
        document.mean_demand_ms,
        document.deadline_ms,
        document.repetitions
    );
    let _ = writeln!(
        text,
        "{:10}{:>6}  {:>7}  (min … max)       {:>8}  {:>9}  {:>6}",
        "", "load", "quality", "missed", "p99 ms", "lost"
    );
    for row in &document.rows {
        cells(&mut text, row);
    }
    text.push('\n');
    for gain in &document.gains {
        let _ = writeln!(text, "{}", gain_line(gain, document.repetitions));
    }
    text.push_str(reference::warning(document.measured.units_per_core_s));
    text
}

fn cells(text: &mut String, row: &Row) {
    for cell in &row.cells {
        let Spread { min, median, max } = cell.quality;
        let _ = writeln!(
            text,
            "{:10}{:>6.2}  {median:>7.4}  ({min:.4} … {max:.4})  {:>6.2} %  {:>9.2}  {:>6}",
            row.setup,
            cell.load,
            cell.missed.median * 100.0,
            cell.p99_ms.median,
            cell.lost
        );
    }
}

fn gain_line(gain: &Gain, repetitions: u32) -> String {
    let quality = gain.quality;
    let (Some([default, sidelane]), Some(ratio)) = (gain.loads, gain.ratio) else {
        return format!("Quality {quality}: not crossed within these loads by both schedulers");
    };
    format!(
        "Quality {quality}: up to load {:.3} (default), {:.3} (sidelane): {:+.1} % ({:+.1} … {:+.1}; {} of {} \
         repetitions)",
        default.median,
        sidelane.median,
        (ratio.median - 1.0) * 100.0,
        (ratio.min - 1.0) * 100.0,
        (ratio.max - 1.0) * 100.0,
        gain.repetitions,
        repetitions
    )
}
