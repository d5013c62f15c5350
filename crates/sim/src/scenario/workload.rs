//! The tables `[[workload]]`.

use super::Context;
use super::behaviour::behaviour;
use super::pools;
use super::values::{self, usable};
use crate::{Class, Policy, TaskSpec, Workload};
use sidelane_policy::file::{Result, Section, Shape, alternatives};

const IN_OPEN: &str = "open = { … }";
const IN_CLOSED: &str = "closed = { … }";
const IN_IO: &str = "io = { … }";

pub(super) const WORKLOAD: Shape = Shape {
    title: "[[workload]]",
    form: "tables [[workload]]",
    keys: &[
        "name",
        "class",
        "policy",
        "nice",
        "cpus",
        "kernel_thread",
        "naps",
        "kind_of",
        "pool",
        "open",
        "closed",
        "trace",
        "batch",
        "serve",
        "io",
        "workers",
        "demand_ms",
        "stages",
        "deadline_ms",
        "marks",
        "quality",
    ],
    elsewhere: &[
        ("rate_per_s", IN_OPEN),
        ("load", IN_OPEN),
        ("interarrival_ms", IN_OPEN),
        ("clients", IN_CLOSED),
        ("think_ms", IN_CLOSED),
        ("tasks", "batch = { … }, serve = { … } or io = { … }"),
        ("burst_ms", IN_IO),
        ("wait_ms", IN_IO),
        ("delay_ms", "stages = [{ … }]"),
        ("by", "stages = [{ … }]"),
    ],
};

/// Reads a `[[workload]]`.
pub(super) fn workload(section: &Section, context: &Context) -> Result<Workload> {
    let name = section.need("name", "what to call it, such as \"server\"")?;
    let class = section.need("class", "\"critical\", \"normal\" or \"batch\"")?;
    let policy = section.get("policy").map_or(Ok(Policy::Normal), |value| {
        value.word(&[
            ("normal", Policy::Normal),
            ("batch", Policy::Batch),
            ("idle", Policy::Idle),
        ])
    })?;
    let cpus = section.get("cpus");
    let cpus = cpus
        .map(|value| usable(value, context.machine))
        .transpose()?;
    let class = values::class(class)?;
    let task = TaskSpec {
        name: values::name(name)?,
        class,
        kernel_thread: kernel_thread(section, class)?,
        naps: naps(section, class)?,
        policy,
        nice: section
            .get("nice")
            .map_or(Ok(0), |value| value.integer(-20..=19))?,
        kind: kind(section, context)?,
        pool: section
            .get("pool")
            .map(|value| pools::named(value, context.pools))
            .transpose()?,
        cpus,
    };
    Ok(Workload {
        behaviour: behaviour(section, context, &task)?,
        task,
    })
}

/// Whether its tasks step aside by themselves.
fn naps(section: &Section, class: Class) -> Result<bool> {
    match section.get("naps") {
        Some(value) if value.boolean()? && class != Class::Batch => {
            Err(value.error("naps: what naps is of class \"batch\""))
        }
        value => value.map_or(Ok(false), |value| value.boolean()),
    }
}

/// Whether its tasks are threads of the kernel.
fn kernel_thread(section: &Section, class: Class) -> Result<bool> {
    let Some(value) = section.get("kernel_thread") else {
        return Ok(false);
    };
    let it_is = value.boolean()?;
    if it_is && class != Class::Normal {
        return Err(value.error("kernel_thread: the kernel's threads are of class \"normal\""));
    }
    if it_is && section.get("pool").is_some() {
        return Err(value.error("kernel_thread: the kernel's threads are in no pool"));
    }
    Ok(it_is)
}

/// The row of the interference table.
fn kind(section: &Section, context: &Context) -> Result<usize> {
    let known: Vec<&str> = context.kinds.iter().map(String::as_str).collect();
    match (section.get("kind_of"), &known[..]) {
        (None, [] | [_]) => Ok(0),
        (None, _) => Err(section.error(format!(
            "[[workload]] lacks kind_of: its row of the interference table, {}",
            alternatives(&known)
        ))),
        (Some(value), []) => Err(value
            .error("kind_of: [machine] has no interference table; add one, or leave kind_of out")),
        (Some(value), _) => {
            let rows: Vec<(&str, usize)> = known.into_iter().zip(0..).collect();
            value.word(&rows)
        }
    }
}
