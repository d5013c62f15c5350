use super::*;
use crate::testing::Tree;
use sidelane_model::{GovernorConfig, Model, Options};

fn settings(tree: &Tree, actuator: ActuatorKind) -> Settings {
    Settings {
        root: tree.root().to_owned(),
        actuator,
        interval: Duration::from_millis(1),
        governor: GovernorConfig {
            options: Options::new(Model::LastLane),
            ..GovernorConfig::default()
        },
        thread_perf: None,
        learn: false,
        normalization: None,
        ignore_nice: false,
        state: tree.root().join("run/control.json"),
        metrics: None,
    }
}

/// What lanes have done at a time, each busy for a share of it.
fn stat(tree: &Tree, time: u64, busy: impl Fn(u32) -> f64) {
    let online: CpuList = tree.read("online").parse().unwrap();
    let line = |cpu: u32| {
        let ticks = (time as f64 * busy(cpu)) as u64;
        format!("cpu{cpu} {ticks} 0 0 {}\n", time - ticks)
    };
    tree.file("proc/stat", &online.iter().map(line).collect::<String>());
}

/// A daemon that looks once, and what it says.
fn once(tree: &Tree, settings: &Settings, busy: impl Fn(u32) -> f64) -> Vec<String> {
    let mut said = Vec::new();
    let mut on_event = |event: Event| said.push(event.to_string());
    stat(tree, 1000, &busy);
    let topology = Topology::read(tree.root()).unwrap();
    let reserved = Reserved::read(tree.root());
    let mut daemon = Daemon::new(settings, &topology, reserved, &mut on_event).unwrap();
    stat(tree, 2000, &busy);
    daemon.interval(settings, &mut on_event).unwrap();
    said
}

#[test]
fn isolated_lanes_are_no_part_of_the_machine() {
    let busy = |cpu: u32| if cpu < 4 { 0.95 } else { 0.0 };
    let part = Tree::new(8, 2);
    part.write("isolated", "4-15\n");
    for actuator in [ActuatorKind::DryRun, ActuatorKind::Sysfs] {
        let said = once(&part, &settings(&part, actuator), busy).join("\n");
        assert!(said.contains("CPUs 4-15 are isolated"), "{said}");
        assert!(said.contains(": 2 cores") && !said.contains("->"), "{said}");
    }
    let whole = Tree::new(2, 2);
    let of_whole = once(&whole, &settings(&whole, ActuatorKind::DryRun), busy);
    let of_part = once(&part, &settings(&part, ActuatorKind::DryRun), busy);
    assert_eq!(of_whole.last(), of_part.last());
}

#[test]
fn a_dry_run_says_what_would_be_refused() {
    let tree = Tree::new(2, 2);
    let state = r#"{"policyName":"static","defaultCpuSet":"0-3"}"#;
    tree.file("var/lib/kubelet/cpu_manager_state", state);
    let said = once(&tree, &settings(&tree, ActuatorKind::DryRun), |_| 0.05).join("\n");
    assert!(
        said.contains("without --dry-run it would refuse") && said.contains("cpu_manager_state"),
        "{said}"
    );
}

/// Where SMT costs a lane alone something, it is switched off at low load even on one core. The scheduler's cap leaves
/// it on.
#[test]
fn what_smt_costs_a_lane_alone_counts_where_it_can_be_switched_off() {
    let speeds = || ThreadPerf::new(vec![0.9, 0.6]).unwrap();
    for (thread_perf, change) in [(None, false), (Some(speeds()), true)] {
        let tree = Tree::new(1, 2);
        let settings = Settings {
            thread_perf,
            ..settings(&tree, ActuatorKind::DryRun)
        };
        let said = once(&tree, &settings, |_| 0.05).join("\n");
        assert_eq!(said.contains("level 2 -> 1"), change, "{said}");
    }
    for (kind, alone) in [
        (ActuatorKind::Scheduler, 0.9),
        (ActuatorKind::Sysfs, 1.0),
        (ActuatorKind::DryRun, 1.0),
    ] {
        let machine = kind.machine(1, speeds()).unwrap();
        assert_eq!([machine.speed(1, 1), machine.speed(2, 1)], [alone, 0.9]);
    }
}

#[test]
fn a_machine_that_is_all_reserved_is_left() {
    let tree = Tree::new(2, 2);
    tree.write("nohz_full", "1,3\n");
    let settings = settings(&tree, ActuatorKind::Sysfs);
    let outcome = run(&settings, &AtomicBool::new(false), &mut |_| {}).unwrap();
    assert!(matches!(&outcome, Outcome::NothingToDo(why) if why.contains("CPUs 1,3")));
    assert!(!settings.state.exists());
}

/// Lanes that became reserved before the first change stay, as the decision was for another machine.
#[test]
fn what_was_reserved_meanwhile_is_not_taken() {
    for (isolated, smt) in [("2-7\n", "on"), ("\n", "off")] {
        let tree = Tree::new(4, 2);
        let settings = settings(&tree, ActuatorKind::Sysfs);
        stat(&tree, 1000, |_| 0.3);
        let topology = Topology::read(tree.root()).unwrap();
        let reserved = Reserved::read(tree.root());
        let mut daemon = Daemon::new(&settings, &topology, reserved, &mut |_| {}).unwrap();
        stat(&tree, 2000, |_| 0.3);
        tree.write("isolated", isolated);
        let served = daemon.interval(&settings, &mut |_| {}).unwrap();
        assert_eq!(matches!(served, Some(Served::ReservedChanged)), smt == "on");
        assert_eq!(tree.read("smt/control"), smt);
        assert_eq!(tree.online_files(), "11111111");
    }
}

/// A daemon of 4 cores that have little to do, so that it would switch SMT off.
fn idle_daemon(tree: &Tree, settings: &Settings) -> Daemon {
    stat(tree, 1000, |_| 0.05);
    let topology = Topology::read(tree.root()).unwrap();
    let reserved = Reserved::read(tree.root());
    let daemon = Daemon::new(settings, &topology, reserved, &mut |_| {}).unwrap();
    stat(tree, 2000, |_| 0.05);
    daemon
}

#[test]
fn metrics_that_cannot_be_written_hold_up_no_change() {
    let tree = Tree::new(4, 2);
    let settings = Settings {
        metrics: Some(tree.root().join("nowhere/control.prom")),
        ..settings(&tree, ActuatorKind::Sysfs)
    };
    let mut daemon = idle_daemon(&tree, &settings);
    let mut said = String::new();
    let mut on_event = |event: Event| said += &format!("{event}\n");
    daemon.interval(&settings, &mut on_event).unwrap();
    assert_eq!(tree.read("smt/control"), "off");
    let warned = said.contains("nowhere/control.prom") && said.contains("; trying again");
    assert!(warned, "{said}");
}

#[test]
fn a_level_that_cannot_be_set_is_an_error_and_in_the_metrics() {
    let tree = Tree::new(4, 2);
    let metrics = tree.root().join("control.prom");
    let settings = Settings {
        metrics: Some(metrics.clone()),
        ..settings(&tree, ActuatorKind::Sysfs)
    };
    let mut daemon = idle_daemon(&tree, &settings);
    tree.remove("smt/control");
    let error = daemon.interval(&settings, &mut |_| {}).err().unwrap();
    assert!(error.to_string().contains("smt/control"), "{error}");
    assert!(metrics.exists());
}

#[test]
fn what_cannot_be_learnt_holds_up_no_change() {
    const NONE: u32 = 99_999; // no machine has a CPU of this number, so that it cannot be counted
    let tree = Tree::new(4, 2);
    let settings = settings(&tree, ActuatorKind::Sysfs);
    let mut daemon = idle_daemon(&tree, &settings);
    daemon.learner = Some(Learner::new(&[], &[1.0, 0.6]).unwrap());
    daemon.cores.push(vec![NONE]);
    let look = |time: u64| {
        let line = |cpu| format!("cpu{cpu} {} 0 0 {time}\n", time / 20);
        let cpus = (0..8).chain([NONE]);
        tree.file("proc/stat", &cpus.map(line).collect::<String>());
    };
    look(3000);
    daemon.sampler.sample().unwrap();
    look(4000);
    let mut said = String::new();
    let mut on_event = |event: Event| said += &format!("{event}\n");
    daemon.interval(&settings, &mut on_event).unwrap();
    assert_eq!(tree.read("smt/control"), "off");
    assert!(said.contains("; trying again"), "{said}");
}

#[test]
fn what_was_found_comes_back_after_a_panic() {
    let tree = Tree::new(4, 2);
    let settings = settings(&tree, ActuatorKind::Sysfs);
    stat(&tree, 1000, |_| 0.05);
    let mut panics_at_warnings = |event: Event| {
        assert!(!matches!(event, Event::Warning { .. }), "{event}");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut looks = 0;
            while !settings.state.exists() && looks < 10_000 {
                std::thread::sleep(Duration::from_millis(1));
                looks += 1;
            }
            tree.write("smt/control", "off");
            std::fs::remove_file(tree.root().join("proc/stat")).unwrap(); // a warning
        });
        let stop = AtomicBool::new(false);
        let run = || run(&settings, &stop, &mut panics_at_warnings);
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
    });
    assert_eq!(tree.read("smt/control"), "on");
    assert!(!settings.state.exists());
}
