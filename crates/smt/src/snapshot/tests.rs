use super::*;
use crate::histogram::LogHistogram;
use crate::snapshot::RateSource;

fn usage(raw_ns: u64, jobs: &[u64]) -> Usage {
    Usage {
        raw_ns,
        mt1_ns: raw_ns * 3 / 4,
        prorated_ns: Some(raw_ns / 2),
        waiting_ns: raw_ns / 2,
        runs: raw_ns / 10,
        jobs: LogHistogram::of(jobs.iter().copied()),
        borrowed_ns: Some(raw_ns / 4),
        forced_idle_ns: Some(raw_ns / 20),
    }
}

fn task(pid: u32, start_ns: u64, usage: Usage) -> TaskTotals {
    TaskTotals {
        pid,
        tgid: pid,
        start_ns,
        comm: format!("t{pid}"),
        cgroup: 1,
        usage,
        ..TaskTotals::default()
    }
}

fn core(elapsed_ns: u64, alone_ns: u64, both_ns: u64) -> CoreTotals {
    let lane = |cpu, busy_ns| LaneTotals {
        cpu,
        online: true,
        busy_ns,
        instructions: Some(busy_ns * 2),
    };
    CoreTotals {
        core: 0,
        elapsed_ns,
        by_density_ns: vec![alone_ns, both_ns],
        lanes: vec![lane(0, alone_ns + both_ns), lane(1, both_ns)],
        forced_idle_ns: Some(alone_ns / 5),
    }
}

fn snapshot(taken_ns: u64, core: CoreTotals, tasks: Vec<TaskTotals>) -> Snapshot {
    let mut all = usage(0, &[]);
    tasks.iter().for_each(|task| all.add(&task.usage));
    Snapshot {
        begun_ns: 5,
        taken_ns,
        wall_ms: (taken_ns / 1_000_000) as i64,
        rates: Rates {
            source: RateSource::Calibrated,
            thread_perf: vec![1.0, 0.6],
        },
        cores: vec![core],
        tasks,
        cgroups: vec![CgroupTotals {
            id: 1,
            path: Some("/a".to_owned()),
            usage: all,
        }],
        ..Snapshot::default()
    }
}

fn before() -> Snapshot {
    let tasks = vec![task(1, 0, usage(100, &[7])), task(2, 0, usage(40, &[]))];
    snapshot(1_000_000_000, core(1000, 300, 100), tasks)
}

fn after() -> Snapshot {
    let tasks = vec![
        task(1, 0, usage(300, &[7, 9])),
        task(2, 0, usage(40, &[])),
        task(2, 9, usage(60, &[])),
    ];
    snapshot(2_000_000_000, core(3000, 800, 600), tasks)
}

#[test]
fn an_interval_has_what_was_added() {
    let interval = delta(&before(), &after()).unwrap();
    assert_eq!(interval.elapsed_ns(), 1_000_000_000);
    assert_eq!(interval.cores[0], {
        let mut core = core(2000, 500, 500);
        core.lanes[0].instructions = Some(2000);
        core
    });
    let tasks: Vec<_> = (interval.tasks.iter())
        .map(|t| (t.key(), t.usage.raw_ns, t.usage.jobs.count()))
        .collect();
    // pid 2 has ended and was used again
    assert_eq!(tasks, [((1, 0), 200, 1), ((2, 9), 60, 0)]);
    assert_eq!(interval.cgroups[0].usage.raw_ns, 260);
    let metrics = interval.metrics().unwrap();
    assert_eq!(metrics.thread_density, Some(1.5));
    assert_eq!(metrics.core_utilization, Some(0.5));
    assert_eq!(interval.notes, Notes::default());
}

#[test]
fn an_interval_that_follows_is_added() {
    let (first, mut last) = (before(), after());
    last.taken_ns += 1;
    let middle = {
        let tasks = vec![task(1, 0, usage(150, &[7])), task(2, 9, usage(60, &[]))];
        snapshot(1_400_000_000, core(1500, 400, 200), tasks)
    };
    let whole = delta(&first, &last).unwrap();
    let mut parts = delta(&first, &middle).unwrap();
    parts.add(&delta(&middle, &last).unwrap()).unwrap();
    // in the middle pid 2's first task was not read: it is new in the second part
    parts.tasks.retain(|task| task.key() != (2, 0));
    assert_eq!(parts.cores, whole.cores);
    assert_eq!(parts.tasks, whole.tasks);
    assert_eq!(parts.cgroups, whole.cgroups);
    assert_eq!(parts.elapsed_ns(), whole.elapsed_ns());
    let other = Interval::default();
    assert_eq!(parts.add(&other), Err(DeltaError::OtherCores));
}

#[test]
fn what_is_unknown_stays_unknown() {
    let mut unknown = after();
    unknown.cores[0].forced_idle_ns = None;
    for task in &mut unknown.tasks {
        (task.usage.borrowed_ns, task.usage.forced_idle_ns) = (None, None);
    }
    let mut interval = delta(&before(), &unknown).unwrap();
    let company = |of: &Interval| {
        let usage = &of.tasks[0].usage;
        let core = &of.cores[0];
        (usage.borrowed_ns, usage.forced_idle_ns, core.forced_idle_ns)
    };
    assert_eq!(company(&interval), (None, None, None));
    let known = delta(&before(), &after()).unwrap();
    assert_eq!(company(&known), (Some(50), Some(10), Some(100)));
    assert_eq!(known.cgroups[0].usage.borrowed_ns, Some(65));
    assert_eq!(known.cgroups[0].usage.prorated_ns, Some(130));
    // a part of a sum is no sum
    interval.add(&known).unwrap();
    assert_eq!(company(&interval), (None, None, None));
    let mut back = after();
    back.cores[0].forced_idle_ns = Some(1);
    assert!(matches!(
        delta(&before(), &back),
        Err(DeltaError::CoreBackwards { core: 0, .. })
    ));
}

#[test]
fn readings_that_do_not_belong_together_are_refused() {
    let other_run = Snapshot {
        begun_ns: 6,
        ..after()
    };
    assert_eq!(delta(&before(), &other_run), Err(DeltaError::OtherRun));
    assert_eq!(delta(&after(), &before()), Err(DeltaError::Backwards));
    let mut back = after();
    back.cores[0].by_density_ns[1] = 99;
    let error = delta(&before(), &back);
    assert!(matches!(
        error,
        Err(DeltaError::CoreBackwards { core: 0, .. })
    ));
    let mut fewer = after();
    fewer.cores[0].lanes.pop();
    assert_eq!(delta(&before(), &fewer), Err(DeltaError::OtherCores));
    fewer.cores.clear();
    assert_eq!(delta(&before(), &fewer), Err(DeltaError::OtherCores));
}

#[test]
fn totals_that_went_back_are_left_out_and_said() {
    let mut back = after();
    back.tasks[0].usage.waiting_ns = 0;
    back.notes.lost = 3;
    back.notes.messages.push("Something.".to_owned());
    let interval = delta(&before(), &back).unwrap();
    assert_eq!(interval.tasks.len(), 1);
    assert_eq!(interval.notes.inconsistent, 1);
    let said = interval.notes.sentences().join("; ");
    assert!(
        said.starts_with("3 changes were lost") && said.ends_with("Something."),
        "{said}"
    );
}

#[test]
fn an_ended_task_is_listed_once() {
    let mut ended = after();
    ended.tasks[1].ended = true;
    let keys = |interval: Interval| {
        interval
            .tasks
            .iter()
            .map(TaskTotals::key)
            .collect::<Vec<_>>()
    };
    assert!(keys(delta(&before(), &ended).unwrap()).contains(&(2, 0)));
    let mut later = ended.clone();
    later.taken_ns += 1;
    assert!(keys(delta(&ended, &later).unwrap()).is_empty());
}

#[test]
fn a_clock_that_was_set_and_a_suspension_are_told() {
    let mut later = after();
    later.wall_ms += 60_000;
    later.suspended_ns = 20_000_000_000;
    let interval = delta(&before(), &later).unwrap();
    assert_eq!(interval.suspended_ns, 20_000_000_000);
    assert_eq!(interval.clock_set_ms, 40_000);
    assert_eq!(interval.elapsed_ns(), 1_000_000_000);
}

#[test]
fn lanes_that_are_offline_are_no_capacity() {
    let mut offline = core(1000, 400, 0);
    offline.lanes[1].online = false;
    let rates = before().rates;
    let metrics = offline.smt(&rates).unwrap().metrics();
    assert_eq!(metrics.max_capacity_factor, Some(1.0));
    assert_eq!(metrics.mt_utilization, Some(0.4));
    // with SMT off it costs nothing
    let overhead = Rates {
        thread_perf: vec![0.9, 0.6],
        ..before().rates
    };
    let mt1_ns = |core: &CoreTotals| core.smt(&overhead).unwrap().metrics().mt1_ns;
    assert_eq!(
        [mt1_ns(&offline), mt1_ns(&core(1000, 400, 0))],
        [400.0, 360.0]
    );
    // unless they ran for a part of the time
    offline.by_density_ns = vec![300, 100];
    let metrics = offline.smt(&rates).unwrap().metrics();
    assert_eq!(metrics.max_capacity_factor, Some(1.2));
    offline.by_density_ns = vec![0, 0];
    offline.lanes[0].online = false;
    assert_eq!(offline.smt(&rates).unwrap(), SmtTotals::default());
}

#[test]
fn a_snapshot_travels() {
    let text = serde_json::to_string(&after()).unwrap();
    let mut expected = after();
    let tasks = expected.tasks.iter_mut().map(|task| &mut task.usage);
    let groups = expected.cgroups.iter_mut().map(|group| &mut group.usage);
    // it is told where it is collected, and not kept
    tasks
        .chain(groups)
        .for_each(|usage| usage.prorated_ns = None);
    assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), expected);
}
