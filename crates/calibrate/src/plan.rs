//! What is measured: which cores, which of their lanes.

use super::error::{Error, Result};
use sidelane_topology::{Core, CpuList, SmtControl, Topology};

/// What is measured on a machine.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plan {
    /// Cores of a kind each, fastest first; those without a second lane are left out.
    pub groups: Vec<Group>,
    /// What is left out, and why.
    pub notes: Vec<String>,
}

/// Cores of one kind.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Group {
    /// Kind of core by speed, 0 the fastest.
    pub tier: usize,
    /// Capacity of the fastest of them, of 1024.
    pub capacity: u32,
    /// Lanes of each.
    pub lanes: usize,
    /// The cores that are measured.
    pub cores: Vec<CoreLanes>,
}

/// A core and those of its lanes that are online and allowed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CoreLanes {
    /// Index of the core.
    pub index: usize,
    /// CPU numbers of the lanes.
    pub cpus: Vec<u32>,
}

/// Chooses up to `cores_max` cores of each kind, spread over the machine. `allowed`: the CPUs that
/// this process may run on.
pub(super) fn plan(topology: &Topology, allowed: &CpuList, cores_max: usize) -> Result<Plan> {
    if topology
        .cores()
        .iter()
        .all(|core| core.online_lanes().count() < 2)
    {
        let hint = smt_hint(topology).to_owned();
        return Err(Error::NoSmt { hint });
    }
    let mut plan = Plan {
        groups: Vec::new(),
        notes: Vec::new(),
    };
    let tiers = topology.cores().iter().map(|core| core.tier).max();
    for tier in 0..=tiers.unwrap_or(0) {
        let of_tier = || topology.cores().iter().filter(|core| core.tier == tier);
        let usable: Vec<CoreLanes> = of_tier().map(|core| lanes_of(core, allowed)).collect();
        let lanes = usable.iter().map(|core| core.cpus.len()).max();
        let full: Vec<CoreLanes> = usable
            .into_iter()
            .filter(|core| Some(core.cpus.len()) == lanes)
            .collect();
        note_what_is_missing(&mut plan.notes, tier, of_tier(), allowed);
        if let Some(lanes @ 2..) = lanes {
            plan.groups.push(Group {
                tier,
                capacity: of_tier().map(|core| core.capacity).max().unwrap_or(0),
                lanes,
                cores: spread(&full, cores_max),
            });
        }
    }
    match plan.groups.is_empty() {
        true => Err(Error::NotAllowed {
            allowed: allowed.to_string(),
        }),
        false => Ok(plan),
    }
}

fn lanes_of(core: &Core, allowed: &CpuList) -> CoreLanes {
    let cpus = core.online_lanes().map(|lane| lane.cpu);
    CoreLanes {
        index: core.index,
        cpus: cpus.filter(|cpu| allowed.contains(*cpu)).collect(),
    }
}

/// Says which lanes are not measured because they are forbidden, and which kinds of core have but
/// one lane.
fn note_what_is_missing<'a>(
    notes: &mut Vec<String>,
    tier: usize,
    cores: impl Iterator<Item = &'a Core> + Clone,
    allowed: &CpuList,
) {
    let online = cores.clone().flat_map(Core::online_lanes);
    let forbidden: CpuList = online
        .map(|lane| lane.cpu)
        .filter(|cpu| !allowed.contains(*cpu))
        .collect();
    if !forbidden.is_empty() {
        notes.push(format!(
            "CPUs {forbidden} are not used: this process's affinity or cpuset forbids them"
        ));
    }
    if cores.clone().all(|core| core.online_lanes().count() < 2) && cores.clone().next().is_some() {
        notes.push(format!(
            "the {} cores of kind {tier} have one lane online each: threadPerf 1",
            cores.count()
        ));
    }
}

/// Up to `count` of these, evenly spread.
fn spread(cores: &[CoreLanes], count: usize) -> Vec<CoreLanes> {
    let count = count.clamp(1, cores.len().max(1));
    let at = |index: usize| (2 * index + 1) * cores.len() / (2 * count);
    (0..count)
        .filter_map(|index| cores.get(at(index)).cloned())
        .collect()
}

fn smt_hint(topology: &Topology) -> &'static str {
    match topology.smt().control {
        Some(SmtControl::Off) => {
            "; SMT is off: to switch it on, write \"on\" to /sys/devices/system/cpu/smt/control"
        }
        Some(SmtControl::ForceOff) => "; SMT is off until a boot without the parameter nosmt=force",
        Some(SmtControl::NotSupported) => "; this processor shows no SMT",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidelane_topology::{Builder, CoreSpec};

    fn hybrid() -> Topology {
        let fast = (0..4).map(|n| CoreSpec::new([2 * n, 2 * n + 1]).capacity(1024));
        let slow = (8..10).map(|cpu| CoreSpec::new([cpu]).capacity(500));
        let all = fast.chain(slow);
        all.fold(Builder::new(), Builder::core).build().unwrap()
    }

    fn cpus(list: impl IntoIterator<Item = u32>) -> CpuList {
        list.into_iter().collect()
    }

    #[test]
    fn kinds_of_core_are_told_apart_and_single_lanes_named() {
        let plan = plan(&hybrid(), &cpus(0..10), 2).unwrap();
        assert_eq!(plan.groups.len(), 1);
        let group = &plan.groups[0];
        assert_eq!((group.tier, group.lanes), (0, 2));
        let lanes: Vec<_> = group.cores.iter().map(|core| core.cpus.clone()).collect();
        assert_eq!(lanes, [vec![2, 3], vec![6, 7]]);
        assert_eq!(
            plan.notes,
            ["the 2 cores of kind 1 have one lane online each: threadPerf 1"]
        );
    }

    #[test]
    fn forbidden_lanes_are_left_out_and_named() {
        let plan = plan(&hybrid(), &cpus([0, 2, 3, 8, 9]), 9).unwrap();
        let measured: Vec<_> = plan.groups[0].cores.iter().map(|core| core.index).collect();
        assert_eq!(measured, [1]);
        assert!(
            plan.notes[0].contains("CPUs 1,4-7 are not used"),
            "{:?}",
            plan.notes
        );
    }

    #[test]
    fn without_a_second_lane_there_is_nothing_to_measure() {
        let error = plan(&hybrid(), &cpus([0, 2, 4]), 2).unwrap_err();
        assert!(
            error.is_machine() && error.to_string().contains("CPUs 0,2,4"),
            "{error}"
        );
        let single = (0..2).map(|cpu| CoreSpec::new([cpu]));
        let single = single.fold(Builder::new(), Builder::core).build().unwrap();
        let error = plan(&single, &cpus([0, 1]), 2).unwrap_err();
        assert_eq!(
            error.to_string(),
            "nothing to measure: every core has one lane online"
        );
    }

    #[test]
    fn cores_are_spread() {
        let all: Vec<_> = (0..8)
            .map(|index| CoreLanes {
                index,
                cpus: vec![],
            })
            .collect();
        let of = |count| -> Vec<usize> { spread(&all, count).iter().map(|c| c.index).collect() };
        assert_eq!(of(2), [2, 6]);
        assert_eq!(of(0), [4]);
        assert_eq!(of(99), [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
