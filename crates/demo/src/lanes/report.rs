//! The table.

use super::{Document, Row};
use crate::reference;
use sidelane_smt::latency::Spread;
use std::fmt::Write;

/// The table, for people.
pub fn render(document: &Document) -> String {
    let mut text = format!(
        "{}\nRequests of {} ms of a whole core, load {}; median (min … max) of {} repetitions\n\n",
        document.measured.heading(document.emulated_smt),
        document.mean_demand_ms,
        document.load,
        document.repetitions
    );
    let _ = writeln!(
        text,
        "{:10}{:23} {:23} {:23} batch share",
        "", "p50 ms", "p95 ms", "p99 ms"
    );
    for row in &document.rows {
        let _ = writeln!(text, "{}", line(row).trim_end());
    }
    let naps = document.rows.iter().filter(|row| row.batch_share.is_some());
    let naps: Vec<String> = naps
        .map(|row| format!("{} {:.1}", row.setup, row.naps_per_s.median))
        .collect();
    let _ = writeln!(
        text,
        "\nBatch stepped aside by itself, times a second: {}",
        naps.join(", ")
    );
    text.push_str(reference::warning(document.measured.units_per_core_s));
    text
}

fn line(row: &Row) -> String {
    let share = row.batch_share.map_or("-".into(), range);
    let [p50, p95, p99] = [row.p50_ms, row.p95_ms, row.p99_ms].map(range);
    format!("{:10}{p50:23} {p95:23} {p99:23} {share}", row.setup)
}

fn range(Spread { min, median, max }: Spread) -> String {
    format!("{median:.2} ({min:.2} … {max:.2})")
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
        assert!(text.contains("emulated SMT"), "{text}");
        assert!(text.contains("0.80 (0.80 … 0.80)"), "{text}");
        let naps = "default 0.0, lanes 40.0, sidelane 0.0";
        assert!(text.contains(naps), "{text}");
        let names = ["alone", "default", "lanes", "sidelane"];
        assert!(
            names
                .iter()
                .all(|name| text.contains(&format!("\n{name:10}")))
        );
    }
}
