//! The table.

use super::{Cell, Document};
use crate::reference;
use sidelane_smt::latency::Spread;
use std::fmt::Write;

/// The table, for people.
pub fn render(document: &Document) -> String {
    let mut text = format!(
        "{}\nMean response in ms, median [least - greatest] of the \
         repetitions, and the SMT level at the plateau's end\n\n{:26}",
        document.measured.heading(false),
        ""
    );
    for load in &document.loads {
        let _ = write!(text, "  {:<23}", format!("load {:.0} %", load * 100.0));
    }
    text.push('\n');
    for row in &document.rows {
        let cells: String = row
            .cells
            .iter()
            .map(|c| format!("  {:<23}", figures(c)))
            .collect();
        let _ = writeln!(text, "{:26}{}", row.name, cells.trim_end());
    }
    for row in &document.rows {
        let ratios: Vec<String> = row
            .cells
            .iter()
            .filter_map(|cell| cell.against_best)
            .map(ratio)
            .collect();
        if !ratios.is_empty() {
            let _ = write!(
                text,
                "\n{}, against the better level: {}",
                row.name,
                ratios.join(", ")
            );
        }
    }
    let Spread { min, median, max } = document.measured.units_per_core_s;
    let _ = writeln!(
        text,
        "\n\nSpeed of a core, between the runs: {:.0} k units of work a second ({:.0} … {:.0})",
        median / 1e3,
        min / 1e3,
        max / 1e3
    );
    text.push_str(reference::warning(document.measured.units_per_core_s));
    text
}

fn figures(cell: &Cell) -> String {
    let [least, greatest] = cell.range_ms;
    let mut levels: Vec<String> = cell.levels.iter().map(usize::to_string).collect();
    levels.dedup();
    format!(
        "{:.2} [{least:.2}-{greatest:.2}]  {}",
        cell.mean_ms,
        levels.join("/")
    )
}

fn ratio(Spread { min, median, max }: Spread) -> String {
    format!("{median:.2} [{min:.2}-{max:.2}]")
}
