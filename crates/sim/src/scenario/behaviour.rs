//! What the tasks of a `[[workload]]` do.

use super::Context;
use super::trace;
use super::values::{class, distribution, lasting, name, usable};
use crate::{Arrivals, Behaviour, Distribution, Poll, Quality, Stage, TaskSpec, Workload};
use sidelane_policy::file::{
    LONGEST_MS, Limits, MS, Result, SECOND, Section, Shape, Value, time_ns,
};

/// The behaviours; a workload has one of them.
const BEHAVIOURS: &[&str] = &["open", "closed", "trace", "batch", "serve", "io"];
/// What says how requests are served.
const REQUEST_KEYS: &[&str] = &[
    "stages",
    "workers",
    "demand_ms",
    "deadline_ms",
    "quality",
    "marks",
];

const OPEN_KEYS: &[&str] = &["rate_per_s", "load", "interarrival_ms"];
const OPEN: Shape = Shape {
    title: "open",
    form: "a table such as { rate_per_s = 60 }",
    keys: OPEN_KEYS,
    elsewhere: &[],
};
const CLOSED: Shape = Shape {
    title: "closed",
    form: "a table such as { clients = 50, think_ms = 1000 }",
    keys: &["clients", "load", "think_ms"],
    elsewhere: &[],
};
const BATCH: Shape = Shape {
    title: "batch",
    form: "a table such as { tasks = 4 }",
    keys: &["tasks"],
    elsewhere: &[],
};
const SERVE: Shape = Shape {
    title: "serve",
    form: "a table such as { tasks = 4 }",
    keys: &["tasks"],
    elsewhere: &[],
};
const IO: Shape = Shape {
    title: "io",
    form: "a table such as { tasks = 2, burst_ms = 1, wait_ms = 10 }",
    keys: &[
        "tasks",
        "burst_ms",
        "wait_ms",
        "poll_ms",
        "halt_poll_ms",
        "relayed",
    ],
    elsewhere: &[],
};
const STAGE: Shape = Shape {
    title: "a stage",
    form: "an array such as [{ workers = 4, demand_ms = 8 }]",
    keys: &[
        "workers",
        "by",
        "demand_ms",
        "delay_ms",
        "name",
        "class",
        "cpus",
    ],
    elsewhere: &[],
};
/// Of the keys of a stage, those that stand in a workload with only one.
const SOLE_STAGE_KEYS: &[&str] = &["workers", "demand_ms", "delay_ms"];
/// Of the keys of a stage, those about workers of its own.
const OWN_WORKER_KEYS: &[&str] = &["workers", "name", "class", "cpus"];
/// Of the keys of a stage, those about its workers.
const WORKER_KEYS: &[&str] = &["workers", "by", "demand_ms", "name", "class", "cpus"];
const QUALITY: Shape = Shape {
    title: "quality",
    form: "\"all-or-nothing\", \"proportional\" or a table such as { concavity = 3, full_ms = 1000 }",
    keys: &["concavity", "full_ms"],
    elsewhere: &[],
};

/// Most tasks, workers or clients of a kind.
const MANY: usize = 1_000_000;
const RATE_PER_S: Limits = Limits::from(1e-6, 1e9);
const LOAD: Limits = Limits::above(0.0, 1000.0);
const TIME: Limits = Limits::above(0.0, LONGEST_MS);
const SHARE: Limits = Limits::from(0.0, 1.0);
const CONCAVITY: Limits = Limits::above(0.0, 100.0);
const HOW_LONG: &str = "how long a request computes, such as demand_ms = 8";

/// Reads what a workload's tasks do.
pub(super) fn behaviour(
    section: &Section,
    context: &Context,
    task: &TaskSpec,
) -> Result<Behaviour> {
    let (key, value) = section.one_of(BEHAVIOURS, "open = { rate_per_s = 60 }")?;
    if matches!(key, "batch" | "serve" | "io")
        && let Some((stray, stray_value)) = section.those(REQUEST_KEYS).next()
    {
        return Err(stray_value.error(format!(
            "{stray} does not go with {key}; it is for open, closed and trace, leave it out"
        )));
    }
    match key {
        "batch" => {
            let tasks = tasks(&value.section(&BATCH)?)?;
            Ok(Behaviour::Batch { tasks })
        }
        "serve" => {
            let tasks = tasks(&value.section(&SERVE)?)?;
            Ok(Behaviour::Serve { tasks })
        }
        "io" => io(&value.section(&IO)?),
        _ => requests(section, key, value, context, task),
    }
}

fn tasks(section: &Section) -> Result<usize> {
    section
        .need("tasks", "how many, such as 4")?
        .integer(1..=MANY)
}

fn io(section: &Section) -> Result<Behaviour> {
    Ok(Behaviour::Io {
        tasks: tasks(section)?,
        burst: lasting(section.need("burst_ms", "how long a task computes, such as 2")?)?,
        wait: distribution(section.need("wait_ms", "how long its device takes, such as 10")?)?,
        poll: poll(section)?,
        relayed: (section.get("relayed")).map_or(Ok(0.0), |value| value.number(SHARE))?,
    })
}

/// Polling: always for so long, or as KVM's halt polling.
fn poll(section: &Section) -> Result<Option<Poll>> {
    let (value, adapts) = match (section.get("poll_ms"), section.get("halt_poll_ms")) {
        (Some(_), Some(value)) => {
            return Err(value.error(
                "halt_poll_ms stands beside poll_ms; one of them says how long a task polls, leave the \
                 other out",
            ));
        }
        (Some(value), None) => (value, false),
        (None, Some(value)) => (value, true),
        (None, None) => return Ok(None),
    };
    let longest_ns = time_ns(value, MS, TIME)?;
    Ok(Some(Poll { longest_ns, adapts }))
}

fn requests(
    section: &Section,
    key: &str,
    value: Value,
    context: &Context,
    task: &TaskSpec,
) -> Result<Behaviour> {
    let stages = stages(section, key == "trace", context, task)?;
    let arrivals = match key {
        "open" => {
            let demand_ns = stages.iter().map(Stage::mean_work_ns).sum();
            open(&value.section(&OPEN)?, context, demand_ns)?
        }
        "closed" => closed(&value.section(&CLOSED)?, context, &stages)?,
        _ => traced(value, context)?,
    };
    let deadline = section.get("deadline_ms");
    let deadline_ns = deadline
        .map(|value| time_ns(value, MS, at_least_a_ns()))
        .transpose()?;
    let worth = section.get("quality");
    let quality = worth.map_or(Ok(Quality::AllOrNothing), quality)?;
    if let (Some(worth), None) = (worth, deadline_ns) {
        return Err(worth.error(
            "quality: without deadline_ms every request ends complete; give it one, or leave quality out",
        ));
    }
    Ok(Behaviour::Requests {
        arrivals,
        stages,
        deadline_ns,
        quality,
        marks: section
            .get("marks")
            .map_or(Ok(false), |value| value.boolean())?,
    })
}

/// Times of which whole ns are left.
fn at_least_a_ns() -> Limits {
    Limits::from(1e-6, LONGEST_MS)
}

fn open(section: &Section, context: &Context, demand_ns: f64) -> Result<Arrivals> {
    let (key, value) = section.one_of(OPEN_KEYS, "rate_per_s = 60")?;
    let interarrival = match key {
        "rate_per_s" => Distribution::Exponential(SECOND / value.number(RATE_PER_S)?),
        "load" => {
            let mean_ns = demand_ns / (value.number(LOAD)? * context.capacity);
            if !(1.0..=LONGEST_MS * MS).contains(&mean_ns) {
                return Err(value.error(
                    "load: less than 1 ns or more than 1000000 s would lie between two requests on \
                     the mean; give another load or demand",
                ));
            }
            Distribution::Exponential(mean_ns)
        }
        _ => lasting(value)?,
    };
    Ok(Arrivals::Open { interarrival })
}

fn closed(section: &Section, context: &Context, stages: &[Stage]) -> Result<Arrivals> {
    let think = section
        .get("think_ms")
        .map_or(Ok(Distribution::Constant(0.0)), distribution)?;
    let clients = match section.one_of(&["clients", "load"], "clients = 50")? {
        ("clients", value) => value.integer(1..=MANY)?,
        (_, value) => {
            let work_ns: f64 = stages.iter().map(Stage::mean_work_ns).sum();
            let rest_ns: f64 = stages.iter().map(|stage| stage.demand.mean()).sum();
            let cores = value.number(LOAD)? * context.capacity;
            // a cast saturates
            let clients = (cores * (think.mean() + rest_ns) / work_ns).round() as usize;
            if clients > MANY {
                return Err(value.error(format!("load: that is more than {MANY} clients")));
            }
            clients.max(1)
        }
    };
    Ok(Arrivals::Closed { clients, think })
}

fn traced(value: Value, context: &Context) -> Result<Arrivals> {
    let file = value.string("the name of a CSV file")?;
    let text = (context.read)(file)
        .map_err(|error| value.error(format!("trace: {file:?} cannot be read: {error}")))?;
    Ok(Arrivals::Trace(trace::requests(file, &text)?))
}

/// The stages, or the only one, whose keys stand in the workload itself.
fn stages(
    section: &Section,
    traced: bool,
    context: &Context,
    task: &TaskSpec,
) -> Result<Vec<Stage>> {
    let Some(value) = section.get("stages") else {
        return Ok(vec![stage(section, traced, context.lanes_of(task))?]);
    };
    if let Some((key, value)) = section.those(SOLE_STAGE_KEYS).next() {
        return Err(value.error(format!(
            "{key} stands beside stages; put it into each of them"
        )));
    }
    let sections = value.sections(&STAGE)?;
    if sections.is_empty() {
        return Err(
            value.error("stages: give at least one, such as { workers = 4, demand_ms = 8 }")
        );
    }
    let stages = (sections.iter()).map(|section| one_of_many(section, context, task));
    let stages = stages.collect::<Result<Vec<_>>>()?;
    match stages.iter().all(Stage::is_delay) {
        true => Err(value.error("stages: nobody works; give one of them workers and a demand_ms")),
        false => Ok(stages),
    }
}

/// A stage of several: with workers, its own or another workload's, or a time beside the CPU.
fn one_of_many(section: &Section, context: &Context, task: &TaskSpec) -> Result<Stage> {
    if let (Some(by), None) = (section.get("by"), section.get("delay_ms")) {
        return served(section, by, context);
    }
    let Some(delay) = section.get("delay_ms") else {
        let own = workers_of(section, context, task)?;
        let lanes = context.lanes_of(own.as_ref().unwrap_or(task));
        return Ok(Stage {
            task: own.map(Box::new),
            ..stage(section, false, lanes)?
        });
    };
    if let Some((key, value)) = section.those(WORKER_KEYS).next() {
        return Err(value.error(format!(
            "{key} stands beside delay_ms, where nobody works; make two stages of them"
        )));
    }
    Ok(Stage {
        workers: 0,
        by: None,
        demand: distribution(delay)?,
        task: None,
    })
}

/// A stage that the tasks of another workload serve.
fn served(section: &Section, by: Value, context: &Context) -> Result<Stage> {
    if let Some((key, value)) = section.those(OWN_WORKER_KEYS).next() {
        return Err(value.error(format!(
            "{key} stands beside by; it belongs into the workload that serves the stage"
        )));
    }
    let name = by.string("the name of a workload")?;
    let serves = |other: &(usize, &Workload)| {
        matches!(other.1.behaviour, Behaviour::Serve { .. }) && other.1.task.name == name
    };
    let server = context.before.iter().enumerate().find(serves);
    let (index, _) = server
        .ok_or_else(|| by.expected("the name of a workload above with serve = { tasks = … }"))?;
    Ok(Stage {
        workers: 0,
        by: Some(index),
        demand: lasting(section.need("demand_ms", HOW_LONG)?)?,
        task: None,
    })
}

/// What the workers of a stage are; none if they are like the workload's other tasks.
fn workers_of(section: &Section, context: &Context, task: &TaskSpec) -> Result<Option<TaskSpec>> {
    let mut own = task.clone();
    for (key, value) in section.those(WORKER_KEYS) {
        match key {
            "name" => own.name = name(value)?,
            "class" if task.kernel_thread => {
                return Err(value.error("class: the kernel's threads are of class \"normal\""));
            }
            "class" => own.class = class(value)?,
            "cpus" => own.cpus = Some(usable(value, context.machine)?),
            _ => {}
        }
    }
    Ok((own != *task).then_some(own))
}

/// One stage. The demands of a trace need no distribution beside them if there is only this one.
fn stage(section: &Section, traced: bool, lanes: usize) -> Result<Stage> {
    let workers = section
        .get("workers")
        .map_or(Ok(lanes), |value| value.integer(1..=MANY))?;
    let demand = match section.get("demand_ms") {
        None if traced => Distribution::Constant(MS),
        _ => lasting(section.need("demand_ms", HOW_LONG)?)?,
    };
    Ok(Stage {
        workers,
        by: None,
        demand,
        task: None,
    })
}

fn quality(value: Value) -> Result<Quality> {
    if value.is_string() {
        let words = [
            ("all-or-nothing", Quality::AllOrNothing),
            ("proportional", Quality::Proportional),
        ];
        return value.word(&words).map_err(|_| value.expected(QUALITY.form));
    }
    let section = value.section(&QUALITY)?;
    let concavity = section.need("concavity", "how fast quality comes, such as 3")?;
    let full = section.need(
        "full_ms",
        "the demand from which on quality is 1, such as 1000",
    )?;
    Ok(Quality::Exponential {
        concavity: concavity.number(CONCAVITY)?,
        full_ns: full.number(TIME)? * MS,
    })
}
