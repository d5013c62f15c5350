//! The table for people, at most 100 columns wide.

use super::aim::{Verdict, verdicts};
use super::machine_note;
use crate::message::TraceRun;
use crate::reference;
use crate::results::{ConfigurationResults, Results, WorkloadResults};
use crate::setups::Workload;
use sidelane_smt::latency::{Spread, Summary};
use std::fmt::Write;

/// Renders everything.
pub fn render(results: &Results) -> String {
    let mut text = machine_note(results);
    text.push('\n');
    for workload in &results.workloads {
        text.push_str(&workload_table(results, workload));
    }
    if !results.traces.is_empty() {
        text.push_str(&trace_table(&results.traces));
    }
    text.push_str(&steadiness(results));
    text.push_str(&aims(&verdicts(results)));
    text
}

/// How steady the machine was: figures from an unsteady one scatter.
fn steadiness(results: &Results) -> String {
    let speed = results.reference.batch_bytes_per_core_s;
    let Spread { min, median, max } = speed;
    let mut text = format!(
        "\nReference: one whole core compresses {:.1} MB/s on the median of {} ({:.1} … {:.1})\n",
        median / 1e6,
        results.references.len(),
        min / 1e6,
        max / 1e6
    );
    text.push_str(reference::warning(speed));
    text
}

fn workload_table(results: &Results, workload: &WorkloadResults) -> String {
    let mut text = format!("\n{}\n", headline(results, workload));
    let _ = writeln!(
        text,
        "  {:<10}{:>9}{:>8}{:>10}{:>8}{:>10}{:>8}{:>13}  (min … max)",
        "", "p50 ms", "/alone", "p95 ms", "/alone", "p99 ms", "/alone", "batch share"
    );
    for row in &workload.configurations {
        text.push_str(&configuration_row(row));
    }
    text.push_str(&parts_table(workload));
    text
}

/// Where the mean latency goes, for a workload that says so.
fn parts_table(workload: &WorkloadResults) -> String {
    let mut text = String::new();
    for row in &workload.configurations {
        let (Some(wait_ms), Some(service_ms)) = (row.parts.wait_ms, row.parts.service_ms) else {
            return String::new();
        };
        let _ = writeln!(
            text,
            "  {:<10}{:>9.2}{:>18.2}{:>18.2}",
            row.name, row.parts.late_ms, wait_ms, service_ms
        );
    }
    format!(
        "  the mean latency's parts, ms\n  {:<10}{:>9}{:>18}{:>18}\n{text}",
        "", "sent late", "until taken", "until computed"
    )
}

fn headline(results: &Results, workload: &WorkloadResults) -> String {
    let calibration = &results.calibration;
    let work = match workload.name {
        Workload::Compute => format!(
            "{:.0} requests/s of {:.1} ms on the mean, exponential",
            calibration.compute_rate_per_s,
            calibration.mean_units / calibration.units_per_core_s * 1e3
        ),
        Workload::Redis => format!(
            "{:.0} commands/s of {:.2} ms on the mean, 60 % GET, 25 % SET, 15 % LRANGE 600",
            calibration.redis_rate_per_s,
            calibration.redis_service_ns / 1e6
        ),
    };
    let repetitions = workload
        .configurations
        .iter()
        .map(|c| c.repetitions)
        .min()
        .unwrap_or(0);
    format!("{}: {work}; medians of {repetitions}", workload.name)
}

fn configuration_row(row: &ConfigurationResults) -> String {
    let batch = if row.name.has_batch() {
        let spread = row.spread.batch_share;
        format!(
            "{:>13.2}  ({:.2} … {:.2})",
            row.batch_share, spread.min, spread.max
        )
    } else {
        format!("{:>13}", "-")
    };
    let ratios = row.over_alone;
    format!(
        "  {:<10}{:>9.2}{:>8.2}{:>10.2}{:>8.2}{:>10.2}{:>8.2}{batch}\n",
        row.name, row.p50_ms, ratios.p50, row.p95_ms, ratios.p95, row.p99_ms, ratios.p99
    )
}

fn trace_table(traces: &[TraceRun]) -> String {
    let mut text = String::from(
        "\ncompute, from a trace of scheduling events (times in µs)\n  \
         [1] batch time on lanes of cores with a running critical task, share of batch time\n  \
         [2] critical wake-up → sibling lanes empty of batch, all wake-ups\n  \
         [3] the same, wake-ups that found batch there\n  \
         [4] critical wake-up → running\n",
    );
    let _ = writeln!(
        text,
        "  {:<10}{:>9}{:>19}{:>27}{:>19}",
        "", "[1]", "[2] p50, p99", "[3] count: p50, p99", "[4] p50, p99"
    );
    for trace in traces {
        let analysis = &trace.analysis;
        let found = &analysis.wake_to_clear_found;
        let _ = writeln!(
            text,
            "  {:<10}{:>8.2}%{:>19}{:>27}{:>19}{}",
            trace.configuration.name(),
            analysis.batch_beside_critical * 100.0,
            us(&analysis.wake_to_clear),
            format!("{}: {}", found.count, us(found)),
            us(&analysis.wake_to_run),
            if trace.lost > 0 { "  INCOMPLETE" } else { "" }
        );
    }
    text
}

/// Median and 99th percentile in µs.
fn us(summary: &Summary) -> String {
    format!(
        "{:.0}, {:.0}",
        summary.p50_ns as f64 / 1e3,
        summary.p99_ns as f64 / 1e3
    )
}

fn aims(verdicts: &[Verdict]) -> String {
    let mut text = String::new();
    if !verdicts.is_empty() {
        text.push_str("\nAims for sidelane\n");
    }
    for verdict in verdicts {
        let _ = writeln!(
            text,
            "  {:<28}{:>7.3}  aim {} {:.2}  {}",
            verdict.figure,
            verdict.value,
            if verdict.at_most { "≤" } else { "≥" },
            verdict.limit,
            if verdict.met { "met" } else { "not met" }
        );
    }
    text
}
