//! Experiments: their files, their verdicts, and what is shown of them.

#![allow(clippy::unwrap_used, missing_docs)]

use sidelane_sim::experiment::{Experiment, Verdict, page};

/// An M/M/1 queue whose mean response is known: 1 ms at half load is 2 ms.
const QUEUE: &str = r#"
about = "A queue"
[machine]
cores = 1
lanes = 1
costs = "none"
[run]
replications = 5
seconds = 20
warmup_seconds = 1
[[workload]]
name = "server"
class = "critical"
open = { load = 0.1 }
workers = 1
demand_ms = { exponential = 1 }
[[configuration]]
name = "one"
scheduler = "sidelane"
[[configuration]]
name = "other"
scheduler = "fifo"
[experiment]
title = "M/M/1"
source = "queueing theory"
[[sweep]]
name = "load"
key = "workload.server.open.load"
values = [0.2, 0.5]
"#;

const CLAIM: &str = r#"
[[published]]
what = "mean_ms"
workload = "server"
configuration = "one"
at = { load = 0.5 }
value = 2.0
tolerance = 0.1
kind = "derived"
"#;

fn verdicts(claims: &str) -> Vec<Verdict> {
    let experiment = Experiment::parse(&format!("{QUEUE}{claims}"), "queue").unwrap();
    let report = experiment.run(&|| ()).unwrap();
    assert!(report.text().contains("M/M/1"));
    report
        .findings
        .iter()
        .map(|finding| finding.verdict)
        .collect()
}

#[test]
fn verdicts_follow_from_the_values() {
    assert_eq!(verdicts(CLAIM), [Verdict::Agrees]);
    assert_eq!(verdicts(&CLAIM.replace("2.0", "3.0")), [Verdict::Differs]);
    // The interval reaches across the limits.
    assert_eq!(
        verdicts(&CLAIM.replace("0.1\nkind", "0.001\nkind")),
        [Verdict::Unclear]
    );
    let role = |role: &str| verdicts(&format!("{CLAIM}role = \"{role}\"\n"));
    assert_eq!(role("input"), [Verdict::Input]);
    assert_eq!(role("consistency"), [Verdict::Consistent]);
    assert_eq!(
        verdicts(&CLAIM.replace("mean_ms", "batch_share")),
        [Verdict::NoValue]
    );
}

#[test]
fn trends_are_judged_over_all_points() {
    let expect = |is: &str, rest: &str| {
        verdicts(&format!(
            "[[expect]]\nwhat = \"mean_ms\"\nworkload = \"server\"\nconfiguration = \"one\"\n\
             kind = \"derived\"\nis = {is}\n{rest}"
        ))
    };
    assert_eq!(expect("{ rises = \"load\" }", ""), [Verdict::TrendHolds]);
    assert_eq!(expect("{ falls = \"load\" }", ""), [Verdict::TrendFails]);
    assert_eq!(expect("{ above = 1.0 }", ""), [Verdict::TrendHolds]);
    // 1.25 ms at a load of 0.2.
    assert_eq!(expect("{ above = 1.5 }", ""), [Verdict::TrendFails]);
    assert_eq!(
        expect("{ between = [0.9, 1.1] }", "relative_to = \"other\"\n"),
        [Verdict::TrendHolds]
    );
}

#[test]
fn mistakes_are_named() {
    for (right, wrong, message) in [
        (
            "configuration = \"one\"\nat",
            "configuration = \"two\"\nat",
            "no configuration \"two\"",
        ),
        (
            "workload = \"server\"",
            "workload = \"client\"",
            "no workload \"client\"",
        ),
        (
            "at = { load = 0.5 }",
            "at = { load = 0.6 }",
            "does not take the value 0.6",
        ),
        (
            "at = { load = 0.5 }",
            "at = { loud = 0.5 }",
            "no sweep \"loud\"",
        ),
        (
            "server.open.load",
            "server.closed.load",
            "a key that stands in the file",
        ),
        ("tolerance = 0.1", "tolerance = -0.1", "at least 0"),
        ("tolerance = 0.1", "tolerances = 0.1", "tolerances"),
        (
            "class = \"critical\"",
            "class = \"urgent\"",
            "queue.toml:13",
        ),
    ] {
        let text = format!("{QUEUE}{CLAIM}");
        assert!(text.contains(right), "{right}");
        let error = Experiment::parse(&text.replace(right, wrong), "queue").unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn all_experiments_can_be_read() {
    let all = Experiment::all().unwrap();
    assert!(all.len() >= 6);
    for experiment in &all {
        assert!(!experiment.claims.is_empty(), "{}", experiment.name);
        assert!(!experiment.assumptions.is_empty(), "{}", experiment.name);
    }
}

#[test]
fn a_page_holds_tables_and_figures() {
    let experiment = Experiment::parse(&format!("{QUEUE}{CLAIM}"), "queue").unwrap();
    let report = experiment.run(&|| ()).unwrap();
    let page = page(&[report]);
    assert!(page.contains("<svg") && page.contains("agrees") && page.contains("id=\"queue\""));
    for figure in page.split("<figure>").skip(1) {
        let svg = figure.split("</figure>").next().unwrap();
        roxmltree::Document::parse(svg).unwrap();
    }
}
