//! The tables `[machine]`, `[[machine.group]]` and `[machine.costs]`.

use super::error::Result;
use super::limits::{Limits, MS, US, time_ns};
use super::reader::{Section, Shape, Value};
use crate::{Costs, Interference, Machine};
use sidelane_topology::{Builder, CPU_MAX, CoreSpec, CpuList, Numbering, Regular, Topology};
use std::collections::BTreeMap;

const COST_KEYS: &[&str] = &[
    "switch_us",
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
    keys: COST_KEYS,
    elsewhere: &[],
};

/// Keys of machines whose cores are all alike.
const REGULAR_KEYS: &[&str] = &[
    "packages",
    "caches_per_package",
    "cores",
    "lanes",
    "numbering",
];

const IN_COSTS: &str = "[machine.costs]";

pub(super) const MACHINE: Shape = Shape {
    title: "[machine]",
    keys: &[
        "packages",
        "caches_per_package",
        "cores",
        "lanes",
        "numbering",
        "thread_perf",
        "interference",
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
        ("kick_us", IN_COSTS),
        ("idle_exit_us", IN_COSTS),
        ("migrate_core_us", IN_COSTS),
        ("migrate_cache_us", IN_COSTS),
        ("migrate_node_us", IN_COSTS),
        ("migrate_remote_us", IN_COSTS),
        ("tick_ms", IN_COSTS),
        ("kinds", "interference"),
        ("speed", "interference"),
    ],
};

const GROUP: Shape = Shape {
    title: "[[machine.group]]",
    keys: &["cores", "lanes", "capacity", "package", "node", "cache"],
    elsewhere: &[],
};

const INTERFERENCE: Shape = Shape {
    title: "interference",
    keys: &["kinds", "speed"],
    elsewhere: &[],
};

const NR_LANES_MAX: u32 = CPU_MAX + 1;
const SPEED: Limits = Limits::above(0.0, 1.0);
const EXAMPLE: &str = "such as [machine] cores = 4, lanes = 2";

/// The machine, and what its kinds of tasks are called.
#[derive(Debug)]
pub(super) struct Described {
    pub machine: Machine,
    /// Names of the rows of the interference table; none without one.
    pub kinds: Vec<String>,
}

/// Reads `[machine]`.
pub(super) fn machine(section: &Section) -> Result<Described> {
    let topology = match section.get("group") {
        Some(groups) => {
            if let Some((key, value)) = section.those(REGULAR_KEYS).next() {
                return Err(value.error(format!(
                    "{key} stands beside [[machine.group]]; groups say all about the cores, \
                     leave {key} out"
                )));
            }
            hybrid(section, groups)?
        }
        None => regular(section)?,
    };
    let (interference, kinds) = interference(section, topology.lanes_per_core_max())?;
    let costs = section.get("costs").map_or(Ok(Costs::default()), costs)?;
    let mut machine = Machine::new(&topology, interference, costs)
        .map_err(|error| section.error(format!("[machine]: {error}")))?;
    if let Some(value) = section.get("offline") {
        take_offline(&mut machine, value)?;
    }
    Ok(Described { machine, kinds })
}

/// A machine whose cores are all alike.
fn regular(section: &Section) -> Result<Topology> {
    let count = |key| {
        section
            .get(key)
            .map_or(Ok(1), |value| value.integer(1..=NR_LANES_MAX))
    };
    let needed = |key: &str, what: &str| {
        let value = section.need(key, &format!("{what}, {EXAMPLE}"))?;
        value.integer(1..=NR_LANES_MAX)
    };
    let (packages, caches_per_package) = (count("packages")?, count("caches_per_package")?);
    let cores = needed("cores", "how many cores the machine has")?;
    let lanes_per_core = needed("lanes", "how many lanes each core has")?;
    let numbering = section
        .get("numbering")
        .map_or(Ok(Numbering::Adjacent), |value| {
            value.word(&[
                ("adjacent", Numbering::Adjacent),
                ("apart", Numbering::Apart),
            ])
        })?;
    let caches = u64::from(packages) * u64::from(caches_per_package);
    if u64::from(cores) % caches != 0 {
        let below = u64::from(cores) / caches * caches;
        let near = match below {
            0 => format!("{caches}"),
            _ => format!("{below} or {}", below + caches),
        };
        return Err(section.need("cores", "")?.error(format!(
            "cores: {cores} cores do not spread evenly over {packages} packages × \
             {caches_per_package} caches; {near} would"
        )));
    }
    check_lanes(
        section.need("cores", "")?,
        u64::from(cores) * u64::from(lanes_per_core),
    )?;
    let shape = Regular {
        packages,
        caches_per_package,
        cores_per_cache: (u64::from(cores) / caches) as u32,
        lanes_per_core,
        numbering,
    };
    Topology::regular(&shape).map_err(|error| section.error(format!("[machine]: {error}")))
}

fn check_lanes(at: Value, lanes: u64) -> Result<()> {
    match lanes <= u64::from(NR_LANES_MAX) {
        true => Ok(()),
        false => Err(at.error(format!(
            "{}: the machine would have {lanes} lanes; at most {NR_LANES_MAX} can be numbered",
            at.key()
        ))),
    }
}

/// A machine of groups of like cores, numbered in order, siblings adjacent.
fn hybrid(section: &Section, groups: Value) -> Result<Topology> {
    let mut builder = Builder::new();
    let mut caches = BTreeMap::new();
    let mut next_cpu = 0;
    for group in groups.sections(&GROUP)? {
        let number = |key, default, max| {
            group
                .get(key)
                .map_or(Ok(default), |value| value.integer(0..=max))
        };
        let cores = group.need("cores", "how many cores the group has")?;
        let lanes = group.need("lanes", "how many lanes each of its cores has")?;
        let capacity = group
            .get("capacity")
            .map_or(Ok(1024), |value| value.integer(1..=1024))?;
        let package = number("package", 0, i32::MAX as u32)?;
        let node = number("node", package, u32::MAX)?;
        let next_cache = caches.len() as u32;
        let place = (package, node, number("cache", 0, u32::MAX)?);
        let cache = *caches.entry(place).or_insert(next_cache);
        let (count, width): (u32, u32) = (
            cores.integer(1..=NR_LANES_MAX)?,
            lanes.integer(1..=NR_LANES_MAX)?,
        );
        check_lanes(
            cores,
            u64::from(next_cpu) + u64::from(count) * u64::from(width),
        )?;
        for _ in 0..count {
            let spec = CoreSpec::new(next_cpu..next_cpu + width)
                .capacity(capacity)
                .package(package as i32)
                .node(node)
                .cache(3, cache);
            builder = builder.core(spec);
            next_cpu += width;
        }
    }
    builder
        .build()
        .map_err(|error| section.error(format!("[machine]: {error}")))
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
    if speeds.first() != Some(&1.0) {
        return Err(value.error(
            "thread_perf: the first number is the speed of a lane that runs alone, and that is 1",
        ));
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
            .map_err(|_| value.expected("\"none\" or a table [machine.costs]"));
    }
    let mut costs = Costs::default();
    for (key, value) in value.section(&COSTS)?.those(COST_KEYS) {
        let cost = |cost: &mut u64| {
            *cost = time_ns(value, US, Limits::from(0.0, 1e6))?;
            Ok(())
        };
        match key {
            "switch_us" => cost(&mut costs.switch_ns),
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

/// CPU numbers, as a list such as `"0-3,8"` or an array of numbers; each is a lane of the machine.
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
