//! Normal work gets the same on every core, wherever it began.
#![allow(clippy::unwrap_used, missing_docs)]

mod spinning;

use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};
use spinning::{go, spinners};

const MS: f64 = 1e6;

/// What each of two groups of tasks gets, ms of work a second: those that begin on a machine of so many
/// packages, and as many that then all begin on its first core.
fn shares(packages: u32, pinned: bool) -> (Vec<f64>, Vec<f64>) {
    let regular = Regular {
        packages,
        ..Regular::one_package(4 / packages, 2)
    };
    let topology = Topology::regular(&regular).unwrap();
    let interference = Interference::ThreadPerf(vec![1.0, 0.6]);
    let machine = Machine::new(&topology, interference, Costs::default()).unwrap();
    let mut sim = Simulation::new(machine, &Kind::from(Settings::default())).unwrap();
    let early = spinners(&mut sim, 12, Class::Normal, None);
    go(&mut sim, 100);
    let late = spinners(&mut sim, 12, Class::Normal, None);
    if pinned {
        for id in &late {
            sim.set_cpus(*id, Some(&[0, 1])).unwrap();
        }
    }
    go(&mut sim, 1000);
    let work = |sim: &Simulation, ids: &[TaskId]| -> Vec<f64> {
        let of = |id: &TaskId| sim.task_totals(*id).work_ns / MS;
        ids.iter().map(of).collect()
    };
    let before = (work(&sim, &early), work(&sim, &late));
    go(&mut sim, 3000);
    let after = (work(&sim, &early), work(&sim, &late));
    let rates = |after: Vec<f64>, before: Vec<f64>| -> Vec<f64> {
        let pairs = after.iter().zip(&before);
        pairs
            .map(|(after, before)| (after - before) / 2.0)
            .collect()
    };
    (rates(after.0, before.0), rates(after.1, before.1))
}

fn least(of: &[f64]) -> f64 {
    of.iter().copied().fold(f64::INFINITY, f64::min)
}

#[test]
fn who_began_on_a_crowded_core_gets_as_much_as_others() {
    // 4 cores x 2 lanes x 0.6, among 24
    let fair = 4.8e3 / 24.0;
    for packages in [1, 2] {
        let (early, late) = shares(packages, false);
        println!("{packages} packages: {early:.0?}, {late:.0?} ms a second, {fair} is fair");
        assert!(least(&early) > 0.8 * fair && least(&late) > 0.8 * fair);
    }
}

#[test]
fn those_that_may_not_leave_get_their_core() {
    let (early, late) = shares(1, true);
    println!("{early:.0?}, {late:.0?} ms a second");
    // its two lanes among them, and the others' among the others
    assert!(least(&late) > 0.8 * 1200.0 / 12.0, "{late:?}");
    assert!(least(&early) > 0.8 * 3600.0 / 12.0, "{early:?}");
}
