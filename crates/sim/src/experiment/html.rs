//! One page for all experiments.

use super::{Finding, Report, Tally, Verdict, place, tallies};
use sidelane_draw::escaped;
use std::fmt::Write;

const STYLE: &str = "
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1b1b1b; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 3rem; border-top: 1px solid #ccc; padding-top: 1rem; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; padding: .2rem .6rem; border-bottom: 1px solid #e4e4e4; vertical-align: top; }
th.number { text-align: right; } td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.good { color: #11632f; } .bad { color: #9c1c1c; } .open { color: #6a5300; } .plain { color: #555; }
.source, li { font-size: 14px; color: #444; } caption { text-align: left; font-weight: bold; padding: .4rem 0; } figure { margin: 1.5rem 0; } svg { max-width: 100%; height: auto; }
";

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
    let row = |out: &mut String, first: &str, tally: &Tally| {
        let cells = tally.cells().map(|it| format!("<td class=\"number\">{it}"));
        let _ = writeln!(out, "<tr><td>{first}{}</tr>", cells.concat());
    };
    let caption =
        "Predictions that were published: not put in, not derived from the same value, each once";
    let _ = writeln!(
        out,
        "<table>\n<caption>{caption}</caption>\n<tr><th>source{heads}</tr>"
    );
    for tally in tallies(reports) {
        row(out, &escaped(&tally.source), &tally);
    }
    let _ = writeln!(out, "</table>\n<table>\n<tr><th>experiment{heads}</tr>");
    for report in reports {
        let (name, title) = (escaped(&report.name), escaped(&report.title));
        let link = format!("<a href=\"#{name}\">{title}</a>");
        if let Some(tally) = tallies(std::slice::from_ref(report)).last() {
            row(out, &link, tally);
        }
    }
    out.push_str("</table>\n");
}

/// What differs, and why.
fn write_against(out: &mut String, reports: &[Report]) {
    out.push_str(
        "<h2>What differs, and why</h2>\n<table>\n\
         <tr><th>experiment<th>what<th>at<th>published<th>ours<th>cause</tr>\n",
    );
    for report in reports {
        let predictions = report.findings.iter().filter(|it| it.is_prediction());
        for (finding, cause) in predictions.filter_map(|it| Some((it, it.cause()?))) {
            let name = escaped(&report.name);
            let _ = writeln!(
                out,
                "<tr><td><a href=\"#{name}\">{name}</a><td>{}<td>{}<td class=\"number\">{}\
                 <td class=\"number\">{}<td class=\"source\">{}</tr>",
                escaped(&finding.claim.subject()),
                escaped(&place(&finding.at)),
                escaped(&finding.claim.published()),
                escaped(&finding.own()),
                escaped(cause),
            );
        }
    }
    out.push_str("</table>\n");
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
        delta.write_html(out);
    }
    out.push_str(
        "<table>\n<tr><th>#<th>what<th>at<th>published<th>ours<th>ratio<th>verdict<th>where it stands</tr>\n",
    );
    for (row, finding) in (1..).zip(&report.findings) {
        write_row(out, row, finding);
    }
    out.push_str("</table>\n");
    write_list(out, "Notes", &report.notes);
    write_list(out, "Assumed", &report.assumptions);
}

fn write_row(out: &mut String, row: usize, finding: &Finding) {
    let ratio = finding
        .ratio
        .map_or(String::new(), |ratio| format!("{ratio:.3}"));
    let _ = writeln!(
        out,
        "<tr><td>{row}<td>{}<td>{}<td class=\"number\">{}<td class=\"number\">{}<td class=\"number\">{ratio}\
         <td class=\"{}\">{}<td class=\"source\">{}{}</tr>",
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
