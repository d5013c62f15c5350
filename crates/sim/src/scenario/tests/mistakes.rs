//! Scenario files with one mistake each, and what is said about it.

use super::SMALL;
use crate::scenario::Scenario;
use proptest::prelude::*;

/// What is said about lines of a kind of `mistakes.txt`.
fn said(kind: &str, lines: &str) -> String {
    let arrivals = "open = { rate_per_s = 50 }";
    let text = match kind {
        "file" => lines.to_owned(),
        "machine" => format!(
            "[machine]\n{lines}\n\
             [[workload]]\nname = \"b\"\nclass = \"batch\"\nbatch.tasks = 1\n"
        ),
        "more" => format!("{SMALL}{lines}\n"),
        "arrivals" => SMALL.replace(arrivals, lines),
        "demand" => SMALL.replace("demand_ms = 8", &format!("demand_ms = {lines}")),
        "trace" => SMALL.replace(arrivals, "trace = \"t.csv\""),
        other => panic!("no kind {other}"),
    };
    let read = |file: &str| match (kind, file) {
        ("trace", "t.csv") => Ok(lines.to_owned()),
        _ => Err(std::io::Error::other("no such file")),
    };
    match Scenario::parse_with(&text, "elfen.toml", &read) {
        Ok(_) => "nothing".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_mistake_is_named_with_its_place_and_remedy() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/src/scenario/tests/mistakes.txt"
    );
    let expected = include_str!("mistakes.txt");
    let (mut kind, mut lines, mut found) = ("", Vec::new(), String::new());
    for line in expected.lines() {
        if line.starts_with('>') {
            found += &format!("> {}\n", said(kind, &lines.join("\n")));
            lines.clear();
            continue;
        }
        found += &format!("{line}\n");
        match line.strip_prefix("== ") {
            Some(heading) => {
                kind = heading.split(':').next().unwrap_or_default();
                lines.clear();
            }
            None => lines.push(line),
        }
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &found).unwrap();
        return;
    }
    for (found, expected) in found.lines().zip(expected.lines()) {
        assert_eq!(found, expected);
    }
}

#[test]
fn a_trace_needs_a_reader() {
    let text = SMALL.replace("open = { rate_per_s = 50 }", "trace = \"t.csv\"");
    let said = Scenario::parse(&text, "elfen.toml")
        .unwrap_err()
        .to_string();
    let expected = "elfen.toml:8:9: trace: \"t.csv\" cannot be read: this scenario is read without \
                    other files";
    assert_eq!(said, expected);
}

#[test]
fn deep_nesting_is_refused() {
    let deep = format!("demand_ms = {}1", "{ mixture = [[1, ".repeat(5000));
    assert!(said("more", &deep).contains("not TOML"));
    let keys = format!("x{} = 1", ".x".repeat(20_000));
    assert!(said("file", &keys).starts_with("elfen.toml:1:1: "));
}

proptest! {
    /// Whatever happens to a file, reading it ends, and a mistake has a place.
    #[test]
    fn no_text_panics(
        at in 0..1000_usize,
        length in 0..40_usize,
        other in prop::sample::select(TOKENS),
        again in 0..1000_usize,
    ) {
        let mut text: Vec<char> = LARGE.chars().collect();
        let from = at.min(text.len());
        let to = (from + length).min(text.len());
        text.splice(from..to, other.chars());
        let again = again.min(text.len());
        text.splice(again..again, other.chars());
        let text: String = text.into_iter().collect();
        if let Err(error) = Scenario::parse(&text, "x.toml") {
            prop_assert!(error.place.line >= 1 && error.place.column >= 1);
            prop_assert!(error.place.line <= text.lines().count() + 1, "{}", error);
        }
    }
}

proptest! {
    #[test]
    fn no_trace_panics(text in "[0-9e.,\\-xé \r\n]{0,40}") {
        said("trace", &format!("at_ms,demand_ms\n{text}"));
    }
}

/// What the property test puts into a file.
const TOKENS: &[&str] = &[
    "",
    "\"",
    "[",
    "]",
    "{",
    "}",
    "\n",
    "é",
    "\0",
    "=",
    "-1",
    "nan",
    "inf",
    "1e400",
    "0",
    "99999999999999999999",
    "0x7fffffffffffffff",
    "[[workload]]\n",
    "[machine]\n",
    "[]",
    "{}",
    "\"0-65536\"",
    "1979-05-27",
    "65536",
    "0.000000001",
    "'''",
    "name = \"b\"\n",
];

/// A file with most of what there is.
const LARGE: &str = "\
name = \"large\"
assumptions = [\"none\"]
[machine]
thread_perf = [1, 0.6]
offline = \"3\"
group = [{ cores = 2, lanes = 2 }, { cores = 2, lanes = 1, capacity = 512 }]
[machine.costs]
switch_us = 2.5
[run]
seconds = 10
[[workload]]
name = \"a\"
class = \"critical\"
cpus = [0, 1, 2]
open = { load = 0.24 }
stages = [{ workers = 4, demand_ms = { mixture = [[1, 2], [3, { uniform = [1, 2] }]] } }]
deadline_ms = 150
quality = { concavity = 3, full_ms = 1000 }
[[workload]]
name = \"b\"
class = \"batch\"
policy = \"idle\"
nice = 19
io = { tasks = 2, burst_ms = { empirical = [[1, 2]] }, wait_ms = 2 }
[[configuration]]
scheduler = \"sidelane\"
without = [\"b\"]
smt = \"off\"
settings = { slice_ms = 5 }
";
