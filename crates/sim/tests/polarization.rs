//! Vertical polarization: normal and batch work on as few cores as it needs.

use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

const MS: u64 = 1_000_000;
const CORES: u32 = 8;
const LANES: u32 = 2;

/// A machine of eight cores of two lanes.
fn simulation(vertical: bool) -> Simulation {
    let topology = Topology::regular(&Regular::one_package(CORES, LANES)).unwrap();
    let interference = Interference::ThreadPerf(vec![1.0, 0.6]);
    let machine = Machine::new(&topology, interference, Costs::default()).unwrap();
    let settings = Settings {
        polarization: match vertical {
            true => Polarization::Vertical,
            false => Polarization::Horizontal,
        },
        ..Settings::default()
    };
    Simulation::new(machine, &Kind::from(settings)).unwrap()
}

fn tasks(sim: &mut Simulation, count: u32, class: Class) -> Vec<TaskId> {
    let spec = TaskSpec::new(class.name(), class);
    (0..count).map(|_| sim.create(&spec).unwrap()).collect()
}

/// A millisecond of work of an unshared lane, each ten for each task, all at once.
const WORK_NS: f64 = MS as f64;
const PERIOD_NS: u64 = 10 * MS;

/// Begins such a load.
fn begin(sim: &mut Simulation, ids: &[TaskId]) {
    for index in 0..ids.len() as u64 {
        sim.set_timer(sim.now_ns() + 1, index);
    }
}

/// Goes on with it until then.
fn go(sim: &mut Simulation, ids: &[TaskId], until_ms: u64) {
    while let Some(occurrence) = sim.next(until_ms * MS).unwrap() {
        if let Occurrence::Timer(index) = occurrence {
            sim.give(ids[index as usize], WORK_NS).unwrap();
            sim.set_timer(sim.now_ns() + PERIOD_NS, index);
        }
    }
}

/// Cores of which any lane ran this class for more than a hundredth of the time.
fn cores_used(sim: &mut Simulation, class: Class, from: &[u64], span_ms: u64) -> usize {
    let now = busy_ns(sim, class);
    let used = |core: &usize| now[*core] - from[*core] > span_ms * MS / 100;
    (0..CORES as usize).filter(used).count()
}

/// Time that the lanes of each core ran this class, ns. Core n has the CPUs n and n + 8.
fn busy_ns(sim: &mut Simulation, class: Class) -> Vec<u64> {
    sim.account();
    let cores = sim.machine().cores.clone();
    let of = |cpu: &u32| sim.lane_totals(*cpu).class_ns[class as usize];
    cores
        .iter()
        .map(|core| core.lanes.iter().map(of).sum())
        .collect()
}

#[test]
fn a_little_work_leaves_most_cores_idle() {
    // Eight tasks of a tenth of a lane: one core of two lanes at 0.6 bears 1.2 of them.
    for (class, vertical, at_most) in [
        (Class::Normal, true, 2),
        (Class::Batch, true, 2),
        (Class::Normal, false, CORES as usize),
    ] {
        let mut sim = simulation(vertical);
        let ids = tasks(&mut sim, 8, class);
        begin(&mut sim, &ids);
        go(&mut sim, &ids, 2_000);
        let from = busy_ns(&mut sim, class);
        go(&mut sim, &ids, 4_000);
        let used = cores_used(&mut sim, class, &from, 2_000);
        assert!(used <= at_most, "{class:?} on {used} cores");
        assert!(
            vertical || used >= 4,
            "horizontal spreads it: {used} cores used"
        );
        for id in &ids {
            let done_ns = sim.task_totals(*id).work_ns;
            assert!(done_ns > 0.98 * 400.0 * MS as f64, "{id} did {done_ns} ns");
        }
    }
}

#[test]
fn cores_wake_for_work_that_waits() {
    let mut sim = simulation(true);
    let few = tasks(&mut sim, 1, Class::Normal);
    begin(&mut sim, &few);
    go(&mut sim, &few, 2_000);
    // As many tasks without an end as there are lanes: within three windows all have one.
    let many = tasks(&mut sim, CORES * LANES, Class::Normal);
    for id in &many {
        sim.give(*id, f64::INFINITY).unwrap();
    }
    while sim.next(2_060 * MS).unwrap().is_some() {}
    let running = |id: &&TaskId| matches!(sim.state(**id), State::Running(_));
    let running = many.iter().filter(running).count();
    assert!(running >= 15, "{running} of 16 run");
}

#[test]
fn critical_work_has_whole_cores_as_ever() {
    let mut sim = simulation(true);
    let normal = tasks(&mut sim, 2, Class::Normal);
    begin(&mut sim, &normal);
    go(&mut sim, &normal, 2_000);
    let critical = tasks(&mut sim, 6, Class::Critical);
    for id in &critical {
        sim.give(*id, f64::INFINITY).unwrap();
    }
    while sim.next(2_100 * MS).unwrap().is_some() {}
    let mut cores: Vec<usize> = (critical.iter())
        .filter_map(|id| match sim.state(*id) {
            State::Running(cpu) => {
                let cores = &sim.machine().cores;
                cores.iter().position(|core| core.lanes.contains(&cpu))
            }
            _ => None,
        })
        .collect();
    cores.sort_unstable();
    cores.dedup();
    assert_eq!(cores.len(), 6, "each has a core of its own");
}

#[test]
fn a_task_that_may_only_use_parked_cores_runs_there() {
    let mut sim = simulation(true);
    let last = CORES - 1;
    let cpus = sim.machine().cores[last as usize].lanes.clone();
    let spec = TaskSpec {
        cpus: Some(cpus),
        ..TaskSpec::new("pinned", Class::Normal)
    };
    let pinned = sim.create(&spec).unwrap();
    let others = tasks(&mut sim, 2, Class::Normal);
    sim.give(pinned, f64::INFINITY).unwrap();
    begin(&mut sim, &others);
    go(&mut sim, &others, 2_000);
    sim.account();
    let ran_ns = sim.task_totals(pinned).lane_ns;
    assert!(ran_ns > 1_900 * MS, "it ran for {ran_ns} ns of 2 s");
}
