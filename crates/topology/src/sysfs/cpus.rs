//! What sysfs says of the CPUs, file by file.

use super::agree::agreed;
use super::caches::LastLevelCache;
use super::tree::{CPUS, Tree};
use super::{Notes, ReadError};
use crate::{CAPACITY_MAX, CpuList, SmtControl};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

const NODES: &str = "sys/devices/system/node";
const ONLINE: &str = "sys/devices/system/cpu/online";
const A_LIST: &str = "a list of CPUs such as 0-3,8";

/// Far above what any CPU reaches; what is above is no frequency in kHz.
const FREQUENCY_MAX_KHZ: u64 = 100_000_000;

/// What is known of one online CPU, beside whose lane it is.
pub(super) struct CpuFacts {
    pub(super) package: Option<i32>,
    pub(super) node: Option<u32>,
    pub(super) cache: Option<LastLevelCache>,
    pub(super) capacity: Option<u64>,
    pub(super) frequency_max_khz: Option<u64>,
}

/// CPUs that run work.
pub(super) fn online(tree: &Tree) -> Result<CpuList, ReadError> {
    let online: CpuList = tree.required(ONLINE, A_LIST)?;
    match online.is_empty() {
        true => Err(tree.malformed(ONLINE, online, A_LIST, "no CPU is online")),
        false => Ok(online),
    }
}

/// CPUs that could ever be there.
pub(super) fn possible(tree: &Tree, online: &CpuList) -> Result<Option<CpuList>, ReadError> {
    let file = format!("{CPUS}/possible");
    let possible: CpuList = tree.required(&file, A_LIST)?;
    check_online(tree, &file, &possible, online)?;
    Ok(Some(possible))
}

/// CPUs that are plugged in.
pub(super) fn present(
    tree: &Tree,
    online: &CpuList,
    possible: Option<&CpuList>,
) -> Result<Option<CpuList>, ReadError> {
    let file = format!("{CPUS}/present");
    let Some(present) = tree.optional::<CpuList>(&file, A_LIST)? else {
        return Ok(None);
    };
    check_online(tree, &file, &present, online)?;
    check_possible(tree, &file, &present, possible, A_LIST)?;
    Ok(Some(present))
}

/// Refuses a list without a CPU that is online.
fn check_online(
    tree: &Tree,
    file: &str,
    list: &CpuList,
    online: &CpuList,
) -> Result<(), ReadError> {
    let Some(missing) = online.difference(list).first() else {
        return Ok(());
    };
    let reason = format!("CPU {missing} is online and not in the list");
    Err(tree.malformed(file, list, A_LIST, reason))
}

/// Refuses a list with a CPU that is not possible, if it is known which are.
fn check_possible(
    tree: &Tree,
    file: &str,
    list: &CpuList,
    possible: Option<&CpuList>,
    expected: &'static str,
) -> Result<(), ReadError> {
    match possible.and_then(|possible| list.difference(possible).first()) {
        None => Ok(()),
        Some(stranger) => {
            let reason = format!("CPU {stranger} is not in {CPUS}/possible");
            Err(tree.malformed(file, list, expected, reason))
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

/// The NUMA node of each CPU; none if the machine reports no nodes. A CPU in several nodes (the
/// kernel parameter `numa=fake` makes such) counts to the first.
pub(super) fn nodes(tree: &Tree, online: &CpuList, notes: &mut Notes) -> BTreeMap<u32, u32> {
    let mut nodes = BTreeMap::new();
    let ids = notes.known(tree.numbered(NODES, "node"));
    for id in ids.iter().flatten() {
        let file = format!("{NODES}/node{id}/cpulist");
        let cpus: Option<CpuList> = notes.known(tree.required(&file, A_LIST).map(Some));
        for cpu in cpus.unwrap_or_default().iter() {
            nodes.entry(cpu).or_insert(*id);
        }
    }
    let without: CpuList = online
        .iter()
        .filter(|cpu| !nodes.contains_key(cpu))
        .collect();
    if !without.is_empty() && ids.is_some_and(|ids| !ids.is_empty()) {
        let expected = "each CPU in the list of a NUMA node";
        let reason = format!("{NODES}/node*/cpulist lacks CPUs {without}");
        notes.add(&tree.malformed(ONLINE, online, expected, reason));
    }
    nodes
}

impl CpuFacts {
    /// Reads what sysfs says of an online CPU, but for its node and its cache.
    pub(super) fn read(tree: &Tree, cpu: u32, notes: &mut Notes) -> CpuFacts {
        let folder = format!("{CPUS}/cpu{cpu}");
        CpuFacts {
            package: notes.known(package(tree, &folder)),
            node: None,
            cache: None,
            capacity: notes.known(within(
                tree,
                &format!("{folder}/cpu_capacity"),
                1..=CAPACITY_MAX.into(),
                "a capacity from 1 to 1024",
            )),
            frequency_max_khz: notes.known(within(
                tree,
                &format!("{folder}/cpufreq/cpuinfo_max_freq"),
                1..=FREQUENCY_MAX_KHZ,
                "a frequency in kHz, above 0 and below 100 GHz",
            )),
        }
    }
}

/// The number of a CPU's package; `None` where the kernel itself says that it does not know.
fn package(tree: &Tree, folder: &str) -> Result<Option<i32>, ReadError> {
    const EXPECTED: &str = "the number of the package, -1 if unknown";
    /// -1 as kernels print it that take it for a number without sign.
    const MINUS_1_UNSIGNED: i64 = u32::MAX as i64;
    let file = format!("{folder}/topology/physical_package_id");
    match tree.required::<i64>(&file, EXPECTED)? {
        -1 | MINUS_1_UNSIGNED => Ok(None),
        id => match i32::try_from(id) {
            Ok(id @ 0..) => Ok(Some(id)),
            _ => Err(tree.malformed(&file, id, EXPECTED, "no package has that")),
        },
    }
}

/// Parses a number within `range`, if the file is there.
fn within(
    tree: &Tree,
    file: &str,
    range: RangeInclusive<u64>,
    expected: &'static str,
) -> Result<Option<u64>, ReadError> {
    match tree.optional(file, expected)? {
        Some(value) if !range.contains(&value) => {
            Err(tree.malformed(file, value, expected, "no CPU has that"))
        }
        value => Ok(value),
    }
}

/// The lanes of each core that has one online.
///
/// Each lane lists all of its core. Where lists are missing or contradict each other the others
/// decide; a single CPU that they leave over is a core by itself, of more it cannot be told.
pub(super) fn cores(
    tree: &Tree,
    online: &CpuList,
    possible: Option<&CpuList>,
    notes: &mut Notes,
) -> Result<BTreeSet<CpuList>, ReadError> {
    let (mut lists, mut files, mut wrong) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for cpu in online.iter() {
        match siblings(tree, cpu, possible, notes) {
            Ok((list, file)) => {
                lists.insert(cpu, list);
                files.insert(cpu, file);
            }
            Err(error) => drop(wrong.insert(cpu, error)),
        }
    }
    let mut cores: BTreeSet<CpuList> = agreed(&lists).into_iter().collect();
    for (cpu, list) in lists.iter().filter(|(_, list)| !cores.contains(*list)) {
        wrong.insert(*cpu, contradicted(tree, *cpu, list, &lists, &files));
    }
    let placed: CpuList = cores.iter().flat_map(CpuList::iter).collect();
    let left_over = online.difference(&placed);
    match left_over.first().and_then(|cpu| wrong.remove(&cpu)) {
        Some(error) if left_over.len() > 1 => return Err(error),
        error => error.iter().for_each(|error| notes.add(error)),
    }
    cores.extend((!left_over.is_empty()).then_some(left_over));
    wrong.values().for_each(|error| notes.add(error));
    Ok(cores)
}

/// The error for a list of siblings that the list of another CPU contradicts.
fn contradicted(
    tree: &Tree,
    cpu: u32,
    list: &CpuList,
    lists: &BTreeMap<u32, CpuList>,
    files: &BTreeMap<u32, String>,
) -> ReadError {
    let shares = |other: &CpuList| other != list && other.iter().any(|cpu| list.contains(cpu));
    let other = lists.iter().find(|(_, other)| shares(other));
    let reason = other.map_or_else(String::new, |(other, said)| {
        format!("{} says {said}", files[other])
    });
    let expected = "the same list for all CPUs of a core";
    tree.malformed(&files[&cpu], list, expected, reason)
}

/// What `cpu` says of the lanes of its core, and the file. The newer kernels' file comes first; the
/// older name holds the same. `core_id` is no help: it repeats across packages and dies.
fn siblings(
    tree: &Tree,
    cpu: u32,
    possible: Option<&CpuList>,
    notes: &mut Notes,
) -> Result<(CpuList, String), ReadError> {
    let new = format!("{CPUS}/cpu{cpu}/topology/core_cpus_list");
    let old = format!("{CPUS}/cpu{cpu}/topology/thread_siblings_list");
    let first = siblings_in(tree, &new, cpu, possible);
    if let Ok(Some(list)) = first {
        return Ok((list, new));
    }
    match (siblings_in(tree, &old, cpu, possible)?, first) {
        (Some(list), first) => {
            notes.known(first);
            Ok((list, old))
        }
        (None, Err(error)) => Err(error),
        (None, Ok(_)) => Err(tree.missing(&old, SIBLINGS)),
    }
}

const SIBLINGS: &str = "the list of the CPUs of one core, the CPU itself included";

/// The siblings that a file lists, `cpu` itself included.
fn siblings_in(
    tree: &Tree,
    file: &str,
    cpu: u32,
    possible: Option<&CpuList>,
) -> Result<Option<CpuList>, ReadError> {
    let Some(list) = tree.optional::<CpuList>(file, SIBLINGS)? else {
        return Ok(None);
    };
    if !list.contains(cpu) {
        let reason = format!("CPU {cpu} is not in the list");
        return Err(tree.malformed(file, list, SIBLINGS, reason));
    }
    check_possible(tree, file, &list, possible, SIBLINGS)?;
    Ok(Some(list))
}
