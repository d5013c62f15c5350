//! Experiments: their files, their verdicts, and what is shown of them.

use sidelane_interface::Kind;
use sidelane_sim::experiment::{
    Experiment, Report, Role, Saved, SavedReport, Slack, Verdict, changes_text, page, tallies,
};
use std::collections::BTreeMap;

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
    let missed = CLAIM.replace("2.0", "3.0") + "role = \"input\"\n";
    assert_eq!(verdicts(&missed), [Verdict::InputMissed]);
    assert_eq!(role("consistency"), [Verdict::Consistent]);
    assert_eq!(
        verdicts(&CLAIM.replace("mean_ms", "batch_share")),
        [Verdict::NoValue]
    );
}

/// Without the second workload the server answers sooner.
#[test]
fn a_change_to_the_right_side_is_told_from_one_to_the_wrong_side() {
    let alone = |value: &str, compare: &str| {
        verdicts(&format!(
            "[[published]]\nwhat = \"mean_ms\"\nworkload = \"server\"\nconfiguration = \"alone\"\n\
             relative_to = \"one\"\nat = {{ load = 0.5 }}\nvalue = {value}\ntolerance = 0.1\n\
             compare = \"{compare}\"\nkind = \"stated\"\n\
             [[configuration]]\nname = \"alone\"\nscheduler = \"sidelane\"\nwithout = [\"second\"]\n\
             [[workload]]\nname = \"second\"\nclass = \"critical\"\nopen = {{ load = 0.3 }}\nworkers = 1\n\
             demand_ms = {{ exponential = 1 }}\n"
        ))
    };
    assert_eq!(alone("0.01", "ratio"), [Verdict::SameDirection]);
    assert_eq!(alone("1.5", "ratio"), [Verdict::Differs]);
    assert_eq!(alone("0.99", "reduction"), [Verdict::SameDirection]);
    assert_eq!(alone("0.5", "increase"), [Verdict::Differs]);
}

#[test]
fn an_assumption_s_other_values_are_sensitivities() {
    let with = |claims: &str| {
        let text = QUEUE.replace(
            "source = \"queueing theory\"",
            "source = \"queueing theory\"\nsensitivity = { load = 0.5 }",
        );
        Experiment::parse(&format!("{text}{claims}"), "queue")
    };
    let claim = CLAIM.replace("at = { load = 0.5 }\n", "");
    let report = with(&claim).unwrap().run(&|| ()).unwrap();
    let found: Vec<(Role, Verdict)> = (report.findings.iter())
        .map(|it| (it.claim.role, it.verdict))
        .collect();
    let expected = [
        (Role::Sensitivity, Verdict::Differs),
        (Role::Prediction, Verdict::Agrees),
    ];
    assert_eq!(found, expected);
    // a trend is judged at each of them
    let trend = claim
        .replace("[published]", "[expect]")
        .replace("value = 2.0\ntolerance = 0.1", "is = { above = 1.5 }");
    let report = with(&trend).unwrap().run(&|| ()).unwrap();
    let found: Vec<(Role, Verdict)> = (report.findings.iter())
        .map(|it| (it.claim.role, it.verdict))
        .collect();
    let expected = [
        (Role::Sensitivity, Verdict::TrendFails),
        (Role::Prediction, Verdict::TrendHolds),
    ];
    assert_eq!(found, expected);
    assert_eq!(tallies(&[report]).last().unwrap().predictions, 1);
    // it has no course, and a bound may be a measured value
    let rises = trend.replace("{ above = 1.5 }", "{ rises = \"load\" }");
    assert!(with(&rises).is_err());
    let near = trend.replace("{ above = 1.5 }", "{ above = 2.2 }\ntolerance = 0.2");
    let report = with(&near).unwrap().run(&|| ()).unwrap();
    assert_eq!(report.findings[1].verdict, Verdict::TrendHolds);
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
fn the_greatest_over_a_sweep_counts() {
    let greatest = CLAIM.replace("at = { load = 0.5 }", "greatest_over = \"load\"");
    let experiment = Experiment::parse(&format!("{QUEUE}{greatest}"), "queue").unwrap();
    let findings = experiment.run(&|| ()).unwrap().findings;
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].at["load"], toml::Value::Float(0.5));
    assert_eq!(findings[0].verdict, Verdict::Agrees);
    // One less its ratio to the other: next to nothing.
    let reduced = greatest.replace(
        "value = 2.0\ntolerance = 0.1",
        "is = { between = [-0.1, 0.1] }",
    );
    let reduced = reduced.replace("[published]", "[expect]");
    let relative = "relative_to = \"other\"\ncompare = \"reduction\"\n";
    assert_eq!(
        verdicts(&format!("{reduced}{relative}")),
        [Verdict::TrendHolds]
    );
}

#[test]
fn the_mean_over_a_sweep_counts() {
    // 1.25 ms at a load of 0.2, 2 ms at 0.5
    let mean = CLAIM.replace("at = { load = 0.5 }", "mean_over = \"load\"");
    let mean = mean.replace("value = 2.0", "value = 1.625");
    let experiment = Experiment::parse(&format!("{QUEUE}{mean}"), "queue").unwrap();
    let findings = experiment.run(&|| ()).unwrap().findings;
    assert_eq!(findings.len(), 1);
    assert!(findings[0].at.is_empty());
    assert_eq!(findings[0].verdict, Verdict::Agrees);
    assert_eq!(verdicts(&mean.replace("1.625", "2.0")), [Verdict::Differs]);
    let unknown = mean.replace("\"load\"", "\"lode\"");
    let error = Experiment::parse(&format!("{QUEUE}{unknown}"), "queue").unwrap_err();
    assert!(error.to_string().contains("there is no sweep \"lode\""));
}

#[test]
fn a_sweep_can_set_several_keys() {
    let keys = "[\"workload.server.open.load\", \"workload.server.demand_ms\"]";
    let queue = QUEUE
        .replace("\"workload.server.open.load\"", keys)
        .replace("demand_ms = { exponential = 1 }", "demand_ms = 3");
    let experiment = Experiment::parse(&format!("{queue}{CLAIM}"), "queue").unwrap();
    // M/D/1 with a demand of 0.5 ms at half load: 0.75 ms.
    let findings = experiment.run(&|| ()).unwrap().findings;
    let mean_ms = findings[0].ours.as_ref().unwrap().mean;
    assert!((mean_ms - 0.75).abs() < 0.03, "{mean_ms}");
    let wrong = queue.replace("server.demand_ms", "server.demands_ms");
    assert!(Experiment::parse(&format!("{wrong}{CLAIM}"), "queue").is_err());
}

const MODEL: &str = r#"
about = "one core"
assumptions = ["all of it"]
[experiment]
title = "Model"
source = "queueing theory"
[[model]]
name = "one"
cores = 1
thread_perf = [1, 0.6]
[[model]]
name = "many"
cores = 16
thread_perf = [1, 0.6]
iterations = 10
[[published]]
what = "lowest_best_level"
configuration = "one"
value = 2
tolerance = 0
kind = "derived"
[[published]]
what = "crossover_1"
configuration = "many"
value = 0.914
tolerance = 0.001
kind = "derived"
[[expect]]
what = "crossover_1"
configuration = "one"
is = { below = 0.001 }
kind = "derived"
[[expect]]
what = "greatest_gain"
configuration = "many"
is = { between = [0.25, 0.3] }
kind = "derived"
[[expect]]
what = "mean_ms"
configuration = "many"
is = { above = 0 }
kind = "derived"
"#;

#[test]
fn the_model_is_asked_like_a_simulation() {
    let experiment = Experiment::parse(MODEL, "model").unwrap();
    assert_eq!(experiment.runs(), 0);
    let report = experiment.run(&|| ()).unwrap();
    let verdicts: Vec<Verdict> = report.findings.iter().map(|f| f.verdict).collect();
    use Verdict::{Agrees, NoValue, TrendHolds};
    assert_eq!(verdicts, [Agrees, Agrees, TrendHolds, TrendHolds, NoValue]);
    assert!(report.text().contains("From the queueing model: one core"));
    assert_eq!(report.figures().len(), 2);
}

#[test]
fn mistakes_about_the_model_are_named() {
    for (right, wrong, message) in [
        (
            "iterations = 10",
            "iterations = 0",
            "model \"many\": 0 iterations",
        ),
        ("iterations = 10", "model = \"mmms\"", "no model \"mmms\""),
        ("[1, 0.6]", "[1.1, 0.6]", "begins with 1.1"),
        ("iterations = 10", "iteration = 10", "iteration"),
        (
            "[experiment]",
            "[machine]\n[experiment]",
            "make two experiments",
        ),
        (
            "configuration = \"one\"",
            "configuration = \"two\"",
            "no configuration \"two\"",
        ),
    ] {
        assert!(MODEL.contains(right), "{right}");
        let error = Experiment::parse(&MODEL.replacen(right, wrong, 1), "model").unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn histograms_are_drawn_where_they_are_wanted() {
    let histogram = "[histogram]\nworkload = \"server\"\nconfigurations = [\"one\", \"other\"]\n\
                     bin_ms = 0.5\nto_ms = 10\nat = { load = 0.5 }\n";
    let text = format!("{QUEUE}{histogram}{CLAIM}");
    let report = Experiment::parse(&text, "queue").unwrap();
    let figures = report.run(&|| ()).unwrap().figures();
    assert!(figures.len() == 2 && figures[1].contains("share of responses in 0.5 ms"));
    let mistake = |right: &str, wrong: &str| {
        let error = Experiment::parse(&text.replace(right, wrong), "queue").unwrap_err();
        error.to_string()
    };
    assert!(mistake("[\"one\", \"other\"]", "[\"two\"]").contains("no configuration \"two\""));
    assert!(mistake("bin_ms = 0.5", "bin_ms = 0").contains("bins"));
}

#[test]
fn published_values_of_a_configuration_are_one_series() {
    let other = CLAIM
        .replace("load = 0.5", "load = 0.2")
        .replace("2.0", "1.25");
    let figure = |values: &str| {
        let text = format!("{QUEUE}{CLAIM}{other}").replace("[0.2, 0.5]", values);
        let report = Experiment::parse(&text, "queue").unwrap().run(&|| ());
        report.unwrap().figures().remove(0)
    };
    let curves = figure("[0.2, 0.5]");
    assert_eq!(curves.matches(">one (published)<").count(), 1);
    // values in no order are cases: a bar for each, of both configurations and of what was published
    let bars = figure("[0.5, 0.2]");
    assert_eq!(bars.matches(">one (published)<").count(), 1);
    let rectangles = |figure: &str| figure.matches("<rect").count();
    assert!(rectangles(&bars) >= rectangles(&curves) + 6);
}

const DELTA: &str = r#"
[[delta]]
title = "Table 1"
from = "one"
to = "other"
at = { load = 0.5 }
rows = [
    { what = "mean_ms", workload = "server", from = 2.0, to = 3.0 },
    { what = "density", to = 1.5 },
    { what = "batch_share" },
]
"#;

#[test]
fn tables_of_the_source_stand_above_the_claims() {
    let experiment = Experiment::parse(&format!("{QUEUE}{CLAIM}{DELTA}"), "queue").unwrap();
    let report = experiment.run(&|| ()).unwrap();
    // the published schema describes all of it to the last key
    let summary = tallies(std::slice::from_ref(&report));
    let printed = serde_json::json!({"experiments": [&report], "summary": summary});
    sidelane_interface::check::result(Kind::Reproduce, &printed).unwrap();
    let [table] = &report.deltas[..] else {
        panic!("{:?}", report.deltas)
    };
    assert_eq!(table.title, "Table 1: one and other, load 0.5");
    let [mean, density, none] = &table.rows[..] else {
        panic!("{:?}", table.rows)
    };
    assert_eq!(mean.published_increase, Some(0.5));
    // at half load, not at the first
    assert!((mean.ours[0].unwrap().mean - 2.0).abs() < 0.2);
    assert!(mean.our_increase.unwrap().mean.abs() < 0.1);
    assert_eq!(
        (density.published[0], density.published_increase),
        (None, None)
    );
    assert!((density.ours[1].unwrap().mean - 1.0).abs() < 1e-9);
    assert!(none.ours[0].is_none() && none.our_increase.is_none());
    let text = report.text();
    let [above, below] = ["+50.0 %", "verdict"].map(|what| text.find(what).unwrap());
    assert!(above < below, "{text}");
    assert!(page(&[report]).contains("<caption>Table 1: one and other"));
}

#[test]
fn mistakes_in_tables_are_named() {
    for (right, wrong, message) in [
        ("to = \"other\"", "to = \"two\"", "no configuration \"two\""),
        (
            "at = { load = 0.5 }\nrows",
            "at = { load = 0.6 }\nrows",
            "does not take the value 0.6",
        ),
        (
            "workload = \"server\", from",
            "workload = \"s\", from",
            "no workload \"s\"",
        ),
        ("from = 2.0", "form = 2.0", "form"),
    ] {
        let text = format!("{QUEUE}{CLAIM}{DELTA}");
        assert!(text.contains(right), "{right}");
        let error = Experiment::parse(&text.replace(right, wrong), "queue").unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
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
            "queue.toml:23:1: load 0.2: closed stands beside open",
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
fn a_trend_over_a_sweep_is_not_one_of_its_mean() {
    let trend = "[[expect]]\nwhat = \"mean_ms\"\nworkload = \"server\"\nconfiguration = \"one\"\nkind = \"stated\"\n\
                 quote = \"\"\nis = { rises = \"load\" }\n";
    let read = |text: String| Experiment::parse(&format!("{QUEUE}{text}"), "queue");
    read(trend.to_owned()).unwrap();
    let error = read(format!("{trend}mean_over = \"load\"\n")).unwrap_err();
    assert!(error.to_string().contains("neither mean_over"), "{error}");
}

#[test]
fn all_experiments_can_be_read() {
    let all = Experiment::all().unwrap();
    assert!(all.len() >= 17);
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

/// What is simulated in seconds, each in a share of its time and one replication: something of each source, and
/// what the scheduler's abilities are for (order by age and promotion, budgets, retention and pairing).
const FROZEN: [(&str, f64); 6] = [
    ("adaptive-model", 1.0),
    ("elfen-budgets-one-core", 0.1),
    ("elfen-budgets-seven-cores", 0.1),
    ("fof-smt", 0.1),
    ("vsmt-two-a-lane", 0.2),
    ("zvm-smt2-serialised", 0.2),
];

/// A value may move by this share before somebody has to look at it. All else is the same from run to run.
const SLACK: Slack = Slack::Share(0.03);

/// Holds reports against the part of that name in the golden file.
fn frozen(part: &str, reports: &[Report]) {
    let path = format!(
        "{}/tests/golden/experiments.json",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(&path).unwrap_or_else(|_| "{}".into());
    let mut kept: BTreeMap<String, Saved> = serde_json::from_str(&text).unwrap();
    let now = Saved::of(reports);
    if std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        kept.insert(part.to_owned(), now.clone());
        let parts = kept
            .iter()
            .map(|(part, saved)| format!("{part:?}:{}", lines(saved)));
        let parts: Vec<String> = parts.collect();
        std::fs::write(&path, format!("{{{}}}\n", parts.join(",\n"))).unwrap();
    }
    let Some(then) = kept.get(part) else {
        panic!("nothing is kept of {part:?}; UPDATE_GOLDEN=1 keeps what comes out");
    };
    let changes = then.changes(&now, SLACK);
    assert!(
        changes.is_empty(),
        "{}UPDATE_GOLDEN=1 rewrites what is kept, if that is meant",
        changes_text(&changes)
    );
}

/// JSON with a line for each finding, so that a difference of two versions can be read.
fn lines(saved: &Saved) -> String {
    let report = |report: &SavedReport| {
        let findings = report.findings.iter();
        let findings = findings.map(|it| serde_json::to_string(it).unwrap());
        let findings = findings.collect::<Vec<_>>().join(",\n");
        format!(
            "{{\"name\":{:?},\"findings\":[\n{findings}\n]}}",
            report.name
        )
    };
    let reports: Vec<String> = saved.experiments.iter().map(report).collect();
    format!("{{\"experiments\":[{}]}}", reports.join(",\n"))
}

#[test]
fn verdicts_and_values_are_what_they_were() {
    let all = Experiment::all().unwrap();
    let short = |(name, share): &(&str, f64)| {
        let experiment = all.iter().find(|it| it.name == *name).unwrap();
        experiment.shortened(*share).unwrap()
    };
    let short: Vec<Experiment> = FROZEN.iter().map(short).collect();
    frozen("short", &Experiment::run_all(&short, &|| ()).unwrap());
}

#[test]
#[ignore = "minutes: `make reproduce`"]
fn all_verdicts_and_values_are_what_they_were() {
    let all = Experiment::all().unwrap();
    frozen("full", &Experiment::run_all(&all, &|| ()).unwrap());
}
