//! Reads a [`Topology`] from sysfs below a root folder: `/` for this machine, or a captured tree.

mod agree;
mod caches;
mod cpus;
pub(crate) mod tree;

use crate::builder::{BuildError, Builder, CoreSpec};
use crate::{CapacitySource, CpuList, Smt, Topology};
use caches::LastLevelCache;
use cpus::CpuFacts;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use tree::Tree;

/// How often reading is repeated when CPUs come or go meanwhile.
const ATTEMPTS_MAX: usize = 5;

/// Why a machine could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A file is there but cannot be read.
    #[error("{path}: cannot read it: {source}", path = path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file that every machine has is not there.
    #[error("{path}: missing; expected {expected}", path = path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
    },
    /// A file holds something else than it should.
    #[error("{path}: holds \"{content}\"; expected {expected}: {reason}", path = path.display())]
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

/// What is wrong with facts that the machine can do without: each is unknown because a file holds something that cannot be.
#[derive(Default)]
struct Notes(Vec<String>);

impl Notes {
    /// The fact, or `None` if it is unknown: the file is absent or, which is noted, wrong.
    fn known<T>(&mut self, fact: Result<Option<T>, ReadError>) -> Option<T> {
        fact.unwrap_or_else(|error| {
            self.add(&error);
            None
        })
    }

    /// Notes what is wrong.
    fn add(&mut self, error: &ReadError) {
        self.0.push(error.to_string());
    }

    /// The notes, each naming the file and what it holds.
    fn into_vec(self) -> Vec<String> {
        self.0
    }
}

impl Topology {
    /// Reads the machine described by `sys/devices/system/` below `root`; `/` is this machine.
    ///
    /// Reading is repeated if CPUs come or go meanwhile. Fails, with the file and what was expected
    /// of it, if it cannot be known which CPUs are online or which of them share a core. Whatever
    /// else is missing, unreadable, malformed, or contradicts another file is unknown, and
    /// [noted](Topology::notes) unless some machines just lack it.
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
    let mut notes = Notes::default();
    let possible = notes.known(cpus::possible(tree, online));
    let present = notes.known(cpus::present(tree, online, possible.as_ref()));
    let smt = Smt {
        control: notes.known(cpus::smt_control(tree)),
        active: notes.known(cpus::smt_active(tree)),
    };
    let cores = cpus::cores(tree, online, possible.as_ref(), &mut notes)?;
    let facts = facts(tree, online, &mut notes);
    let (capacities, source) = capacities(&cores, &facts);
    let possible = possible.unwrap_or_default();
    let mut builder = Builder::new()
        .present(present.unwrap_or_else(|| possible.clone()))
        .possible(possible)
        .smt(smt)
        .capacity_source(source)
        .notes(notes.into_vec());
    for core in specs(&cores, &facts, online, &capacities) {
        builder = builder.core(core);
    }
    Ok(builder.build()?)
}

/// What is known of each online CPU.
fn facts(tree: &Tree, online: &CpuList, notes: &mut Notes) -> BTreeMap<u32, CpuFacts> {
    let nodes = cpus::nodes(tree, online, notes);
    let mut caches = caches::last_level_caches(tree, online, notes);
    let fact = |cpu| {
        let facts = CpuFacts {
            node: nodes.get(&cpu).copied(),
            cache: caches.remove(&cpu),
            ..CpuFacts::read(tree, cpu, notes)
        };
        (cpu, facts)
    };
    online.iter().map(fact).collect()
}

/// The capacity of every core, and where it comes from: `cpu_capacity` if it tells cores apart, else
/// the maximum frequency if that does, else equal. A core is as fast as the fastest of its lanes.
///
/// An equal `cpu_capacity` says nothing: x86 kernels report 1024 for every CPU of a hybrid
/// processor with SMT, because they do not scale capacity while lanes share cores.
fn capacities(
    cores: &BTreeSet<CpuList>,
    cpus: &BTreeMap<u32, CpuFacts>,
) -> (Vec<u64>, CapacitySource) {
    let told_apart = |fact: fn(&CpuFacts) -> Option<u64>| {
        let fastest = |core: &CpuList| lanes(core, cpus).filter_map(fact).max();
        let values: Vec<u64> = cores.iter().map(fastest).collect::<Option<_>>()?;
        (common(values.iter()).is_none()).then_some(values)
    };
    if let Some(values) = told_apart(|facts| facts.capacity) {
        (values, CapacitySource::CpuCapacity)
    } else if let Some(values) = told_apart(|facts| facts.frequency_max_khz) {
        (values, CapacitySource::MaxFrequency)
    } else {
        (vec![1; cores.len()], CapacitySource::Equal)
    }
}

/// What is known of the online lanes of a core, the lowest first.
fn lanes<'a>(
    core: &CpuList,
    cpus: &'a BTreeMap<u32, CpuFacts>,
) -> impl Iterator<Item = &'a CpuFacts> {
    core.iter().filter_map(|cpu| cpus.get(&cpu))
}

/// The value if all are the same.
fn common<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

/// The cores to build. What siblings say differently, the lowest one that knows decides. A core of
/// unknown package or node is where all others are, if these are in one.
fn specs(
    cores: &BTreeSet<CpuList>,
    cpus: &BTreeMap<u32, CpuFacts>,
    online: &CpuList,
    capacities: &[u64],
) -> Vec<CoreSpec> {
    let package = common(cpus.values().filter_map(|facts| facts.package));
    let node = common(cpus.values().filter_map(|facts| facts.node));
    let mut caches: BTreeMap<&LastLevelCache, u32> = BTreeMap::new();
    let spec = |(core, capacity): (&CpuList, &u64)| {
        let known_package = lanes(core, cpus).find_map(|facts| facts.package);
        let known_node = lanes(core, cpus).find_map(|facts| facts.node);
        let spec = CoreSpec::new(core.iter())
            .offline(core.difference(online).iter())
            .capacity(*capacity)
            .package(known_package.or(package).unwrap_or(-1))
            .node(known_node.or(node).unwrap_or(0));
        match lanes(core, cpus).find_map(|facts| facts.cache.as_ref()) {
            None => spec,
            Some(cache) => {
                let next = caches.len() as u32;
                let id = *caches.entry(cache).or_insert(next);
                spec.cache(cache.level.into(), id)
            }
        }
    };
    cores.iter().zip(capacities).map(spec).collect()
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
