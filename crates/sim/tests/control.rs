//! Machines whose SMT level something sets while they run, and requests that wait beside the CPU.

use crate::go;
use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

const MS: u64 = 1_000_000;

const LOW: f64 = 0.2;
const HIGH: f64 = 1.1;

/// Sixteen cores with two lanes at a load, with lines of a configuration.
fn outcome(load: f64, configuration: &str) -> Outcome {
    outcome_at("[1, 0.6]", load, configuration)
}

/// The same with this threadPerf.
fn outcome_at(thread_perf: &str, load: f64, configuration: &str) -> Outcome {
    let text = format!(
        "[machine]\ncores = 16\nlanes = 2\nthread_perf = {thread_perf}\n[machine.costs]\ntick_ms = 50\n\
         [run]\nreplications = 1\nseconds = 20\nwarmup_seconds = 20\n\
         [[workload]]\nname = \"web\"\nclass = \"critical\"\n\
         closed = {{ load = {load}, think_ms = {{ exponential = 1000 }} }}\n\
         workers = 400\ndemand_ms = {{ exponential = 50 }}\n\
         [[configuration]]\n{configuration}\n"
    );
    let scenario = Scenario::parse(&text, "control.toml").unwrap();
    run(&scenario, &|| ()).unwrap().remove(0)
}

fn value(outcome: &Outcome, metric: &str) -> f64 {
    outcome.values(None, metric).unwrap()[0]
}

/// Share of time that the second lane of a core is online.
fn second_lane_online(outcome: &Outcome) -> f64 {
    let replication = &outcome.replications[0];
    let offline_ns = replication.lanes[1].1.offline_ns;
    1.0 - offline_ns as f64 / replication.length_ns as f64
}

#[test]
fn the_level_follows_the_load() {
    for (scheduler, offline) in [("default", 0.0), ("sibling-first", 0.0), ("sidelane", 1.0)] {
        let lines = format!("scheduler = \"{scheduler}\"\ncontrol = {{ window = 2 }}");
        let low = outcome(LOW, &lines);
        assert_eq!(value(&low, "smt_level"), 1.0, "{scheduler}");
        assert_eq!(value(&low, "level_1_share"), 1.0);
        assert_eq!(value(&low, "density"), 1.0, "{scheduler}");
        assert_eq!(second_lane_online(&low), offline, "{scheduler}");
        let high = outcome(HIGH, &lines);
        assert_eq!(value(&high, "smt_level"), 2.0, "{scheduler}");
        assert_eq!(value(&high, "level_changes_per_min"), 0.0);
        // at 1.1 of what one lane of each core does, both run for half the time, or more if cores idle
        assert!(value(&high, "density") > 1.4, "{scheduler}");
        assert_eq!(second_lane_online(&high), 1.0, "{scheduler}");
    }
}

#[test]
fn every_measure_finds_the_load() {
    for measure in ["independent", "lower-first", "counted"] {
        let lines = format!(
            "scheduler = \"default\"\ncontrol = {{ interval_s = 1, utilization = \"{measure}\" }}"
        );
        assert_eq!(value(&outcome(LOW, &lines), "smt_level"), 1.0, "{measure}");
    }
}

#[test]
fn a_level_that_wavers_is_counted() {
    // Without a window or a dwell time, at the load where the levels cross.
    let lines = "scheduler = \"default\"\n\
                 control = { interval_s = 0.1, window = 1, hysteresis = 0, dwell = 0 }";
    let found = outcome(0.85, lines);
    let (level, changes) = (
        value(&found, "smt_level"),
        value(&found, "level_changes_per_min"),
    );
    assert!(level > 1.0 && level < 2.0, "{level}");
    assert!(changes > 10.0 && changes < 600.0, "{changes}");
    let shares = value(&found, "level_1_share") + value(&found, "level_2_share");
    assert!((shares - 1.0).abs() < 1e-9);
    let none = outcome(0.85, "scheduler = \"default\"");
    assert_eq!(none.values(None, "smt_level"), None);
}

#[test]
fn a_machine_without_control_has_the_lanes_it_is_given() {
    let density = |smt: &str| {
        let lines = format!("scheduler = \"default\"\nsmt = {smt}");
        value(&outcome(HIGH, &lines), "density")
    };
    assert_eq!(density("1"), density("\"off\""));
    assert_eq!(density("2"), density("\"on\""));
    assert!(density("1") == 1.0 && density("2") > 1.5);
}

/// A lane alone on a core is slower where SMT is on, and where the scheduler's level only leaves its sibling idle; not
/// where the sibling is offline, from then on.
#[test]
fn what_smt_costs_a_lane_alone_ends_where_smt_does() {
    let topology = Topology::regular(&Regular::one_package(1, 2)).unwrap();
    let beside = Beside {
        switching: 0.5,
        polling: 0.5,
    };
    let eevdf = Kind::Baseline(Baseline::Eevdf);
    for (kind, beside, alone, at_level) in [
        (Kind::from(Settings::default()), None, 0.9, 1.0),
        (eevdf.clone(), None, 0.9, 1.0),
        (Kind::Baseline(Baseline::Fifo), None, 0.9, 1.0),
        (eevdf.clone(), Some(beside), 0.9, 1.0),
        (eevdf, None, 1.0, 0.9),
    ] {
        let speeds = Interference::ThreadPerf(vec![alone, 0.6]);
        let mut machine = Machine::new(&topology, speeds, Costs::none()).unwrap();
        machine.beside = beside;
        machine.level_perf = vec![1.0, at_level];
        let mut sim = Simulation::new(machine, &kind).unwrap();
        let id = sim.create(&TaskSpec::new("job", Class::Normal)).unwrap();
        // 45 ms by 50; with SMT off 55 more by 105; 90 more with SMT on
        sim.give(id, 190e6).unwrap();
        go(&mut sim, 50);
        assert_eq!(sim.task_totals(id).work_ns.round(), 45e6, "{kind:?}");
        sim.set_online(&[1], false).unwrap();
        go(&mut sim, 105);
        assert_eq!(sim.task_totals(id).work_ns.round(), 100e6, "{kind:?}");
        sim.set_online(&[1], true).unwrap();
        assert_eq!(
            sim.next(300 * MS).unwrap(),
            Some(Occurrence::Done(id)),
            "{kind:?}"
        );
        assert!(
            sim.now_ns().abs_diff(205 * MS) <= 2,
            "{kind:?}: {}",
            sim.now_ns()
        );
        assert_eq!(sim.task_totals(id).mt1_ns.round(), 190e6);
    }
}

/// Two tasks beside one another are charged half of their core each, by work 0.6 of it, and one alone all of it.
#[test]
fn prorated_time_is_divided_by_the_lanes_that_are_busy() {
    let topology = Topology::regular(&Regular::one_package(1, 2)).unwrap();
    let speeds = Interference::ThreadPerf(vec![1.0, 0.6]);
    let machine = Machine::new(&topology, speeds, Costs::none()).unwrap();
    let mut sim = Simulation::new(machine, &Kind::Baseline(Baseline::Fifo)).unwrap();
    let create = |sim: &mut Simulation| sim.create(&TaskSpec::new("job", Class::Normal)).unwrap();
    let (short, long) = (create(&mut sim), create(&mut sim));
    sim.give(short, 30e6).unwrap();
    sim.give(long, 100e6).unwrap();
    assert_eq!(
        sim.next(60 * MS).unwrap(),
        Some(Occurrence::Done(short)) // 50 ms at 0.6
    );
    go(&mut sim, 60);
    let charged = |id| {
        let totals = sim.task_totals(id);
        [totals.prorated_ns, totals.mt1_ns].map(|ns| (ns / 1e6).round())
    };
    assert_eq!(
        [charged(short), charged(long)],
        [[25.0, 30.0], [35.0, 40.0]]
    );
}

#[test]
fn the_scheduler_s_level_leaves_smt_on() {
    let low = |lines: &str| outcome_at("[0.9, 0.6]", 0.05, lines);
    let capacity_factor = |lines: &str| value(&low(lines), "capacity_factor");
    let close = |a: f64, b: f64| assert!((a - b).abs() < 0.005, "{a} instead of {b}");
    close(
        capacity_factor("scheduler = \"default\"\nsmt = \"off\""),
        1.0,
    );
    close(
        capacity_factor("scheduler = \"default\"\ncontrol = {}"),
        1.0,
    );
    close(
        capacity_factor("scheduler = \"sidelane\"\nsmt = \"off\""),
        1.0,
    );
    close(
        capacity_factor("scheduler = \"sidelane\"\nsettings.smt_level = 1"),
        0.9,
    );
    close(
        capacity_factor("scheduler = \"sidelane\"\ncontrol = {}"),
        0.9,
    );
}

/// A constant time beside the CPU, before and after two stages of an idle machine.
#[test]
fn time_beside_the_cpu_is_part_of_the_response() {
    let text = "[machine]\ncores = 4\nlanes = 1\ncosts = \"none\"\n\
                [run]\nreplications = 1\nseconds = 10\nwarmup_seconds = 0\n\
                [[workload]]\nname = \"web\"\nclass = \"normal\"\n\
                closed = { clients = 2, think_ms = { uniform = [5, 50] } }\n\
                stages = [{ delay_ms = 3 }, { demand_ms = 2 }, { demand_ms = 1 }, { delay_ms = 4 }]\n";
    let scenario = Scenario::parse(text, "delay.toml").unwrap();
    let found = run(&scenario, &|| ()).unwrap().remove(0);
    let measured = &found.replications[0].workloads[0];
    assert!((measured.mean_ns().unwrap() - 10e6).abs() < 1e3);
    // What is beside the CPU takes no lane.
    let work_ms = measured.totals.work_ns / 1e6 / measured.completed as f64;
    assert!((work_ms - 3.0).abs() < 0.02, "{work_ms}");
}

/// A request whose time is up while it waits beside the CPU.
#[test]
fn a_deadline_also_ends_a_wait_beside_the_cpu() {
    let text = "[machine]\ncores = 4\nlanes = 1\ncosts = \"none\"\n\
                [run]\nreplications = 1\nseconds = 10\nwarmup_seconds = 0\n\
                [[workload]]\nname = \"web\"\nclass = \"normal\"\ndeadline_ms = 5\n\
                quality = \"proportional\"\nopen = { rate_per_s = 10 }\n\
                stages = [{ demand_ms = 2 }, { delay_ms = 20 }, { demand_ms = 2 }]\n";
    let scenario = Scenario::parse(text, "delay.toml").unwrap();
    let found = run(&scenario, &|| ()).unwrap().remove(0);
    let measured = &found.replications[0].workloads[0];
    assert_eq!(measured.deadline_misses, measured.completed);
    assert!((measured.quality_sum / measured.completed as f64 - 0.5).abs() < 1e-6);
    assert!(measured.completed > 50);
}
