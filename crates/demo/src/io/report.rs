//! The tables.

use super::{Document, Row, Work};
use crate::reference;
use sidelane_smt::latency::Spread;
use std::fmt::Write;

/// The tables, for people.
pub fn render(document: &Document) -> String {
    let mut text = format!(
        "{}\n{}\nAll of normal class; median (min … max) of {} repetitions\n\n",
        document.measured.heading(document.emulated_smt),
        who(document),
        document.repetitions
    );
    let _ = writeln!(
        text,
        "{:12}{:24} {:19} {:19} computed, cores",
        "", "round trips/s", "p50 ms", "p99 ms"
    );
    for row in &document.rows {
        let _ = writeln!(text, "{}", figures(row));
    }
    let _ = writeln!(
        text,
        "\n{:12}{:24} {:22} {:19} of computing",
        "", "round trips × default", "computed × default", "switches/s"
    );
    for row in &document.rows {
        let _ = writeln!(text, "{}", ratios(row));
    }
    text.push_str(
        "\nSwitches of all lanes, those to the idle task too; and those by which who computes lost a lane\n",
    );
    let _ = writeln!(
        text,
        "\n{:12}{:19} {:19} {:19} {:19} µs a run",
        "lanes busy:", "I/O", "computing", "nothing, kernel", "scheduler"
    );
    for row in &document.rows {
        let _ = writeln!(text, "{}", lanes(row));
    }
    text.push_str(
        "\nOn the mean. Sidelane's programs are in all columns; their timers are not measured, the kernel's own\n\
         scheduler is not told apart. To measure them slows them a little\n",
    );
    if let Some(pauses) = document.pauses {
        let _ = writeln!(
            text,
            "\nA pause of a thread costs {} µs of a core on a lane that idles meanwhile,\n{} µs on one that \
             computation fills; the difference is what holding a lane can gain",
            range(pauses.idle_us, 0),
            range(pauses.filled_us, 0)
        );
    }
    text.push_str(reference::warning(document.measured.units_per_core_s));
    text
}

fn who(document: &Document) -> String {
    let lanes = || document.measured.cores.iter().map(Vec::len).sum::<usize>();
    let computing = document
        .computing
        .map_or_else(lanes, |count| count as usize);
    match document.work {
        Work::Processes { connections } => format!(
            "redis with {connections} client(s) that wait for one reply at a time; {computing} compressors"
        ),
        Work::VirtualMachines {
            players,
            turns,
            wait_us,
        } => {
            let players = players.map_or_else(|| lanes().next_multiple_of(2), |n| n as usize);
            let wait = match wait_us {
                Some(us) => format!("wait {us} µs for a device"),
                None => "play ping-pong in pairs".into(),
            };
            format!(
                "{players} virtual CPUs that {wait} after {turns} turns each time; {computing} that multiply"
            )
        }
    }
}

fn figures(row: &Row) -> String {
    let or_none = |spread: Option<Spread>, digits| spread.map_or("-".into(), |s| range(s, digits));
    let [trips, cores] = [
        range(row.round_trips_per_s, 0),
        range(row.computed_cores, 2),
    ];
    let [p50, p99] = [or_none(row.p50_ms, 2), or_none(row.p99_ms, 1)];
    format!("{:12}{trips:24} {p50:19} {p99:19} {cores}", row.setup)
}

fn ratios(row: &Row) -> String {
    let [trips, cores] =
        [row.round_trips_over_default, row.computed_over_default].map(|ratio| range(ratio, 2));
    let [all, own] = [row.switches_per_s, row.computing_switches_per_s].map(|rate| range(rate, 0));
    format!("{:12}{trips:24} {cores:22} {all:19} {own}", row.setup)
}

fn lanes(row: &Row) -> String {
    let lanes = &row.lanes;
    let [io, computing, rest, scheduler] =
        [lanes.io, lanes.computing, lanes.rest, lanes.scheduler].map(|spread| range(spread, 2));
    let run = lanes
        .scheduler_run_us
        .map_or("-".into(), |us| format!("{:.0}", us.median));
    format!(
        "{:12}{io:19} {computing:19} {rest:19} {scheduler:19} {run}",
        row.setup
    )
}

fn range(Spread { min, median, max }: Spread, digits: usize) -> String {
    format!("{median:.digits$} ({min:.digits$} … {max:.digits$})")
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::{PLAYERS, PROCESSES, document};
    use super::*;

    #[test]
    fn the_tables_fit_and_have_all_rows() {
        for work in [PROCESSES, PLAYERS] {
            let text = render(&document(work).unwrap());
            let too_wide = text.lines().find(|line| line.chars().count() > 100);
            assert_eq!(too_wide, None);
            assert!(text.contains("emulated SMT"), "{text}");
            assert!(text.contains("3.00 (3.00 … 3.00)"), "{text}");
            for setup in work.setups() {
                assert_eq!(text.matches(&format!("\n{setup:12}")).count(), 3);
            }
        }
    }
}
