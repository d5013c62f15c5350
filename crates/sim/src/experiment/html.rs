//! One page for all experiments.

use super::{Finding, Report, Tally, Verdict, place, tallies};
use sidelane_draw::escaped;
use std::fmt::Write;

/// Light and dark as the reader's system has it. Figures stay on white: their colours were chosen for it.
const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1b1b1b; --faint: #555; --line: #ddd; --paper: #fff; --link: #0645ad; --good: #11632f; --bad: #9c1c1c; --open: #6a5300; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --faint: #a8a8a8; --line: #3a3a3a; --paper: #181818; --link: #8ab4f8; --good: #7fd6a0; --bad: #ff9b93; --open: #e0c46c; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: var(--ink); background: var(--paper); }
h1, h2 { line-height: 1.2; } h2 { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem; } a { color: var(--link); }
.wide { overflow-x: auto; margin: 1.5rem 0; } table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; padding: .2rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { vertical-align: bottom; } tr.all td { font-weight: bold; border-top: 2px solid var(--line); }
th.number, td.number { text-align: right; } td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
td.what { min-width: 13rem; } td.source { min-width: 16rem; } td.name, td.verdict { white-space: nowrap; }
.good { color: var(--good); } .bad { color: var(--bad); } .open { color: var(--open); } .plain, .source, li { color: var(--faint); }
.source, li { font-size: 14px; } caption { text-align: left; font-weight: bold; padding: .4rem 0; } figure { margin: 1.5rem 0; } svg { max-width: 100%; height: auto; border-radius: 4px; }
";

/// Puts a table into a frame that scrolls by itself where it is too wide for the page.
fn table(out: &mut String, head: &str, rows: &str) {
    let _ = write!(
        out,
        "<div class=\"wide\"><table>\n{head}\n{rows}</table></div>\n"
    );
}

/// A page with a table and figures for each report; needs nothing but itself.
pub fn page(reports: &[Report]) -> String {
    let mut out = String::new();
    let _ = write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>Sidelane: published results, simulated</title>\n<style>{STYLE}</style>\n\
         <h1>Published results, simulated</h1>\n\
         <p>What runs is the scheduler's own source on a simulated machine. A difference is shown and \
         explained, not tuned away. <i>Consistent</i>: a parameter was derived from the same value, so \
         agreement is no evidence. <i>Input</i>: calibrated with it. <i>Unclear</i>: the 95 % interval \
         reaches across the limit.</p>\n"
    );
    write_summary(&mut out, reports);
    write_against(&mut out, reports);
    for report in reports {
        write_report(&mut out, report);
    }
    out.push_str("</html>\n");
    out
}

/// By source: how often each verdict was given; then the same by experiment, with links.
fn write_summary(out: &mut String, reports: &[Report]) {
    let heads = Tally::COLUMNS.map(|it| format!("<th class=\"number\">{it}"));
    let heads = heads.concat();
    let row = |class: &str, first: &str, tally: &Tally| {
        let cells = tally.cells().map(|it| format!("<td class=\"number\">{it}"));
        format!("<tr{class}><td>{first}{}</tr>\n", cells.concat())
    };
    let caption =
        "Predictions that were published: not put in, not derived from the same value, each once";
    let by_source = tallies(reports);
    let rows = by_source.iter().map(|tally| {
        let class = ["", " class=\"all\""][usize::from(tally.source == "all")];
        row(class, &escaped(&tally.source), tally)
    });
    table(
        out,
        &format!("<caption>{caption}</caption>\n<tr><th>source{heads}</tr>"),
        &rows.collect::<String>(),
    );
    let rows = reports.iter().filter_map(|report| {
        let (name, title) = (escaped(&report.name), escaped(&report.title));
        let link = format!("<a href=\"#{name}\">{title}</a>");
        let of_report = tallies(std::slice::from_ref(report));
        Some(row("", &link, of_report.last()?))
    });
    table(
        out,
        &format!("<tr><th>experiment{heads}</tr>"),
        &rows.collect::<String>(),
    );
}

/// What differs, and why.
fn write_against(out: &mut String, reports: &[Report]) {
    let mut rows = String::new();
    for report in reports {
        let predictions = report.findings.iter().filter(|it| it.is_prediction());
        for (finding, cause) in predictions.filter_map(|it| Some((it, it.cause()?))) {
            let name = escaped(&report.name);
            let _ = writeln!(
                rows,
                "<tr><td class=\"name\"><a href=\"#{name}\">{name}</a><td class=\"what\">{}<td>{}<td class=\"number\">{}\
                 <td class=\"number\">{}<td class=\"source\">{}</tr>",
                escaped(&finding.claim.subject()),
                escaped(&place(&finding.at)),
                escaped(&finding.claim.published()),
                escaped(&finding.own()),
                escaped(cause),
            );
        }
    }
    out.push_str("<h2>What differs, and why</h2>\n");
    let head = "<tr><th>experiment<th>what<th>at<th class=\"number\">published<th class=\"number\">ours<th>cause</tr>";
    table(out, head, &rows);
}

fn write_report(out: &mut String, report: &Report) {
    let _ = write!(
        out,
        "<h2 id=\"{}\">{}</h2>\n<p class=\"source\">{}</p>\n<p>{}.</p>\n",
        escaped(&report.name),
        escaped(&report.title),
        escaped(&report.source),
        escaped(&report.what_was_done()),
    );
    for figure in report.figures() {
        let _ = writeln!(out, "<figure>{figure}</figure>");
    }
    for delta in &report.deltas {
        let (head, rows) = delta.html();
        table(out, &head, &rows);
    }
    let mut rows = String::new();
    for (row, finding) in (1..).zip(&report.findings) {
        write_row(&mut rows, row, finding);
    }
    let head = "<tr><th>#<th>what<th>at<th class=\"number\">published<th class=\"number\">ours\
                <th class=\"number\">ratio<th>verdict<th>where it stands</tr>";
    table(out, head, &rows);
    write_list(out, "Notes", &report.notes);
    write_list(out, "Assumed", &report.assumptions);
}

fn write_row(out: &mut String, row: usize, finding: &Finding) {
    let ratio = finding
        .ratio
        .map_or(String::new(), |ratio| format!("{ratio:.3}"));
    let _ = writeln!(
        out,
        "<tr><td>{row}<td class=\"what\">{}<td>{}<td class=\"number\">{}<td class=\"number\">{}<td class=\"number\">{ratio}\
         <td class=\"verdict {}\">{}<td class=\"source\">{}{}</tr>",
        escaped(&finding.claim.subject()),
        escaped(&place(&finding.at)),
        escaped(&finding.claim.published()),
        escaped(&finding.own()),
        colour(finding.verdict),
        finding.verdict,
        escaped(&finding.claim.quote),
        finding.cause().map_or(String::new(), |cause| format!(
            "<br>Cause: {}",
            escaped(cause)
        )),
    );
}

fn colour(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Agrees | Verdict::TrendHolds => "good",
        Verdict::Differs | Verdict::TrendFails | Verdict::Inconsistent | Verdict::InputMissed => {
            "bad"
        }
        Verdict::Unclear | Verdict::NoValue | Verdict::SameDirection => "open",
        Verdict::Consistent | Verdict::Input => "plain",
    }
}

fn write_list(out: &mut String, heading: &str, sentences: &[String]) {
    if sentences.is_empty() {
        return;
    }
    let _ = writeln!(out, "<h3>{heading}</h3>\n<ul>");
    for sentence in sentences {
        let _ = writeln!(out, "<li>{}</li>", escaped(sentence));
    }
    out.push_str("</ul>\n");
}
