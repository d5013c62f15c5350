//! The tables `[[workload]]`.

use super::behaviour::behaviour;
use super::machine::cpu_list;
use super::pools::{self, Described};
use crate::{Class, Machine, Policy, TaskSpec, Workload};
use sidelane_policy::file::{Result, Section, Shape, Value, alternatives};
use sidelane_topology::printable;

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

/// What a workload may refer to.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub machine: &'a Machine,
    /// Names of the rows of the interference table; none without one.
    pub kinds: &'a [String],
    pub pools: &'a [Described],
    /// The workloads above it.
    pub before: &'a [Workload],
    /// Of all cores that have a lane online, in fastest cores.
    pub capacity: f64,
    /// Reads a trace.
    pub read: &'a dyn Fn(&str) -> std::io::Result<String>,
}

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
    let class = self::class(class)?;
    let task = TaskSpec {
        name: self::name(name)?,
        class,
        kernel_thread: kernel_thread(section, class)?,
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

/// A class by its name.
pub(super) fn class(value: Value) -> Result<Class> {
    value.word(&Class::ALL.map(|class| (class.name(), class)))
}

impl Context<'_> {
    /// How many online lanes are open to a task.
    pub fn lanes_of(&self, task: &TaskSpec) -> usize {
        let online = (0_u32..).zip(&self.machine.online);
        let open_to_it = |cpu: u32| {
            let cpus = task.cpus.as_ref();
            cpus.is_none_or(|cpus| cpus.binary_search(&cpu).is_ok())
        };
        online
            .filter(|(cpu, online)| **online && open_to_it(*cpu))
            .count()
    }
}

/// A name that can stand in a table.
pub(super) fn name(value: Value) -> Result<String> {
    let what = "a name of 1 to 40 characters without control characters";
    let name = value.string(what)?;
    let shown = name.replace('\\', ""); // which is shown twice, and harmless
    match (1..=40).contains(&name.chars().count()) && printable(shown.as_bytes()) == shown {
        true => Ok(name.to_owned()),
        false => Err(value.expected(what)),
    }
}

/// CPUs of which at least one is online.
pub(super) fn usable(value: Value, machine: &Machine) -> Result<Vec<u32>> {
    let cpus = cpu_list(value, machine)?;
    match cpus.iter().any(|&cpu| machine.online[cpu as usize]) {
        true => Ok(cpus),
        false => Err(value.error("cpus: none of them is online; name one that is")),
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
