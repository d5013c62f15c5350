//! Capacities that differ by less than kinds of cores do: the scheduler takes such cores as equal. And where
//! batch goes when no core is wholly idle: the lane that is fastest there.

use proptest::prelude::*;
use sidelane_sim::*;
use sidelane_topology::{Builder, CoreSpec, Topology};

const MS: u64 = 1_000_000;

/// Packages of so many cores each, with a last-level cache and a node each.
#[derive(Debug, Clone, Copy)]
struct Shape {
    packages: u32,
    cores: u32,
    lanes: u32,
}

/// One capacity a core, in the unit of frequencies.
fn topology(shape: Shape, capacities: &[u64]) -> Topology {
    let mut builder = Builder::new();
    for (core, &capacity) in (0..).zip(capacities) {
        let package = core / shape.cores;
        let cpus = core * shape.lanes..(core + 1) * shape.lanes;
        let spec = CoreSpec::new(cpus).capacity(capacity);
        builder = builder.core(spec.package(package as i32).node(package).cache(3, package));
    }
    builder.build().unwrap()
}

fn machine(topology: &Topology) -> Machine {
    let speeds = [1.0, 0.6, 0.45, 0.35][..topology.lanes_per_core_max()].to_vec();
    let interference = Interference::ThreadPerf(speeds);
    Machine::new(topology, interference, Costs::default()).unwrap()
}

/// Critical, normal and batch work, with and without knowledge of how fast shared lanes are.
fn decisions(machine: &Machine) -> Vec<Vec<Record>> {
    let exponential = |ms: f64| Distribution::Exponential(ms * MS as f64);
    let cores = machine.cores.len();
    let workload = |class: Class, behaviour| Workload {
        task: TaskSpec::new(class.name(), class),
        behaviour,
    };
    let io = |tasks, burst_ms| Behaviour::Io {
        tasks,
        burst: exponential(burst_ms),
        wait: exponential(0.5),
        poll: None,
        relayed: 0.0,
    };
    let known = Settings {
        thread_perf: [1.0, 0.6, 0.45, 0.35][..machine.cores[0].lanes.len()].to_vec(),
        ..Settings::default()
    };
    let configuration = |settings: Settings| Configuration {
        name: "only".into(),
        scheduler: Kind::from(settings),
        smt: None,
        control: None,
        workloads: vec![0, 1, 2],
    };
    let scenario = Scenario {
        name: "capacity".into(),
        about: String::new(),
        assumptions: Vec::new(),
        machine: machine.clone(),
        workloads: vec![
            workload(Class::Critical, io(cores, 1.0)),
            workload(Class::Normal, io(cores, 0.4)),
            workload(Class::Batch, Behaviour::Batch { tasks: cores }),
        ],
        configurations: [Settings::default(), known].map(configuration).into(),
        run: Run {
            seed: 3,
            replications: 1,
            length_ns: 20 * MS,
            warmup_ns: 0,
        },
    };
    let configurations = scenario.configurations.iter();
    let records = configurations.map(|one| trace(&scenario, one).unwrap().records);
    records.collect()
}

/// What the scheduler does with these capacities, if the work takes as long as on equal cores.
fn decisions_with(shape: Shape, capacities: &[u64]) -> Vec<Vec<Record>> {
    let mut machine = machine(&topology(shape, capacities));
    for core in &mut machine.cores {
        core.capacity = 1024;
    }
    decisions(&machine)
}

fn equal(shape: Shape) -> Vec<u64> {
    vec![1024; (shape.packages * shape.cores) as usize]
}

fn any_shape() -> impl Strategy<Value = Shape> {
    (1..=3_u32, 1..=5_u32, 1..=4_u32).prop_map(|(packages, cores, lanes)| Shape {
        packages,
        cores,
        lanes,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn jitter_changes_no_decision(
        shape in any_shape(),
        jitter in proptest::collection::vec(0..=99_u64, 15),
    ) {
        let capacities: Vec<u64> = equal(shape).iter().zip(jitter).map(|(c, less)| c - less).collect();
        prop_assert_eq!(decisions_with(shape, &capacities), decisions(&machine(&topology(shape, &equal(shape)))));
    }

    /// Hybrid machines, too: the kinds are told apart, and within a kind nothing counts.
    #[test]
    fn jitter_within_kinds_changes_no_decision(
        shape in any_shape(),
        slow in proptest::collection::vec(any::<bool>(), 15),
        jitter in proptest::collection::vec(0..=49_u64, 15),
    ) {
        let kinds = equal(shape).iter().zip(&slow).map(|(c, slow)| if *slow { 640 } else { *c }).collect::<Vec<u64>>();
        let jittered: Vec<u64> = kinds.iter().zip(&jitter).map(|(c, less)| c - less * c / 1024).collect();
        let plain = topology(shape, &kinds);
        let other = topology(shape, &jittered);
        let tiers = |machine: &Topology| machine.cores().iter().map(|core| core.tier).collect::<Vec<_>>();
        prop_assert_eq!(tiers(&plain), tiers(&other));
        let order = |machine: &Topology| machine.cores().iter().map(|core| core.lanes[0].cpu).collect::<Vec<_>>();
        prop_assert_eq!(order(&plain), order(&other));
    }

    /// Whatever the capacities: no two cores of a kind are further apart than the tolerance, and what the
    /// scheduler is told is that of the fastest of the kind.
    #[test]
    fn kinds_are_no_wider_than_the_tolerance(capacities in proptest::collection::vec(1..5000_u64, 1..40)) {
        let shape = Shape { packages: 1, cores: 40, lanes: 1 };
        let machine = machine(&topology(shape, &capacities));
        for core in &machine.cores {
            prop_assert!(core.capacity <= core.tier_capacity);
            prop_assert!(core.capacity * 100 >= core.tier_capacity * 90);
        }
        let told = machine.cores.iter().map(|core| core.tier_capacity);
        prop_assert!(told.rev().is_sorted());
    }
}

/// Capacities as real machines report them, MHz.
#[test]
fn favoured_cores_are_not_another_kind() {
    let shape = |packages, cores| Shape {
        packages,
        cores,
        lanes: 2,
    };
    // 13900K: two of eight cores may turbo higher. Grace: each core has a maximum of its own.
    let favoured = [5500, 5500, 5500, 5500, 5800, 5800, 5500, 5500];
    let graded = [3447, 3393, 3402, 3411, 3420, 3375, 3429, 3438];
    for (shape, capacities) in [(shape(1, 8), favoured), (shape(2, 4), graded)] {
        let equal = decisions(&machine(&topology(shape, &equal(shape))));
        assert!(
            decisions_with(shape, &capacities) == equal,
            "{capacities:?}"
        );
    }
}

/// Ranks of firmware (CPPC), shown as frequencies: each is near the next, the ends are far apart.
#[test]
fn a_chain_is_cut_below_the_fastest_of_each_kind() {
    let shape = Shape {
        packages: 1,
        cores: 8,
        lanes: 1,
    };
    let ranks = [5352, 5517, 5677, 5837, 6001, 6161, 6321, 6482];
    let machine = machine(&topology(shape, &ranks));
    let told: Vec<u32> = machine
        .cores
        .iter()
        .map(|core| core.tier_capacity)
        .collect();
    // 6482 is 1024; 5837 is 90.05 % of it, and 5677 begins the next kind: 897 of 1024.
    assert_eq!(told, [1024, 1024, 1024, 1024, 1024, 897, 897, 897]);
}

const LANES: u32 = 4;

/// How many of `tasks` batch tasks run on each core; they come one after the other.
fn spread(capacities: &[u32], tasks: usize) -> Vec<usize> {
    let mut builder = Builder::new();
    for (core, &capacity) in (0..).zip(capacities) {
        let cpus = core * LANES..(core + 1) * LANES;
        builder = builder.core(CoreSpec::new(cpus).capacity(capacity.into()));
    }
    let speeds = vec![1.0, 0.6, 0.45, 0.35];
    let settings = Settings {
        thread_perf: speeds.clone(),
        ..Settings::default()
    };
    let interference = Interference::ThreadPerf(speeds);
    let machine = Machine::new(&builder.build().unwrap(), interference, Costs::none()).unwrap();
    let mut sim = Simulation::new(machine, &Kind::from(settings)).unwrap();
    sim.keep_records();
    for token in 0..tasks {
        sim.set_timer((token as u64 + 1) * MS, token as u64);
    }
    while let Some(occurrence) = sim.next(100 * MS).unwrap() {
        if let Occurrence::Timer(_) = occurrence {
            let id = sim.create(&TaskSpec::new("batch", Class::Batch)).unwrap();
            sim.give(id, f64::INFINITY).unwrap();
        }
    }
    let mut lanes = vec![None; tasks];
    for record in sim.take_records() {
        if let Step::Run { task, lane } = record.step {
            lanes[task.0 as usize] = Some(lane);
        }
    }
    let mut counts = vec![0; capacities.len()];
    for lane in lanes {
        counts[(lane.unwrap() / LANES) as usize] += 1;
    }
    counts
}

#[test]
fn equal_cores_fill_evenly() {
    assert_eq!(spread(&[1024, 1024], 5), [3, 2]);
    assert_eq!(spread(&[1024, 1024, 1024], 7), [3, 2, 2]);
}

#[test]
fn idle_cores_come_first_then_the_fastest_lane() {
    assert_eq!(spread(&[1024, 700], 2), [1, 1]);
    // 0.6 of 1024 is 614, 0.45 of it 461; 0.6 of 700 is 420
    assert_eq!(spread(&[1024, 700], 4), [3, 1]);
    // 0.35 of 1024 is 358
    assert_eq!(spread(&[1024, 700], 5), [3, 2]);
}
