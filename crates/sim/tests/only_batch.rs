//! The kernel's scheduler keeps every task but batch (`scope = "batch"`).

use crate::{go, spinners};
use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

const MS: u64 = 1_000_000;

fn machine(cores: u32) -> Machine {
    let topology = Topology::regular(&Regular::one_package(cores, 2)).unwrap();
    let speeds = Interference::ThreadPerf(vec![1.0, 0.6]);
    Machine::new(&topology, speeds, Costs::default()).unwrap()
}

/// Batch uses so many lanes of a core; 0: all but the first.
fn batch_alone(batch_lanes: u32) -> Kind {
    let settings = Settings {
        scope: Scope::Batch,
        batch_lanes,
        ..Settings::default()
    };
    settings.into()
}

fn only_batch(cores: u32) -> Simulation {
    Simulation::new(machine(cores), &batch_alone(2)).unwrap()
}

/// Time of batch on these lanes so far.
fn batch_ns(sim: &Simulation, lanes: &[u32]) -> u64 {
    let of = |cpu: &u32| sim.lane_totals(*cpu).class_ns[Class::Batch as usize];
    lanes.iter().map(of).sum()
}

fn beside_ns(sim: &Simulation) -> u64 {
    let cores = sim.core_totals().iter();
    cores.map(|core| core.batch_beside_critical_ns).sum()
}

/// A task of a class that may use one lane.
fn bound(sim: &mut Simulation, class: Class, cpu: u32) -> TaskId {
    let spec = TaskSpec {
        cpus: Some(vec![cpu]),
        ..TaskSpec::new("bound", class)
    };
    sim.create(&spec).unwrap()
}

#[test]
fn batch_gets_all_that_idles() {
    let mut sim = only_batch(2);
    spinners(&mut sim, 5, Class::Batch, None);
    go(&mut sim, 10);
    let before_ns = batch_ns(&sim, &[0, 1, 2, 3]);
    go(&mut sim, 110);
    assert_eq!(batch_ns(&sim, &[0, 1, 2, 3]) - before_ns, 400 * MS);
}

#[test]
fn batch_leaves_the_core_of_critical_work_and_comes_back() {
    let mut sim = only_batch(2);
    spinners(&mut sim, 4, Class::Batch, None);
    let critical = bound(&mut sim, Class::Critical, 0);
    go(&mut sim, 20);
    sim.give(critical, 10.0 * MS as f64).unwrap();
    go(&mut sim, 21);
    let evicted_ns = sim.now_ns();
    let (own_ns, other_ns) = (batch_ns(&sim, &[0, 1]), batch_ns(&sim, &[2, 3]));
    go(&mut sim, 29);
    assert_eq!(batch_ns(&sim, &[0, 1]), own_ns, "since {evicted_ns}");
    assert_eq!(batch_ns(&sim, &[2, 3]) - other_ns, 16 * MS);
    assert!(beside_ns(&sim) < 10_000, "{}", beside_ns(&sim));
    go(&mut sim, 35);
    let back_ns = batch_ns(&sim, &[0, 1]);
    go(&mut sim, 45);
    assert_eq!(batch_ns(&sim, &[0, 1]) - back_ns, 20 * MS);
}

#[test]
fn normal_work_shares_its_core_with_batch() {
    let mut sim = only_batch(1);
    spinners(&mut sim, 2, Class::Batch, None);
    let normal = bound(&mut sim, Class::Normal, 0);
    sim.give(normal, f64::INFINITY).unwrap();
    go(&mut sim, 10);
    let before_ns = batch_ns(&sim, &[1]);
    go(&mut sim, 20);
    assert_eq!(batch_ns(&sim, &[1]) - before_ns, 10 * MS);
}

#[test]
fn batch_waits_while_others_have_all_lanes() {
    let mut sim = only_batch(2);
    let batch = spinners(&mut sim, 2, Class::Batch, None);
    go(&mut sim, 10);
    for cpu in 0..4 {
        let normal = bound(&mut sim, Class::Normal, cpu);
        sim.give(normal, 100.0 * MS as f64).unwrap();
    }
    go(&mut sim, 11);
    let before_ns = batch_ns(&sim, &[0, 1, 2, 3]);
    go(&mut sim, 100);
    assert_eq!(batch_ns(&sim, &[0, 1, 2, 3]), before_ns);
    assert!(batch.iter().all(|id| sim.state(*id) == State::Waiting));
    go(&mut sim, 300);
    assert!(
        batch
            .iter()
            .all(|id| matches!(sim.state(*id), State::Running(_)))
    );
}

#[test]
fn a_task_that_becomes_batch_or_is_it_no_longer_changes_hands() {
    let mut sim = only_batch(1);
    let ids = spinners(&mut sim, 3, Class::Normal, None);
    go(&mut sim, 50);
    sim.set_class(ids[0], Class::Batch).unwrap();
    go(&mut sim, 60);
    assert_eq!(sim.state(ids[0]), State::Waiting, "others have both lanes");
    sim.set_class(ids[1], Class::Batch).unwrap();
    sim.set_class(ids[2], Class::Batch).unwrap();
    go(&mut sim, 70);
    sim.set_class(ids[0], Class::Normal).unwrap();
    go(&mut sim, 80);
    assert!(matches!(sim.state(ids[0]), State::Running(_)));
    let running = ids
        .iter()
        .filter(|id| matches!(sim.state(**id), State::Running(_)));
    assert_eq!(running.count(), 2);
}

#[test]
fn batch_comes_back_when_lanes_do() {
    let mut sim = only_batch(2);
    spinners(&mut sim, 4, Class::Batch, None);
    let normal = bound(&mut sim, Class::Normal, 0);
    sim.give(normal, f64::INFINITY).unwrap();
    go(&mut sim, 10);
    sim.set_online(&[1, 3], false).unwrap();
    go(&mut sim, 20);
    sim.set_online(&[1, 3], true).unwrap();
    go(&mut sim, 30);
    let before_ns = batch_ns(&sim, &[1, 2, 3]);
    go(&mut sim, 40);
    assert_eq!(batch_ns(&sim, &[1, 2, 3]) - before_ns, 30 * MS);
}

/// A server at a load of the cores of 8 x 2 lanes, and batch on all of them if there is any.
fn scenario(load: f64, scheduler: Kind, with_batch: bool) -> Scenario {
    let stage = Stage {
        workers: 16,
        by: None,
        demand: Distribution::Exponential(MS as f64),
        task: None,
    };
    let behaviour = Behaviour::Requests {
        arrivals: Arrivals::Open {
            interarrival: Distribution::Exponential(MS as f64 / (8.0 * load)),
        },
        stages: vec![stage],
        deadline_ns: None,
        quality: Quality::Proportional,
        marks: false,
    };
    let task = |class: Class| TaskSpec::new(class.name(), class);
    let mut workloads = vec![Workload {
        task: task(Class::Critical),
        behaviour,
    }];
    if with_batch {
        workloads.push(Workload {
            task: task(Class::Batch),
            behaviour: Behaviour::Batch { tasks: 17 },
        });
    }
    let configuration = Configuration {
        name: "it".into(),
        scheduler,
        smt: None,
        control: None,
        workloads: (0..workloads.len()).collect(),
    };
    Scenario {
        name: "only-batch".into(),
        about: String::new(),
        assumptions: Vec::new(),
        machine: machine(8),
        workloads,
        run: Run {
            seed: 1,
            replications: 1,
            warmup_ns: 100 * MS,
            length_ns: 4_000 * MS,
        },
        configurations: vec![configuration],
    }
}

#[test]
fn without_batch_all_is_as_the_kernels_scheduler_alone_does_it() {
    for load in [0.2, 0.9] {
        let of = |kind| {
            let scenario = scenario(load, kind, false);
            trace(&scenario, &scenario.configurations[0]).unwrap()
        };
        let (beside, alone) = (of(batch_alone(0)), of(Kind::Baseline(Baseline::Eevdf)));
        assert!(beside.records.len() > 10_000);
        assert!(beside.records == alone.records);
    }
}

/// The mean latency of the server's requests and the 99th percentile, ns.
fn latencies(scenario: &Scenario) -> (f64, u64) {
    let traced = trace(scenario, &scenario.configurations[0]).unwrap();
    let server = &traced.replication.workloads[0];
    let mean_ns = server.latency_sum_ns as f64 / server.completed as f64;
    let latency = server.latency.as_ref().unwrap();
    (mean_ns, latency.value_at_quantile(0.99))
}

#[test]
fn critical_work_hardly_notices_while_each_core_keeps_a_lane_for_it() {
    for load in [0.1, 0.4] {
        let (alone, alone_p99) = latencies(&scenario(load, Kind::Baseline(Baseline::Eevdf), false));
        let (beside, beside_p99) = latencies(&scenario(load, batch_alone(0), true));
        let (shared, shared_p99) =
            latencies(&scenario(load, Kind::Baseline(Baseline::Eevdf), true));
        assert!(
            beside < 1.03 * alone && shared > 1.2 * alone,
            "{alone} {beside} {shared}"
        );
        let p99 = beside_p99 as f64 / alone_p99 as f64;
        assert!(p99 < 1.05 && shared_p99 > alone_p99, "{p99}");
    }
}
