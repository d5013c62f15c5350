//! Pools: groups of tasks may use so much of the cores, whether lanes are shared or not.

use crate::{go, spinners};
use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

const MS: u64 = 1_000_000;
const CORES: u32 = 2;
const LANES: u32 = 2;
const SPEEDS: [f64; 2] = [1.0, 0.65];
const PERIOD_NS: u64 = 100 * MS;

fn pool(name: &str, cores: f64, charge: Charge) -> Pool {
    Pool {
        name: name.into(),
        allowance_ns: (cores * PERIOD_NS as f64) as u64,
        period_ns: PERIOD_NS,
        charge,
        parent: None,
        weight: None,
    }
}

/// Two cores of so many lanes.
fn simulation(pools: Vec<Pool>, lanes: u32) -> Simulation {
    simulation_at(&SPEEDS, pools, lanes)
}

/// The same with lanes as fast as this.
fn simulation_at(speeds: &[f64], pools: Vec<Pool>, lanes: u32) -> Simulation {
    let topology = Topology::regular(&Regular::one_package(CORES, lanes)).unwrap();
    let interference = Interference::ThreadPerf(speeds[..lanes as usize].to_vec());
    let machine = Machine::new(&topology, interference, Costs::default()).unwrap();
    let settings = Settings {
        thread_perf: speeds.to_vec(),
        ..Settings::default()
    };
    let sidelane = Sidelane { settings, pools };
    Simulation::new(machine, &Kind::Sidelane(sidelane)).unwrap()
}

/// Work that tasks did, in milliseconds of an unshared lane.
fn work_ms(sim: &Simulation, ids: &[TaskId]) -> f64 {
    let each = ids.iter().map(|id| sim.task_totals(*id).work_ns);
    each.sum::<f64>() / MS as f64
}

/// Work of two pools, of 0.6 of a core each, in two seconds.
fn two_pools(charge: Charge, lanes: u32) -> [f64; 2] {
    let pools = vec![pool("a", 0.6, charge), pool("b", 0.6, charge)];
    let mut sim = simulation(pools, lanes);
    let tasks = [0, 1].map(|pool| spinners(&mut sim, 4, Class::Normal, Some(pool)));
    go(&mut sim, 2_000);
    tasks.map(|ids| work_ms(&sim, &ids))
}

fn within(value: f64, wanted: f64, share: f64) -> bool {
    (value - wanted).abs() <= wanted * share
}

#[test]
fn an_entitlement_buys_the_same_work_with_smt_and_without() {
    for (charge, lanes, wanted) in [
        (Charge::Mt1, 1, 1_200.0),
        (Charge::Mt1, 2, 1_200.0),
        (Charge::Raw, 1, 1_200.0),
        // charged for lanes, they get what these are worth beside each other
        (Charge::Raw, 2, 780.0),
    ] {
        let work = two_pools(charge, lanes);
        assert!(
            work.iter().all(|&work| within(work, wanted, 0.05)),
            "{charge:?}, {lanes} lanes: {work:?} ms of work, not {wanted}"
        );
    }
}

/// MT1 is the core with SMT off: what SMT costs a lane alone is not charged.
#[test]
fn an_entitlement_buys_the_same_work_beside_idle_lanes() {
    for lanes in [1, 2] {
        let pools = vec![pool("a", 0.6, Charge::Mt1), pool("b", 0.6, Charge::Mt1)];
        let mut sim = simulation_at(&[0.8, 0.65], pools, lanes);
        let tasks = [0, 1].map(|pool| spinners(&mut sim, 1, Class::Normal, Some(pool)));
        go(&mut sim, 2_000);
        for ids in tasks {
            let work = work_ms(&sim, &ids);
            assert!(within(work, 1_200.0, 0.05), "{lanes} lanes: {work} ms");
            let speed = work * MS as f64 / sim.task_totals(ids[0]).lane_ns as f64;
            assert!(
                within(speed, if lanes > 1 { 0.8 } else { 1.0 }, 0.01),
                "{speed}"
            );
        }
    }
}

#[test]
fn a_pool_beside_free_work_gets_no_more_than_it_may_and_on_average_no_less() {
    for class in Class::ALL {
        let mut sim = simulation(vec![pool("a", 0.4, Charge::Raw)], LANES);
        let own = spinners(&mut sim, 3, class, Some(0));
        let others = spinners(&mut sim, 2, Class::Normal, None);
        go(&mut sim, 5_000);
        let used: u64 = own.iter().map(|id| sim.task_totals(*id).lane_ns).sum();
        let state = sim.pools()[0];
        let most = Costs::default().tick_ns * u64::from(CORES * LANES);
        assert!(
            within(used as f64, 0.4 * 5e9, 0.02),
            "{class:?}: {used} ns of 2 s"
        );
        assert!(state.overdrawn_ns <= most, "{class:?}: {state:?}");
        assert!(state.throttled >= 45, "{class:?}: {state:?}");
        assert!(work_ms(&sim, &others) > 3_000.0, "the others have the rest");
        // whoever was sent away is first in the next period
        let each = own.iter().map(|id| sim.task_totals(*id).lane_ns);
        let least = each.clone().min().unwrap() as f64 / each.max().unwrap() as f64;
        assert!(least > 0.8, "{class:?}: shares within the pool {least}");
    }
}

#[test]
fn within_another_pool_both_limits_hold() {
    let inner = |name: &str, cores| Pool {
        parent: Some(0),
        ..pool(name, cores, Charge::Raw)
    };
    let pools = vec![
        pool("around", 1.0, Charge::Raw),
        inner("a", 0.3),
        inner("b", 2.0),
    ];
    let mut sim = simulation(pools, LANES);
    let a = spinners(&mut sim, 2, Class::Normal, Some(1));
    let b = spinners(&mut sim, 2, Class::Normal, Some(2));
    go(&mut sim, 3_000);
    let lane_ms = |ids: &[TaskId]| -> u64 {
        let each = ids.iter().map(|id| sim.task_totals(*id).lane_ns);
        each.sum::<u64>() / MS
    };
    assert!(within(lane_ms(&a) as f64, 900.0, 0.03), "{}", lane_ms(&a));
    assert!(within(lane_ms(&b) as f64, 2_100.0, 0.03), "{}", lane_ms(&b));
}

#[test]
fn a_pool_without_work_saves_nothing_up() {
    let mut sim = simulation(vec![pool("a", 0.5, Charge::Raw)], LANES);
    go(&mut sim, 1_000);
    let ids = spinners(&mut sim, 2, Class::Normal, Some(0));
    go(&mut sim, 1_500);
    let used: u64 = ids.iter().map(|id| sim.task_totals(*id).lane_ns).sum();
    assert!(within(used as f64, 250.0 * MS as f64, 0.04), "{used} ns");
}

/// Shares of lane time that normal tasks get of three cgroups: this many in each, with these weights;
/// the third is within the second.
fn shares(lanes: u32, tasks: [u32; 3], weights: [u32; 3]) -> [f64; 3] {
    let mut pools: Vec<Pool> = weights
        .iter()
        .map(|&weight| Pool {
            allowance_ns: 0,
            weight: Some(weight),
            ..pool("a", 1.0, Charge::Raw)
        })
        .collect();
    pools[2].parent = Some(1);
    let mut sim = simulation(pools, lanes);
    let ids = [0, 1, 2].map(|pool| spinners(&mut sim, tasks[pool], Class::Normal, Some(pool)));
    go(&mut sim, 4_000);
    let used = ids.map(|ids| -> u64 { ids.iter().map(|id| sim.task_totals(*id).lane_ns).sum() });
    let all: u64 = used.iter().sum();
    used.map(|used| used as f64 / all as f64)
}

#[test]
fn cgroups_share_by_weight_whatever_the_number_of_their_tasks() {
    for (tasks, weights, wanted) in [
        ([4, 4, 0], [100, 300, 1], [0.25, 0.75, 0.0]),
        ([9, 3, 0], [100, 100, 1], [0.5, 0.5, 0.0]),
        // within the second: four tasks of weight 100 beside a cgroup of 400
        ([4, 4, 2], [100, 100, 400], [0.5, 0.25, 0.25]),
    ] {
        for lanes in [1, 2] {
            let got = shares(lanes, tasks, weights);
            println!("{lanes} lanes, {tasks:?} tasks, weights {weights:?}: {got:.3?}");
            let good = got
                .iter()
                .zip(wanted)
                .all(|(got, wanted)| (got - wanted).abs() < 0.05);
            assert!(good, "{got:?}, not {wanted:?}");
        }
    }
}

#[test]
fn nobody_is_forgotten_whatever_the_weights() {
    let group = |weight| Pool {
        allowance_ns: 0,
        weight: Some(weight),
        ..pool("a", 1.0, Charge::Raw)
    };
    let mut sim = simulation(vec![group(1), group(10_000)], LANES);
    let light = spinners(&mut sim, 20, Class::Normal, Some(0));
    spinners(&mut sim, 20, Class::Normal, Some(1));
    let lane_ns = |sim: &Simulation| -> Vec<u64> {
        let each = light.iter().map(|id| sim.task_totals(*id).lane_ns);
        each.collect()
    };
    let mut before = vec![0; light.len()];
    // before the kernel's watchdog would bite
    for until_ms in (15_000..=60_000).step_by(15_000) {
        go(&mut sim, until_ms);
        let now = lane_ns(&sim);
        let ran: Vec<u64> = now.iter().zip(&before).map(|(now, b)| now - b).collect();
        assert!(
            ran.iter().all(|&ran| ran > 0),
            "{ran:?} ns until {until_ms} ms"
        );
        before = now;
    }
}
