//! Renders results: a table for people, JSON for programs, a drawing of the distributions.

mod aim;
mod svg;
mod table;

pub use aim::{Verdict, verdicts};
pub use svg::draw;
pub use table::render;

use crate::results::Results;
use serde::Serialize;

/// The JSON document: the results, and which aims they meet.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    /// The figures.
    #[serde(flatten)]
    pub results: &'a Results,
    /// What was aimed at and what came out.
    pub aims: Vec<Verdict>,
}

impl<'a> Document<'a> {
    /// The document of these results.
    pub fn new(results: &'a Results) -> Document<'a> {
        Document {
            results,
            aims: verdicts(results),
        }
    }
}

/// How the machine is to be read, in a sentence or two.
pub fn machine_note(results: &Results) -> String {
    let cores = &results.machine.cores;
    let lanes_min = cores.iter().map(Vec::len).min().unwrap_or(0);
    let lanes_max = cores.iter().map(Vec::len).max().unwrap_or(0);
    let lanes = if lanes_min == lanes_max {
        lanes_max.to_string()
    } else {
        format!("{lanes_min} to {lanes_max}")
    };
    let machine = format!(
        "{} cores × {lanes} lanes, Linux {}",
        cores.len(),
        results.machine.kernel
    );
    if results.emulated_smt {
        let thread_perf: Vec<String> = results.thread_perf.iter().map(f64::to_string).collect();
        format!(
            "SMT is emulated: {machine}, threadPerf {{{}}}.\n\
             The figures compare configurations within one boot; they do not describe silicon.",
            thread_perf.join(", ")
        )
    } else {
        format!("Measured on this machine's own SMT: {machine}.")
    }
}
