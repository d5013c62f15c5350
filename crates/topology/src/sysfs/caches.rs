//! Which CPUs share a last-level cache.

use super::agree::agreed;
use super::tree::{CPUS, Tree};
use super::{Notes, ReadError};
use crate::CpuList;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

const SHARERS: &str = "the list of the CPUs that share the cache, the CPU itself included";

/// A last-level cache: the level and the CPUs that share it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LastLevelCache {
    pub(super) level: u8,
    pub(super) shared_by: CpuList,
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

/// The last-level cache of each CPU of which it is known. Where the lists of sharers contradict each
/// other the most consistent ones decide.
pub(super) fn last_level_caches(
    tree: &Tree,
    online: &CpuList,
    notes: &mut Notes,
) -> BTreeMap<u32, LastLevelCache> {
    let mut lists: BTreeMap<u8, BTreeMap<u32, CpuList>> = BTreeMap::new();
    let mut files = BTreeMap::new();
    for cpu in online.iter() {
        if let Some((cache, file)) = highest(tree, cpu, notes) {
            let level = lists.entry(cache.level).or_default();
            level.insert(cpu, cache.shared_by);
            files.insert(cpu, file);
        }
    }
    let mut caches = BTreeMap::new();
    for (level, lists) in lists {
        let groups = agreed(&lists);
        let by_cpu = groups
            .iter()
            .flat_map(|g| g.iter().map(move |cpu| (cpu, g)));
        let by_cpu: BTreeMap<u32, &CpuList> = by_cpu.collect();
        for (cpu, list) in &lists {
            let group = by_cpu.get(cpu).copied();
            if group != Some(list) {
                let expected = "the same list for all CPUs that share the cache";
                let reason = match group {
                    Some(group) => format!("other CPUs say {group}"),
                    None => "other CPUs say something else".to_owned(),
                };
                notes.add(&tree.malformed(&files[cpu], list, expected, reason));
            }
            if let Some(shared_by) = group.cloned() {
                caches.insert(*cpu, LastLevelCache { level, shared_by });
            }
        }
    }
    caches
}

/// The data or unified cache of the highest level that `cpu` tells of, and the file that lists its
/// sharers.
fn highest(tree: &Tree, cpu: u32, notes: &mut Notes) -> Option<(LastLevelCache, String)> {
    let folder = format!("{CPUS}/cpu{cpu}/cache");
    let indices = notes.known(tree.numbered(&folder, "index"));
    indices
        .into_iter()
        .flatten()
        .filter_map(|index| {
            let folder = format!("{folder}/index{index}");
            let cache = notes.known(cache(tree, cpu, &folder))?;
            Some((cache, format!("{folder}/shared_cpu_list")))
        })
        .rev()
        .max_by_key(|(cache, _)| cache.level)
}

/// A cache that holds data. One of which the machine does not tell type, level and sharers (some
/// virtual machines) counts as unknown.
fn cache(tree: &Tree, cpu: u32, folder: &str) -> Result<Option<LastLevelCache>, ReadError> {
    const LEVEL: &str = "the level of the cache, a number";
    let file = |name: &str| format!("{folder}/{name}");
    let kind: Option<CacheType> = tree.optional(&file("type"), "Data, Instruction or Unified")?;
    let level: Option<u8> = tree.optional(&file("level"), LEVEL)?;
    let shared_by: Option<CpuList> = tree.optional(&file("shared_cpu_list"), SHARERS)?;
    let (Some(kind), Some(level), Some(shared_by)) = (kind, level, shared_by) else {
        return Ok(None);
    };
    if level == 0 {
        return Err(tree.malformed(&file("level"), level, LEVEL, "levels begin with 1"));
    }
    if !shared_by.contains(cpu) {
        let reason = format!("CPU {cpu} is not in the list");
        return Err(tree.malformed(&file("shared_cpu_list"), shared_by, SHARERS, reason));
    }
    Ok((kind != CacheType::Instruction).then_some(LastLevelCache { level, shared_by }))
}
