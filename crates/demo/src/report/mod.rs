//! Renders results: which aims they meet, a table for people, JSON for programs, a drawing of the distributions.

mod svg;

pub use svg::draw;

use crate::plan::TraceRun;
use crate::plan::{Configuration, Workload};
use crate::reference;
use crate::results::{ConfigurationResults, Results, WorkloadResults};
use crate::table::{Table, range};
use serde::Serialize;
use sidelane_smt::latency::{Spread, Summary};
use std::fmt::Write;

/// The JSON document: the results, and which aims they meet.
#[derive(Debug, Serialize)]
pub struct Document {
    /// The figures.
    #[serde(flatten)]
    pub results: Results,
    /// What was aimed at and what came out.
    pub aims: Vec<Verdict>,
}

impl Document {
    /// The document of these results.
    pub fn new(results: Results) -> Document {
        Document {
            aims: verdicts(&results),
            results,
        }
    }
}

/// How the machine is to be read, in a sentence or two.
pub fn machine_note(results: &Results) -> String {
    let cores = &results.machine.cores;
    let lanes_min = cores.iter().map(Vec::len).min().unwrap_or(0);
    let lanes_max = cores.iter().map(Vec::len).max().unwrap_or(0);
    let lanes = if lanes_min == lanes_max {
        lanes_max.to_string()
    } else {
        format!("{lanes_min} to {lanes_max}")
    };
    let machine = format!(
        "{} cores × {lanes} lanes, Linux {}",
        cores.len(),
        results.machine.kernel
    );
    if results.emulated_smt {
        let thread_perf: Vec<String> = results.thread_perf.iter().map(f64::to_string).collect();
        format!(
            "SMT is emulated: {machine}, threadPerf {{{}}}.\n\
             The figures compare configurations within one boot; they do not describe silicon.",
            thread_perf.join(", ")
        )
    } else {
        format!("Measured on this machine's own SMT: {machine}.")
    }
}

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
    let row = |row: &ConfigurationResults| row.name.has_batch().then_some(row.spread.batch_share);
    let table = Table::of(&workload.configurations)
        .indented(2)
        .left("", 10, |row| row.name.to_string())
        .number("p50 ms", 9, 2, |row| row.p50_ms)
        .ratio("/alone", 8, |row| row.over_alone.p50)
        .number("p95 ms", 10, 2, |row| row.p95_ms)
        .ratio("/alone", 8, |row| row.over_alone.p95)
        .number("p99 ms", 10, 2, |row| row.p99_ms)
        .ratio("/alone", 8, |row| row.over_alone.p99)
        .right("batch share", 13, |of| {
            row(of).map_or("-".into(), |share| format!("{:.2}", share.median))
        })
        .left("(min … max)", 0, |of| {
            row(of).map_or(String::new(), |share| range(share, 2))
        });
    let headline = headline(results, workload);
    format!("\n{headline}\n{table}{}", parts_table(workload))
}

/// Where the mean latency goes, for a workload that says so.
fn parts_table(workload: &WorkloadResults) -> String {
    let says = |row: &ConfigurationResults| Some((row.parts.wait_ms?, row.parts.service_ms?));
    let rows = workload.configurations.iter();
    let parts = rows.map(|row| Some((row.name, row.parts.late_ms, says(row)?)));
    let Some(parts) = parts.collect::<Option<Vec<_>>>() else {
        return String::new();
    };
    let table = Table::of(&parts)
        .indented(2)
        .left("", 10, |row| row.0.to_string())
        .number("sent late", 9, 2, |row| row.1)
        .number("until taken", 18, 2, |row| row.2.0)
        .number("until computed", 18, 2, |row| row.2.1);
    format!("  the mean latency's parts, ms\n{table}")
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

fn trace_table(traces: &[TraceRun]) -> String {
    let table = Table::of(traces)
        .indented(2)
        .left("", 10, |trace| trace.configuration.to_string())
        .right("[1]", 9, |trace| {
            let share = trace.analysis.batch_beside_critical;
            format!("{:.2}%", share * 100.0)
        })
        .right("[2] p50, p99", 19, |trace| {
            us(&trace.analysis.wake_to_clear)
        })
        .right("[3] count: p50, p99", 27, |trace| {
            let found = &trace.analysis.wake_to_clear_found;
            format!("{}: {}", found.count, us(found))
        })
        .right("[4] p50, p99", 19, |trace| us(&trace.analysis.wake_to_run))
        .left("", 0, |trace| match trace.lost {
            0 => String::new(),
            _ => "INCOMPLETE".into(),
        });
    format!(
        "\ncompute, from a trace of scheduling events (times in µs)\n  \
         [1] batch time on lanes of cores with a running critical task, share of batch time\n  \
         [2] critical wake-up → sibling lanes empty of batch, all wake-ups\n  \
         [3] the same, wake-ups that found batch there\n  \
         [4] critical wake-up → running\n{table}"
    )
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

/// Latency under Sidelane may be this multiple of that of `alone`.
const LATENCY_RATIO_MAX: f64 = 1.05;
/// Batch shall get this share of the capacity that is left.
const BATCH_SHARE_MIN: f64 = 0.95;
/// Batch time on lanes of cores with a running critical task, as a share of batch time.
const BATCH_BESIDE_CRITICAL_MAX: f64 = 0.01;

/// An aim and what came out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// The figure.
    pub figure: &'static str,
    /// Its value.
    pub value: f64,
    /// `true`: the value may be at most `limit`; `false`: it must be at least that.
    pub at_most: bool,
    /// The aim.
    pub limit: f64,
    /// Whether it is met.
    pub met: bool,
}

impl Verdict {
    fn at_most(figure: &'static str, value: f64, limit: f64) -> Verdict {
        Verdict {
            figure,
            value,
            at_most: true,
            limit,
            met: value <= limit,
        }
    }

    fn at_least(figure: &'static str, value: f64, limit: f64) -> Verdict {
        Verdict {
            figure,
            value,
            at_most: false,
            limit,
            met: value >= limit,
        }
    }
}

/// The aims for the configuration `sidelane` that these results can be held against.
pub fn verdicts(results: &Results) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    if let Some(sidelane) = sidelane_compute(results) {
        let ratios = sidelane.over_alone;
        verdicts.extend([
            Verdict::at_most("compute p50 / alone", ratios.p50, LATENCY_RATIO_MAX),
            Verdict::at_most("compute p99 / alone", ratios.p99, LATENCY_RATIO_MAX),
            Verdict::at_least("compute batch share", sidelane.batch_share, BATCH_SHARE_MIN),
        ]);
    }
    // A trace with holes proves nothing.
    let mut traces = results.traces.iter().filter(|trace| trace.lost == 0);
    if let Some(trace) = traces.find(|trace| trace.configuration == Configuration::Sidelane) {
        verdicts.push(Verdict::at_most(
            "batch time beside critical",
            trace.analysis.batch_beside_critical,
            BATCH_BESIDE_CRITICAL_MAX,
        ));
    }
    verdicts
}

fn sidelane_compute(results: &Results) -> Option<&ConfigurationResults> {
    let compute = results
        .workloads
        .iter()
        .find(|w| w.name == Workload::Compute)?;
    compute
        .configurations
        .iter()
        .find(|c| c.name == Configuration::Sidelane)
}
