//! The machines of the fixtures.

use super::{Core, Machine};
use sidelane_topology::CpuList;

/// Every fixture by name.
pub fn all() -> Vec<(&'static str, Machine)> {
    vec![
        ("two-packages-apart", two_packages_apart()),
        ("one-package-adjacent", one_package_adjacent()),
        ("power-4-lanes", power(4)),
        ("power-8-lanes", power(8)),
        ("power-8-lanes-level-4", power_level_4()),
        ("hybrid-capacity", hybrid_capacity()),
        ("hybrid-frequency", hybrid_frequency()),
        ("eight-caches", eight_caches()),
        ("smt-off", smt_off()),
        ("lanes-offline", lanes_offline()),
        ("virtual-machine", virtual_machine()),
    ]
}

/// `count` cores whose lanes are `stride` CPU numbers apart; core `n` begins with CPU `first(n)`.
fn cores(count: u32, lanes: u32, stride: u32, first: impl Fn(u32) -> u32) -> Vec<Core> {
    (0..count)
        .map(|n| Core {
            cpus: (0..lanes).map(|lane| first(n) + lane * stride).collect(),
            id: n,
            package: 0,
            node: Some(0),
            cache: None,
            capacity: None,
            frequency_max_khz: None,
        })
        .collect()
}

/// Gives each group of `size` successive cores a last-level cache of its own.
fn share_caches(cores: &mut [Core], size: usize, level: u32) {
    for group in cores.chunks_mut(size) {
        let sharers: CpuList = group.iter().flat_map(|core| core.cpus.clone()).collect();
        group
            .iter_mut()
            .for_each(|core| core.cache = Some((level, sharers.clone())));
    }
}

/// A machine of these cores with everything online.
fn machine(cores: Vec<Core>, smt: Option<(&'static str, u32)>) -> Machine {
    Machine {
        cores,
        offline: CpuList::new(),
        pluggable: CpuList::new(),
        smt,
        new_names: true,
    }
}

/// x86 server: CPU n and n + 4 are siblings; `core_id` repeats in the second package.
pub fn two_packages_apart() -> Machine {
    let mut cores = cores(4, 2, 4, |n| n);
    for (n, core) in cores.iter_mut().enumerate() {
        core.id = n as u32 % 2;
        core.package = n as i32 / 2;
        core.node = Some(n as u32 / 2);
        core.capacity = Some(1024);
    }
    share_caches(&mut cores, 2, 3);
    machine(cores, Some(("on", 1)))
}

/// Siblings are neighbours in number, with an older kernel's file names and no SMT control.
pub fn one_package_adjacent() -> Machine {
    let mut cores = cores(4, 2, 1, |n| 2 * n);
    share_caches(&mut cores, 4, 3);
    Machine {
        new_names: false,
        ..machine(cores, None)
    }
}

/// POWER: chips and nodes are numbered with gaps, every core has its own cache, no cpufreq.
fn power(lanes: u32) -> Machine {
    let mut cores = cores(2, lanes, 1, |n| n * lanes);
    for (n, core) in cores.iter_mut().enumerate() {
        core.id = n as u32 * 8;
        core.package = n as i32 * 8;
        core.node = Some(core.package as u32);
    }
    share_caches(&mut cores, 1, 3);
    machine(
        cores,
        Some((if lanes == 4 { "notimplemented" } else { "on" }, 1)),
    )
}

/// POWER with 4 of 8 lanes in use: `smt/control` is a number.
fn power_level_4() -> Machine {
    let offline = (0..16).filter(|cpu| cpu % 8 >= 4).collect();
    Machine {
        offline,
        smt: Some(("4", 1)),
        ..power(8)
    }
}

/// Two fast cores of 2 lanes, four slow ones of 1 lane; the kernel tells their capacity.
fn hybrid_capacity() -> Machine {
    let mut all = cores(2, 2, 1, |n| 2 * n);
    all.extend(cores(4, 1, 1, |n| 4 + n));
    share_caches(&mut all, 6, 3);
    for (n, core) in all.iter_mut().enumerate() {
        core.id = n as u32;
        core.capacity = Some(if n < 2 { 1024 } else { 640 });
        // Misleading on purpose: capacity decides.
        core.frequency_max_khz = Some(4_000_000);
    }
    machine(all, Some(("on", 1)))
}

/// x86 hybrid with SMT: the kernel reports capacity 1024 for all, only frequencies tell. Slow cores
/// come first in number, two of the fast cores turbo a little higher, the slow ones lack L3.
fn hybrid_frequency() -> Machine {
    let mut slow = cores(4, 1, 1, |n| n);
    share_caches(&mut slow, 4, 2);
    let mut fast = cores(4, 2, 1, |n| 4 + 2 * n);
    share_caches(&mut fast, 4, 3);
    for (n, core) in fast.iter_mut().enumerate() {
        core.frequency_max_khz = Some(if n >= 2 { 5_300_000 } else { 5_200_000 });
    }
    slow.iter_mut()
        .for_each(|core| core.frequency_max_khz = Some(3_900_000));
    let mut all = slow;
    all.extend(fast);
    for (n, core) in all.iter_mut().enumerate() {
        core.id = n as u32;
        core.capacity = Some(1024);
    }
    machine(all, Some(("on", 1)))
}

/// x86 server: eight last-level caches and four nodes in one package.
fn eight_caches() -> Machine {
    let mut cores = cores(16, 2, 16, |n| n);
    cores
        .iter_mut()
        .enumerate()
        .for_each(|(n, core)| core.node = Some(n as u32 / 4));
    share_caches(&mut cores, 2, 3);
    machine(cores, Some(("on", 1)))
}

/// SMT switched off: the second lane of every core is offline.
fn smt_off() -> Machine {
    let on = two_packages_apart();
    Machine {
        offline: CpuList::from([4, 5, 6, 7]),
        smt: Some(("off", 0)),
        ..on
    }
}

/// One lane of core 1 and all lanes of core 2 are offline.
pub fn lanes_offline() -> Machine {
    let on = two_packages_apart();
    Machine {
        offline: CpuList::from([2, 5, 6]),
        ..on
    }
}

/// A small virtual machine: no SMT, no nodes, no caches, room to plug in more CPUs.
pub fn virtual_machine() -> Machine {
    let mut cores = cores(4, 1, 1, |n| n);
    cores.iter_mut().for_each(|core| core.node = None);
    let pluggable = CpuList::from([4, 5, 6, 7]);
    Machine {
        pluggable,
        ..machine(cores, Some(("notsupported", 0)))
    }
}
