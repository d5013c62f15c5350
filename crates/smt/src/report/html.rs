//! Reports as one HTML file with its figures.

use super::escape::escaped;
use super::{Comparison, Report, UsageRow, svg};
use std::fmt::Write;

const STYLE: &str = "body{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em}\
table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .8em;text-align:right}\
td:first-child,th:first-child{text-align:left}tr:nth-child(even){background:#f4f6f8}\
svg{max-width:100%;height:auto}";

fn page(title: &str, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <style>{STYLE}</style></head>\n<body><h1>{title}</h1>\n{body}</body></html>\n"
    )
}

fn table(heading: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let cells = |cells: &mut dyn Iterator<Item = String>, tag: &str| -> String {
        cells
            .map(|cell| format!("<{tag}>{}</{tag}>", escaped(&cell)))
            .collect()
    };
    let mut text = String::from("<table>\n");
    let mut heading = heading.iter().map(|cell| (*cell).to_owned());
    let _ = writeln!(text, "<tr>{}</tr>", cells(&mut heading, "th"));
    for row in rows {
        let _ = writeln!(text, "<tr>{}</tr>", cells(&mut row.into_iter(), "td"));
    }
    text + "</table>\n"
}

fn list(sentences: &[String]) -> String {
    let items = sentences
        .iter()
        .map(|s| format!("<li>{}</li>\n", escaped(s)));
    format!("<ul>\n{}</ul>\n", items.collect::<String>())
}

impl Report {
    /// The report as an HTML page.
    pub fn html(&self) -> String {
        page(&self.name, &self.html_body())
    }

    fn html_body(&self) -> String {
        let ratio = |of: Option<f64>| of.map_or("-".to_owned(), |of| format!("{of:.3}"));
        let metrics = &self.metrics;
        let mut body = format!(
            "<p>{:.3} s in {} intervals, {} lanes, kernel {}</p>\n",
            self.elapsed_s,
            self.intervals,
            self.lanes,
            escaped(&self.header.kernel)
        );
        let all = [
            ("Core utilisation", metrics.core_utilization),
            ("Lane utilisation", metrics.lane_utilization),
            ("Thread density", metrics.thread_density),
            ("Capacity factor", metrics.capacity_factor),
            ("Maximum capacity factor", metrics.max_capacity_factor),
            ("Productivity", metrics.productivity),
            ("MT utilisation", metrics.mt_utilization),
        ];
        let rows = all
            .into_iter()
            .map(|(name, of)| vec![name.to_owned(), ratio(of)]);
        body += &table(&["", "all cores"], rows);
        body += "<h2>Time by lanes busy</h2>\n";
        body += &svg::densities(self);
        let lanes = self.rates.thread_perf.len().max(1) as f64;
        body += "<h2>Over time</h2>\n";
        let density = |p: &super::Point| p.metrics.thread_density;
        body += &svg::over_time(self, "thread density", lanes, density);
        let utilization = |p: &super::Point| p.metrics.mt_utilization;
        body += &svg::over_time(self, "MT utilisation", 1.0, utilization);
        body += &usage_table("Cgroups", &self.cgroups);
        body += &usage_table("Tasks", &self.tasks);
        body + "<h2>Notes</h2>\n" + &list(&self.limits())
    }
}

/// What is not known is no 0.
fn known(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}

fn usage_table(name: &str, rows: &[UsageRow]) -> String {
    let cells = |row: &UsageRow| {
        let name = match row.pid {
            0 => row.name.clone(),
            pid => format!("{} ({pid})", row.name),
        };
        vec![
            name,
            format!("{:.1}", row.raw_ms),
            format!("{:.1}", row.mt1_ms),
            format!("{:.1}", row.waiting_ms),
            known(row.borrowed_ms, 1),
            known(row.forced_idle_ms, 1),
            row.jobs.to_string(),
            known(row.job_p99_ms, 2),
        ]
    };
    let heading = [
        "",
        "raw ms",
        "MT1 ms",
        "wait ms",
        "borrowed ms",
        "forced idle ms",
        "jobs",
        "p99 ms",
    ];
    format!(
        "<h2>{name}</h2>\n{}",
        table(&heading, rows.iter().map(cells))
    )
}

impl Comparison {
    /// The comparison as an HTML page, with the reports below.
    pub fn html(&self, reports: [&Report; 2]) -> String {
        let rows = self.rows.iter().map(|row| {
            let [first, second] = (row.values)
                .map(|value| value.map_or("na".to_owned(), |value| row.unit.show(value)));
            let delta = row
                .delta
                .map_or(String::new(), |delta| row.unit.show(delta));
            let percent = row.percent.map_or(String::new(), |p| format!("{p:.1}"));
            vec![row.what.to_owned(), first, second, delta, percent]
        });
        let [first, second] = &self.names;
        let mut body = table(&["", first, second, "Delta", "Pct"], rows);
        body += &list(&self.warnings);
        for report in reports {
            let _ = write!(
                body,
                "<h1>{}</h1>\n{}",
                escaped(&report.name),
                report.html_body()
            );
        }
        page(&format!("{first} and {second}"), &body)
    }
}
