//! What a collector would see of simulated machines: as recordings, and what `sidelane advise` makes of it.

use sidelane_sim::{Scenario, record, run, watch};
use sidelane_smt::advise::{Advice, Confidence, Finding, advise};
use sidelane_smt::recording::{Frame, intervals, open};
use sidelane_smt::report::{Options, report};
use sidelane_smt::snapshot::{Charge, Class, Interval, RateSource};

const MS: u64 = 1_000_000;

/// The scenario of an experiment.
fn scenario(experiment: &str, seconds: f64) -> Scenario {
    let text = experiment.split("[experiment]").next().unwrap();
    let mut scenario = Scenario::parse(text, "experiment.toml").unwrap();
    scenario.run.length_ns = (seconds * 1e9) as u64;
    scenario
}

fn watched(scenario: &Scenario, configuration: &str, every_ns: u64) -> Vec<Interval> {
    let mut configurations = scenario.configurations.iter();
    let found = configurations.find(|other| other.name == configuration);
    watch(scenario, found.unwrap(), every_ns).unwrap()
}

/// What advice says of serial stages and master threads in a configuration of an experiment.
fn serial(experiment: &str, configuration: &str) -> Option<Advice> {
    let scenario = scenario(experiment, 2.0);
    let intervals = watched(&scenario, configuration, 250 * MS);
    let all = advise(&intervals).unwrap();
    all.into_iter().find(|advice| {
        matches!(
            advice.finding,
            Finding::SerialStage { .. } | Finding::MasterThread { .. }
        )
    })
}

const PARALLEL: &str = include_str!("../../../experiments/zvm-smt2-parallel.toml");
const SERIALISED: &str = include_str!("../../../experiments/zvm-smt2-serialised.toml");
const IO: &str = include_str!("../../../experiments/zvm-smt2-io.toml");
const RELOCATION: &str = include_str!("../../../experiments/zvm-smt2-relocation.toml");
const POOLS: &str = include_str!("../../../experiments/zvm-smt2-pools.toml");
const MASTER: &str = include_str!("../../../experiments/zvm-smt2-master.toml");
const MASTER_APART: &str = include_str!("../../../experiments/zvm-smt2-master-apart.toml");

#[test]
fn the_serial_stage_of_table_4_is_named() {
    // As busy as the published clients, 95 %: with the waits of the experiment they are below 90 %.
    let waits = "exponential = 3.13 }";
    assert!(SERIALISED.contains(waits));
    let busy = SERIALISED.replace(waits, "exponential = 0.5 }");
    for configuration in ["smt", "smt-default"] {
        let found = serial(&busy, configuration).unwrap();
        let Finding::SerialStage { threads, .. } = &found.finding else {
            panic!("{found:?}");
        };
        let mut names: Vec<&str> = threads.iter().map(|thread| thread.comm.as_str()).collect();
        names.sort_unstable();
        let clients = ["client-1", "client-2", "client-3"];
        assert_eq!(names, clients, "{configuration}");
        assert!(found.confidence >= Confidence::Medium, "{found:?}");
    }
}

#[test]
fn neither_the_remedies_of_table_4_nor_smt_off_have_a_serial_stage() {
    for configuration in ["off", "smt-second-cpu", "smt-more-clients"] {
        assert_eq!(serial(SERIALISED, configuration), None, "{configuration}");
    }
}

#[test]
fn the_master_threads_of_tables_5_and_6_are_named() {
    for (experiment, configuration) in [
        (MASTER, "smt"),
        (MASTER, "smt-default"),
        (MASTER_APART, "smt"),
    ] {
        let found = serial(experiment, configuration).unwrap();
        let Finding::MasterThread { thread, .. } = &found.finding else {
            panic!("{found:?}");
        };
        assert_eq!(thread.comm, "master");
        assert_eq!(found.confidence, Confidence::High, "{found:?}");
        let remedy = &found.finding.sentences()[1];
        // on a core with one lane there is nobody to part it from
        assert_eq!(
            remedy.contains("mark it critical"),
            experiment == MASTER,
            "{remedy}"
        );
    }
}

#[test]
fn parallel_work_as_in_table_1_has_no_serial_stage() {
    for configuration in [
        "off",
        "smt",
        "smt-as-loaded",
        "smt-saturated",
        "smt-default",
    ] {
        assert_eq!(serial(PARALLEL, configuration), None, "{configuration}");
    }
}

#[test]
fn waiting_for_devices_or_computing_all_the_time_is_no_serial_stage() {
    for (experiment, configuration) in [
        (IO, "smt"),
        (IO, "smt-at-rate"),
        (RELOCATION, "off"),
        (RELOCATION, "smt"),
        (RELOCATION, "smt-batch"),
    ] {
        assert_eq!(serial(experiment, configuration), None, "{configuration}");
    }
}

/// The cgroups that lost entitlement in a configuration of Table 7.
fn losing(configuration: &str) -> Vec<String> {
    let scenario = scenario(POOLS, 2.0);
    let intervals = watched(&scenario, configuration, 250 * MS);
    let all = advise(&intervals).unwrap().into_iter();
    let lost = all.filter_map(|advice| match advice.finding {
        Finding::LostEntitlement { cgroup, lost, .. } => {
            assert!((0.1..0.5).contains(&lost), "{cgroup}: {lost}");
            // the machine's speeds are the scenario's
            assert_eq!(advice.confidence, Confidence::Medium);
            Some(cgroup)
        }
        _ => None,
    });
    lost.collect()
}

#[test]
fn the_pools_of_table_7_that_lost_entitlement_are_named() {
    // those limited by share may use twice the time, and do not use it up
    assert_eq!(losing("smt"), ["/capacity-3", "/capacity-4"]);
    assert!(losing("smt-mt1").is_empty());
    assert!(losing("off").is_empty());
}

#[test]
fn pools_are_cgroups_with_limits() {
    let scenario = scenario(POOLS, 4.0);
    let of = |configuration| watched(&scenario, configuration, 4_000 * MS).pop().unwrap();
    let smt = of("smt");
    let limits: Vec<(&str, f64)> = (smt.limits.iter())
        .map(|limit| (limit.cgroup.as_str(), limit.capacity))
        .collect();
    let expected = [
        ("/capacity-3", 0.4),
        ("/capacity-4", 0.4),
        ("/others", 14.4),
        ("/share-1", 0.8),
        ("/share-2", 0.8),
    ];
    assert_eq!(limits, expected);
    assert!(smt.limits.iter().all(|limit| limit.charge == Charge::Raw));
    assert!(
        smt.limits[0].throttled_ns.unwrap() > 20 * MS,
        "{:?}",
        smt.limits[0]
    );
    let mt1 = of("smt-mt1");
    assert!(mt1.limits.iter().all(|limit| limit.charge == Charge::Mt1));
    assert_eq!(mt1.limits[3].capacity, 0.4);
    // what tasks used is what their cgroups used; nothing ran in "others"
    let usage = |id| {
        let tasks = smt.tasks.iter().filter(move |task| task.cgroup == id);
        tasks.map(|task| task.usage.raw_ns).sum::<u64>()
    };
    let paths = smt.cgroups.iter().map(|group| group.path.as_deref());
    let expected = ["/", "/share-1", "/share-2", "/capacity-3", "/capacity-4"];
    assert!(paths.eq(expected.map(Some)));
    for group in &smt.cgroups {
        assert_eq!(group.usage.raw_ns, usage(group.id), "{:?}", group.path);
        assert!(group.usage.raw_ns > 0 && group.usage.jobs.count() > 0);
    }
}

/// Two kinds of cores, costs, all classes, pauses; one lane offline.
const MIXED: &str = r#"
[machine]
thread_perf = [1, 0.7, 0.5]
offline = "4"
[[machine.group]]
cores = 2
lanes = 3
[[machine.group]]
cores = 1
lanes = 2
capacity = 600
[run]
seconds = 0.5
warmup_seconds = 0.1
[[workload]]
name = "a name that is longer than comm"
class = "critical"
open = { load = 0.4 }
demand_ms = { exponential = 1 }
workers = 6
[[workload]]
name = "reader"
class = "normal"
io = { tasks = 3, burst_ms = { exponential = 0.5 }, wait_ms = 1 }
[[workload]]
name = "batch"
class = "batch"
batch = { tasks = 5 }
[[configuration]]
scheduler = "sidelane"
[[configuration]]
scheduler = "default"
"#;

#[test]
fn what_tasks_are_charged_is_the_work_of_the_cores() {
    let scenario = Scenario::parse(MIXED, "mixed.toml").unwrap();
    for configuration in ["sidelane", "default"] {
        let intervals = watched(&scenario, configuration, 100 * MS);
        assert_eq!(intervals.len(), 5);
        for interval in &intervals {
            assert_eq!(interval.rates.source, RateSource::Given);
            let work_ns = interval.metrics().unwrap().mt1_ns;
            let usages = || interval.tasks.iter().map(|task| &task.usage);
            let charged_ns: u64 = usages().map(|usage| usage.mt1_ns).sum();
            let off = charged_ns as f64 / work_ns - 1.0;
            assert!(work_ns > 1e8 && off.abs() < 0.001, "{configuration}: {off}");
            // times are exact
            let raw_ns: u64 = usages().map(|usage| usage.raw_ns).sum();
            let lanes = interval.cores.iter().flat_map(|core| &core.lanes);
            let busy_ns: u64 = lanes.map(|lane| lane.busy_ns).sum();
            let times = interval
                .cores
                .iter()
                .flat_map(|core| (1..).zip(&core.by_density_ns));
            let by_density_ns: u64 = times.map(|(busy, ns): (u64, &u64)| busy * ns).sum();
            assert_eq!((raw_ns, raw_ns), (busy_ns, by_density_ns));
            let core = &interval.cores[1];
            assert_eq!((core.elapsed_ns, core.online_lanes()), (100 * MS, 2));
        }
    }
}

#[test]
fn tasks_wait_and_have_jobs_as_a_collector_counts_them() {
    let scenario = Scenario::parse(MIXED, "mixed.toml").unwrap();
    let mut intervals = watched(&scenario, "sidelane", 100 * MS).into_iter();
    let mut whole = intervals.next().unwrap();
    intervals.for_each(|interval| whole.add(&interval).unwrap());
    let of = |class| {
        let tasks = whole.tasks.iter();
        tasks.filter(move |task| task.class == Some(class))
    };
    for task in of(Class::Critical) {
        assert_eq!(task.comm, "a name that is ");
        assert!(task.usage.runs >= task.usage.jobs.count() && task.usage.jobs.count() > 10);
    }
    for task in of(Class::Batch) {
        // always ready: runs or waits, and never sleeps
        let ready_ns = task.usage.raw_ns + task.usage.waiting_ns;
        assert_eq!((ready_ns, task.usage.jobs.count()), (500 * MS, 0));
    }
    assert_eq!(
        (of(Class::Critical).count(), of(Class::Batch).count()),
        (6, 5)
    );
}

#[test]
fn an_interference_table_shows_as_the_speeds_that_came_out() {
    let text = MIXED
        .replace(
            "thread_perf = [1, 0.7, 0.5]",
            "costs = \"none\"\ninterference = { kinds = [\"a\"], speed = [[0.8]] }",
        )
        .replace("class =", "kind_of = \"a\"\nclass =");
    let scenario = Scenario::parse(&text, "kinds.toml").unwrap();
    let intervals = watched(&scenario, "sidelane", 250 * MS);
    let rates = &intervals[1].rates;
    assert_eq!(rates.source, RateSource::Given);
    assert_eq!(intervals[0].rates.source, RateSource::Given);
    for (speed, expected) in rates.thread_perf.iter().zip([1.0, 0.8, 0.64]) {
        assert!((speed - expected).abs() < 1e-6, "{rates:?}");
    }
}

#[test]
fn intervals_take_time() {
    let scenario = Scenario::parse(MIXED, "mixed.toml").unwrap();
    let error = watch(&scenario, &scenario.configurations[0], 0).unwrap_err();
    assert!(error.to_string().contains("0 ns"));
}

const TEXT: &str = r#"
[machine]
cores = 2
lanes = 2
thread_perf = [1, 0.6]
[run]
replications = 1
seconds = 2.5
warmup_seconds = 0.5
[[pool]]
name = "tenant"
capacity_cores = 0.5
charge = "raw"
[[workload]]
name = "server"
class = "critical"
open = { load = 0.3 }
demand_ms = { exponential = 2 }
[[workload]]
name = "batch"
class = "batch"
pool = "tenant"
batch = { tasks = 3 }
[[configuration]]
scheduler = "sidelane"
[[configuration]]
name = "off"
scheduler = "default"
smt = "off"
"#;

fn recorded(scenario: &Scenario, index: usize) -> Vec<u8> {
    record(
        scenario,
        &scenario.configurations[index],
        "0.1.0",
        Vec::new(),
    )
    .unwrap()
}

#[test]
fn a_recording_has_what_the_run_has() {
    let scenario = Scenario::parse(TEXT, "small.toml").unwrap();
    let bytes = recorded(&scenario, 0);
    let (header, _) = open(&bytes).unwrap();
    assert_eq!((header.lanes, header.interval_ms), (4, 833));
    assert_eq!(header.scheduler.as_deref(), Some("sidelane"));
    let (all, notes) = intervals(&bytes).unwrap();
    assert_eq!((all.len(), notes), (3, Vec::new()));
    // intervals are whole, and next to each other
    assert_eq!(all[0].from_ns, 500_000_000);
    assert!(all.windows(2).all(|pair| pair[0].to_ns == pair[1].from_ns));
    assert!(3_000_000_000 - all[2].to_ns < 3);
    let density = run(&scenario, &|| ()).unwrap()[0].values(None, "density");
    let report = report("small", &bytes, &Options::default()).unwrap();
    let found = report.metrics.thread_density.unwrap();
    assert!((found - density.unwrap()[0]).abs() < 1e-6, "{found}");
    assert!(report.cgroups.iter().any(|row| row.name == "/tenant"));
    assert_eq!(all[0].limits[0].capacity, 0.5);
}

#[test]
fn only_lanes_that_are_there_count() {
    let scenario = Scenario::parse(TEXT, "small.toml").unwrap();
    let bytes = recorded(&scenario, 1);
    let (header, frames) = open(&bytes).unwrap();
    assert_eq!(
        (header.lanes, header.scheduler.as_deref()),
        (2, Some("off"))
    );
    // the kernel's own scheduler knows no pools
    for frame in frames {
        match frame.unwrap() {
            Frame::Interval(interval) => assert!(interval.limits.is_empty()),
            Frame::End(end) => assert_eq!(end.status, None),
            other => panic!("{other:?}"),
        }
    }
}
