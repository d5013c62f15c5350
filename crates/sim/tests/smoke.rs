//! The scheduler's source drives a small machine.

use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

fn machine(cores: u32, lanes: u32, perf: &[f64]) -> Machine {
    let topology = Topology::regular(&Regular::one_package(cores, lanes)).unwrap();
    Machine::new(
        &topology,
        Interference::ThreadPerf(perf.to_vec()),
        Costs::default(),
    )
    .unwrap()
}

const MS: u64 = 1_000_000;

#[test]
fn critical_work_is_alone_on_its_core() {
    let kind = Kind::from(Settings::default());
    let mut sim = Simulation::new(machine(2, 2, &[1.0, 0.5]), &kind).unwrap();
    for n in 0..4 {
        let batch = sim
            .create(&TaskSpec::new(format!("batch{n}"), Class::Batch))
            .unwrap();
        sim.give(batch, f64::INFINITY).unwrap();
    }
    let server = sim
        .create(&TaskSpec::new("server", Class::Critical))
        .unwrap();
    sim.set_timer(10 * MS, 0);
    let mut latencies = Vec::new();
    let mut sent_ns = 0;
    while let Some(occurrence) = sim.next(1000 * MS).unwrap() {
        match occurrence {
            Occurrence::Timer(_) => {
                sent_ns = sim.now_ns();
                sim.give(server, 8e6).unwrap();
            }
            Occurrence::Done(_) => {
                latencies.push(sim.now_ns() - sent_ns);
                sim.set_timer(sim.now_ns() + 12_345_678, 0);
            }
        }
    }
    assert!(latencies.len() > 40, "{}", latencies.len());
    for latency in &latencies {
        assert!((8 * MS..8 * MS + 20_000).contains(latency), "{latency}");
    }
    sim.account();
    for core in sim.core_totals() {
        eprintln!("{core:?}");
        assert_eq!(core.density_ns.iter().sum::<u64>(), 1000 * MS);
    }
    eprintln!("{:?}", sim.counters());
}

/// Core time at each density under an SMT level, of a workload on 4 cores of 2 lanes.
fn density(workload: &str, level: u32) -> Vec<f64> {
    let text = format!(
        "[machine]\ncores = 4\nlanes = 2\nthread_perf = [1, 0.6]\n[run]\nreplications = 2\nseconds = 10\n\
         [[workload]]\nname = \"work\"\n{workload}\n[[configuration]]\nname = \"capped\"\n\
         scheduler = \"sidelane\"\n[configuration.settings]\nsmt_level = {level}\n"
    );
    let scenario = Scenario::parse(&text, "level.toml").unwrap();
    let outcomes = run(&scenario, &|| ()).unwrap();
    let summary = Summary::new(&scenario, &outcomes);
    summary.configurations[0].core_time_by_density.clone()
}

/// The SMT level caps the lanes of critical work, also of such that is sent to a lane directly.
#[test]
fn the_smt_level_is_a_cap() {
    let server = "class = \"critical\"\nopen = { load = 0.8 }\ndemand_ms = { exponential = 1 }";
    let shared = |level| density(server, level)[2];
    assert!(shared(2) > 0.1, "{}", shared(2));
    assert_eq!(shared(1), 0.0);
}

/// Batch goes by its own rule.
#[test]
fn the_smt_level_is_no_cap_for_batch() {
    let shared = density("class = \"batch\"\nbatch = { tasks = 8 }", 1)[2];
    assert!(shared > 0.99, "{shared}");
}

#[test]
fn requests_that_come_faster_than_they_are_served_end_the_simulation() {
    let text = "[machine]\ncores = 1\nlanes = 1\n[run]\nseconds = 1\n\
                [[workload]]\nname = \"flood\"\nclass = \"normal\"\nworkers = 1\n\
                open = { interarrival_ms = 0.000001 }\ndemand_ms = 1\n\
                [[configuration]]\nscheduler = \"fifo\"\n";
    let scenario = Scenario::parse(text, "flood.toml").unwrap();
    let error = run(&scenario, &|| {}).unwrap_err();
    assert!(matches!(error, Error::BadWorkload(_)), "{error}");
    let told = error.to_string();
    assert!(
        told.starts_with("workload \"flood\": 1000000 requests"),
        "{told}"
    );
    assert!(told.contains("deadline_ms"), "{told}");
}

/// How long tasks that wait for devices sleep in a round, ms, where others receive so much of the answers. The
/// device takes 1 ms.
fn asleep_ms(relayed: f64) -> f64 {
    let text = format!(
        "[machine]\ncores = 1\nlanes = 1\n[run]\nreplications = 2\nseconds = 10\n\
         [[workload]]\nname = \"io\"\nclass = \"normal\"\n\
         io = {{ tasks = 4, burst_ms = {{ exponential = 1 }}, wait_ms = 1, relayed = {relayed} }}\n\
         [[configuration]]\nscheduler = \"fifo\"\n"
    );
    let scenario = Scenario::parse(&text, "relayed.toml").unwrap();
    let outcomes = run(&scenario, &|| ()).unwrap();
    let of = |metric| outcomes[0].values(Some("io"), metric).unwrap();
    let states = ["run_ms", "ready_ms", "asleep_ms", "cycle_ms"].map(|name| of(name)[0]);
    assert!(
        (states[0] + states[1] + states[2] - states[3]).abs() < 1e-6,
        "{states:?}"
    );
    states[2]
}

#[test]
fn an_answer_waits_with_the_task_that_passes_it_on() {
    let itself = asleep_ms(0.0);
    assert!((itself - 1.0).abs() < 0.01, "{itself}");
    let relayed = asleep_ms(1.0);
    assert!(relayed > 1.2, "{relayed}");
}
