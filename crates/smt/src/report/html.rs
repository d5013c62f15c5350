//! Reports as one HTML file with its figures.

use super::{Comparison, Point, Report, UsageRow};
use sidelane_draw::{Anchor, Area, Axis, GRID, Svg, Ticks};
use sidelane_topology::printable;
use std::fmt::Write;

const STYLE: &str = "body{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em}\
table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .8em;text-align:right}\
td:first-child,th:first-child{text-align:left}tr:nth-child(even){background:#f4f6f8}\
svg{max-width:100%;height:auto}";

/// Text that means nothing to HTML, and turns no other text around.
fn escaped(text: &str) -> String {
    sidelane_draw::escaped(&printable(text.as_bytes()))
}

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
        body += &densities(self);
        let lanes = self.rates.thread_perf.len().max(1) as f64;
        body += "<h2>Over time</h2>\n";
        let density = |p: &Point| p.metrics.thread_density;
        body += &over_time(self, "thread density", lanes, density);
        let utilization = |p: &Point| p.metrics.mt_utilization;
        body += &over_time(self, "MT utilisation", 1.0, utilization);
        body += &usage_table("Cgroups", &self.cgroups);
        body += &usage_table("Tasks", &self.tasks);
        body + "<h2>Notes</h2>\n" + &list(&self.limits())
    }
}

/// Sizes of figures, px.
const WIDTH: f64 = 900.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 20.0;
/// Height of a line plot, without its axis.
const PLOT: f64 = 160.0;
/// Height of a core's bar.
const BAR: f64 = 18.0;

/// Fill of a density: idle is light, all lanes busy is dark.
fn shade(index: usize, densities: usize) -> String {
    let lightness = 92.0 - 57.0 * index as f64 / (densities.max(2) - 1) as f64;
    format!("fill=\"hsl(210,45%,{lightness:.0}%)\"")
}

/// Share of the time with no lane busy, one, two, ... of each core: a bar a core.
fn densities(report: &Report) -> String {
    let scale = (WIDTH - LEFT - RIGHT).max(1.0);
    let most = report.cores.iter().map(|core| core.densities.len()).max();
    let most = most.unwrap_or(0);
    let height = 30.0 + report.cores.len() as f64 * (BAR + 4.0);
    let mut svg = Svg::new(WIDTH, height).coarse();
    for index in 0..most {
        let swatch = Area {
            left: LEFT + 90.0 * index as f64,
            top: 4.0,
            width: 12.0,
            height: 12.0,
        };
        svg.rect(swatch, &shade(index, most), "");
        let place = (swatch.left + 18.0, 15.0);
        svg.text(place, Anchor::Start, "", &format!("{index} lanes"));
    }
    for (row, core) in report.cores.iter().enumerate() {
        let mut bar = Area {
            left: LEFT,
            top: 26.0 + row as f64 * (BAR + 4.0),
            width: 0.0,
            height: BAR,
        };
        let (place, name) = ((LEFT - 8.0, bar.top + 13.0), format!("core {}", core.core));
        svg.text(place, Anchor::End, "", &name);
        for (index, share) in core.densities.iter().enumerate() {
            bar.width = share * scale;
            svg.rect(bar, &shade(index, core.densities.len()), "");
            bar.left = bar.right();
        }
    }
    svg.finish()
}

/// A metric over time, from 0 to `most`. Without a value, or where intervals are missing, the line is broken.
fn over_time(report: &Report, name: &str, most: f64, of: fn(&Point) -> Option<f64>) -> String {
    let end = report
        .series
        .last()
        .map_or(1.0, |point| point.to_s)
        .max(1e-9);
    let ticks = Ticks::fit(
        &Axis::linear(name).between(0.0, most),
        [].into_iter(),
        false,
    );
    let x = |at_s: f64| LEFT + at_s / end * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| 22.0 + PLOT * (1.0 - ticks.part(value).clamp(0.0, 1.0));
    let mut svg = Svg::new(WIDTH, PLOT + 48.0).coarse();
    svg.text((LEFT, 14.0), Anchor::Start, "", name);
    for (value, words) in &ticks.marks {
        let at = y(*value);
        let grid = format!("stroke=\"{GRID}\"");
        svg.line((LEFT, at), (WIDTH - RIGHT, at), &grid);
        svg.text((LEFT - 8.0, at + 4.0), Anchor::End, "", words);
    }
    for part in unbroken(report, of) {
        let ends = |(point, value): (&Point, f64)| {
            [point.from_s, point.to_s].map(|at_s| (x(at_s), y(value)))
        };
        let points = part.into_iter().flat_map(ends);
        svg.polyline(points, "stroke=\"hsl(210,60%,40%)\" stroke-width=\"1.5\"");
    }
    let below = PLOT + 40.0;
    svg.text(
        (WIDTH - RIGHT, below),
        Anchor::End,
        "",
        &format!("{end:.1} s"),
    );
    svg.text((LEFT, below), Anchor::Start, "", "0");
    svg.finish()
}

/// Points with a value that follow each other without a gap.
fn unbroken(report: &Report, of: fn(&Point) -> Option<f64>) -> Vec<Vec<(&Point, f64)>> {
    let mut parts: Vec<Vec<(&Point, f64)>> = Vec::new();
    let known = report
        .series
        .iter()
        .filter_map(|point| Some((point, of(point)?)));
    for (point, value) in known {
        match parts.last_mut() {
            Some(part)
                if part
                    .last()
                    .is_some_and(|(last, _)| (last.to_s - point.from_s).abs() < 1e-6) =>
            {
                part.push((point, value));
            }
            _ => parts.push(vec![(point, value)]),
        }
    }
    parts
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
