#![allow(clippy::unwrap_used)]
use super::*;
use crate::scheduler::tests::Machine;
use crate::{Bill, SERIES_MAX, used_between};
use sidelane_label::node::{NodeState, PodName};
use sidelane_smt::histogram::LogHistogram;
use sidelane_smt::snapshot::CgroupTotals;
use sidelane_smt::snapshot::{Class, TaskTotals};
use sidelane_smt::snapshot::{LaneTotals, Rates, delta};
use std::io::Write as _;
use std::process::{Command, Stdio};

fn reading(at_s: u64, groups: u64) -> Snapshot {
    reading_with(at_s, groups, true)
}

fn reading_with(at_s: u64, groups: u64, classes: bool) -> Snapshot {
    let ns = at_s * 1_000_000_000;
    let usage = |share: u64| Usage {
        raw_ns: ns / share,
        mt1_ns: ns / share / 2,
        prorated_ns: Some(ns / share * 3 / 4),
        borrowed_ns: classes.then_some(ns / share / 4),
        forced_idle_ns: classes.then_some(ns / share / 10),
        ..Usage::default()
    };
    let group = |id: u64| CgroupTotals {
        id,
        path: (id != 1).then(|| format!("/\"{id}\"")),
        usage: usage(id),
    };
    Snapshot {
        taken_ns: ns,
        rates: Rates {
            source: RateSource::Given,
            thread_perf: vec![1.0, 0.6],
        },
        cores: vec![CoreTotals {
            core: 3,
            elapsed_ns: ns,
            by_density_ns: vec![ns / 4, ns / 4],
            lanes: vec![LaneTotals {
                cpu: 6,
                online: true,
                busy_ns: ns / 2,
                instructions: None,
            }],
            forced_idle_ns: classes.then_some(ns / 8),
        }],
        cgroups: (1..=groups).map(group).collect(),
        ..Snapshot::default()
    }
}

/// The text of a reading that is the first of its collector, or follows `before`.
fn told(now: &Snapshot, before: Option<&Snapshot>) -> String {
    told_with(now, before, None, Vec::new())
}

/// One of a critical task.
fn a_job() -> Jobs {
    let mut jobs = Jobs::default();
    jobs.count(&[TaskTotals {
        class: Some(Class::Critical),
        usage: Usage {
            jobs: LogHistogram::of([1_000_000]),
            ..Usage::default()
        },
        ..TaskTotals::default()
    }]);
    jobs
}

const UIDS: [&str; 3] = ["0b1c", "1b1c", "2b1c"];

/// A pod of two containers, one that has ended, and one that nobody knows; beside them a service of the system. With what the
/// agent's file says.
fn a_bill() -> Bill {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.json");
    let pod = |uid: &str, name: &str, class: Option<&str>| PodName {
        uid: uid.to_owned(),
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        class: class.map(str::to_owned),
    };
    let pods = vec![
        pod(UIDS[0], "web", Some("critical")),
        pod(UIDS[1], "job", None),
    ];
    let mut bill = Bill::new(Some(file.clone()));
    bill.count(&used_between(None, &pods_reading(&[])));
    bill.tell_fault(&mut |fault| panic!("{fault}"));
    NodeState::new(None, Some(1500), pods).write(&file).unwrap();
    bill.count(&used_between(
        None,
        &pods_reading(&[
            (format!("/kubepods/pod{}/a", UIDS[0]), 10),
            (format!("/kubepods/pod{}/b", UIDS[0]), 6),
            (format!("/kubepods/burstable/pod{}", UIDS[1]), 4),
            (format!("/kubepods/besteffort/pod{}/c", UIDS[2]), 2),
            ("/system.slice/a.service".to_owned(), 100),
        ]),
    ));
    bill
}

/// Cgroups that ran for so many seconds.
fn pods_reading(groups: &[(String, u64)]) -> Snapshot {
    let group = |(id, (path, s)): (u64, &(String, u64))| CgroupTotals {
        id,
        path: Some(path.clone()),
        usage: Usage {
            raw_ns: s * 1_000_000_000,
            mt1_ns: s * 600_000_000,
            prorated_ns: Some(s * 500_000_000),
            ..Usage::default()
        },
    };
    Snapshot {
        cgroups: (1..).zip(groups).map(group).collect(),
        ..Snapshot::default()
    }
}

#[test]
fn pods_and_namespaces_are_billed_also_what_has_ended() {
    let mut bill = a_bill();
    let told = |bill: &Bill| told_with(&reading(20, 3), None, None, bill.families());
    let text = told(&bill);
    for line in [
        "sidelane_pod_raw_seconds_total{namespace=\"shop\",pod=\"web\",class=\"critical\"} 16.0",
        "sidelane_pod_mt1_seconds_total{namespace=\"shop\",pod=\"job\",class=\"none\"} 2.4",
        "sidelane_pod_prorated_seconds_total{namespace=\"(others)\",pod=\"(others)\",class=\"(others)\"} 1.0",
        "sidelane_namespace_raw_seconds_total{namespace=\"shop\"} 20.0",
        "sidelane_namespace_mt1_seconds_total{namespace=\"(others)\"} 1.2",
        "sidelane_namespace_prorated_seconds_total{namespace=\"shop\"} 10.0",
        "sidelane_batch_cpu_cores 1.5",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
    // its file is gone: what is offered is not known, the sums go on, and pods keep their names
    let reading = pods_reading(&[(format!("/kubepods/burstable/pod{}", UIDS[1]), 1)]);
    bill.count(&used_between(None, &reading));
    let text = told(&bill);
    assert!(text.contains("sidelane_namespace_raw_seconds_total{namespace=\"shop\"} 21.0"));
    assert!(!text.contains("batch_cpu_cores"));
}

#[test]
fn a_file_that_is_none_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.json");
    std::fs::write(&file, "enforce").unwrap();
    let (mut bill, mut told) = (Bill::new(Some(file)), Vec::new());
    for _ in 0..3 {
        bill.count(&used_between(None, &pods_reading(&[])));
        bill.tell_fault(&mut |fault| told.push(fault.to_owned()));
    }
    assert!(told.len() == 1 && told[0].contains("node.json"), "{told:?}");
}

/// Pods that come and go, of more namespaces than have series.
#[test]
fn of_pods_that_come_and_go_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.json");
    let mut bill = Bill::new(Some(file.clone()));
    for life in 0..600 {
        let pod = PodName {
            uid: format!("a{life}"),
            namespace: format!("team-{}", life % 150),
            name: format!("job-{life}"),
            class: Some("batch".to_owned()),
        };
        NodeState::new(None, None, vec![pod]).write(&file).unwrap();
        let reading = pods_reading(&[(format!("/kubepods/poda{life}/c"), 1)]);
        bill.count(&used_between(None, &reading));
        assert!(bill.pods.totals().count() <= crate::PODS_MAX + 1);
        assert!(bill.namespaces.totals().count() <= SERIES_MAX + 1);
    }
    let pods: u64 = bill.pods.totals().map(|(_, usage)| usage.raw_ns).sum();
    let namespaces: u64 = bill
        .namespaces
        .totals()
        .map(|(_, usage)| usage.raw_ns)
        .sum();
    // a pod's total is let go with its series; the next one of its name is another
    assert_eq!(namespaces, 600_000_000_000);
    assert!(pods <= namespaces, "{pods}");
}

/// The same with all that is told while the scheduler is attached.
fn all_told() -> String {
    let machine = Machine::new();
    let scheduler = machine.ejected_and_attached_again();
    let mut families = scheduler.families();
    machine.replace("lavd_1.0");
    let other = machine.scheduler().families();
    families.extend(
        other
            .into_iter()
            .filter(|family| family.name == "other_scheduler_attached"),
    );
    let (before, now) = (reading(10, 3), reading(20, 3));
    families.extend(a_bill().families());
    told_with(&now, Some(&before), scheduler.jobs(&a_job()), families)
}

fn told_with(
    now: &Snapshot,
    before: Option<&Snapshot>,
    jobs: Option<&Jobs>,
    families: Vec<Family>,
) -> String {
    let mut series = Series::new(SERIES_MAX);
    let used = used_between(None, now);
    let by_path = used
        .groups
        .into_iter()
        .map(|group| (group.path, group.usage));
    series.count(used.passed_ns, by_path.collect());
    let recent = before.map(|before| delta(before, now).unwrap());
    let exported = Exported {
        now,
        recent: recent.as_ref(),
        series: &series,
        jobs,
        families,
        starts: 1,
    };
    text(exported).unwrap()
}

#[test]
fn a_reading_is_valid_text_with_units_and_labels() {
    let (before, now) = (reading(10, 3), reading(20, 3));
    let text = told(&now, Some(&before));
    for line in [
        "sidelane_core_elapsed_seconds_total{core=\"3\"} 20.0",
        "sidelane_core_busy_seconds_total{core=\"3\",lanes=\"2\"} 5.0",
        "sidelane_lane_busy_seconds_total{cpu=\"6\"} 10.0",
        "sidelane_thread_perf{lanes=\"2\",source=\"given\"} 0.6",
        "sidelane_thread_density 1.5",
        "sidelane_capacity_factor 1.1",
        "sidelane_cgroup_raw_seconds_total{cgroup=\"/\\\"2\\\"\"} 10.0",
        "sidelane_cgroup_mt1_seconds_total{cgroup=\"(others)\"} 10.0",
        "sidelane_cgroup_prorated_seconds_total{cgroup=\"/\\\"2\\\"\"} 7.5",
        "sidelane_cgroup_borrowed_seconds_total{cgroup=\"/\\\"2\\\"\"} 2.5",
        "sidelane_cgroup_forced_idle_seconds_total{cgroup=\"(others)\"} 2.0",
        "sidelane_core_forced_idle_seconds_total{core=\"3\"} 2.5",
        "sidelane_collector_starts_total 1.0",
        "# EOF",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
}

#[test]
fn without_an_earlier_reading_there_are_no_ratios() {
    let text = told(&reading(10, 0), None);
    assert!(!text.contains("thread_density") && text.contains("sidelane_core_busy_seconds"));
}

#[test]
fn what_is_unknown_is_not_told_as_0() {
    let text = told(&reading_with(10, 3, false), None);
    assert!(!text.contains("borrowed") && !text.contains("forced"));
    assert!(text.contains("sidelane_cgroup_waiting_seconds_total"));
}

/// Names of metrics in a query, or several.
fn asked(query: &str) -> BTreeSet<&str> {
    let part = |c: char| !(c.is_ascii_alphanumeric() || "_:".contains(c));
    let words = query.split(part);
    // the resource, as other metrics name it, is none
    let ours = |word: &&str| word.starts_with("sidelane_") && *word != "sidelane_dev_batch_cpu";
    words.filter(ours).collect()
}

/// Metrics of which there are samples in a text.
fn there(text: &str) -> BTreeSet<&str> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect()
}

#[test]
fn the_dashboards_ask_for_what_is_exported() {
    let dashboards = [
        include_str!("../../../packaging/grafana/sidelane.json"),
        include_str!("../../../packaging/grafana/sidelane-fleet.json"),
    ];
    let boards = dashboards.map(|text| serde_json::from_str(text).unwrap());
    let text = all_told();
    let mut asked_for = BTreeSet::new();
    let panels = boards
        .iter()
        .flat_map(|board: &serde_json::Value| board["panels"].as_array().unwrap());
    for panel in panels {
        for target in panel["targets"].as_array().into_iter().flatten() {
            asked_for.extend(asked(target["expr"].as_str().unwrap()));
        }
    }
    let exported = there(&text);
    let missing: Vec<_> = asked_for.difference(&exported).collect();
    assert!(missing.is_empty(), "{missing:?} not in\n{text}");
    assert!(asked_for.len() > 25, "{asked_for:?}");
}

/// What rules record begins with the level, `instance:`.
#[test]
fn rules_ask_for_what_is_exported() {
    let rules = include_str!("../../../packaging/prometheus/sidelane.rules.yml");
    let text = all_told();
    let metrics = there(&text);
    let (mut asked_for, mut lines) = (BTreeSet::new(), rules.lines());
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with("expr:") {
            asked_for.extend(asked(line));
            let more = lines
                .clone()
                .take_while(|line| line.starts_with("         "));
            more.for_each(|line| asked_for.extend(asked(line)));
        }
    }
    let missing: Vec<_> = asked_for.difference(&metrics).collect();
    assert!(missing.is_empty(), "{missing:?} not in\n{text}");
    assert!(asked_for.len() > 8, "{asked_for:?}");
}

/// Each metric has its line in the table of the documentation, and the other way round.
#[test]
fn the_table_of_metrics_is_complete() {
    let document = include_str!("../../../docs/metrics.md");
    let rows = document
        .lines()
        .filter(|line| line.starts_with("| `sidelane_"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let told: BTreeSet<&str> = cells.flat_map(asked).collect();
    let text = all_told();
    let exported: BTreeSet<&str> = there(&text)
        .into_iter()
        .map(|name| {
            let part = ["_bucket", "_count", "_sum"];
            let of = part.iter().find_map(|part| name.strip_suffix(part));
            of.filter(|name| name.ends_with("latency_seconds"))
                .unwrap_or(name)
        })
        .collect();
    assert_eq!(told, exported);
}

#[test]
fn no_name_ends_its_label() {
    let nasty = "/\x1b[31m\x07\n\t\"\\\u{202e}\u{fffd}";
    let mut now = reading(10, 2);
    now.cgroups[1].path = Some(nasty.to_owned());
    for text in [told(&now, None), plain(&told(&now, None))] {
        let mut lines = text.lines();
        let line = lines.find(|line| line.contains("31m")).unwrap();
        let (_, rest) = line.split_once("{cgroup=\"").unwrap();
        let (value, number) = rest.rsplit_once("\"} ").unwrap();
        assert_eq!(number, "5.0");
        // as a reader of the format undoes it
        let mut read = String::new();
        let mut characters = value.chars();
        while let Some(character) = characters.next() {
            read.push(match character {
                '\\' => match characters.next().unwrap() {
                    'n' => '\n',
                    other => other,
                },
                other => other,
            });
        }
        assert_eq!(read, nasty);
        assert!(!value.replace("\\\\", "").replace("\\\"", "").contains('"'));
    }
}

#[test]
fn the_older_format_names_counters_as_their_samples() {
    let (before, now) = (reading(10, 3), reading(20, 3));
    let text = plain(&told(&now, Some(&before)));
    for line in [
        "# TYPE sidelane_core_elapsed_seconds_total counter",
        "sidelane_core_elapsed_seconds_total{core=\"3\"} 20.0",
        "# TYPE sidelane_thread_density gauge",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
    assert!(!text.contains("# UNIT") && !text.contains("# EOF"));
}

/// As Prometheus' own tool sees it, where that is installed (Debian: prometheus), or named.
#[test]
fn promtool_finds_no_fault() {
    let tool = std::env::var_os("SIDELANE_PROMTOOL").unwrap_or_else(|| "promtool".into());
    let text = plain(&all_told());
    let started = Command::new(&tool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = started else {
        println!("left out: there is no promtool");
        return;
    };
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.is_empty(), "{said}");
}

#[test]
fn job_latencies_go_with_the_scheduler() {
    let (machine, jobs) = (Machine::new(), a_job());
    let told = || {
        let scheduler = machine.scheduler();
        let families = scheduler.families();
        told_with(&reading(20, 3), None, scheduler.jobs(&jobs), families)
    };
    assert!(told().contains("sidelane_job_latency_seconds_count"));
    machine.replace("lavd_1.0");
    assert!(!told().contains("job_latency"));
}

#[test]
fn the_scheduler_is_told_with_units_and_labels() {
    let text = all_told();
    for line in [
        "sidelane_scheduler_attached 1.0",
        "sidelane_scheduler_exits_total{how=\"ejected\"} 1.0",
        "sidelane_scheduler_start_timestamp_seconds 1000.0",
        "sidelane_scheduler_run_seconds_total{class=\"batch\"} 0.0",
        "sidelane_objective_tail_seconds{rule=\"0\"} 0.018",
        "sidelane_pool_capacity_cores{pool=\"/tenants/\\\"a\\\"\",charge=\"mt1\"} 1.5",
        "sidelane_batch_threads{state=\"lent\"} 1.0",
        "sidelane_scheduler_budget_seconds 0.005",
        "sidelane_job_latency_seconds_count{class=\"critical\"} 1",
        "sidelane_job_latency_seconds_bucket{le=\"0.001048576\",class=\"critical\"} 1",
        "sidelane_job_latency_seconds_bucket{le=\"0.000786432\",class=\"critical\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
}
