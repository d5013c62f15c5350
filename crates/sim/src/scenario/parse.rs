//! Reading scenario files; `docs/scenarios.md` describes them.

use super::Context;
use super::configuration::{CONFIGURATION, configuration, sole};
use super::machine::{MACHINE, machine};
use super::pools::{Described, POOL, pool};
use super::workload::{WORKLOAD, workload};
use super::{Configuration, Run, Scenario};
use crate::{Machine, Workload};
use sidelane_policy::file::{Limits, Result, SECOND, Section, Shape, Source, Value, time_ns};
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

const IN_MACHINE: &str = "[machine]";
const IN_RUN: &str = "[run]";

/// The whole file; what it varies is read in [`crate::sweep`].
pub(crate) const FILE: Shape = Shape {
    title: "the file",
    form: "a table",
    keys: &[
        "name",
        "about",
        "assumptions",
        "machine",
        "run",
        "pool",
        "workload",
        "configuration",
        "sweep",
    ],
    elsewhere: &[
        ("cores", IN_MACHINE),
        ("lanes", IN_MACHINE),
        ("packages", IN_MACHINE),
        ("thread_perf", IN_MACHINE),
        ("seed", IN_RUN),
        ("replications", IN_RUN),
        ("seconds", IN_RUN),
        ("warmup_seconds", IN_RUN),
    ],
};

const RUN: Shape = Shape {
    title: "[run]",
    form: "a table [run]",
    keys: &["seed", "replications", "seconds", "warmup_seconds"],
    elsewhere: &[],
};

/// What a run is like unless the file says otherwise.
const DEFAULT_RUN: Run = Run {
    seed: 1,
    replications: 10,
    length_ns: 10_000_000_000,
    warmup_ns: 1_000_000_000,
};

impl Scenario {
    /// Reads a scenario that names no trace file. `file_name` is for messages, and for the name of
    /// a scenario that gives itself none.
    ///
    /// # Errors
    /// The first mistake, with its place; also if a workload names a trace file.
    pub fn parse(text: &str, file_name: &str) -> Result<Scenario> {
        let refuse = |_: &str| {
            Err(io::Error::other(
                "this scenario is read without other files",
            ))
        };
        Scenario::parse_with(text, file_name, &refuse)
    }

    /// Reads a scenario; `read` returns the text of a trace file by its name as the scenario has it,
    /// usually relative to the scenario's folder.
    ///
    /// # Errors
    /// The first mistake, with its place, which may be in a trace file.
    pub fn parse_with(
        text: &str,
        file_name: &str,
        read: &dyn Fn(&str) -> io::Result<String>,
    ) -> Result<Scenario> {
        let source = Source {
            file: file_name,
            text,
        };
        let table = source.table()?;
        scenario(&Section::root(&source, &FILE, &table)?, file_name, read)
    }
}

/// Reads a scenario whose file is a table already.
pub(crate) fn scenario(
    root: &Section,
    file_name: &str,
    read: &dyn Fn(&str) -> io::Result<String>,
) -> Result<Scenario> {
    let described = root.need("machine", "add a table [machine] with cores and lanes")?;
    let described = machine(&described.section(&MACHINE)?)?;
    let pools = pools(root)?;
    let context = Context {
        pools: &pools,
        before: &[],
        capacity: capacity(&described.machine),
        machine: &described.machine,
        kinds: &described.kinds,
        read,
    };
    let workloads = workloads(root, &context)?;
    let configurations = configurations(root, &context, &workloads)?;
    let text = |key| {
        root.get(key)
            .map(|value| value.string("a string"))
            .transpose()
    };
    Ok(Scenario {
        name: text("name")?.unwrap_or(stem(file_name)).to_owned(),
        about: text("about")?.unwrap_or_default().to_owned(),
        assumptions: root.get("assumptions").map_or(Ok(Vec::new()), strings)?,
        run: root.get("run").map_or(Ok(DEFAULT_RUN), run)?,
        machine: described.machine,
        workloads,
        configurations,
    })
}

/// File name without folders and ending.
fn stem(file_name: &str) -> &str {
    let stem = Path::new(file_name).file_stem();
    stem.and_then(|stem| stem.to_str()).unwrap_or(file_name)
}

/// Of all cores that have a lane online, in fastest cores.
fn capacity(machine: &Machine) -> f64 {
    let cores = machine.cores.iter();
    let there = cores.filter(|core| core.lanes.iter().any(|&cpu| machine.online[cpu as usize]));
    there.map(|core| f64::from(core.capacity) / 1024.0).sum()
}

fn strings(value: Value) -> Result<Vec<String>> {
    let elements = value.array("an array of strings")?;
    let string = |element: &Value| element.string("a string").map(str::to_owned);
    elements.iter().map(string).collect()
}

fn workloads(root: &Section, context: &Context) -> Result<Vec<Workload>> {
    let value = root.need(
        "workload",
        "add a table [[workload]] for each group of tasks that runs",
    )?;
    let sections = value.sections(&WORKLOAD)?;
    if sections.is_empty() {
        return Err(value.error("workload: nothing would run; add a table [[workload]]"));
    }
    check_names(&sections, |section| section.get("name"))?;
    let mut workloads = Vec::new();
    for section in &sections {
        let context = Context {
            before: &workloads,
            ..*context
        };
        let next = workload(section, &context)?;
        workloads.push(next);
    }
    Ok(workloads)
}

fn pools(root: &Section) -> Result<Vec<Described>> {
    let Some(value) = root.get("pool") else {
        return Ok(Vec::new());
    };
    let sections = value.sections(&POOL)?;
    check_names(&sections, |section| section.get("name"))?;
    let mut pools = Vec::new();
    for section in &sections {
        let next = pool(section, &pools)?;
        pools.push(next);
    }
    Ok(pools)
}

fn configurations(
    root: &Section,
    context: &Context,
    workloads: &[Workload],
) -> Result<Vec<Configuration>> {
    let Some(value) = root.get("configuration") else {
        return Ok(vec![sole(context, workloads)?]);
    };
    let sections = value.sections(&CONFIGURATION)?;
    if sections.is_empty() {
        return Err(value.error("configuration: nothing to compare; add one, or leave the key out"));
    }
    check_names(&sections, |section| {
        section.get("name").or(section.get("scheduler"))
    })?;
    let configuration = |section| configuration(section, context, workloads);
    sections.iter().map(configuration).collect()
}

/// No two may have the same name.
fn check_names<'a>(
    sections: &[Section<'a>],
    name: impl Fn(&Section<'a>) -> Option<Value<'a>>,
) -> Result<()> {
    let mut seen = BTreeSet::new();
    for value in sections.iter().filter_map(name) {
        if let Ok(name) = value.string("a name")
            && !seen.insert(name)
        {
            return Err(value.error(format!(
                "name: {name:?} is there already; give each a name of its own"
            )));
        }
    }
    Ok(())
}

fn run(value: Value) -> Result<Run> {
    let section = value.section(&RUN)?;
    let mut run = DEFAULT_RUN;
    for (key, value) in section.those(RUN.keys) {
        let time = |min| time_ns(value, SECOND, Limits::from(min, 1e6));
        match key {
            "seed" => run.seed = value.integer(0..=u64::MAX)?,
            "replications" => run.replications = value.integer(1..=100_000)?,
            "seconds" => run.length_ns = time(0.001)?,
            _ => run.warmup_ns = time(0.0)?,
        }
    }
    Ok(run)
}
