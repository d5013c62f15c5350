//! The description of a machine and the questions asked of it.

use crate::{CpuList, Smt};
use serde::{Serialize, Serializer};

/// The capacity of the fastest core; all others are relative to it.
pub const CAPACITY_MAX: u32 = 1024;

/// A machine: packages, NUMA nodes, last-level caches, cores and lanes. Never without a core.
///
/// Every placed CPU is a lane of exactly one core. A CPU that is offline does not say which core
/// it belongs to (the kernel removes its topology folder), so most offline CPUs are
/// [unplaced](Topology::unplaced) and the lanes of a core are those that are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    pub(crate) packages: Vec<Package>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) caches: Vec<Cache>,
    pub(crate) cores: Vec<Core>,
    /// For each CPU number below `nr_cpu_ids`: its core index and lane index.
    pub(crate) places: Vec<Option<(usize, usize)>>,
    pub(crate) possible: CpuList,
    pub(crate) present: CpuList,
    pub(crate) online: CpuList,
    pub(crate) smt: Smt,
    pub(crate) capacity_source: CapacitySource,
    pub(crate) notes: Vec<String>,
}

/// A package (socket).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Package {
    /// Position in [`Topology::packages`], ascending with `id`.
    pub index: usize,
    /// The kernel's `physical_package_id`; -1 where the kernel does not know it.
    pub id: i32,
    /// Indices of its cores.
    pub cores: Vec<usize>,
}

/// A NUMA node that has cores. A machine that reports no nodes has one, with id 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// Position in [`Topology::nodes`], ascending with `id`.
    pub index: usize,
    /// The kernel's node number.
    pub id: u32,
    /// Indices of its cores.
    pub cores: Vec<usize>,
}

/// A last-level cache, or the package in its place where the machine reports no caches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cache {
    /// Position in [`Topology::caches`], ascending with package, node and lowest CPU number.
    pub index: usize,
    /// Its level, 3 for an L3 cache. `None`: no cache information, the package stands in.
    pub level: Option<u32>,
    /// Indices of its cores.
    pub cores: Vec<usize>,
}

/// A physical core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Core {
    /// Position in [`Topology::cores`]: by tier, then package, node, cache and lowest CPU number, all
    /// ascending.
    pub index: usize,
    /// Index of its package.
    pub package: usize,
    /// Index of its NUMA node.
    pub node: usize,
    /// Index of its last-level cache.
    pub cache: usize,
    /// Speed relative to the fastest core, which has [`CAPACITY_MAX`]; never 0.
    pub capacity: u32,
    /// Kind of core by speed, 0 the fastest. Cores within 10 % of the fastest of their tier share
    /// it: what single cores can turbo above their like does not make them another kind. Where each
    /// core is near the next one and the ends are further apart, the fastest core below 90 % of the
    /// fastest of a tier begins the next tier.
    pub tier: usize,
    /// Its known lanes, CPU numbers ascending; never empty.
    pub lanes: Vec<Lane>,
}

/// A lane: one hardware thread of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Lane {
    /// The kernel's CPU number.
    pub cpu: u32,
    /// Index of its core.
    pub core: usize,
    /// Position in its core's lanes, 0... Where offline CPUs are unplaced it counts known lanes
    /// only, so it can differ after a CPU has come online.
    pub index: usize,
    /// Whether the kernel runs work on it.
    pub online: bool,
}

/// Where the capacities of cores come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapacitySource {
    /// The kernel's `cpu_capacity`.
    CpuCapacity,
    /// The maximum frequency, `cpufreq/cpuinfo_max_freq`.
    MaxFrequency,
    /// Given by whoever built the machine by hand.
    Given,
    /// Nothing tells the cores apart: all have [`CAPACITY_MAX`].
    Equal,
}

/// How far apart two cores are, nearest first: what a steal barrier depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distance {
    /// The same core.
    SameCore,
    /// Another core on the same last-level cache.
    SameCache,
    /// Another cache of the same package and NUMA node.
    SameNode,
    /// Another NUMA node or another package.
    OtherNode,
}

impl Core {
    /// Its online lanes.
    pub fn online_lanes(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.iter().filter(|lane| lane.online)
    }

    /// The CPU numbers of its known lanes.
    pub fn cpus(&self) -> CpuList {
        self.lanes.iter().map(|lane| lane.cpu).collect()
    }
}

impl Topology {
    /// The packages, by id.
    pub fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// The NUMA nodes that have cores, by id.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The last-level caches, by package, node and lowest CPU number.
    pub fn caches(&self) -> &[Cache] {
        &self.caches
    }

    /// The cores, by core index.
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    /// CPU numbers of the online lanes of each core that has any, ascending.
    pub fn online_by_core(&self) -> Vec<Vec<u32>> {
        let cpus = |core: &Core| -> Vec<u32> { core.online_lanes().map(|lane| lane.cpu).collect() };
        let cores = self.cores.iter().map(cpus);
        cores.filter(|cpus| !cpus.is_empty()).collect()
    }

    /// The known lanes, core by core, offline ones included.
    pub fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.cores.iter().flat_map(|core| &core.lanes)
    }

    /// The lane with this CPU number; `None` for an unplaced or impossible CPU.
    pub fn lane(&self, cpu: u32) -> Option<&Lane> {
        let (core, lane) = (*self.places.get(usize::try_from(cpu).ok()?)?)?;
        self.cores.get(core)?.lanes.get(lane)
    }

    /// The core that this CPU is a lane of; `None` for an unplaced or impossible CPU.
    pub fn core_of(&self, cpu: u32) -> Option<&Core> {
        self.lane(cpu).and_then(|lane| self.cores.get(lane.core))
    }

    /// The other known lanes of this CPU's core, offline ones included.
    pub fn siblings(&self, cpu: u32) -> impl Iterator<Item = &Lane> {
        let lanes = self.core_of(cpu).map_or(&[][..], |core| &core.lanes);
        lanes.iter().filter(move |lane| lane.cpu != cpu)
    }

    /// The most known lanes that a core has, offline ones included; at least 1.
    pub fn lanes_per_core_max(&self) -> usize {
        self.cores
            .iter()
            .map(|core| core.lanes.len())
            .max()
            .unwrap_or(1)
    }

    /// How far core `a` is from core `b`; `None` if either index is out of range.
    pub fn distance(&self, a: usize, b: usize) -> Option<Distance> {
        let (a, b) = (self.cores.get(a)?, self.cores.get(b)?);
        Some(if a.index == b.index {
            Distance::SameCore
        } else if a.cache == b.cache {
            Distance::SameCache
        } else if a.package == b.package && a.node == b.node {
            Distance::SameNode
        } else {
            Distance::OtherNode
        })
    }

    /// One more than the highest possible CPU number: the size of an array indexed by CPU.
    pub fn nr_cpu_ids(&self) -> usize {
        self.places.len()
    }

    /// CPUs that could ever be there.
    pub fn possible(&self) -> &CpuList {
        &self.possible
    }

    /// CPUs that are plugged in.
    pub fn present(&self) -> &CpuList {
        &self.present
    }

    /// CPUs that the kernel runs work on.
    pub fn online(&self) -> &CpuList {
        &self.online
    }

    /// CPUs that are plugged in and that the kernel runs no work on.
    pub fn offline(&self) -> CpuList {
        self.present.difference(&self.online)
    }

    /// Offline CPUs of which nothing tells whose lane they are.
    pub fn unplaced(&self) -> CpuList {
        self.offline()
            .iter()
            .filter(|cpu| self.lane(*cpu).is_none())
            .collect()
    }

    /// The kernel's SMT control.
    pub fn smt(&self) -> Smt {
        self.smt
    }

    /// Where the capacities come from.
    pub fn capacity_source(&self) -> CapacitySource {
        self.capacity_source
    }

    /// What is unknown because a file of the machine is wrong: each names the file, what it holds and
    /// what was expected.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// By tier, the capacity of its fastest core: what schedulers go by, so that no core is
    /// preferred to its like.
    pub fn tier_capacities(&self) -> Vec<u32> {
        let mut capacities: Vec<u32> = Vec::new();
        for core in &self.cores {
            if core.tier == capacities.len() {
                capacities.push(core.capacity);
            }
            capacities[core.tier] = capacities[core.tier].max(core.capacity);
        }
        capacities
    }

    /// Whether all cores have the same capacity.
    pub fn capacities_equal(&self) -> bool {
        self.cores.iter().all(|core| core.capacity == CAPACITY_MAX)
    }
}

/// What a serialised topology holds. CPU lists are strings in the kernel's list form; packages,
/// nodes, caches and cores refer to each other by `index`; `id` is the kernel's number.
#[derive(Serialize)]
struct Document<'a> {
    possible: &'a CpuList,
    present: &'a CpuList,
    online: &'a CpuList,
    offline: CpuList,
    unplaced: CpuList,
    nr_cpu_ids: usize,
    lanes_per_core_max: usize,
    smt: Smt,
    capacity_source: CapacitySource,
    notes: &'a [String],
    packages: &'a [Package],
    nodes: &'a [Node],
    caches: &'a [Cache],
    cores: &'a [Core],
}

impl Serialize for Topology {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Document {
            possible: self.possible(),
            present: self.present(),
            online: self.online(),
            offline: self.offline(),
            unplaced: self.unplaced(),
            nr_cpu_ids: self.nr_cpu_ids(),
            lanes_per_core_max: self.lanes_per_core_max(),
            smt: self.smt(),
            capacity_source: self.capacity_source(),
            notes: self.notes(),
            packages: self.packages(),
            nodes: self.nodes(),
            caches: self.caches(),
            cores: self.cores(),
        }
        .serialize(serializer)
    }
}
