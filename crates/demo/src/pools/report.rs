//! The table.

use super::{Document, Row};
use crate::reference;
use sidelane_smt::latency::Spread;
use std::fmt::Write;

/// The table, for people.
pub fn render(document: &Document) -> String {
    let mut text = format!(
        "{}\nthreadPerf {:.3?}, measured with this work\nTwo pools of {} cores each; median (min … max) of {} \
         repetitions\n\n",
        document.measured.heading(document.emulated_smt),
        document.thread_perf,
        document.capacity_cores,
        document.repetitions
    );
    let _ = writeln!(text, "{:18}{:9}{:23} work, cores", "", "pool", "lanes used");
    for row in &document.rows {
        for (pool, lanes, work) in [
            ("alone", row.alone_lanes, row.alone_work),
            ("sharing", row.sharing_lanes, row.sharing_work),
        ] {
            let (lanes, work) = (range(lanes), range(work));
            let name = if pool == "alone" {
                row.setup.to_string()
            } else {
                String::new()
            };
            let _ = writeln!(text, "{name:18}{pool:9}{lanes:23} {work}");
        }
    }
    let _ = writeln!(
        text,
        "\n{:18}{:24} both, of SMT off",
        "work", "sharing / alone"
    );
    document.rows.iter().for_each(|row| ratios(&mut text, row));
    text.push_str(
        "\nWork: in units of what a core does whose first lane alone works. Processes and cores change in \
         turn.\n",
    );
    text.push_str(reference::warning(document.measured.units_per_core_s));
    text
}

fn ratios(text: &mut String, row: &Row) {
    let (ratio, of_smt_off) = (range(row.sharing_over_alone), range(row.over_smt_off));
    let _ = writeln!(text, "{:18}{ratio:24} {of_smt_off}", row.setup);
}

fn range(Spread { min, median, max }: Spread) -> String {
    format!("{median:.3} ({min:.3} … {max:.3})")
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::document;
    use super::*;

    #[test]
    fn the_table_fits_and_has_all_rows() {
        let text = render(&document().unwrap());
        let fits = |line: &str| line.chars().count() <= 100;
        assert!(text.lines().all(fits), "{text}");
        for name in ["SMT off", "SMT on, MT1 time", "SMT on, raw time"] {
            assert_eq!(text.matches(&format!("\n{name:18}")).count(), 2, "{text}");
        }
        assert!(text.contains("0.500 (0.500 … 0.500)"), "{text}");
    }
}
