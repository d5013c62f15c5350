//! Normal work uses all cores and gets the same on each, whenever and wherever it began.

use crate::{go, spinners};
use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

const MS: u64 = 1_000_000;
const SPEEDS: [f64; 2] = [1.0, 0.6];

fn simulation(cores: u32, settings: Settings) -> Simulation {
    let topology = Topology::regular(&Regular::one_package(cores, 2)).unwrap();
    let interference = Interference::ThreadPerf(SPEEDS.to_vec());
    let machine = Machine::new(&topology, interference, Costs::default()).unwrap();
    Simulation::new(machine, &Kind::from(settings)).unwrap()
}

/// Work, in fastest unshared cores, from one moment to another.
fn work_rate(sim: &mut Simulation, ids: &[TaskId], from_ms: u64, until_ms: u64) -> f64 {
    let work_ns =
        |sim: &Simulation| -> f64 { ids.iter().map(|id| sim.task_totals(*id).work_ns).sum() };
    go(sim, from_ms);
    let before_ns = work_ns(sim);
    go(sim, until_ms);
    (work_ns(sim) - before_ns) / ((until_ms - from_ms) * MS) as f64
}

/// What so many tasks that never sleep can do: first a core for each, then the second lanes.
fn best_rate(cores: u32, tasks: u32) -> f64 {
    let shared = tasks.saturating_sub(cores).min(cores);
    f64::from(tasks.min(cores) - shared) + 2.0 * SPEEDS[1] * f64::from(shared)
}

#[test]
fn tasks_that_begin_at_the_same_time_get_cores_of_their_own() {
    let paired = Settings {
        retain: true,
        pair: true,
        ..Settings::default()
    };
    let known = Settings {
        thread_perf: SPEEDS.to_vec(),
        ..Settings::default()
    };
    for settings in [Settings::default(), known, paired] {
        for (cores, tasks) in [(4, 4), (4, 6), (24, 36), (24, 48), (24, 7)] {
            let mut sim = simulation(cores, settings.clone());
            let ids = spinners(&mut sim, tasks, Class::Normal, None);
            let rate = work_rate(&mut sim, &ids, 200, 1_200);
            let best = best_rate(cores, tasks);
            println!("{tasks} tasks on {cores} cores: {rate:.2} of {best:.2}");
            assert!(
                rate > 0.98 * best,
                "{tasks} tasks on {cores} cores: {rate} of {best}"
            );
        }
    }
}

#[test]
fn who_shares_a_core_gets_one_that_falls_idle() {
    let mut sim = simulation(4, Settings::default());
    let ids = spinners(&mut sim, 8, Class::Normal, None);
    go(&mut sim, 100);
    for id in &ids[..4] {
        sim.cut(*id);
    }
    let rate = work_rate(&mut sim, &ids[4..], 200, 1_200);
    assert!(rate > 0.98 * 4.0, "{rate}");
}

#[test]
fn tasks_that_met_on_a_core_part_when_they_wake() {
    // Both were on core 0 last, a lane each; none ever fills a slice.
    let mut sim = simulation(2, Settings::default());
    let lanes = sim.machine().cores[0].lanes.clone();
    let ids = [0, 1].map(|lane| {
        let spec = TaskSpec {
            cpus: Some(vec![lanes[lane]]),
            ..TaskSpec::new("loop", Class::Normal)
        };
        sim.create(&spec).unwrap()
    });
    let round = |sim: &mut Simulation| {
        for id in ids {
            sim.give(id, 2.0 * MS as f64).unwrap();
        }
        let until_ns = sim.now_ns() + 10 * MS;
        while sim.next(until_ns).unwrap().is_some() {}
    };
    round(&mut sim);
    for id in ids {
        sim.set_cpus(id, None).unwrap();
    }
    round(&mut sim);
    sim.account();
    let of_other = &sim.core_totals()[1].density_ns;
    assert!(of_other[1] >= 2 * MS, "{of_other:?}");
}

#[test]
fn nobody_moves_where_that_brings_nothing() {
    // three tasks on two cores: whoever shares would only make somebody else share
    let mut sim = simulation(2, Settings::default());
    spinners(&mut sim, 3, Class::Normal, None);
    go(&mut sim, 200);
    let before = sim.event_counts().runs;
    go(&mut sim, 1_200);
    let runs = sim.event_counts().runs - before;
    assert!(
        runs < 10,
        "{runs} times a task began to run within a second"
    );
}

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
    // at moment 0 nothing is known yet of what was sent to a core
    go(&mut sim, 1);
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
        let of = |id: &TaskId| sim.task_totals(*id).work_ns / MS as f64;
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
