//! The cores of `[machine]`: all alike, or groups `[[machine.group]]`.

use sidelane_policy::file::{Result, Section, Shape, Value};
use sidelane_topology::{BuildError, Builder, CPU_MAX, CoreSpec, Numbering, Regular, Topology};
use std::collections::BTreeMap;

/// Keys of machines whose cores are all alike.
const REGULAR_KEYS: &[&str] = &[
    "packages",
    "caches_per_package",
    "cores",
    "lanes",
    "numbering",
];

const GROUP: Shape = Shape {
    title: "[[machine.group]]",
    form: "tables [[machine.group]]",
    keys: &["cores", "lanes", "capacity", "package", "node", "cache"],
    elsewhere: &[],
};

const NR_LANES_MAX: u32 = CPU_MAX + 1;
const CAPACITY_MAX: u64 = sidelane_topology::CAPACITY_MAX as u64;

/// Reads the cores of `[machine]`.
pub(super) fn cores(section: &Section) -> Result<Topology> {
    let topology = match section.get("group") {
        None => Topology::regular(&regular(section)?),
        Some(groups) => {
            if let Some((key, value)) = section.those(REGULAR_KEYS).next() {
                return Err(value.error(format!(
                    "{key} stands beside [[machine.group]]; groups say all about the cores, \
                     leave {key} out"
                )));
            }
            hybrid(groups)?
        }
    };
    topology.map_err(|error| section.error(format!("[machine]: {error}")))
}

/// A machine whose cores are all alike.
fn regular(section: &Section) -> Result<Regular> {
    let count = |value: Value| value.integer(1..=NR_LANES_MAX);
    let packages = section.get("packages").map_or(Ok(1), count)?;
    let caches_per_package = section.get("caches_per_package").map_or(Ok(1), count)?;
    let cores = section.need("cores", "how many cores the machine has, such as 4")?;
    let lanes = section.need("lanes", "how many lanes each core has, such as 2")?;
    let lanes_per_core = count(lanes)?;
    check_lanes(cores, u64::from(count(cores)?) * u64::from(lanes_per_core))?;
    let words = [
        ("adjacent", Numbering::Adjacent),
        ("apart", Numbering::Apart),
    ];
    let numbering = section.get("numbering");
    Ok(Regular {
        packages,
        caches_per_package,
        cores_per_cache: share(cores, count(cores)?, packages, caches_per_package)?,
        lanes_per_core,
        numbering: numbering.map_or(Ok(Numbering::Adjacent), |value| value.word(&words))?,
    })
}

/// How many cores each cache gets.
fn share(at: Value, cores: u32, packages: u32, caches_per_package: u32) -> Result<u32> {
    let caches = u64::from(packages) * u64::from(caches_per_package);
    let share = u64::from(cores) / caches;
    if share * caches == u64::from(cores) {
        return Ok(share as u32);
    }
    let above = (share + 1) * caches;
    let near = match share {
        0 => format!("{above}"),
        _ => format!("{} or {above}", share * caches),
    };
    Err(at.error(format!(
        "cores: {cores} cores do not spread evenly over {packages} packages × \
         {caches_per_package} caches; {near} would"
    )))
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
fn hybrid(groups: Value) -> Result<std::result::Result<Topology, BuildError>> {
    let mut builder = Builder::new();
    let mut next_cpu = 0;
    let mut caches = BTreeMap::new();
    let sections = groups.sections(&GROUP)?;
    if sections.is_empty() {
        return Err(groups.expected("at least one group such as [{ cores = 4, lanes = 2 }]"));
    }
    for section in &sections {
        let group = group(section, next_cpu)?;
        let next_cache = caches.len() as u32;
        let cache = *caches.entry(group.place).or_insert(next_cache);
        let (package, node, _) = group.place;
        for _ in 0..group.cores {
            let spec = CoreSpec::new(next_cpu..next_cpu + group.lanes)
                .capacity(group.capacity)
                .package(package)
                .node(node)
                .cache(3, cache);
            builder = builder.core(spec);
            next_cpu += group.lanes;
        }
    }
    Ok(builder.build())
}

/// Like cores.
struct Group {
    cores: u32,
    lanes: u32,
    capacity: u64,
    /// Package, node, and cache within the node.
    place: (i32, u32, u32),
}

/// A group that begins at a CPU number.
fn group(section: &Section, next_cpu: u32) -> Result<Group> {
    let number = |key, default| {
        let value = section.get(key);
        value.map_or(Ok(default), |value| value.integer(0..=i32::MAX))
    };
    let at = section.need("cores", "how many cores the group has, such as 4")?;
    let lanes = section.need("lanes", "how many lanes each of its cores has, such as 2")?;
    let (cores, lanes) = (
        at.integer(1..=NR_LANES_MAX)?,
        lanes.integer(1..=NR_LANES_MAX)?,
    );
    check_lanes(
        at,
        u64::from(next_cpu) + u64::from(cores) * u64::from(lanes),
    )?;
    let capacity = section.get("capacity");
    let package = number("package", 0)?;
    let (node, cache) = (number("node", package)? as u32, number("cache", 0)? as u32);
    Ok(Group {
        cores,
        lanes,
        capacity: capacity.map_or(Ok(CAPACITY_MAX), |value| value.integer(1..=CAPACITY_MAX))?,
        place: (package, node, cache),
    })
}
