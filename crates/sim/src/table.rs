//! Summaries as tables: for people, and one line a metric.

use crate::points::PointSummary;
use crate::statistics::Estimate;
use crate::summary::Summary;
use std::fmt::Write;
use textwrap::WordSplitter;

/// Columns of the tables: heading and metric.
const WORKLOAD_COLUMNS: [(&str, &str); 5] = [
    ("requests/s", "throughput_per_s"),
    ("mean ms", "mean_ms"),
    ("p50 ms", "p50_ms"),
    ("p99 ms", "p99_ms"),
    ("work", "work_rate"),
];
const MACHINE_COLUMNS: [(&str, &str); 6] = [
    ("batch share", "batch_share"),
    ("lanes busy", "utilization"),
    ("cores busy", "core_utilization"),
    ("density", "density"),
    ("CF", "capacity_factor"),
    ("beside %", "batch_beside_critical"),
];

/// The widest line.
const WIDTH: usize = 100;

/// Columns of names as wide as the longest, and those of values as wide as these leave them.
struct Widths {
    configuration: usize,
    workload: usize,
}

impl Widths {
    fn of(summary: &Summary) -> Widths {
        let longest = |names: &mut dyn Iterator<Item = &String>, least: usize| {
            names
                .map(|name| name.chars().count())
                .fold(least, usize::max)
        };
        let configurations = &summary.configurations;
        let workloads = configurations.iter().flat_map(|one| &one.workloads);
        Widths {
            configuration: longest(&mut configurations.iter().map(|one| &one.name), 12),
            workload: longest(&mut workloads.map(|one| &one.name), 10),
        }
    }

    /// Of each of so many values beside so many columns of names; a value with its interval always fits.
    fn value(names: usize, values: usize, most: usize) -> usize {
        (WIDTH.saturating_sub(names) / values - 1).clamp(12, most)
    }

    fn of_workloads(&self) -> usize {
        let names = self.configuration + 1 + self.workload;
        Widths::value(names, WORKLOAD_COLUMNS.len(), 14)
    }

    fn of_machine(&self) -> usize {
        Widths::value(self.configuration, MACHINE_COLUMNS.len(), 13)
    }
}

/// A sentence as lines; the later ones begin below what stands after the `label`.
fn wrapped(label: &str, sentence: &str) -> String {
    let indent = " ".repeat(label.len());
    let options = textwrap::Options::new(WIDTH).word_splitter(WordSplitter::NoHyphenation);
    let options = options.initial_indent(label).subsequent_indent(&indent);
    textwrap::fill(sentence, options) + "\n"
}

impl Summary {
    /// Tables for people, at most 100 columns wide with names of ordinary length.
    pub fn text(&self) -> String {
        let mut out = self.heading();
        if !self.cores.is_empty() {
            out += &wrapped("machine: ", &self.cores);
        }
        out.push('\n');
        self.write_workloads(&mut out);
        let _ = writeln!(out);
        self.write_machine(&mut out);
        let _ = writeln!(
            out,
            "\nwork: done per time, in fastest cores unshared. batch share: batch work / what whole cores \
             could\nhave done beside the other work. CF: work of busy cores / the same with one lane busy \
             each.\nbeside: batch lane time on cores with a running critical task."
        );
        out + &self.assumed()
    }

    /// What was simulated, and how.
    fn heading(&self) -> String {
        let first = format!(
            "{}: simulated; {} replications of {} s, seed {}; ± half of the {} % confidence interval",
            self.scenario,
            self.replications,
            self.seconds,
            self.seed,
            self.confidence * 100.0
        );
        let mut out = wrapped("", &first);
        if !self.about.is_empty() {
            out += &wrapped("", &self.about);
        }
        out
    }

    /// A line for each assumption, or more.
    fn assumed(&self) -> String {
        let assumptions = self.assumptions.iter();
        assumptions.map(|one| wrapped("assumed: ", one)).collect()
    }

    fn write_workloads(&self, out: &mut String) {
        self.write_headings(out);
        self.write_rows(out);
    }

    fn write_headings(&self, out: &mut String) {
        let widths = Widths::of(self);
        let (names, width) = (
            widths.configuration + 1 + widths.workload,
            widths.of_workloads(),
        );
        let _ = write!(out, "{:<names$}", "");
        for (heading, _) in WORKLOAD_COLUMNS {
            let _ = write!(out, " {heading:>width$}");
        }
        let _ = writeln!(out);
    }

    fn write_rows(&self, out: &mut String) {
        let widths = Widths::of(self);
        let (first, second, width) = (widths.configuration, widths.workload, widths.of_workloads());
        for configuration in &self.configurations {
            let mut name = configuration.name.as_str();
            for workload in &configuration.workloads {
                let _ = write!(out, "{name:<first$} {:<second$}", workload.name);
                for (_, metric) in WORKLOAD_COLUMNS {
                    let _ = write!(out, " {:>width$}", cell(workload.metric(metric), 1.0));
                }
                let _ = writeln!(out);
                name = "";
            }
        }
    }

    fn write_machine(&self, out: &mut String) {
        let widths = Widths::of(self);
        let (first, width) = (widths.configuration, widths.of_machine());
        let _ = write!(out, "{:<first$}", "");
        for (heading, _) in MACHINE_COLUMNS {
            let _ = write!(out, " {heading:>width$}");
        }
        let _ = writeln!(out);
        for configuration in &self.configurations {
            let _ = write!(out, "{:<first$}", configuration.name);
            for (heading, metric) in MACHINE_COLUMNS {
                let factor = if heading.ends_with('%') { 100.0 } else { 1.0 };
                let _ = write!(
                    out,
                    " {:>width$}",
                    cell(configuration.metric(metric), factor)
                );
            }
            let _ = writeln!(out);
        }
    }

    /// One line a metric: `configuration,workload,metric,mean,half_width,replications`. Metrics of
    /// the machine have no workload.
    pub fn csv(&self) -> String {
        let mut out = format!("{CSV}\n");
        self.write_csv("", &mut out);
        out
    }

    /// The lines, each after the fields of `before`.
    fn write_csv(&self, before: &str, out: &mut String) {
        for configuration in &self.configurations {
            let machine = configuration.machine.iter().map(|metric| ("", metric));
            let workloads = configuration.workloads.iter().flat_map(|workload| {
                let named = |metric| (workload.name.as_str(), metric);
                workload.metrics.iter().map(named)
            });
            for (workload, metric) in workloads.chain(machine) {
                let Estimate {
                    mean,
                    half_width,
                    replications,
                    ..
                } = metric.estimate;
                let half_width = half_width.map_or(String::new(), |width| width.to_string());
                let fields = [
                    &quoted(&configuration.name),
                    &quoted(workload),
                    &*metric.name,
                ];
                let _ = writeln!(
                    out,
                    "{before}{},{mean},{half_width},{replications}",
                    fields.join(",")
                );
            }
        }
    }
}

/// Fields of the lines of a CSV file.
const CSV: &str = "configuration,workload,metric,mean,half_width,replications";

impl PointSummary {
    /// What stands above the points in text; how often and how long is as at this one.
    pub fn text_heading(&self) -> String {
        let mut out = String::new();
        if let Some(summary) = &self.summary {
            out = summary.heading() + &summary.assumed() + "\n";
            summary.write_headings(&mut out);
        }
        out
    }

    /// The first line of a CSV file of points: their number and the sweeps before what [`Summary::csv`] has.
    pub fn csv_heading(&self) -> String {
        let names: String = self.at.keys().map(|name| quoted(name) + ",").collect();
        format!("point,{names}{CSV}\n")
    }

    /// The point and a line a workload.
    pub fn text(&self) -> String {
        let at = self
            .at
            .iter()
            .map(|(name, value)| format!("{name} {value}"));
        let mut out = format!("{}: {}\n", self.point, at.collect::<Vec<_>>().join(", "));
        if let Some(summary) = &self.summary {
            summary.write_rows(&mut out);
        }
        out
    }

    /// One line a metric.
    pub fn csv(&self) -> String {
        let mut out = String::new();
        let mut before = format!("{},", self.point);
        for value in self.at.values() {
            before += &quoted(
                &value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned),
            );
            before.push(',');
        }
        if let Some(summary) = &self.summary {
            summary.write_csv(&before, &mut out);
        }
        out
    }
}

/// A field of a CSV file.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    }
}

/// A value with its interval, or a dash.
fn cell(estimate: Option<&Estimate>, factor: f64) -> String {
    estimate.map_or("-".into(), |estimate| estimate.text(factor))
}
