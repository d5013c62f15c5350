//! Builds a [`Topology`] from cores listed one by one. The sysfs reader uses it too, so every
//! topology satisfies the same rules.

use crate::machine::{CAPACITY_MAX, CapacitySource, Core, Lane, Topology};
use crate::{CPU_MAX, Cache, CpuList, Node, Package, Smt};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Cores whose capacity is at least this share (in percent) of their tier's fastest share its tier.
/// Cores of one design differ in their highest frequency by 5 % and more (13900K: 5.8 and 5.5 GHz), those
/// of two designs by far more.
const TIER_SHARE_PERCENT: u32 = 90;

/// One core of a machine under construction.
///
/// Unless said otherwise: package 0, node 0, no cache information, capacity equal to other cores
/// left as they are, all lanes online.
#[derive(Clone, Debug)]
pub struct CoreSpec {
    cpus: Vec<u32>,
    offline: CpuList,
    capacity: u64,
    package: i32,
    node: u32,
    cache: Option<CacheKey>,
}

/// What identifies a cache: its level and a number, unique within the level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CacheKey {
    level: u32,
    id: u32,
}

impl CoreSpec {
    /// A core with these lanes, by CPU number.
    pub fn new(cpus: impl IntoIterator<Item = u32>) -> Self {
        CoreSpec {
            cpus: cpus.into_iter().collect(),
            offline: CpuList::new(),
            capacity: u64::from(CAPACITY_MAX),
            package: 0,
            node: 0,
            cache: None,
        }
    }

    /// Its speed in any unit, the same for all cores; the fastest core becomes 1024.
    pub fn capacity(mut self, capacity: u64) -> Self {
        self.capacity = capacity;
        self
    }

    /// The id of its package.
    pub fn package(mut self, id: i32) -> Self {
        self.package = id;
        self
    }

    /// The id of its NUMA node.
    pub fn node(mut self, id: u32) -> Self {
        self.node = id;
        self
    }

    /// Its last-level cache: cores with the same level and id share it.
    pub fn cache(mut self, level: u32, id: u32) -> Self {
        self.cache = Some(CacheKey { level, id });
        self
    }

    /// Which of its lanes are offline.
    pub fn offline(mut self, cpus: impl IntoIterator<Item = u32>) -> Self {
        self.offline = cpus.into_iter().collect();
        self
    }

    fn first_cpu(&self) -> u32 {
        self.cpus.iter().copied().min().unwrap_or(0)
    }
}

/// Collects cores and builds a [`Topology`].
#[derive(Clone, Debug, Default)]
pub struct Builder {
    cores: Vec<CoreSpec>,
    possible: CpuList,
    present: CpuList,
    smt: Smt,
    capacity_source: Option<CapacitySource>,
    notes: Vec<String>,
}

/// Why cores do not make a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// No core was given.
    #[error("a machine needs at least one core")]
    NoCores,
    /// A core without lanes.
    #[error("core {0} of those given has no lanes; give it at least one CPU number")]
    NoLanes(usize),
    /// A CPU that is a lane twice.
    #[error("CPU {0} is given as a lane twice; each CPU belongs to one core")]
    CpuTwice(u32),
    /// A CPU number above [`CPU_MAX`].
    #[error("CPU {0} is above the highest number accepted, {CPU_MAX}")]
    CpuTooLarge(u32),
    /// A core of capacity 0.
    #[error("the core of CPU {0} has capacity 0; capacities are at least 1")]
    NoCapacity(u32),
    /// An offline CPU that is no lane of the core.
    #[error("CPU {0} is marked offline in a core that it is no lane of")]
    OfflineElsewhere(u32),
    /// No lane of any core is online.
    #[error("no lane is online; at least one must be")]
    NothingOnline,
}

impl Builder {
    /// A machine without cores yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a core. The order in which cores are added does not matter.
    pub fn core(mut self, core: CoreSpec) -> Self {
        self.cores.push(core);
        self
    }

    /// CPUs that could ever be there, beside the lanes of the cores.
    pub fn possible(mut self, cpus: CpuList) -> Self {
        self.possible = cpus;
        self
    }

    /// CPUs that are plugged in, beside the lanes of the cores; those are offline and unplaced.
    pub fn present(mut self, cpus: CpuList) -> Self {
        self.present = cpus;
        self
    }

    /// The state of SMT control.
    pub fn smt(mut self, smt: Smt) -> Self {
        self.smt = smt;
        self
    }

    /// Where the capacities come from, if they differ; by default [`CapacitySource::Given`].
    pub fn capacity_source(mut self, source: CapacitySource) -> Self {
        self.capacity_source = Some(source);
        self
    }

    /// What is unknown of the machine because a file of it is wrong, a sentence each.
    pub fn notes(mut self, notes: Vec<String>) -> Self {
        self.notes = notes;
        self
    }

    /// Checks the cores, numbers them and builds the machine.
    pub fn build(self) -> Result<Topology, BuildError> {
        check(&self.cores)?;
        let groups = Groups::of(&self.cores);
        let cores = number(self.cores, &groups);
        let lanes: Vec<Lane> = cores.iter().flat_map(|core| core.lanes.clone()).collect();
        let cpus: CpuList = lanes.iter().map(|lane| lane.cpu).collect();
        let present: CpuList = self.present.iter().chain(cpus.iter()).collect();
        let possible: CpuList = self.possible.iter().chain(present.iter()).collect();

        let mut places = vec![None; possible.last().map_or(0, |cpu| cpu as usize + 1)];
        for lane in &lanes {
            places[lane.cpu as usize] = Some((lane.core, lane.index));
        }
        let mut machine = Topology {
            packages: groups.packages(&cores),
            nodes: groups.nodes(&cores),
            caches: groups.caches(&cores),
            cores,
            places,
            possible,
            present,
            online: lanes
                .iter()
                .filter(|lane| lane.online)
                .map(|lane| lane.cpu)
                .collect(),
            smt: self.smt,
            capacity_source: self.capacity_source.unwrap_or(CapacitySource::Given),
            notes: self.notes,
        };
        if machine.capacities_equal() {
            machine.capacity_source = CapacitySource::Equal;
        }
        Ok(machine)
    }
}

/// Refuses cores that make no machine.
fn check(cores: &[CoreSpec]) -> Result<(), BuildError> {
    if cores.is_empty() {
        return Err(BuildError::NoCores);
    }
    let mut seen = CpuList::new();
    for (position, core) in cores.iter().enumerate() {
        if core.cpus.is_empty() {
            return Err(BuildError::NoLanes(position));
        }
        if core.capacity == 0 {
            return Err(BuildError::NoCapacity(core.first_cpu()));
        }
        for &cpu in &core.cpus {
            if cpu > CPU_MAX {
                return Err(BuildError::CpuTooLarge(cpu));
            }
            if !seen.insert(cpu) {
                return Err(BuildError::CpuTwice(cpu));
            }
        }
        if let Some(cpu) = core.offline.iter().find(|cpu| !core.cpus.contains(cpu)) {
            return Err(BuildError::OfflineElsewhere(cpu));
        }
    }
    if cores
        .iter()
        .all(|core| core.cpus.iter().all(|cpu| core.offline.contains(*cpu)))
    {
        return Err(BuildError::NothingOnline);
    }
    Ok(())
}

/// What identifies the group of cores behind a last-level cache.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CacheId {
    Cache(CacheKey),
    /// No cache information: the package of this id stands in.
    Package(i32),
}

impl CoreSpec {
    fn cache_id(&self) -> CacheId {
        self.cache
            .map_or(CacheId::Package(self.package), CacheId::Cache)
    }
}

/// The index of every package, node and cache.
struct Groups {
    packages: BTreeMap<i32, usize>,
    nodes: BTreeMap<u32, usize>,
    caches: BTreeMap<CacheId, usize>,
}

impl Groups {
    fn of(cores: &[CoreSpec]) -> Groups {
        let packages: BTreeSet<i32> = cores.iter().map(|core| core.package).collect();
        let nodes: BTreeSet<u32> = cores.iter().map(|core| core.node).collect();
        let mut first: BTreeMap<CacheId, (i32, u32, u32)> = BTreeMap::new();
        for core in cores {
            let place = (core.package, core.node, core.first_cpu());
            let lowest = first.entry(core.cache_id()).or_insert(place);
            *lowest = place.min(*lowest);
        }
        let mut caches: Vec<(CacheId, (i32, u32, u32))> = first.into_iter().collect();
        caches.sort_by_key(|(_, place)| *place);
        Groups {
            packages: indexed(packages),
            nodes: indexed(nodes),
            caches: indexed(caches.into_iter().map(|(id, _)| id)),
        }
    }

    fn packages(&self, cores: &[Core]) -> Vec<Package> {
        let build = |(&id, &index): (&i32, &usize)| Package {
            index,
            id,
            cores: members(cores, |core| core.package == index),
        };
        self.packages.iter().map(build).collect()
    }

    fn nodes(&self, cores: &[Core]) -> Vec<Node> {
        let build = |(&id, &index): (&u32, &usize)| Node {
            index,
            id,
            cores: members(cores, |core| core.node == index),
        };
        self.nodes.iter().map(build).collect()
    }

    fn caches(&self, cores: &[Core]) -> Vec<Cache> {
        let build = |(&id, &index): (&CacheId, &usize)| Cache {
            index,
            level: match id {
                CacheId::Cache(key) => Some(key.level),
                CacheId::Package(_) => None,
            },
            cores: members(cores, |core| core.cache == index),
        };
        let mut caches: Vec<Cache> = self.caches.iter().map(build).collect();
        caches.sort_by_key(|cache| cache.index);
        caches
    }
}

/// Numbers ids 0.. in the order given.
fn indexed<Id: Ord>(ids: impl IntoIterator<Item = Id>) -> BTreeMap<Id, usize> {
    ids.into_iter()
        .enumerate()
        .map(|(index, id)| (id, index))
        .collect()
}

/// The indices of the cores that `belongs` picks.
fn members(cores: &[Core], belongs: impl Fn(&Core) -> bool) -> Vec<usize> {
    cores
        .iter()
        .filter(|core| belongs(core))
        .map(|core| core.index)
        .collect()
}

/// Puts the cores in their order and numbers them and their lanes.
fn number(specs: Vec<CoreSpec>, groups: &Groups) -> Vec<Core> {
    let fastest = specs.iter().map(|spec| spec.capacity).max().unwrap_or(1);
    let mut cores: Vec<Core> = specs
        .into_iter()
        .map(|spec| Core {
            index: 0,
            package: groups.packages[&spec.package],
            node: groups.nodes[&spec.node],
            cache: groups.caches[&spec.cache_id()],
            capacity: relative_capacity(spec.capacity, fastest),
            tier: 0,
            lanes: lanes(spec),
        })
        .collect();
    group_by_speed(&mut cores);
    cores.sort_by_key(|core| {
        (
            core.tier,
            core.package,
            core.node,
            core.cache,
            core.lanes[0].cpu,
        )
    });
    for (index, core) in cores.iter_mut().enumerate() {
        core.index = index;
        core.lanes.iter_mut().for_each(|lane| lane.core = index);
    }
    cores
}

/// Gives each core its tier. The fastest core begins a tier, and so does the fastest one that is not
/// within the tolerance of the first of the tier before: no two cores of a tier are further apart.
fn group_by_speed(cores: &mut [Core]) {
    cores.sort_by_key(|core| Reverse(core.capacity));
    let (mut tier, mut tier_top) = (0, CAPACITY_MAX);
    for core in cores {
        if core.capacity * 100 < tier_top * TIER_SHARE_PERCENT {
            (tier, tier_top) = (tier + 1, core.capacity);
        }
        core.tier = tier;
    }
}

/// The lanes of a core, CPU numbers ascending; the core index is filled in later.
fn lanes(spec: CoreSpec) -> Vec<Lane> {
    let mut cpus = spec.cpus;
    cpus.sort_unstable();
    let lane = |(index, cpu)| Lane {
        cpu,
        core: 0,
        index,
        online: !spec.offline.contains(cpu),
    };
    cpus.into_iter().enumerate().map(lane).collect()
}

/// `capacity` on the scale on which `fastest` is [`CAPACITY_MAX`], rounded, at least 1.
fn relative_capacity(capacity: u64, fastest: u64) -> u32 {
    let scaled = u128::from(capacity) * u128::from(CAPACITY_MAX) + u128::from(fastest) / 2;
    u32::try_from(scaled / u128::from(fastest))
        .unwrap_or(CAPACITY_MAX)
        .max(1)
}
