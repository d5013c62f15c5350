//! Reports as text of at most 100 columns.

use super::{Comparison, CoreRow, Report, Transactions, UsageRow};
use crate::metrics::SmtMetrics;
use crate::snapshot::RateSource;
use sidelane_topology::printable;
use std::fmt::Write;

/// Longest name in a table; in one that tells what was borrowed and forced to idle.
const NAME_MAX: usize = 36;
const NAME_MAX_BESIDE: usize = 22;

/// Width of names in the delta table.
const COLUMN_MAX: usize = 16;

impl Report {
    /// The report as text.
    pub fn text(&self) -> String {
        let mut text = self.heading();
        if let Some(transactions) = &self.transactions {
            text += &transactions.text();
        }
        text += &self.core_table();
        text += &usage_table("cgroup", &self.cgroups);
        text += &usage_table("task", &self.tasks);
        for limit in self.limits() {
            text += &wrapped(&format!("note: {}", printable(limit.as_bytes())));
        }
        text
    }

    fn heading(&self) -> String {
        let scheduler = self.header.scheduler.as_deref().unwrap_or("the kernel's");
        let [name, kernel, scheduler] =
            [&self.name, &self.header.kernel, scheduler].map(|name| printable(name.as_bytes()));
        let mut text = wrapped(&format!(
            "{name}: {:.3} s in {} intervals, {} lanes, kernel {kernel}, scheduler {scheduler}",
            self.elapsed_s, self.intervals, self.lanes
        ));
        if let Some(command) = &self.header.command {
            let command = printable(command.join(" ").as_bytes());
            text += &wrapped(&format!("command: {command}"));
        }
        text
    }

    fn core_table(&self) -> String {
        let known = self.forced_idle.is_some();
        let mut text = format!(
            "\n  core  busy% lanes% density capacity   max productivity MT util%  {}\
             time% with 0, 1, ...\n",
            if known { "forced%  " } else { "" }
        );
        for core in &self.cores {
            let beside = forced_column(core.forced_idle, known) + &densities(core);
            text += &core_line(&core.core.to_string(), &core.metrics, &beside);
        }
        text + &core_line(
            "all",
            &self.metrics,
            &forced_column(self.forced_idle, known),
        )
    }

    /// What limits the figures: sentences.
    pub fn limits(&self) -> Vec<String> {
        let mut limits = vec![self.rates.sentence()];
        if self.rates.source == RateSource::Counters {
            limits.extend(self.hardly_seen());
        }
        limits.extend(self.warnings.iter().cloned());
        limits
    }

    fn hardly_seen(&self) -> Option<String> {
        let seen: Vec<String> = self
            .metrics
            .hardly_seen
            .iter()
            .map(|n| n.to_string())
            .collect();
        (!seen.is_empty()).then(|| {
            format!(
                "{} lanes were busy for less than 1 % of the busy time: capacity factors are uncertain",
                seen.join(" and ")
            )
        })
    }
}

impl Transactions {
    fn text(&self) -> String {
        let response = match (self.p50_ms, self.p99_ms) {
            (Some(p50), Some(p99)) => format!(", response p50 {p50:.3} ms, p99 {p99:.3} ms"),
            _ => String::new(),
        };
        let internal = (self.per_busy_s).map_or("-".to_owned(), |itr| format!("{itr:.2}/s"));
        wrapped(&format!(
            "transactions ({}): ETR {:.2}/s, ITR {internal}{response}",
            self.source, self.per_s
        ))
    }
}

fn densities(core: &CoreRow) -> String {
    let shares = core
        .densities
        .iter()
        .map(|share| format!("{:.1}", share * 100.0));
    shares.collect::<Vec<_>>().join(" ")
}

/// Forced idleness, if that column is there.
fn forced_column(share: Option<f64>, known: bool) -> String {
    let share = share.map_or("-".to_owned(), |share| format!("{:.1}", share * 100.0));
    if known {
        format!("{share:>7}  ")
    } else {
        String::new()
    }
}

fn core_line(name: &str, metrics: &SmtMetrics, rest: &str) -> String {
    let share = |of: Option<f64>| of.map_or("-".to_owned(), |of| format!("{:.1}", of * 100.0));
    let ratio = |of: Option<f64>| of.map_or("-".to_owned(), |of| format!("{of:.3}"));
    let line = format!(
        "{name:>6} {:>6} {:>6} {:>7} {:>8} {:>5} {:>12} {:>8}  {rest}",
        share(metrics.core_utilization),
        share(metrics.lane_utilization),
        ratio(metrics.thread_density),
        ratio(metrics.capacity_factor),
        ratio(metrics.max_capacity_factor),
        ratio(metrics.productivity),
        share(metrics.mt_utilization),
    );
    let line: String = line.trim_end().chars().take(100).collect();
    line + "\n"
}

fn usage_table(what: &str, rows: &[UsageRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let known = (rows.iter()).any(|row| row.borrowed_ms.or(row.forced_idle_ms).is_some());
    let name_max = if known { NAME_MAX_BESIDE } else { NAME_MAX };
    let ms = |ms: Option<f64>| ms.map_or("-".to_owned(), |ms| format!("{ms:.1}"));
    let beside = |borrowed: &str, forced: &str| match known {
        true => format!(" {borrowed:>8} {forced:>8}"),
        false => String::new(),
    };
    let mut text = format!(
        "\n{what:<name_max$} {:>9} {:>9} {:>9}{} {:>8} {:>6} {:>7}\n",
        "raw ms",
        "MT1 ms",
        "wait ms",
        beside("borr. ms", "forc. ms"),
        "runs/s",
        "jobs",
        "p99 ms"
    );
    for row in rows {
        let name = printable(row.name.as_bytes());
        let name = match row.pid {
            0 => name,
            pid => format!("{name} ({pid})"),
        };
        let p99 = row
            .job_p99_ms
            .map_or("-".to_owned(), |ms| format!("{ms:.2}"));
        let _ = writeln!(
            text,
            "{:<name_max$} {:>9.1} {:>9.1} {:>9.1}{} {:>8.1} {:>6} {p99:>7}",
            shortened(&name, name_max),
            row.raw_ms,
            row.mt1_ms,
            row.waiting_ms,
            beside(&ms(row.borrowed_ms), &ms(row.forced_idle_ms)),
            row.runs_per_s,
            row.jobs
        );
    }
    text
}

impl Comparison {
    /// The table as text.
    pub fn text(&self) -> String {
        let [first, second] = self
            .names
            .each_ref()
            .map(|name| shortened(&printable(name.as_bytes()), COLUMN_MAX));
        let mut text = format!(
            "{:<26} {first:>COLUMN_MAX$} {second:>COLUMN_MAX$} {:>12} {:>8}\n",
            "", "Delta", "Pct"
        );
        for row in &self.rows {
            let [first, second] = row
                .values
                .map(|value| value.map_or("na".to_owned(), |value| row.unit.show(value)));
            let delta = row
                .delta
                .map_or(String::new(), |delta| row.unit.show(delta));
            let percent = row.percent.map_or(String::new(), |p| format!("{p:.1}"));
            let line = format!(
                "{:<26} {first:>COLUMN_MAX$} {second:>COLUMN_MAX$} {delta:>12} {percent:>8}",
                row.what
            );
            text += line.trim_end();
            text.push('\n');
        }
        for warning in &self.warnings {
            text += &wrapped(&format!("note: {}", printable(warning.as_bytes())));
        }
        text
    }
}

/// The end of a name that is too long says most.
pub(crate) fn shortened(name: &str, longest: usize) -> String {
    let count = name.chars().count();
    match count <= longest {
        true => name.to_owned(),
        false => std::iter::once('…')
            .chain(name.chars().skip(count + 1 - longest))
            .collect(),
    }
}

/// A number for a table: about four digits.
pub fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Lines of at most 100 columns, further ones indented.
pub fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut columns = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if columns > 0 && columns + 1 + length > 100 {
            lines += "\n  ";
            columns = 2;
        } else if columns > 0 {
            lines.push(' ');
            columns += 1;
        }
        lines += word;
        columns += length;
    }
    lines + "\n"
}
