//! The machine: cores, lanes, how they slow each other down, and what things cost.

use crate::{Error, Result};
use sidelane_topology::Topology;
use std::collections::BTreeMap;

/// What things cost, ns of a lane's time. The defaults are assumed: of the order that current
/// servers show, not measured on any one of them.
///
/// | cost | default | what it stands for |
/// | --- | --- | --- |
/// | `switch_ns` | 1,500 | registers, address space and first misses of a context switch |
/// | `resume_ns` | as `switch_ns` | the same, where nothing else ran on the lane meanwhile |
/// | `refill_ns` | 0 | caches that others displaced: as long as they ran on the lane meanwhile, at most this |
/// | `kick_ns` | 1,000 | an interrupt from one lane to another |
/// | `idle_exit_ns` | 2,000 | leaving a shallow idle state |
/// | `migrate_core_ns` | 0 | besides, to another lane of the same core: the caches are the same |
/// | `migrate_cache_ns` | 5,000 | to a core on the same last-level cache: private caches refill |
/// | `migrate_node_ns` | 20,000 | to another last-level cache of the node |
/// | `migrate_remote_ns` | 40,000 | to another node |
/// | `tick_ns` | 4,000,000 | between two ticks of a busy lane (HZ = 250) |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// A context switch: the lane is busy, the task does not progress.
    pub switch_ns: u64,
    /// A task that goes on where it slept, and nothing else ran there meanwhile; none: as a switch.
    pub resume_ns: Option<u64>,
    /// Besides a switch, a task fills the caches again that others displaced: the lane is busy, the task
    /// does not progress, for as long as others ran there since it left, at most this. In full on another
    /// core.
    pub refill_ns: u64,
    /// From asking another lane to look until it does.
    pub kick_ns: u64,
    /// What an idle lane needs besides before it looks.
    pub idle_exit_ns: u64,
    /// A switch to another lane of the core that the task ran on last costs so much more.
    pub migrate_core_ns: u64,
    /// The same for another core on the same last-level cache.
    pub migrate_cache_ns: u64,
    /// The same for another last-level cache of the node.
    pub migrate_node_ns: u64,
    /// The same for another node.
    pub migrate_remote_ns: u64,
    /// Between two ticks of a busy lane; not 0.
    pub tick_ns: u64,
}

impl Default for Costs {
    fn default() -> Self {
        Costs {
            switch_ns: 1_500,
            resume_ns: None,
            refill_ns: 0,
            kick_ns: 1_000,
            idle_exit_ns: 2_000,
            migrate_core_ns: 0,
            migrate_cache_ns: 5_000,
            migrate_node_ns: 20_000,
            migrate_remote_ns: 40_000,
            tick_ns: 4_000_000,
        }
    }
}

impl Costs {
    /// Nothing costs anything: what queueing theory assumes.
    pub fn none() -> Costs {
        Costs {
            switch_ns: 0,
            resume_ns: None,
            refill_ns: 0,
            kick_ns: 0,
            idle_exit_ns: 0,
            migrate_core_ns: 0,
            migrate_cache_ns: 0,
            migrate_node_ns: 0,
            migrate_remote_ns: 0,
            ..Costs::default()
        }
    }
}

/// How fast a lane is beside busy siblings.
#[derive(Debug, Clone, PartialEq)]
pub enum Interference {
    /// `[n - 1]` is the speed of a lane when n lanes of its core run, relative to a core with SMT off,
    /// whatever runs there. A core of which one lane is online has SMT off.
    ThreadPerf(Vec<f64>),
    /// `[a][b]` is the speed of a task of kind a beside one of kind b, relative to running alone;
    /// beside several, the product.
    Kinds(Vec<Vec<f64>>),
}

/// What a lane keeps of its speed beside a lane that is busy with no work, relative to running alone.
/// Source: vSMT-IO (USENIX ATC 2020), Table 2.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Beside {
    /// Beside one that switches tasks.
    pub switching: f64,
    /// Beside one whose task polls for a device.
    pub polling: f64,
}

/// A core as the simulator needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct Core {
    /// CPU numbers of its lanes, those that are offline too.
    pub lanes: Vec<u32>,
    /// Its speed: 1..=1024, relative to the fastest.
    pub capacity: u32,
    /// What schedulers take for its speed: that of the fastest core of its
    /// [tier](sidelane_topology::Core::tier).
    pub tier_capacity: u32,
    /// Index of its last-level cache.
    pub cache: u32,
    /// Index of its (package, NUMA node).
    pub node: u32,
}

/// A machine to simulate.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// All cores, the fastest kind first.
    pub cores: Vec<Core>,
    /// By CPU number, whether the lane is online at the start.
    pub online: Vec<bool>,
    /// Highest CPU number + 1.
    pub nr_lanes: usize,
    /// How fast lanes are.
    pub interference: Interference,
    /// Beside lanes that switch or poll; none: as beside any busy one.
    pub beside: Option<Beside>,
    /// `[n - 1]`: what lanes keep of that speed when n lanes of their core are online; beyond its end all. Source:
    /// POWER7's "constant performance overhead due to SMT4" (Inoue and Nakatani 2014).
    pub level_perf: Vec<f64>,
    /// By kind of task, which part of its time alone it waits for memory, 0 to 1: what counters of cache misses
    /// tell ([`Settings::symbiotic`](sidelane_policy::Settings)). Kinds beyond: 0.
    pub misses: Vec<f64>,
    /// What things cost.
    pub costs: Costs,
}

impl Machine {
    /// `[n - 1]`: speed of a lane when n lanes of its core run; empty where it depends on the kinds of tasks.
    pub fn thread_perf(&self) -> &[f64] {
        match &self.interference {
            Interference::ThreadPerf(speeds) => speeds,
            Interference::Kinds(_) => &[],
        }
    }

    /// The machine of a topology.
    ///
    /// # Errors
    /// [`Error::BadMachine`] if a speed is not in (0, 1], threadPerf has fewer numbers than a core
    /// has lanes, a table is not square, or no lane is online.
    pub fn new(topology: &Topology, interference: Interference, costs: Costs) -> Result<Machine> {
        let mut nodes = BTreeMap::new();
        let capacities = topology.tier_capacities();
        let (mut cores, mut online) = (Vec::new(), vec![false; topology.nr_cpu_ids()]);
        for core in topology.cores() {
            let lanes = core.lanes.iter().map(|lane| lane.cpu).collect();
            for lane in core.online_lanes() {
                online[lane.cpu as usize] = true;
            }
            let next_node = nodes.len() as u32;
            cores.push(Core {
                lanes,
                capacity: core.capacity,
                tier_capacity: capacities[core.tier],
                cache: core.cache as u32,
                node: *nodes.entry((core.package, core.node)).or_insert(next_node),
            });
        }
        if !online.contains(&true) {
            return Err(Error::BadMachine("no lane is online".into()));
        }
        interference.check(topology.lanes_per_core_max())?;
        if costs.tick_ns == 0 {
            return Err(Error::BadMachine("a tick of 0 ns never ends".into()));
        }
        Ok(Machine {
            nr_lanes: topology.nr_cpu_ids(),
            cores,
            online,
            interference,
            beside: None,
            level_perf: Vec::new(),
            misses: Vec::new(),
            costs,
        })
    }

    /// What lanes keep of their speed when so many of their core are online.
    pub(crate) fn kept_at_level(&self, online: usize) -> f64 {
        let index = online.saturating_sub(1);
        self.level_perf.get(index).copied().unwrap_or(1.0)
    }

    /// Whether the number of online lanes of a core changes the speed of one that is busy.
    pub(crate) fn has_overhead(&self) -> bool {
        !self.level_perf.is_empty() || self.interference.has_overhead()
    }

    /// The same with only the first so many online lanes of each core.
    pub fn with_lanes(&self, lanes: usize) -> Machine {
        let mut machine = self.clone();
        for core in &machine.cores {
            for &cpu in self.online_lanes(core).iter().skip(lanes) {
                machine.online[cpu as usize] = false;
            }
        }
        machine
    }

    /// Its cores and lanes that are online, in words.
    pub(crate) fn text(&self) -> String {
        let lanes = self.cores.iter().map(|core| self.online_lanes(core).len());
        cores_text(&lanes.filter(|&lanes| lanes > 0).collect::<Vec<_>>())
    }

    /// The lanes of a core that are online, in its order.
    pub(crate) fn online_lanes(&self, core: &Core) -> Vec<u32> {
        let online = |cpu: &u32| self.online[*cpu as usize];
        core.lanes.iter().copied().filter(online).collect()
    }

    /// What whole cores with a lane that is online can do together, in fastest cores.
    pub fn capacity(&self) -> f64 {
        let is_online = |core: &&Core| core.lanes.iter().any(|cpu| self.online[*cpu as usize]);
        let online = self.cores.iter().filter(is_online);
        online.map(|core| f64::from(core.capacity) / 1024.0).sum()
    }

    /// What a switch to a task costs that ran on another lane last: the two cores, and whether the
    /// lanes are the same.
    pub(crate) fn migration_ns(&self, from: usize, to: usize) -> u64 {
        let (a, b) = (&self.cores[from], &self.cores[to]);
        match () {
            () if from == to => self.costs.migrate_core_ns,
            () if a.node != b.node => self.costs.migrate_remote_ns,
            () if a.cache != b.cache => self.costs.migrate_node_ns,
            () => self.costs.migrate_cache_ns,
        }
    }
}

/// The speed of a lane by threadPerf, when so many lanes of its core are online and so many run: with one online SMT
/// is off.
pub(crate) fn speed_of_lane(thread_perf: &[f64], online: usize, running: usize) -> f64 {
    match online {
        0 | 1 => 1.0,
        _ => thread_perf[running.max(1) - 1],
    }
}

impl Interference {
    /// Whether SMT costs a lane something though its siblings are idle.
    fn has_overhead(&self) -> bool {
        match self {
            Interference::ThreadPerf(speeds) => speeds.first().is_some_and(|alone| *alone < 1.0),
            Interference::Kinds(_) => false,
        }
    }

    fn check(&self, widest: usize) -> Result<()> {
        let sound = |speed: &f64| *speed > 0.0 && *speed <= 1.0;
        match self {
            Interference::ThreadPerf(speeds) => {
                if speeds.len() < widest || !speeds.iter().all(sound) {
                    return Err(Error::BadMachine(format!(
                        "threadPerf {speeds:?}: give a number in (0, 1] for each of {widest} lanes"
                    )));
                }
            }
            Interference::Kinds(table) => {
                let square = table.iter().all(|row| row.len() == table.len());
                if table.is_empty() || !square || !table.iter().flatten().all(sound) {
                    return Err(Error::BadMachine(
                        "the interference table needs a row and a column for each kind of task, \
                         and speeds in (0, 1]"
                            .into(),
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Cores by the lanes that they have, those with the most first: lanes and cores.
pub(crate) fn groups(lanes: impl Iterator<Item = usize>) -> Vec<(usize, usize)> {
    let mut groups = BTreeMap::new();
    for lanes in lanes {
        *groups.entry(lanes).or_insert(0) += 1;
    }
    groups.into_iter().rev().collect()
}

/// `4 cores with 2 lanes each, 8 cores with 1 lane each`, from the lanes of each core.
pub(crate) fn cores_text(lanes: &[usize]) -> String {
    let group = |(lanes, cores)| {
        let each = if cores == 1 { "" } else { " each" };
        format!(
            "{} with {}{each}",
            plural(cores, "core"),
            plural(lanes, "lane")
        )
    };
    let groups = groups(lanes.iter().copied()).into_iter().map(group);
    groups.collect::<Vec<_>>().join(", ")
}

fn plural(count: usize, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {what}{s}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidelane_topology::Regular;

    fn two_by_two() -> Topology {
        Topology::regular(&Regular::one_package(2, 2)).unwrap()
    }

    #[test]
    fn a_bad_machine_is_refused() {
        let refused =
            |interference| Machine::new(&two_by_two(), interference, Costs::none()).is_err();
        assert!(refused(Interference::ThreadPerf(vec![1.0])));
        assert!(!refused(Interference::ThreadPerf(vec![0.9, 0.5])));
        assert!(refused(Interference::ThreadPerf(vec![1.1, 0.5])));
        assert!(refused(Interference::ThreadPerf(vec![0.0, 0.5])));
        assert!(refused(Interference::ThreadPerf(vec![1.0, 0.0])));
        assert!(refused(Interference::ThreadPerf(vec![1.0, f64::NAN])));
        assert!(refused(Interference::Kinds(vec![vec![1.0, 0.5]])));
        assert!(!refused(Interference::Kinds(vec![vec![0.5]])));
        let timeless = Costs {
            tick_ns: 0,
            ..Costs::none()
        };
        let speeds = Interference::ThreadPerf(vec![1.0, 0.5]);
        assert!(Machine::new(&two_by_two(), speeds, timeless).is_err());
    }
}
