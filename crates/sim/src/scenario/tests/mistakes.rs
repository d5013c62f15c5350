//! Scenario files with one mistake each, and what is said about it.

use super::SMALL;
use crate::scenario::Scenario;
use proptest::prelude::*;

/// What is said about a file.
fn said(text: &str) -> String {
    match Scenario::parse(text, "elfen.toml") {
        Ok(scenario) => format!("nothing; it became {scenario:?}\n{text}"),
        Err(error) => error.to_string(),
    }
}

/// Files by their lines, each with what is said.
fn check(cases: &[(String, &str)]) {
    for (text, expected) in cases {
        assert_eq!(said(text), format!("elfen.toml:{expected}"), "{text}");
    }
}

/// [`SMALL`] with something else in the place of a part of it.
fn small(part: &str, other: &str) -> String {
    assert!(SMALL.contains(part), "{part}");
    SMALL.replace(part, other)
}

/// [`SMALL`] with these lines at its end, from line 10 on.
fn more(lines: &str) -> String {
    format!("{SMALL}{lines}\n")
}

/// These lines in `[machine]`, from line 2 on, and a workload.
fn machine(lines: &str) -> String {
    format!("[machine]\n{lines}\n[[workload]]\nname = \"b\"\nclass = \"batch\"\nbatch.tasks = 1\n")
}

#[test]
fn unknown_keys() {
    check(&[(
        more("ratee = 5"),
        "10:1: unknown key \"ratee\" in [[workload]]; did you mean \"rate_per_s\" in open = { … }?",
    )]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

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
            prop_assert!(error.line >= 1 && error.column >= 1);
            prop_assert!(error.line <= text.lines().count() + 1, "{}", error);
        }
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
stages = [{ workers = 4, demand_ms = { exponential = 8 } }, { demand_ms = 1 }]
deadline_ms = 150
quality = { concavity = 3, full_ms = 1000 }
[[workload]]
name = \"b\"
class = \"batch\"
policy = \"idle\"
nice = 19
io = { tasks = 2, burst_ms = 1, wait_ms = { constant = 2 } }
[[configuration]]
scheduler = \"sidelane\"
without = [\"b\"]
smt = \"off\"
settings = { slice_ms = 5 }
";
