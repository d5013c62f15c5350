//! What sysfs says of the CPUs, file by file.

use super::ReadError;
use super::tree::Tree;
use crate::{CpuList, SmtControl};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

const CPUS: &str = "sys/devices/system/cpu";
const NODES: &str = "sys/devices/system/node";
const ONLINE: &str = "sys/devices/system/cpu/online";
const A_LIST: &str = "a list of CPUs such as 0-3,8";

/// A last-level cache: the level and the CPUs that share it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LastLevelCache {
    pub(super) level: u32,
    pub(super) shared_by: CpuList,
}

/// What is known of one online CPU.
pub(super) struct CpuFacts {
    /// The lanes of its core, itself included.
    pub(super) siblings: CpuList,
    /// The file that the siblings come from.
    siblings_file: String,
    pub(super) package: i32,
    pub(super) node: u32,
    pub(super) cache: Option<LastLevelCache>,
    pub(super) capacity: Option<u64>,
    pub(super) frequency_max_khz: Option<u64>,
}

/// CPUs that could ever be there.
pub(super) fn possible(tree: &Tree) -> Result<CpuList, ReadError> {
    tree.required(&format!("{CPUS}/possible"), A_LIST)
}

/// CPUs that are plugged in, if the machine tells.
pub(super) fn present(tree: &Tree) -> Result<Option<CpuList>, ReadError> {
    tree.optional(&format!("{CPUS}/present"), A_LIST)
}

/// CPUs that run work.
pub(super) fn online(tree: &Tree) -> Result<CpuList, ReadError> {
    tree.required(ONLINE, A_LIST)
}

/// Refuses online CPUs that cannot be.
pub(super) fn check_online(
    tree: &Tree,
    online: &CpuList,
    possible: &CpuList,
) -> Result<(), ReadError> {
    let expected = "a list of at least one CPU, all of them possible";
    if online.is_empty() {
        return Err(tree.malformed(ONLINE, online, expected, "no CPU is online"));
    }
    match online.difference(possible).first() {
        None => Ok(()),
        Some(cpu) => {
            let reason = format!("CPU {cpu} is not in {CPUS}/possible");
            Err(tree.malformed(ONLINE, online, expected, reason))
        }
    }
}

/// What SMT control says, if the kernel has it.
pub(super) fn smt_control(tree: &Tree) -> Result<Option<SmtControl>, ReadError> {
    tree.optional(&format!("{CPUS}/smt/control"), "the state of SMT control")
}

/// Whether some core has more than one lane online, if the kernel tells.
pub(super) fn smt_active(tree: &Tree) -> Result<Option<bool>, ReadError> {
    let file = format!("{CPUS}/smt/active");
    let active: Option<u32> = tree.optional(&file, "0 or 1")?;
    match active {
        None => Ok(None),
        Some(value @ (0 | 1)) => Ok(Some(value == 1)),
        Some(value) => Err(tree.malformed(&file, value, "0 or 1", "another number")),
    }
}

/// The NUMA node of each CPU; `None` if the machine reports no nodes. A CPU in several nodes (the
/// kernel parameter `numa=fake` makes such) counts to the first.
pub(super) fn nodes(tree: &Tree) -> Result<Option<BTreeMap<u32, u32>>, ReadError> {
    let Some(ids) = tree.numbered(NODES, "node")? else {
        return Ok(None);
    };
    let mut nodes = BTreeMap::new();
    for id in &ids {
        let cpus: CpuList = tree.required(&format!("{NODES}/node{id}/cpulist"), A_LIST)?;
        for cpu in cpus.iter() {
            nodes.entry(cpu).or_insert(*id);
        }
    }
    Ok((!ids.is_empty()).then_some(nodes))
}

impl CpuFacts {
    /// Reads what sysfs says of an online CPU.
    pub(super) fn read(
        tree: &Tree,
        cpu: u32,
        possible: &CpuList,
        nodes: Option<&BTreeMap<u32, u32>>,
    ) -> Result<CpuFacts, ReadError> {
        let folder = format!("{CPUS}/cpu{cpu}");
        let (siblings, siblings_file) = siblings(tree, cpu, possible)?;
        Ok(CpuFacts {
            siblings,
            siblings_file,
            package: tree.required(
                &format!("{folder}/topology/physical_package_id"),
                "the number of the package, -1 if unknown",
            )?,
            node: node_of(tree, cpu, nodes)?,
            cache: last_level_cache(tree, cpu)?,
            capacity: positive(
                tree,
                &format!("{folder}/cpu_capacity"),
                "a capacity, at least 1",
            )?,
            frequency_max_khz: positive(
                tree,
                &format!("{folder}/cpufreq/cpuinfo_max_freq"),
                "a frequency in kHz, at least 1",
            )?,
        })
    }
}

/// The lanes of the core of `cpu`, and the file that lists them. `core_id` is no help: it repeats
/// across packages and dies.
fn siblings(tree: &Tree, cpu: u32, possible: &CpuList) -> Result<(CpuList, String), ReadError> {
    const EXPECTED: &str = "the list of the CPUs of one core, the CPU itself included";
    let new = format!("{CPUS}/cpu{cpu}/topology/core_cpus_list");
    let old = format!("{CPUS}/cpu{cpu}/topology/thread_siblings_list");
    let (siblings, file): (CpuList, String) = match tree.optional(&new, EXPECTED)? {
        Some(list) => (list, new),
        None => (tree.required(&old, EXPECTED)?, old),
    };
    if !siblings.contains(cpu) {
        let reason = format!("CPU {cpu} is not in the list");
        return Err(tree.malformed(&file, siblings, EXPECTED, reason));
    }
    if let Some(stranger) = siblings.difference(possible).first() {
        let reason = format!("CPU {stranger} is not in {CPUS}/possible");
        return Err(tree.malformed(&file, siblings, EXPECTED, reason));
    }
    Ok((siblings, file))
}

/// Refuses sibling lists that contradict each other.
pub(super) fn check_siblings(tree: &Tree, cpus: &BTreeMap<u32, CpuFacts>) -> Result<(), ReadError> {
    let mut owner: BTreeMap<u32, &CpuFacts> = BTreeMap::new();
    for facts in cpus.values() {
        for cpu in facts.siblings.iter() {
            let first = owner.entry(cpu).or_insert(facts);
            if first.siblings != facts.siblings {
                let reason = format!("{} says {}", first.siblings_file, first.siblings);
                let expected = "the same list for all CPUs of a core";
                return Err(tree.malformed(
                    &facts.siblings_file,
                    &facts.siblings,
                    expected,
                    reason,
                ));
            }
        }
    }
    Ok(())
}

/// The node of an online CPU: 0 if the machine reports no nodes.
fn node_of(tree: &Tree, cpu: u32, nodes: Option<&BTreeMap<u32, u32>>) -> Result<u32, ReadError> {
    let Some(nodes) = nodes else { return Ok(0) };
    nodes.get(&cpu).copied().ok_or_else(|| ReadError::Missing {
        path: tree.path(format!("{NODES}/node*/cpulist")),
        expected: "every online CPU in the list of a NUMA node",
    })
}

/// The type of a cache as sysfs names it.
#[derive(PartialEq)]
enum CacheType {
    Instruction,
    Data,
    Unified,
}

impl FromStr for CacheType {
    type Err = CacheTypeError;

    fn from_str(text: &str) -> Result<Self, CacheTypeError> {
        match text {
            "Instruction" => Ok(CacheType::Instruction),
            "Data" => Ok(CacheType::Data),
            "Unified" => Ok(CacheType::Unified),
            _ => Err(CacheTypeError),
        }
    }
}

/// The text names no cache type.
struct CacheTypeError;

impl fmt::Display for CacheTypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another word")
    }
}

/// The data or unified cache of the highest level. Caches of which the machine does not tell type,
/// level and sharers (some virtual machines) count as unknown.
fn last_level_cache(tree: &Tree, cpu: u32) -> Result<Option<LastLevelCache>, ReadError> {
    const SHARERS: &str = "the list of the CPUs that share the cache, the CPU itself included";
    let folder = format!("{CPUS}/cpu{cpu}/cache");
    let mut last: Option<LastLevelCache> = None;
    for index in tree.numbered(&folder, "index")?.unwrap_or_default() {
        let file = |name: &str| format!("{folder}/index{index}/{name}");
        let kind: Option<CacheType> =
            tree.optional(&file("type"), "Data, Instruction or Unified")?;
        let level: Option<u32> =
            tree.optional(&file("level"), "the level of the cache, a number")?;
        let shared_by: Option<CpuList> = tree.optional(&file("shared_cpu_list"), SHARERS)?;
        let (Some(kind), Some(level), Some(shared_by)) = (kind, level, shared_by) else {
            continue;
        };
        if !shared_by.contains(cpu) {
            let reason = format!("CPU {cpu} is not in the list");
            return Err(tree.malformed(&file("shared_cpu_list"), shared_by, SHARERS, reason));
        }
        let higher = last.as_ref().is_none_or(|last| level > last.level);
        if kind != CacheType::Instruction && higher {
            last = Some(LastLevelCache { level, shared_by });
        }
    }
    Ok(last)
}

/// Parses a number above 0, if the file is there.
fn positive(tree: &Tree, file: &str, expected: &'static str) -> Result<Option<u64>, ReadError> {
    match tree.optional(file, expected)? {
        Some(0) => Err(tree.malformed(file, 0, expected, "nothing runs at 0")),
        value => Ok(value),
    }
}
