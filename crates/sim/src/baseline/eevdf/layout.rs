//! The online lanes in levels, each balanced by itself: core, cache, node, machine (the kernel's
//! domains SMT, MC, PKG and NUMA), and which lanes are idle. And sets of lanes, one bit each, laid out like [`cpu_bits`](crate::task::cpu_bits).

use crate::engine::Engine;
use std::collections::BTreeMap;

const MS_NS: u64 = 1_000_000;

/// What the groups of a domain share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// A core; groups are its lanes.
    Core,
    /// A last-level cache; groups are cores.
    Cache,
    /// A node; groups are last-level caches.
    Node,
    /// Everything; groups are nodes.
    Machine,
}

/// Lanes among whose groups load is balanced.
#[derive(Debug)]
pub(super) struct Domain {
    pub level: Level,
    pub lanes: LaneSet,
    pub groups: Vec<LaneSet>,
    /// Between two balancings, ns: 1 ms a lane.
    pub period_ns: u64,
}

/// Where an online lane is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Position {
    core: usize,
    cache: usize,
    node: usize,
}

/// The online lanes.
#[derive(Debug)]
pub(super) struct Layout {
    pub online: LaneSet,
    /// Inner ones first.
    pub domains: Vec<Domain>,
    /// By CPU number: its domains, inner ones first.
    pub domains_of: Vec<Vec<usize>>,
    positions: Vec<Position>,
    /// Online lanes of each core.
    cores: Vec<LaneSet>,
    /// Online lanes of each last-level cache.
    caches: Vec<LaneSet>,
}

impl Layout {
    pub fn of(engine: &Engine) -> Layout {
        let nr_lanes = engine.machine.nr_lanes;
        let machine_cores = &engine.machine.cores;
        let set = || LaneSet::new(nr_lanes);
        let nr_caches = machine_cores
            .iter()
            .map(|core| core.cache as usize + 1)
            .max();
        let mut layout = Layout {
            online: set(),
            domains: Vec::new(),
            domains_of: vec![Vec::new(); nr_lanes],
            positions: vec![Position::default(); nr_lanes],
            cores: vec![set(); machine_cores.len()],
            caches: vec![set(); nr_caches.unwrap_or(0)],
        };
        for cpu in (0..nr_lanes as u32).filter(|&cpu| engine.lane(cpu).is_some()) {
            let core = engine.lanes[cpu as usize].core;
            let cache = machine_cores[core].cache as usize;
            let node = machine_cores[core].node as usize;
            layout.positions[cpu as usize] = Position { core, cache, node };
            layout.online.set(cpu, true);
            layout.cores[core].set(cpu, true);
            layout.caches[cache].set(cpu, true);
        }
        for level in [Level::Core, Level::Cache, Level::Node, Level::Machine] {
            layout.add_level(level, nr_lanes);
        }
        layout
    }

    /// Adds the domains of a level that have anything to balance.
    fn add_level(&mut self, level: Level, nr_lanes: usize) {
        let mut spans: BTreeMap<usize, BTreeMap<(usize, usize), LaneSet>> = BTreeMap::new();
        for cpu in self.online.iter() {
            let Position { core, cache, node } = self.positions[cpu as usize];
            let (span, group) = match level {
                Level::Core => (core, (cpu as usize, 0)),
                // A cache that two nodes share is two domains: the levels are to be nested.
                Level::Cache => (cache + node * self.caches.len(), (core, 0)),
                Level::Node => (node, (cache, 0)),
                Level::Machine => (0, (node, 0)),
            };
            let groups = spans.entry(span).or_default();
            let lanes = groups
                .entry(group)
                .or_insert_with(|| LaneSet::new(nr_lanes));
            lanes.set(cpu, true);
        }
        for groups in spans.into_values().filter(|groups| groups.len() > 1) {
            let mut lanes = LaneSet::new(nr_lanes);
            for cpu in groups.values().flat_map(LaneSet::iter) {
                lanes.set(cpu, true);
                self.domains_of[cpu as usize].push(self.domains.len());
            }
            self.domains.push(Domain {
                level,
                period_ns: lanes.len() as u64 * MS_NS,
                lanes,
                groups: groups.into_values().collect(),
            });
        }
    }

    /// Online lanes of the core of a lane.
    pub fn core_lanes(&self, cpu: u32) -> &LaneSet {
        &self.cores[self.positions[cpu as usize].core]
    }

    /// Online lanes on the last-level cache of a lane.
    pub fn cache_lanes(&self, cpu: u32) -> &LaneSet {
        &self.caches[self.positions[cpu as usize].cache]
    }

    pub fn share_cache(&self, a: u32, b: u32) -> bool {
        self.positions[a as usize].cache == self.positions[b as usize].cache
    }

    /// How far two lanes are from each other: same core, cache, node, further.
    pub fn distance(&self, a: u32, b: u32) -> usize {
        let (a, b) = (self.positions[a as usize], self.positions[b as usize]);
        match () {
            () if a.node != b.node => 3,
            () if a.cache != b.cache => 2,
            () if a.core != b.core => 1,
            () => 0,
        }
    }
}

/// What a lane has to do.
#[derive(Debug, Clone, Copy)]
pub(super) struct LaneLoad {
    pub nr_runnable: usize,
    /// Of these, `SCHED_IDLE`.
    pub nr_idle_policy: usize,
    /// There are tasks of another scheduling class: they run only if there is nothing else, but the lane is not idle.
    pub taken: bool,
}

/// Which online lanes have how much to do.
#[derive(Debug, Default)]
pub(super) struct Occupancy {
    /// With no runnable task, of any scheduling class.
    pub idle: LaneSet,
    /// With none but `SCHED_IDLE` tasks, at least one.
    pub idle_policy: LaneSet,
    /// With at least two runnable tasks.
    pub overloaded: LaneSet,
    /// Lanes of cores that are wholly idle.
    pub idle_cores: LaneSet,
    /// Busy lanes of each core.
    busy: Vec<usize>,
}

impl Occupancy {
    /// All online lanes idle.
    pub fn of(layout: &Layout) -> Occupancy {
        let none = || LaneSet::new(layout.positions.len());
        Occupancy {
            idle: layout.online.clone(),
            idle_policy: none(),
            overloaded: none(),
            idle_cores: layout.online.clone(),
            busy: vec![0; layout.cores.len()],
        }
    }

    /// A lane has so much to do now.
    pub fn update(&mut self, layout: &Layout, cpu: u32, lane: LaneLoad) {
        let nr_runnable = lane.nr_runnable;
        let is_lax = nr_runnable > 0 && nr_runnable == lane.nr_idle_policy && !lane.taken;
        self.idle_policy.set(cpu, is_lax);
        self.overloaded.set(cpu, nr_runnable > 1);
        let is_idle = nr_runnable == 0 && !lane.taken;
        let was_idle = self.idle.contains(cpu);
        if was_idle == is_idle {
            return;
        }
        self.idle.set(cpu, is_idle);
        let busy = &mut self.busy[layout.positions[cpu as usize].core];
        *busy = if is_idle { *busy - 1 } else { *busy + 1 };
        if *busy == usize::from(!is_idle) {
            for sibling in layout.core_lanes(cpu).iter() {
                self.idle_cores.set(sibling, is_idle);
            }
        }
    }

    /// Busy lanes of the core of a lane.
    pub fn busy_siblings(&self, layout: &Layout, cpu: u32) -> usize {
        self.busy[layout.positions[cpu as usize].core]
    }
}

/// A set of lanes by CPU number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LaneSet(Box<[u64]>);

impl LaneSet {
    pub fn new(nr_lanes: usize) -> LaneSet {
        LaneSet(vec![0; nr_lanes.div_ceil(64)].into_boxed_slice())
    }

    pub fn set(&mut self, cpu: u32, member: bool) {
        if let Some(word) = self.0.get_mut(cpu as usize / 64) {
            let bit = 1 << (cpu % 64);
            *word = if member { *word | bit } else { *word & !bit };
        }
    }

    pub fn contains(&self, cpu: u32) -> bool {
        self.word(cpu as usize / 64) >> (cpu % 64) & 1 == 1
    }

    /// How many words it has.
    pub fn words(&self) -> usize {
        self.0.len()
    }

    pub fn word(&self, index: usize) -> u64 {
        self.0.get(index).copied().unwrap_or(0)
    }

    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    pub fn intersects(&self, other: &LaneSet) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        members(self.words(), |index| self.word(index))
    }

    /// The lanes that both have.
    pub fn common<'a>(&'a self, other: &'a LaneSet) -> impl Iterator<Item = u32> + 'a {
        members(self.words(), |index| self.word(index) & other.word(index))
    }
}

/// The lanes whose bits are set in these words, in order.
pub(super) fn members(words: usize, word: impl Fn(usize) -> u64) -> impl Iterator<Item = u32> {
    (0..words).flat_map(move |index| {
        let mut bits = word(index);
        std::iter::from_fn(move || {
            let bit = (bits != 0).then(|| bits.trailing_zeros())?;
            bits &= bits - 1;
            Some(index as u32 * 64 + bit)
        })
    })
}

/// The first lane from `start` on whose bit is set in these words, going round.
pub(super) fn first_from(start: u32, words: usize, word: impl Fn(usize) -> u64) -> Option<u32> {
    if words == 0 {
        return None;
    }
    let start = if (start as usize) < words * 64 {
        start
    } else {
        0
    };
    let (first, from_start) = (start as usize / 64, u64::MAX << (start % 64));
    // The word with the start is looked at twice: from there on, and at last up to there.
    for step in 0..=words {
        let index = (first + step) % words;
        let mask = match step {
            0 => from_start,
            _ if step == words => !from_start,
            _ => u64::MAX,
        };
        let bits = word(index) & mask;
        if bits != 0 {
            return Some(index as u32 * 64 + bits.trailing_zeros());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_goes_round() {
        let mut set = LaneSet::new(130);
        assert_eq!(first_from(5, set.words(), |i| set.word(i)), None);
        for cpu in [3, 70, 129] {
            set.set(cpu, true);
        }
        let from = |set: &LaneSet, start| first_from(start, set.words(), |i| set.word(i));
        let found = [0, 3, 4, 70, 71, 129, 130, 500].map(|start| from(&set, start));
        let wanted = [3, 3, 70, 70, 129, 129, 3, 3].map(Some);
        assert_eq!(found, wanted);
        assert_eq!(set.iter().collect::<Vec<_>>(), [3, 70, 129]);
        set.set(129, false);
        assert_eq!(from(&set, 100), Some(3));
        assert_eq!(
            (set.len(), set.contains(70), set.contains(129)),
            (2, true, false)
        );
    }
}
