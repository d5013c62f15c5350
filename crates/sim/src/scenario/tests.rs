//! Scenario files that are right; `mistakes.rs` has those that are not.

mod mistakes;

use super::Scenario;
use crate::simulation::Kind;
use crate::{
    Arrivals, Behaviour, Class, Control, Costs, Distribution, Interference, Measure, Pairing,
    Policy, Quality, Retention, Settings, UseCounters,
};
use sidelane_model::{GovernorConfig, LaneOrder, Model, Options};

/// A machine and a workload, in 9 lines; more workloads and configurations can follow.
const SMALL: &str = "\
[machine]
cores = 2
lanes = 2

[[workload]]
name = \"server\"
class = \"critical\"
open = { rate_per_s = 50 }
demand_ms = 8
";

fn parse(text: &str) -> Scenario {
    Scenario::parse(text, "some/elfen.toml").unwrap()
}

/// A file with these lines in `[machine]` besides, and one batch workload.
fn machine(lines: &str) -> Scenario {
    parse(&format!(
        "[machine]\n{lines}\n[[workload]]\nname = \"b\"\nclass = \"batch\"\nbatch = {{ tasks = 1 }}\n"
    ))
}

/// The behaviour of a workload with these lines.
fn behaviour(lines: &str) -> Behaviour {
    let text = format!(
        "machine = {{ cores = 4, lanes = 2 }}\n[[workload]]\nname = \"w\"\nclass = \"normal\"\n{lines}\n"
    );
    parse(&text).workloads.remove(0).behaviour
}

#[test]
fn what_is_not_said_is_the_default() {
    let scenario = parse(SMALL);
    assert_eq!(scenario.name, "elfen");
    assert_eq!(
        (scenario.about.as_str(), scenario.assumptions.len()),
        ("", 0)
    );
    assert_eq!(scenario.machine.cores.len(), 2);
    assert_eq!(scenario.machine.cores[1].lanes, [2, 3]);
    assert_eq!(scenario.machine.costs, Costs::default());
    let halves = Interference::ThreadPerf(vec![1.0, 0.5]);
    assert_eq!(scenario.machine.interference, halves);
    let run = scenario.run;
    assert_eq!((run.seed, run.replications), (1, 10));
    assert_eq!(
        (run.length_ns, run.warmup_ns),
        (10_000_000_000, 1_000_000_000)
    );
    let [only] = &scenario.configurations[..] else {
        panic!("{:?}", scenario.configurations)
    };
    assert_eq!(
        (only.name.as_str(), &only.workloads[..]),
        ("sidelane", &[0][..])
    );
    let settings = Settings {
        counters: UseCounters::Off,
        ..Settings::default()
    };
    assert_eq!(only.scheduler, Kind::from(settings));
    let server = &scenario.workloads[0];
    assert_eq!(
        (server.task.policy, server.task.nice, server.task.kind),
        (Policy::Normal, 0, 0)
    );
    assert_eq!(server.task.cpus, None);
    let Behaviour::Requests {
        stages,
        deadline_ns: None,
        quality: Quality::AllOrNothing,
        ..
    } = &server.behaviour
    else {
        panic!("{:?}", server.behaviour)
    };
    assert_eq!((stages.len(), stages[0].workers), (1, 4));
    assert_eq!(stages[0].demand, Distribution::Constant(8e6));
}

#[test]
fn the_demo_is_what_the_demo_runs() {
    let text = include_str!("../../../../examples/scenarios/demo.toml");
    let scenario = Scenario::parse(text, "examples/scenarios/demo.toml").unwrap();
    assert_eq!(scenario.name, "demo");
    let Behaviour::Requests {
        arrivals: Arrivals::Open { interarrival },
        stages,
        ..
    } = &scenario.workloads[0].behaviour
    else {
        panic!("{:?}", scenario.workloads[0])
    };
    let Distribution::Exponential(mean_ns) = *interarrival else {
        panic!("{interarrival:?}")
    };
    assert!((1e9 / mean_ns - 60.0).abs() < 1e-9, "{mean_ns}");
    assert_eq!(stages[0].workers, 4);
    let batch = &scenario.workloads[1];
    assert_eq!(
        (batch.task.class, batch.task.policy, batch.task.nice),
        (Class::Batch, Policy::Idle, 19)
    );
    assert_eq!(batch.behaviour, Behaviour::Batch { tasks: 4 });
    let seen: Vec<_> = scenario
        .configurations
        .iter()
        .map(|it| (it.name.as_str(), it.smt, &it.workloads[..]))
        .collect();
    let expected: [(&str, Option<usize>, &[usize]); 4] = [
        ("alone", None, &[0]),
        ("default", None, &[0, 1]),
        ("smt-off", Some(1), &[0, 1]),
        ("sidelane", None, &[0, 1]),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn the_large_example_is_large() {
    let text = include_str!("../../../../examples/scenarios/two-sockets.toml");
    let scenario = Scenario::parse(text, "two-sockets.toml").unwrap();
    let machine = &scenario.machine;
    assert_eq!((machine.cores.len(), machine.nr_lanes), (128, 256));
    assert_eq!(machine.cores[1].lanes, [1, 129]);
    let last = &machine.cores[127];
    assert_eq!((last.cache, last.node), (15, 1));
    let mut schedulers = scenario.configurations.iter().map(|it| &it.scheduler);
    assert!(
        schedulers
            .next_back()
            .is_some_and(|last| matches!(last, Kind::Sidelane(_)))
    );
}

#[test]
fn the_examples_of_the_manual_are_right() {
    let manual = include_str!("../../../../docs/scenarios.md");
    let examples = manual.split("```toml\n").skip(1);
    let examples: Vec<&str> = examples
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert_eq!(examples.len(), 2);
    assert_eq!(parse(examples[0]).workloads.len(), 2);
    let large = parse(examples[1]);
    assert_eq!((large.workloads.len(), large.configurations.len()), (3, 4));
    assert_eq!(large.machine.nr_lanes, 16);
}

#[test]
fn distributions_are_scaled_from_ms_to_ns() {
    let mean_ms = |text: &str| {
        let io = format!("io = {{ tasks = 1, burst_ms = {text}, wait_ms = 0 }}");
        match behaviour(&io) {
            Behaviour::Io { burst, .. } => burst.mean() / 1e6,
            other => panic!("{other:?}"),
        }
    };
    for (text, mean) in [
        ("8", 8.0),
        ("{ constant = 0.5 }", 0.5),
        ("{ exponential = 8 }", 8.0),
        ("{ uniform = [2, 4] }", 3.0),
        ("{ lognormal = { mean = 8, cv = 1.5 } }", 8.0),
        ("{ bounded_pareto = { alpha = 2, min = 1, max = 3 } }", 1.5),
        ("{ hyperexponential = [[0.75, 2], [0.25, 10]] }", 4.0),
        ("{ erlang = { stages = 3, mean = 8 } }", 8.0),
        ("{ empirical = [[0.5, 2], [1, 10]] }", 4.0),
        ("{ mixture = [[3, 2], [1, { exponential = 10 }]] }", 4.0),
    ] {
        assert!(
            (mean_ms(text) - mean).abs() < 1e-9,
            "{text}: {}",
            mean_ms(text)
        );
    }
}

#[test]
fn hybrid_machines_are_numbered_in_order() {
    let scenario = machine(
        "thread_perf = [1, 0.6]\noffline = \"3,5\"\n\
         [[machine.group]]\ncores = 2\nlanes = 2\n\
         [[machine.group]]\ncores = 3\nlanes = 1\ncapacity = 512\ncache = 1",
    );
    let machine = &scenario.machine;
    let seen: Vec<_> = machine
        .cores
        .iter()
        .map(|core| (&core.lanes[..], core.capacity, core.cache, core.node))
        .collect();
    let expected: [(&[u32], u32, u32, u32); 5] = [
        (&[0, 1], 1024, 0, 0),
        (&[2, 3], 1024, 0, 0),
        (&[4], 512, 1, 0),
        (&[5], 512, 1, 0),
        (&[6], 512, 1, 0),
    ];
    assert_eq!(seen, expected);
    assert_eq!(machine.online, [true, true, true, false, true, false, true]);
}

#[test]
fn groups_of_different_packages_share_nothing() {
    let group = |package| format!("[[machine.group]]\ncores = 1\nlanes = 1\npackage = {package}\n");
    let scenario = machine(&(group(0) + &group(7)));
    let places: Vec<_> = scenario
        .machine
        .cores
        .iter()
        .map(|core| (core.cache, core.node))
        .collect();
    assert_eq!(places, [(0, 0), (1, 1)]);
}

#[test]
fn costs_differ_from_the_default_where_they_are_given() {
    let scenario = machine("cores = 1\nlanes = 1\n[machine.costs]\nswitch_us = 2.5\ntick_ms = 1");
    let expected = Costs {
        switch_ns: 2500,
        tick_ns: 1_000_000,
        ..Costs::default()
    };
    assert_eq!(scenario.machine.costs, expected);
    let scenario = machine("cores = 1\nlanes = 1\ncosts = \"none\"");
    assert_eq!(scenario.machine.costs, Costs::none());
}

#[test]
fn kinds_are_rows_of_the_table() {
    let scenario = parse(
        "[machine]\ncores = 1\nlanes = 2\n\
         interference = { kinds = [\"a\", \"b\"], speed = [[1, 0.6], [0.8, 0.5]] }\n\
         [[workload]]\nname = \"w\"\nclass = \"batch\"\nbatch.tasks = 1\nkind_of = \"b\"\n",
    );
    let table = Interference::Kinds(vec![vec![1.0, 0.6], vec![0.8, 0.5]]);
    assert_eq!(
        (
            scenario.machine.interference,
            scenario.workloads[0].task.kind
        ),
        (table, 1)
    );
}

#[test]
fn load_counts_the_cores_that_are_there() {
    let rate = |machine: &str| {
        let scenario = parse(&format!(
            "[machine]\n{machine}\n[[workload]]\nname = \"w\"\nclass = \"normal\"\n\
             open = {{ load = 0.5 }}\nstages = [{{ demand_ms = 2 }}, {{ demand_ms = 3 }}]\n"
        ));
        match &scenario.workloads[0].behaviour {
            Behaviour::Requests {
                arrivals:
                    Arrivals::Open {
                        interarrival: Distribution::Exponential(mean_ns),
                    },
                ..
            } => 1e9 / mean_ns,
            other => panic!("{other:?}"),
        }
    };
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} {b}");
    close(rate("cores = 4\nlanes = 2"), 400.0);
    close(rate("cores = 4\nlanes = 2\noffline = [1, 2, 3]"), 300.0);
    close(
        rate("group = [{ cores = 1, lanes = 2 }, { cores = 2, lanes = 1, capacity = 256 }]"),
        150.0,
    );
}

#[test]
fn clients_are_as_many_as_make_a_load() {
    let clients = |lines: &str| match behaviour(&format!(
        "closed = {{ {lines} }}\nstages = [{{ delay_ms = 10 }}, {{ demand_ms = 30 }}]"
    )) {
        Behaviour::Requests {
            arrivals: Arrivals::Closed { clients, .. },
            ..
        } => clients,
        other => panic!("{other:?}"),
    };
    // Half of four cores, of which a client wants 30 ms every 160 ms.
    assert_eq!(clients("load = 0.5, think_ms = 120"), 11);
    assert_eq!(clients("load = 0.001, think_ms = 120"), 1);
    assert_eq!(clients("clients = 7, think_ms = 120"), 7);
}

#[test]
fn control_has_the_defaults_of_the_governor() {
    let control = |lines: &str| {
        let text = format!("{SMALL}[[configuration]]\nscheduler = \"default\"\n{lines}\n");
        parse(&text).configurations.remove(0).control
    };
    assert_eq!(control(""), None);
    let default = Control {
        interval_ns: 5_000_000_000,
        governor: GovernorConfig::default(),
        measure: Measure::Lanes(LaneOrder::Independent),
    };
    assert_eq!(control("control = {}"), Some(default.clone()));
    // as the daemon: each model but the source's says itself how busy lanes come together
    let measure = |lines: &str| control(lines).unwrap().measure;
    assert_eq!(measure("control.model = \"last-lane\""), Measure::Model);
    let independent = "control = { model = \"last-lane\", utilization = \"independent\" }";
    assert_eq!(measure(independent), default.measure);
    let options = Options::new(Model::Source).with_iterations(10).unwrap();
    let published = Control {
        interval_ns: 1_000_000_000,
        governor: GovernorConfig {
            options,
            ..GovernorConfig::published()
        },
        measure: Measure::Counted,
    };
    let lines = "control = { interval_s = 1, iterations = 10, hysteresis = 0, min_gain = 0, dwell = 0, memory = false, \
                 window = 12, utilization = \"counted\" }";
    assert_eq!(control(lines), Some(published));
}

#[test]
fn workers_are_as_many_as_lanes_open_to_them() {
    let workers =
        |lines: &str| match behaviour(&format!("closed.clients = 3\ndemand_ms = 1\n{lines}")) {
            Behaviour::Requests { stages, .. } => stages[0].workers,
            other => panic!("{other:?}"),
        };
    assert_eq!(workers(""), 8);
    assert_eq!(workers("cpus = \"0-2\""), 3);
    assert_eq!(workers("cpus = \"0-2\"\nworkers = 40"), 40);
}

#[test]
fn a_stage_can_have_workers_of_its_own() {
    let served = behaviour(
        "closed.clients = 3\ncpus = \"2-5\"\nstages = [{ demand_ms = 1 }, \
         { demand_ms = 1, name = \"master\", class = \"critical\", cpus = \"0\" }, { demand_ms = 1, name = \"w\" }]",
    );
    let Behaviour::Requests { stages, .. } = served else {
        panic!("{served:?}")
    };
    let workers: Vec<usize> = stages.iter().map(|stage| stage.workers).collect();
    assert_eq!(workers, [4, 1, 4]);
    let master = stages[1].task.as_deref().unwrap();
    assert_eq!(
        (master.name.as_str(), master.class, &master.cpus),
        ("master", Class::Critical, &Some(vec![0]))
    );
    // what is said again is no difference
    assert_eq!((&stages[0].task, &stages[2].task), (&None, &None));
}

#[test]
fn behaviours() {
    assert_eq!(
        behaviour("io = { tasks = 2, burst_ms = { exponential = 1 }, wait_ms = 0 }"),
        Behaviour::Io {
            tasks: 2,
            burst: Distribution::Exponential(1e6),
            wait: Distribution::Constant(0.0),
            poll: None,
            relayed: 0.0,
        }
    );
    let served = behaviour(
        "closed = { clients = 50, think_ms = { exponential = 1000 } }\nworkers = 1\n\
         demand_ms = 0.5\ndeadline_ms = 150\nquality = { concavity = 3, full_ms = 1000 }",
    );
    let Behaviour::Requests {
        arrivals,
        deadline_ns,
        quality,
        ..
    } = served
    else {
        panic!("{served:?}")
    };
    let think = Distribution::Exponential(1e9);
    assert_eq!(arrivals, Arrivals::Closed { clients: 50, think });
    assert_eq!(deadline_ns, Some(150_000_000));
    let full_ns = 1e9;
    assert_eq!(
        quality,
        Quality::Exponential {
            concavity: 3.0,
            full_ns
        }
    );
}

/// What a scenario reads from a trace: when requests come and their demand, ns.
fn trace_of(csv: &'static str) -> Vec<(u64, f64)> {
    let text = format!(
        "{}trace = \"a/b.csv\"\n",
        SMALL.replace("open = { rate_per_s = 50 }\n", "")
    );
    let read = |file: &str| match file {
        "a/b.csv" => Ok(csv.to_owned()),
        _ => Err(std::io::Error::other("no such file")),
    };
    let scenario = Scenario::parse_with(&text, "t.toml", &read).unwrap();
    let Behaviour::Requests {
        arrivals: Arrivals::Trace(requests),
        ..
    } = &scenario.workloads[0].behaviour
    else {
        panic!("{:?}", scenario.workloads[0])
    };
    requests.iter().map(|it| (it.at_ns, it.demand_ns)).collect()
}

#[test]
fn a_trace_is_read_by_its_name() {
    let seen = trace_of("at_ms, demand_ms\r\n\r\n0, 1.5\r\n2.25,3\r\n");
    assert_eq!(seen, [(0, 1.5e6), (2_250_000, 3e6)]);
}

#[test]
fn a_mark_of_the_byte_order_is_no_part_of_a_trace() {
    assert_eq!(
        trace_of("\u{feff}at_ms,demand_ms\n1,2\n"),
        [(1_000_000, 2e6)]
    );
}

#[test]
fn configurations_choose_workloads() {
    let more = "[[workload]]\nname = \"batch\"\nclass = \"batch\"\nbatch.tasks = 2\n\
                [[configuration]]\nscheduler = \"fifo\"\nonly = [\"batch\"]\n\
                [[configuration]]\nscheduler = \"sidelane\"\nwithout = []\nsettings.smt_level = 1\n\
                settings.promote = false\nsettings.retain = true\nsettings.pair = true\n\
                settings.retention = { start_ms = 1, period_ms = 0 }\nsettings.pairing.uniform = 0\n";
    let scenario = parse(&format!("{SMALL}{more}"));
    let [fifo, sidelane] = &scenario.configurations[..] else {
        panic!("{:?}", scenario.configurations)
    };
    assert_eq!(
        (fifo.name.as_str(), &fifo.workloads[..]),
        ("fifo", &[1][..])
    );
    let Interference::ThreadPerf(speeds) = &scenario.machine.interference else {
        panic!("{:?}", scenario.machine)
    };
    let settings = Settings {
        smt_level: 1,
        promote: false,
        thread_perf: speeds.clone(), // told where lanes are held
        counters: UseCounters::Off,
        retain: true,
        retention: Retention {
            start_ns: 1_000_000,
            period_ns: 0,
            ..Retention::default()
        },
        pair: true,
        pairing: Pairing {
            uniform: 0.0,
            ..Pairing::default()
        },
        ..Settings::default()
    };
    assert_eq!(sidelane.scheduler, Kind::from(settings));
    assert_eq!(sidelane.workloads, [0, 1]);
}

#[test]
fn retention_that_cannot_be_is_refused() {
    let refused = |settings: &str| {
        let text = format!("{SMALL}[[configuration]]\nscheduler = \"sidelane\"\n{settings}\n");
        let read = |_: &str| Err(std::io::Error::other("none"));
        Scenario::parse_with(&text, "t.toml", &read)
            .map(drop)
            .unwrap_err()
            .to_string()
    };
    for (settings, said) in [
        ("settings.retention.start_ms = 1", "retain = true"),
        ("settings.pair = true", "without retain = true"),
        (
            "settings = { retain = true, retention.max_ms = 1 }",
            "min_ms <= start_ms",
        ),
        (
            "settings = { retain = true, retention.period_ms = 1 }",
            "20",
        ),
        (
            "settings = { retain = true, retention.timeout_ms = 1 }",
            "timeout_ms",
        ),
        (
            "settings = { retain = true, pairing.uniform = 0.1 }",
            "pair = true",
        ),
    ] {
        let error = refused(settings);
        assert!(
            error.contains(said) && error.contains("t.toml:"),
            "{settings}: {error}"
        );
    }
}
