//! The tables `[machine]` and `[machine.costs]`.

use super::cores::cores;
use crate::{Beside, Costs, Interference, Machine};
use sidelane_policy::file::{Limits, MS, Result, Section, Shape, US, Value, time_ns};
use sidelane_topology::{CPU_MAX, CpuList};

const COST_KEYS: &[&str] = &[
    "switch_us",
    "resume_us",
    "refill_us",
    "kick_us",
    "idle_exit_us",
    "migrate_core_us",
    "migrate_cache_us",
    "migrate_node_us",
    "migrate_remote_us",
    "tick_ms",
];

const COSTS: Shape = Shape {
    title: "[machine.costs]",
    form: "\"none\" or a table [machine.costs]",
    keys: COST_KEYS,
    elsewhere: &[],
};

const IN_COSTS: &str = "[machine.costs]";

pub(super) const MACHINE: Shape = Shape {
    title: "[machine]",
    form: "a table [machine]",
    keys: &[
        "packages",
        "caches_per_package",
        "cores",
        "lanes",
        "numbering",
        "thread_perf",
        "level_perf",
        "interference",
        "beside",
        "offline",
        "group",
        "costs",
    ],
    elsewhere: &[
        ("capacity", "[[machine.group]]"),
        ("package", "[[machine.group]]"),
        ("node", "[[machine.group]]"),
        ("cache", "[[machine.group]]"),
        ("switch_us", IN_COSTS),
        ("resume_us", IN_COSTS),
        ("refill_us", IN_COSTS),
        ("switching", "beside"),
        ("polling", "beside"),
        ("kick_us", IN_COSTS),
        ("idle_exit_us", IN_COSTS),
        ("migrate_core_us", IN_COSTS),
        ("migrate_cache_us", IN_COSTS),
        ("migrate_node_us", IN_COSTS),
        ("migrate_remote_us", IN_COSTS),
        ("tick_ms", IN_COSTS),
        ("kinds", "interference"),
        ("speed", "interference"),
        ("misses", "interference"),
    ],
};

const INTERFERENCE: Shape = Shape {
    title: "interference",
    form: "a table such as { kinds = [\"a\", \"b\"], speed = [[1, 0.6], [0.8, 0.5]] }",
    keys: &["kinds", "speed", "misses"],
    elsewhere: &[],
};

const BESIDE: Shape = Shape {
    title: "beside",
    form: "a table such as { switching = 0.32, polling = 0.73 }",
    keys: &["switching", "polling"],
    elsewhere: &[],
};

const SPEED: Limits = Limits::above(0.0, 1.0);

/// The machine, and what its kinds of tasks are called.
#[derive(Debug)]
pub(super) struct Described {
    pub machine: Machine,
    /// Names of the rows of the interference table; none without one.
    pub kinds: Vec<String>,
}

/// Reads `[machine]`.
pub(super) fn machine(section: &Section) -> Result<Described> {
    let topology = cores(section)?;
    let (interference, kinds) = interference(section, topology.lanes_per_core_max())?;
    let costs = section.get("costs").map_or(Ok(Costs::default()), costs)?;
    let mut machine = Machine::new(&topology, interference, costs)
        .map_err(|error| section.error(format!("[machine]: {error}")))?;
    if let Some(table) = section.get("interference") {
        machine.misses = misses(table.section(&INTERFERENCE)?, kinds.len())?;
    }
    if let Some(value) = section.get("beside") {
        let section = value.section(&BESIDE)?;
        let share = |key| section.need(key, "a speed such as 0.5")?.number(SPEED);
        machine.beside = Some(Beside {
            switching: share("switching")?,
            polling: share("polling")?,
        });
    }
    if let Some(value) = section.get("level_perf") {
        machine.level_perf = (value.array("an array of speeds such as [1, 0.99]")?.iter())
            .map(|speed| speed.number(SPEED))
            .collect::<Result<_>>()?;
    }
    if let Some(value) = section.get("offline") {
        take_offline(&mut machine, value)?;
    }
    Ok(Described { machine, kinds })
}

/// How lanes slow each other down, and the names of the kinds of tasks.
fn interference(section: &Section, widest: usize) -> Result<(Interference, Vec<String>)> {
    if let Some(table) = section.get("interference") {
        if let Some(value) = section.get("thread_perf") {
            return Err(value.error(
                "thread_perf stands beside interference; one of them says how fast lanes are, \
                 leave the other out",
            ));
        }
        return kinds(table.section(&INTERFERENCE)?);
    }
    let Some(value) = section.get("thread_perf") else {
        let share = (1..=widest).map(|busy| 1.0 / busy as f64);
        return Ok((Interference::ThreadPerf(share.collect()), Vec::new()));
    };
    let elements = value.array("an array of speeds such as [1, 0.63]")?;
    let speeds: Vec<f64> = elements
        .iter()
        .map(|speed| speed.number(SPEED))
        .collect::<Result<_>>()?;
    if speeds.len() < widest {
        return Err(value.error(format!(
            "thread_perf has {} of {widest} numbers; give one for each lane of the widest core: \
             [n - 1] is the speed when n lanes run",
            speeds.len()
        )));
    }
    if let Some(n) = speeds.windows(2).position(|pair| pair[1] > pair[0]) {
        return Err(elements[n + 1].error(format!(
            "thread_perf: {} of {} lanes is above {} of one lane less; it may not increase",
            speeds[n + 1],
            n + 2,
            speeds[n]
        )));
    }
    Ok((Interference::ThreadPerf(speeds), Vec::new()))
}

fn kinds(section: Section) -> Result<(Interference, Vec<String>)> {
    let what = "an array of names such as [\"a\", \"b\"]";
    let value = section.need("kinds", what)?;
    let mut kinds: Vec<String> = Vec::new();
    for element in value.array(what)? {
        let kind = element.string("a name")?;
        if kinds.iter().any(|other| other == kind) {
            return Err(element.error(format!("kinds: {kind:?} is there twice; name each once")));
        }
        kinds.push(kind.to_owned());
    }
    if kinds.is_empty() {
        return Err(value.error("kinds: name at least one kind of task"));
    }
    let what = "an array with a row for each kind, such as [[1, 0.6], [0.8, 0.5]]";
    let table = section.need("speed", what)?;
    let rows = table.array(what)?;
    if rows.len() != kinds.len() {
        return Err(table.error(format!(
            "speed has {} rows for {} kinds; give one for each kind",
            rows.len(),
            kinds.len()
        )));
    }
    let rows = rows.iter().map(|row| speeds_of(*row, kinds.len()));
    let rows = rows.collect::<Result<Vec<_>>>()?;
    Ok((Interference::Kinds(rows), kinds))
}

/// Which part of its time alone each kind waits for memory; none: no kind does.
fn misses(section: Section, nr_kinds: usize) -> Result<Vec<f64>> {
    let Some(value) = section.get("misses") else {
        return Ok(Vec::new());
    };
    let shares = value.array("an array with a share for each kind, such as [0, 0.8]")?;
    if shares.len() != nr_kinds {
        return Err(value.error(format!(
            "misses has {} numbers for {nr_kinds} kinds; give one for each kind",
            shares.len()
        )));
    }
    shares
        .iter()
        .map(|share| share.number(Limits::from(0.0, 1.0)))
        .collect()
}

fn speeds_of(row: Value, nr_kinds: usize) -> Result<Vec<f64>> {
    let speeds = row.array("an array of speeds such as [1, 0.6]")?;
    if speeds.len() != nr_kinds {
        return Err(row.error(format!(
            "speed: the row has {} numbers for {nr_kinds} kinds; give one for each kind beside it",
            speeds.len()
        )));
    }
    speeds.iter().map(|speed| speed.number(SPEED)).collect()
}

/// What things cost: the word "none", or a table of differences from the defaults.
fn costs(value: Value) -> Result<Costs> {
    if value.is_string() {
        return value
            .word(&[("none", ())])
            .map(|()| Costs::none())
            .map_err(|_| value.expected(COSTS.form));
    }
    let mut costs = Costs::default();
    for (key, value) in value.section(&COSTS)?.those(COST_KEYS) {
        let cost = |cost: &mut u64| {
            *cost = time_ns(value, US, Limits::from(0.0, 1e6))?;
            Ok(())
        };
        match key {
            "switch_us" => cost(&mut costs.switch_ns),
            "resume_us" => cost(costs.resume_ns.insert(0)),
            "refill_us" => cost(&mut costs.refill_ns),
            "kick_us" => cost(&mut costs.kick_ns),
            "idle_exit_us" => cost(&mut costs.idle_exit_ns),
            "migrate_core_us" => cost(&mut costs.migrate_core_ns),
            "migrate_cache_us" => cost(&mut costs.migrate_cache_ns),
            "migrate_node_us" => cost(&mut costs.migrate_node_ns),
            "migrate_remote_us" => cost(&mut costs.migrate_remote_ns),
            _ => {
                costs.tick_ns = time_ns(value, MS, Limits::from(0.1, 1000.0))?;
                Ok(())
            }
        }?;
    }
    Ok(costs)
}

fn take_offline(machine: &mut Machine, value: Value) -> Result<()> {
    for cpu in cpu_list(value, machine)? {
        machine.online[cpu as usize] = false;
    }
    match machine.online.contains(&true) {
        true => Ok(()),
        false => Err(value.error("offline: no lane is left; leave at least one online")),
    }
}

/// CPU numbers, ascending; as a list such as `"0-3,8"` or an array of numbers; each is a lane of the machine.
pub(super) fn cpu_list(value: Value, machine: &Machine) -> Result<Vec<u32>> {
    let what = "CPU numbers such as \"0-3,8\" or [0, 1]";
    let cpus: CpuList = match value.is_array() {
        true => {
            let numbers = value.array(what)?;
            let numbers = numbers.iter().map(|cpu| cpu.integer(0..=CPU_MAX));
            numbers.collect::<Result<Vec<u32>>>()?.into_iter().collect()
        }
        false => {
            let list = value.string(what)?.parse();
            list.map_err(|error| value.error(format!("{}: {error}", value.key())))?
        }
    };
    let highest = machine.nr_lanes.saturating_sub(1);
    match cpus.last() {
        Some(last) if last as usize > highest => Err(value.error(format!(
            "{}: the machine has no CPU {last}; its lanes are CPUs 0-{highest}",
            value.key()
        ))),
        Some(_) => Ok(cpus.iter().collect()),
        None => Err(value.error(format!(
            "{}: no CPU is named; name some, or leave the key out",
            value.key()
        ))),
    }
}
