//! Reads a [`Topology`] from sysfs below a root folder: `/` for this machine, or a captured tree.

mod cpus;
pub(crate) mod tree;

use crate::builder::{BuildError, Builder, CoreSpec};
use crate::{CapacitySource, CpuList, Smt, Topology};
use cpus::{CpuFacts, LastLevelCache};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use tree::Tree;

/// How often reading is repeated when CPUs come or go meanwhile.
const ATTEMPTS_MAX: usize = 5;

/// Why a machine could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file is there but cannot be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file that every machine has is not there.
    #[error("{path} is missing; expected {expected}", path = path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
    },
    /// A file holds something else than it should.
    #[error("{path} holds \"{content}\"; expected {expected}: {reason}", path = path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What it holds, shortened.
        content: String,
        /// What it should hold.
        expected: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// CPUs went on- or offline during each attempt.
    #[error("CPUs kept coming and going while the machine was read; try again when they rest")]
    Changing,
    /// The files make no machine.
    #[error("sysfs describes no usable machine: {0}")]
    Build(#[from] BuildError),
}

impl Topology {
    /// Reads the machine described by `sys/devices/system/` below `root`; `/` is this machine.
    ///
    /// Reading is repeated if CPUs come or go meanwhile. Fails with the file and what was expected
    /// of it if a file is missing, unreadable, malformed, or contradicts another.
    pub fn read(root: &Path) -> Result<Topology, ReadError> {
        let tree = Tree::new(root);
        while_stable(|| cpus::online(&tree), |online| read_once(&tree, online))
    }
}

/// Runs `attempt` until `sample` says the same before and after it.
fn while_stable<T>(
    mut sample: impl FnMut() -> Result<CpuList, ReadError>,
    mut attempt: impl FnMut(&CpuList) -> Result<T, ReadError>,
) -> Result<T, ReadError> {
    let mut before = sample()?;
    for _ in 0..ATTEMPTS_MAX {
        let result = attempt(&before);
        let after = sample()?;
        if after == before {
            return result;
        }
        before = after;
    }
    Err(ReadError::Changing)
}

/// Reads everything once.
fn read_once(tree: &Tree, online: &CpuList) -> Result<Topology, ReadError> {
    let possible = cpus::possible(tree)?;
    let present = cpus::present(tree)?.unwrap_or_else(|| possible.clone());
    cpus::check_online(tree, online, &possible)?;
    let nodes = cpus::nodes(tree)?;
    let cpus: BTreeMap<u32, CpuFacts> = online
        .iter()
        .map(|cpu| Ok((cpu, CpuFacts::read(tree, cpu, &possible, nodes.as_ref())?)))
        .collect::<Result<_, ReadError>>()?;
    cpus::check_siblings(tree, &cpus)?;
    let (capacities, source) = capacities(&cpus);
    let mut builder = Builder::new()
        .possible(possible)
        .present(present)
        .smt(Smt {
            control: cpus::smt_control(tree)?,
            active: cpus::smt_active(tree)?,
        })
        .capacity_source(source);
    for core in cores(&cpus, online, &capacities) {
        builder = builder.core(core);
    }
    Ok(builder.build()?)
}

/// The capacity of every CPU, and where it comes from: `cpu_capacity` if it tells CPUs apart, else
/// the maximum frequency if that does, else equal.
///
/// An equal `cpu_capacity` says nothing: x86 kernels report 1024 for every CPU of a hybrid
/// processor with SMT, because they do not scale capacity while lanes share cores.
fn capacities(cpus: &BTreeMap<u32, CpuFacts>) -> (BTreeMap<u32, u64>, CapacitySource) {
    let told_apart = |fact: fn(&CpuFacts) -> Option<u64>| {
        let values: BTreeMap<u32, u64> = cpus
            .iter()
            .map(|(cpu, facts)| Some((*cpu, fact(facts)?)))
            .collect::<Option<_>>()?;
        let first = values.values().next().copied();
        values
            .values()
            .any(|value| Some(*value) != first)
            .then_some(values)
    };
    if let Some(values) = told_apart(|facts| facts.capacity) {
        (values, CapacitySource::CpuCapacity)
    } else if let Some(values) = told_apart(|facts| facts.frequency_max_khz) {
        (values, CapacitySource::MaxFrequency)
    } else {
        (
            cpus.keys().map(|cpu| (*cpu, 1)).collect(),
            CapacitySource::Equal,
        )
    }
}

/// One core for each set of siblings. What siblings say differently, the lowest online one decides;
/// the capacity is that of the fastest.
fn cores(
    cpus: &BTreeMap<u32, CpuFacts>,
    online: &CpuList,
    capacities: &BTreeMap<u32, u64>,
) -> Vec<CoreSpec> {
    let mut caches: BTreeMap<&LastLevelCache, u32> = BTreeMap::new();
    let mut cores: BTreeMap<&CpuList, CoreSpec> = BTreeMap::new();
    for facts in cpus.values() {
        if cores.contains_key(&facts.siblings) {
            continue;
        }
        let fastest = facts
            .siblings
            .iter()
            .filter_map(|cpu| capacities.get(&cpu))
            .max();
        let mut core = CoreSpec::new(facts.siblings.iter())
            .offline(facts.siblings.difference(online).iter())
            .capacity(fastest.copied().unwrap_or(1))
            .package(facts.package)
            .node(facts.node);
        if let Some(cache) = &facts.cache {
            let next = caches.len() as u32;
            core = core.cache(cache.level, *caches.entry(cache).or_insert(next));
        }
        cores.insert(&facts.siblings, core);
    }
    cores.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_is_repeated_until_cpus_rest() {
        let mut samples = ["0-1", "0", "0-3", "0-3"].into_iter();
        let sample = || Ok(samples.next().unwrap().parse().unwrap());
        let mut attempts = Vec::new();
        let result = while_stable(sample, |online| {
            attempts.push(online.to_string());
            Ok(online.len())
        });
        assert_eq!(result.unwrap(), 4);
        assert_eq!(attempts, ["0-1", "0", "0-3"]);
    }

    #[test]
    fn an_error_made_by_a_change_is_not_reported() {
        let mut samples = ["0-1", "0", "0"].into_iter();
        let sample = || Ok(samples.next().unwrap().parse().unwrap());
        let result = while_stable(sample, |online| match online.len() {
            1 => Ok(()),
            _ => Err(ReadError::Missing {
                path: "cpu1".into(),
                expected: "a folder",
            }),
        });
        assert!(result.is_ok());
    }

    #[test]
    fn endless_change_is_given_up() {
        let mut cpu = 0;
        let sample = || {
            cpu += 1;
            Ok(CpuList::from([cpu]))
        };
        let mut attempts = 0;
        let result = while_stable(sample, |_| {
            attempts += 1;
            Ok(())
        });
        assert!(matches!(result, Err(ReadError::Changing)));
        assert_eq!(attempts, ATTEMPTS_MAX);
    }
}
