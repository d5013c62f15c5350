//! The scheduler's settings are the same language in a configuration and in a scenario: what one accepts or
//! refuses, the other does, too, with the same words.
#![allow(clippy::unwrap_used)]

use sidelane_policy::file::{Limits, Mistake};
use sidelane_policy::settings::{Kind, Row, rows};
use sidelane_policy::{Borrow, Scope, Settings};
use sidelane_sched::Config;
use sidelane_sim::{Kind as Scheduler, Scenario};

const MACHINE: &str = "[machine]\ncores = 2\nlanes = 2\nthread_perf = [1, 0.6]\n\
                       [[workload]]\nname = \"batch\"\nclass = \"batch\"\nbatch.tasks = 2\n\
                       [[configuration]]\nscheduler = \"sidelane\"\n[configuration.settings]\n";
const TABLE: &str = "[scheduler]\n";

/// Where a mistake is in the lines of settings, and what is said of it.
type Said = (usize, usize, String);

fn said(mistake: Mistake, before: &str) -> Said {
    let line = mistake.place.line - before.lines().count();
    (line, mistake.place.column, mistake.message)
}

fn configured(settings: &str) -> Result<Settings, Said> {
    let parsed = Config::parse(&format!("{TABLE}{settings}"), "c.toml");
    parsed.map(|it| it.scheduler).map_err(|it| said(it, TABLE))
}

fn simulated(settings: &str) -> Result<Settings, Said> {
    let parsed = Scenario::parse(&format!("{MACHINE}{settings}"), "s.toml");
    let mut scenario = parsed.map_err(|it| said(it, MACHINE))?;
    match scenario.configurations.remove(0).scheduler {
        Scheduler::Sidelane(sidelane) => Ok(sidelane.settings),
        Scheduler::Baseline(baseline) => panic!("{baseline:?}"),
    }
}

/// What both say of some lines.
fn both(settings: &str) -> Result<Settings, Said> {
    let (configured, mut simulated) = (configured(settings), simulated(settings));
    if let (Ok(configured), Ok(simulated)) = (&configured, &mut simulated)
        && configured.only_batch()
    {
        simulated.counters = configured.counters; // nobody asks for them
    }
    assert_eq!(configured, simulated, "{settings}");
    configured
}

/// Lines that give a setting an effect.
fn needed(row: &Row) -> &'static str {
    match row.needs.map(|needs| needs.what) {
        None | Some("promote = true" | "dispatching = \"fair\"") => "",
        Some("retain = true") => "retain = true\n",
        Some("pair = true") => "retain = true\npair = true\n",
        Some("symbiotic = true") => "symbiotic = true\n",
        Some("borrow = \"slo\"") => "borrow = \"slo\"\n",
        Some("borrow = \"fixed\", \"refresh\" or \"dynamic\"") => "borrow = \"fixed\"\n",
        Some(other) => panic!("how is {other} switched on?"),
    }
}

/// Lines that take its effect away.
fn dead(row: &Row) -> Option<&'static str> {
    let what = row.needs?.what;
    Some(match what {
        "promote = true" => "promote = false\n",
        "dispatching = \"fair\"" => "dispatching = \"slices\"\n",
        "pair = true" => "retain = true\n",
        _ => "",
    })
}

/// What the machine says unless the settings do.
fn told(row: &Row) -> String {
    let all = [("thread_perf", "[1, 0.6]"), ("counters", "\"auto\"")];
    let others = all.iter().filter(|(name, _)| *name != row.name);
    // with batch alone nothing is counted
    let others = others.filter(|(name, _)| row.name != "scope" || *name == "thread_perf");
    others
        .map(|(name, value)| format!("{name} = {value}\n"))
        .collect()
}

fn right(row: &Row) -> Vec<String> {
    let range = |limits: &Limits| {
        let least = match limits.is_open() {
            true => limits.max(),
            false => limits.min(),
        };
        let zero = limits.has_zero().then_some(0.0);
        zero.into_iter()
            .chain([least, limits.max()])
            .map(|it| it.to_string())
            .collect()
    };
    match &row.kind {
        Kind::Time(limits, _) | Kind::Number(limits, _) => range(limits),
        Kind::Whole(least, most, _) => vec![least.to_string(), most.to_string()],
        Kind::Switch(_) => vec!["true".into(), "false".into()],
        Kind::Word(words, ..) => words.iter().map(|word| format!("{word:?}")).collect(),
        Kind::Objective(_) => vec!["\"p50 < 10 us\"".into(), "\"p99.9 < 100 s\"".into()],
        Kind::Speeds(_) => vec!["[1]".into(), "[1, 0.5, 0.5]".into(), "[]".into()],
    }
}

fn wrong(row: &Row) -> Vec<String> {
    let mut wrong: Vec<String> = match &row.kind {
        Kind::Time(limits, _) | Kind::Number(limits, _) => {
            let beyond = [
                limits.min() - 0.01,
                limits.max() * 1.01,
                f64::NAN,
                f64::INFINITY,
            ];
            beyond
                .iter()
                .map(|it| it.to_string().replace("NaN", "nan"))
                .collect()
        }
        Kind::Whole(least, most, _) => vec![
            (i64::from(*least) - 1).to_string(),
            (i64::from(*most) + 1).to_string(),
            "1.5".into(),
        ],
        Kind::Switch(_) => vec!["1".into(), "\"true\"".into()],
        Kind::Word(..) => vec!["\"neither\"".into(), "true".into()],
        Kind::Objective(_) => vec!["\"p10 < 1 ms\"".into(), "20".into()],
        Kind::Speeds(_) => vec!["[0.5, 0.6]".into(), "[1, 0.5, 0.6]".into()],
    };
    wrong.extend(["{ a = 1 }".to_owned(), "1979-05-27".to_owned()]);
    wrong
}

#[test]
fn what_is_right_is_taken_by_both() {
    for row in rows() {
        for value in right(row) {
            if (row.name, value.as_str()) == ("scope", "\"all\"") {
                continue; // as everywhere else
            }
            let companions = match (row.name, value.as_str()) {
                ("borrow", "\"slo\"") => "objective = \"p99 < 20 ms\"\n",
                ("borrow", word)
                    if Borrow::ALL
                        .iter()
                        .any(|it| it.is_limited() && format!("{:?}", it.name()) == word) =>
                {
                    "budget_ms = 5\n"
                }
                ("retention.start_ms", _) => "retention = { min_ms = 0.05, max_ms = 100 }\n",
                ("retention.min_ms", _) => "retention = { start_ms = 100, max_ms = 100 }\n",
                ("retention.max_ms", _) => "retention = { start_ms = 0.05, min_ms = 0.05 }\n",
                _ => "",
            };
            // keys of one table cannot stand in two
            let line = match (companions.strip_suffix(" }\n"), row.place()) {
                (Some(table), (Some(_), key)) => format!("{table}, {key} = {value} }}\n"),
                _ => format!("{companions}{} = {value}\n", row.name),
            };
            let needed = needed(row).replace(&format!("{} = true\n", row.name), "");
            let text = format!("{needed}{}{line}", told(row));
            let read = both(&text);
            let read = read.unwrap_or_else(|said| panic!("{text}{said:?}"));
            if !matches!(row.kind, Kind::Speeds(_) | Kind::Objective(_)) {
                assert_eq!(row.written(&read), value, "{text}");
            }
        }
    }
}

#[test]
fn what_is_out_of_range_is_refused_by_both_with_its_place() {
    for row in rows() {
        for value in wrong(row) {
            let text = format!("{} = {value}\n", row.name);
            let (line, column, said) = both(&text).unwrap_err();
            assert_eq!((line, column), (1, row.name.len() + 4), "{text}{said}");
        }
    }
}

#[test]
fn misspelt_keys_are_refused_by_both_with_the_right_one() {
    for row in rows() {
        let text = format!("{}s = true\n", row.name);
        let (line, _, said) = both(&text).unwrap_err();
        let (_, key) = row.place();
        assert_eq!(line, 1, "{text}{said}");
        assert!(
            said.contains(&format!("did you mean {key:?}?")),
            "{text}{said}"
        );
    }
}

#[test]
fn settings_without_effect_are_refused_by_both() {
    let mut dead_ones = 0;
    for row in rows() {
        let Some(before) = dead(row) else { continue };
        // a switch that is off asks for nothing
        let value = match row.kind {
            Kind::Switch(_) => "true".to_owned(),
            _ => right(row).pop().unwrap(),
        };
        let text = format!("{before}{} = {value}\n", row.name);
        let (line, _, said) = both(&text).unwrap_err();
        assert_eq!(line, text.lines().count(), "{text}{said}");
        let expected = format!(
            "{} has no effect without {}",
            row.name,
            row.needs.unwrap().what
        );
        assert!(said.starts_with(&expected), "{text}{said}");
        dead_ones += 1;
    }
    assert!(dead_ones > 10, "{dead_ones}");
}

#[test]
fn settings_that_do_not_go_together_are_refused_by_both() {
    for (text, expected) in [
        ("borrow = \"fixed\"\n", "needs a budget"),
        ("borrow = \"slo\"\n", "needs an objective"),
        (
            "retain = true\nretention.min_ms = 5\n",
            "min_ms <= start_ms",
        ),
        ("symbiotic = true\ncounters = \"off\"\n", "needs counters"),
        ("start_ms = 3\n", "it belongs in retention"),
    ] {
        let (.., said) = both(text).unwrap_err();
        assert!(said.contains(expected), "{text}{said}");
    }
}

#[test]
fn what_concerns_no_batch_is_refused_by_both_where_there_is_batch_alone() {
    let batch = Settings {
        scope: Scope::Batch,
        ..Settings::default()
    };
    let mut dead_ones = 0;
    for row in rows() {
        if batch.are_asked_for(row) {
            continue;
        }
        let value = match row.kind {
            Kind::Switch(_) => "true".to_owned(),
            _ => right(row).pop().unwrap(),
        };
        let text = format!("scope = \"batch\"\n{} = {value}\n", row.name);
        let (line, _, said) = both(&text).unwrap_err();
        assert_eq!(line, 2, "{text}{said}");
        let expected = format!("{} has no effect with scope = \"batch\"", row.name);
        assert!(said.starts_with(&expected), "{text}{said}");
        dead_ones += 1;
    }
    assert!(dead_ones > 20, "{dead_ones}");
    let (.., said) =
        both("scope = \"batch\"\nborrow = \"slo\"\nobjective = \"p99 < 20 ms\"\n").unwrap_err();
    assert!(said.contains("scope"), "{said}");
}
