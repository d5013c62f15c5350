//! The same scenario gives the same steps and the same totals: twice, in parallel or not, in debug
//! and release builds, and from one version to the next.
//!
//! Each run becomes one number, which stands below. A change of it is a change of what the simulator
//! does: if it was meant, take over the number that the failing test shows, and say why in the
//! commit.

use rayon::prelude::*;
use sidelane_sim::*;
use sidelane_topology::{Numbering, Regular, Topology};
use std::fmt::Debug;

const MS: u64 = 1_000_000;
const MEAN_NS: f64 = 1e6;

/// Two cores a cache, two caches a package.
fn machine(packages: u32, interference: Interference, lanes: u32) -> Machine {
    let topology = Topology::regular(&Regular {
        packages,
        caches_per_package: 2,
        cores_per_cache: 2,
        lanes_per_core: lanes,
        numbering: Numbering::Apart,
    })
    .unwrap();
    Machine::new(&topology, interference, Costs::default()).unwrap()
}

fn workload(name: &str, class: Class, behaviour: Behaviour) -> Workload {
    Workload {
        task: TaskSpec {
            kind: usize::from(class != Class::Critical),
            ..TaskSpec::new(name, class)
        },
        behaviour,
    }
}

/// A server at so many requests a ms, with two stages and deadlines that are missed at times.
fn server(rate_per_ms: f64, workers: usize) -> Behaviour {
    let stage = |demand| Stage {
        workers,
        by: None,
        demand,
        task: None,
    };
    Behaviour::Requests {
        arrivals: Arrivals::Open {
            interarrival: Distribution::Exponential(MEAN_NS / rate_per_ms),
        },
        stages: vec![
            stage(Distribution::Exponential(0.8 * MEAN_NS)),
            stage(Distribution::Constant(0.2 * MEAN_NS)),
        ],
        deadline_ns: Some(5 * MS),
        quality: Quality::Proportional,
        marks: false,
    }
}

fn scenario(machine: Machine, scheduler: Kind) -> Scenario {
    let cores = machine.cores.len();
    let mut limited = workload("io", Class::Normal, io(cores));
    limited.task.cpus = Some((0..cores as u32).collect());
    limited.task.nice = 5;
    Scenario {
        name: "determinism".into(),
        about: String::new(),
        assumptions: Vec::new(),
        workloads: vec![
            workload(
                "server",
                Class::Critical,
                server(0.5 * cores as f64, machine.nr_lanes),
            ),
            limited,
            workload(
                "batch",
                Class::Batch,
                Behaviour::Batch {
                    tasks: machine.nr_lanes + 1,
                },
            ),
        ],
        configurations: vec![Configuration {
            name: "only".into(),
            scheduler,
            smt: None,
            control: None,
            workloads: vec![0, 1, 2],
        }],
        machine,
        run: Run {
            seed: 7,
            replications: 1,
            length_ns: 100 * MS,
            warmup_ns: 20 * MS,
        },
    }
}

fn io(tasks: usize) -> Behaviour {
    Behaviour::Io {
        tasks,
        burst: Distribution::Exponential(0.1 * MEAN_NS),
        wait: Distribution::Exponential(MEAN_NS),
        poll: None,
        relayed: 0.0,
    }
}

/// FNV-1a, 64 bits, from its offset.
struct Digest(u64);

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

impl Digest {
    fn add(&mut self, what: &dyn Debug) {
        for byte in format!("{what:?};").bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

/// All steps and all totals of a run, as one number; and how many steps there are.
fn digest(scenario: &Scenario) -> (u64, usize) {
    let traced = trace(scenario, &scenario.configurations[0]).unwrap();
    let mut digest = Digest(OFFSET);
    traced.records.iter().for_each(|record| digest.add(record));
    for measured in &traced.replication.workloads {
        let requests = (measured.completed, measured.latency_sum_ns);
        digest.add(&(requests, measured.quality_sum, measured.totals));
    }
    digest.add(&(&traced.replication.cores, &traced.replication.lanes));
    (digest.0, traced.records.len())
}

/// Lanes come and go, tasks change their CPUs and class, all while they run and wait.
fn changes() -> (u64, usize) {
    let machine = machine(1, Interference::ThreadPerf(vec![1.0, 0.6]), 2);
    let lanes = machine.nr_lanes as u32;
    let mut sim = Simulation::new(machine, &Kind::from(Settings::default())).unwrap();
    sim.keep_records();
    let classes = Class::ALL.iter().cycle().take(12);
    let specs = classes.map(|&class| TaskSpec::new(class.name(), class));
    let tasks: Vec<TaskId> = specs.map(|spec| sim.create(&spec).unwrap()).collect();
    let mut stream = Stream::new(7, &[]);
    let work = Distribution::Exponential(0.7 * MEAN_NS);
    for (token, &task) in (0..).zip(&tasks) {
        sim.give(task, work.sample(&mut stream)).unwrap();
        sim.set_timer((token + 1) * MS / 4, token);
    }
    while let Some(occurrence) = sim.next(60 * MS).unwrap() {
        let Occurrence::Timer(token) = occurrence else {
            continue;
        };
        let (cpu, task) = (token as u32 % lanes, tasks[token as usize % tasks.len()]);
        match token % 5 {
            0 => sim.set_online(&[cpu], token % 2 == 1 || cpu == 0).unwrap(),
            1 => sim.set_cpus(task, Some(&[0, cpu])).unwrap(),
            2 => sim.set_cpus(task, None).unwrap(),
            3 => sim.set_class(task, Class::ALL[token as usize % 2]).unwrap(),
            _ => sim.set_online(&[cpu], true).unwrap(),
        }
        sim.give(task, work.sample(&mut stream)).unwrap();
        sim.set_timer(sim.now_ns() + MS / 2, token + 7);
    }
    sim.account();
    let mut digest = Digest(OFFSET);
    let records = sim.take_records();
    records.iter().for_each(|record| digest.add(record));
    tasks
        .iter()
        .for_each(|&task| digest.add(&sim.task_totals(task)));
    digest.add(&sim.core_totals());
    (digest.0, records.len())
}

/// The scenarios and what comes out of them: the digest, and the number of steps.
fn scenarios() -> Vec<(Scenario, (u64, usize))> {
    let sidelane = || Kind::from(Settings::default());
    let speeds = |speeds: &[f64]| Interference::ThreadPerf(speeds.to_vec());
    let kinds = Interference::Kinds(vec![vec![0.6, 0.5], vec![0.8, 0.7]]);
    let one_by_two = machine(1, speeds(&[1.0, 0.6]), 2);
    let two_by_four = machine(2, speeds(&[1.0, 0.75, 0.57, 0.45]), 4);
    let mut fifo = scenario(one_by_two.clone(), Kind::Baseline(Baseline::Fifo));
    fifo.configurations[0].workloads = vec![0, 1]; // batch would never leave
    vec![
        (
            scenario(one_by_two, sidelane()),
            (0x8c34_6146_522f_fef6, 10_477),
        ),
        (
            scenario(two_by_four, sidelane()),
            (0xb623_c687_88a4_7047, 34_646),
        ),
        (
            scenario(machine(2, kinds, 2), sidelane()),
            (0x33d9_fb0a_4eef_a650, 23_551),
        ),
        (fifo, (0x2563_ce2f_c36e_58db, 2687)),
    ]
}

#[test]
fn runs_are_what_they_always_were() {
    let scenarios = scenarios();
    let found: Vec<_> = scenarios.iter().map(|(s, _)| digest(s)).collect();
    let known: Vec<_> = scenarios.iter().map(|(_, known)| *known).collect();
    assert_eq!(found, known, "the runs themselves: {found:#x?}");
    let changed = changes();
    let known = (0xc862_0779_e12d_df38, 7_189);
    assert_eq!(changed, known, "changes of the machine: {changed:#x?}");
}

#[test]
fn parallel_runs_do_not_disturb_each_other() {
    let scenarios = scenarios();
    let one_by_one: Vec<_> = scenarios.iter().map(|(s, _)| digest(s)).collect();
    let repeated: Vec<_> = scenarios.iter().cycle().take(12).collect();
    let parallel: Vec<_> = repeated.par_iter().map(|(s, _)| digest(s)).collect();
    let expected: Vec<_> = one_by_one.iter().copied().cycle().take(12).collect();
    assert_eq!(parallel, expected);
}

#[test]
fn another_seed_is_another_run() {
    let (mut scenario, _) = scenarios().remove(0);
    let first = digest(&scenario);
    scenario.run.seed += 1;
    assert_ne!(digest(&scenario), first);
}
