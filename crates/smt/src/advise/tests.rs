use super::*;
use crate::snapshot::{
    CgroupTotals, Charge, Class, CoreTotals, LaneTotals, Limit, Rates, TaskTotals, Usage,
};

const S: u64 = 1_000_000_000;

/// A second of `cores` cores of two lanes, of which one lane ran for `alone` of it and both for `both`.
fn second(from_s: u64, cores: u32, alone: f64, both: f64, tasks: &[(u32, f64)]) -> Interval {
    let ns = |share: f64| (share * S as f64) as u64;
    let core = |core| CoreTotals {
        core,
        elapsed_ns: S,
        by_density_ns: vec![ns(alone), ns(both)],
        lanes: [core * 2, core * 2 + 1]
            .map(|cpu| LaneTotals {
                cpu,
                online: true,
                busy_ns: 0,
                instructions: None,
            })
            .to_vec(),
        ..CoreTotals::default()
    };
    let task = |&(pid, share): &(u32, f64)| TaskTotals {
        pid,
        tgid: pid,
        comm: format!("t{pid}"),
        cgroup: 7,
        class: Some(Class::Normal),
        usage: usage(ns(share)),
        ..TaskTotals::default()
    };
    let tasks: Vec<TaskTotals> = tasks.iter().map(task).collect();
    let raw_ns = tasks.iter().map(|task| task.usage.raw_ns).sum();
    Interval {
        from_ns: from_s * S,
        to_ns: (from_s + 1) * S,
        rates: Rates {
            source: RateSource::Calibrated,
            thread_perf: vec![1.0, 0.6],
        },
        cores: (0..cores).map(core).collect(),
        tasks,
        cgroups: vec![CgroupTotals {
            id: 7,
            path: Some("/pool/below".into()),
            usage: usage(raw_ns),
        }],
        ..Interval::default()
    }
}

fn usage(raw_ns: u64) -> Usage {
    Usage {
        raw_ns,
        mt1_ns: raw_ns * 7 / 10,
        ..Usage::default()
    }
}

fn advice(second: impl Fn(u64) -> Interval) -> Vec<Advice> {
    let intervals: Vec<Interval> = (0..10).map(second).collect();
    advise(&intervals).unwrap()
}

fn serial(all: &[Advice]) -> Option<&Advice> {
    all.iter().find(|advice| {
        matches!(
            advice.finding,
            Finding::SerialStage { .. } | Finding::MasterThread { .. }
        )
    })
}

#[test]
fn three_threads_at_full_lanes_beside_idle_cores_are_a_serial_stage() {
    let all = advice(|s| second(s, 8, 0.3, 0.1, &[(1, 0.99), (2, 0.95), (3, 0.97), (4, 0.2)]));
    let found = serial(&all).unwrap();
    let Finding::SerialStage {
        threads,
        idle_lanes,
        idle_cores,
    } = &found.finding
    else {
        panic!("{found:?}");
    };
    assert_eq!(threads.iter().map(|t| t.pid).collect::<Vec<_>>(), [1, 2, 3]);
    assert!((idle_cores - 0.6).abs() < 1e-9 && (idle_lanes - 0.75).abs() < 1e-9);
    assert!((threads[0].speed - 0.7).abs() < 1e-6);
    assert_eq!(found.confidence, Confidence::High);
}

#[test]
fn no_name_reaches_the_terminal_as_it_is() {
    let all = advice(|s| {
        let mut second = second(s, 2, 0.3, 0.1, &[(1, 0.99)]);
        second.tasks[0].comm = "\x1b[31m\n\u{202e}".to_owned();
        second.limits = vec![Limit {
            cgroup: "/\x1b[32m\n\u{202e}".to_owned(),
            charge: Charge::Raw,
            capacity: 0.9,
            throttled_ns: None,
        }];
        second.cgroups[0].path = Some(second.limits[0].cgroup.clone());
        second
    });
    let said = text(&all);
    assert!(said.contains(r"\x1b[31m\x0a\u{202e} (1)"), "{said}");
    assert!(said.contains(r"/\x1b[32m\x0a\u{202e} uses"), "{said}");
}

#[test]
fn one_is_a_master() {
    let all = advice(|s| second(s, 8, 0.3, 0.1, &[(1, 0.99), (2, 0.5)]));
    let found = serial(&all).unwrap();
    assert!(matches!(&found.finding, Finding::MasterThread { thread, .. } if thread.pid == 1));
}

/// Table 4 of the source, second column: three clients on three cores, which are nearly always busy.
#[test]
fn a_stage_is_found_where_lanes_idle_and_cores_do_not() {
    let clients = [(1, 0.954), (2, 0.954), (3, 0.954)];
    let servers = (4..16).map(|pid| (pid, 0.0653));
    let tasks: Vec<(u32, f64)> = clients.into_iter().chain(servers).collect();
    let all = advice(|s| second(s, 3, 0.688, 0.267, &tasks));
    let found = serial(&all).unwrap();
    assert!(matches!(&found.finding, Finding::SerialStage { threads, .. } if threads.len() == 3));
    assert_eq!(
        (found.confidence, found.doubts.len()),
        (Confidence::Medium, 1)
    );
    let alone = advice(|s| second(s, 3, 0.688, 0.267, &clients));
    assert_eq!(serial(&alone).unwrap().confidence, Confidence::Low);
}

#[test]
fn what_is_apart_already_is_not_to_be_parted() {
    let remedy = |speed: f64, class| {
        let all = advice(|s| {
            let mut second = second(s, 8, 0.3, 0.1, &[(1, 0.99), (2, 0.5)]);
            let task = &mut second.tasks[0];
            task.usage.mt1_ns = (task.usage.raw_ns as f64 * speed) as u64;
            task.class = class;
            second
        });
        serial(&all).unwrap().finding.sentences()[1].clone()
    };
    let shared = remedy(0.7, Some(Class::Normal));
    assert!(shared.contains("mark it critical"), "{shared}");
    let critical = remedy(0.7, Some(Class::Critical));
    assert!(
        critical.contains("until then make what else runs batch"),
        "{critical}"
    );
    let apart = remedy(0.999, Some(Class::Critical));
    assert!(apart.contains("shares no core"), "{apart}");
    // nor is what runs alone, but slower than with SMT off
    let all = advice(|s| {
        let mut second = second(s, 8, 0.3, 0.1, &[(1, 0.99), (2, 0.5)]);
        second.rates.thread_perf = vec![0.9, 0.6];
        second.tasks[0].usage.mt1_ns = second.tasks[0].usage.raw_ns * 9 / 10;
        second
    });
    let alone = serial(&all).unwrap().finding.sentences()[1].clone();
    assert!(alone.contains("shares no core"), "{alone}");
}

#[test]
fn full_cores_or_idle_threads_are_no_serial_stage() {
    let all = advice(|s| second(s, 2, 0.1, 0.85, &[(1, 0.99), (2, 0.99)]));
    assert_eq!(serial(&all), None, "the cores are what is short");
    let all = advice(|s| second(s, 8, 0.3, 0.1, &[(1, 0.6), (2, 0.7)]));
    assert_eq!(serial(&all), None);
}

#[test]
fn what_holds_now_and_then_is_a_low_confidence() {
    let all = advice(|s| {
        let share = if s % 2 == 0 { 1.0 } else { 0.85 };
        second(s, 8, 0.3, 0.1, &[(1, share), (2, share)])
    });
    let found = serial(&all).unwrap();
    assert_eq!((found.confidence, found.doubts.len()), (Confidence::Low, 1));
}

#[test]
fn smt_is_judged_by_its_capacity() {
    let judged = |speeds: [f64; 2], source| {
        let all = advice(|s| {
            let mut second = second(s, 2, 0.4, 0.4, &[]);
            second.rates = Rates {
                source,
                thread_perf: speeds.to_vec(),
            };
            second
        });
        all.into_iter().find(|a| {
            matches!(
                a.finding,
                Finding::SmtUseful { .. } | Finding::SmtHarmful { .. } | Finding::SmtUseless { .. }
            )
        })
    };
    let useful = judged([1.0, 0.6], RateSource::Calibrated).unwrap();
    assert!(matches!(useful.finding, Finding::SmtUseful { gain } if (gain - 0.2).abs() < 1e-9));
    assert_eq!(useful.confidence, Confidence::High);
    let harmful = judged([1.0, 0.45], RateSource::Given).unwrap();
    assert!(matches!(harmful.finding, Finding::SmtHarmful { loss } if (loss - 0.1).abs() < 1e-9));
    assert_eq!(harmful.confidence, Confidence::Medium);
    for speed in [0.495, 0.5, 0.505] {
        let useless = judged([1.0, speed], RateSource::Calibrated).unwrap();
        assert!(
            matches!(useless.finding, Finding::SmtUseless { .. }),
            "{useless:?}"
        );
    }
    for speed in [0.45, 0.5, 0.6] {
        assert_eq!(
            judged([1.0, speed], RateSource::Assumed),
            None,
            "nobody measured it"
        );
    }
}

#[test]
fn nothing_that_rests_on_assumed_speeds_is_sure() {
    let all = advice(|s| {
        let mut second = second(s, 2, 0.3, 0.1, &[(1, 0.99)]);
        second.rates.source = RateSource::Assumed;
        second.limits = vec![Limit {
            cgroup: "/pool".to_owned(),
            charge: Charge::Raw,
            capacity: 0.9,
            throttled_ns: None,
        }];
        second
    });
    let by_speed = all.iter().filter(|advice| {
        let by_speed = advice.confidence == Confidence::None;
        assert_eq!(
            by_speed,
            text(std::slice::from_ref(advice)).contains("are assumed")
        );
        by_speed
    });
    assert_eq!(by_speed.count(), 2, "{all:?}");
}

#[test]
fn a_pool_at_its_limit_loses_what_siblings_take() {
    let lost = |cgroup: &str, capacity, charge, throttled_ns| {
        let intervals: Vec<Interval> = (0..5)
            .map(|s| Interval {
                limits: vec![Limit {
                    cgroup: cgroup.to_owned(),
                    charge,
                    capacity,
                    throttled_ns,
                }],
                ..second(s, 2, 0.2, 0.7, &[(1, 0.5), (2, 0.5)])
            })
            .collect();
        let all = advise(&intervals).unwrap();
        let mut found = all.into_iter().map(|advice| advice.finding);
        found.find(|finding| matches!(finding, Finding::LostEntitlement { .. }))
    };
    let quarter = Some(S / 4);
    let found = lost("/pool", 1.0, Charge::Raw, quarter).unwrap();
    assert!(
        matches!(&found, Finding::LostEntitlement { lost, used_lanes, .. }
            if (lost - 0.3).abs() < 1e-6 && (used_lanes - 1.0).abs() < 1e-6),
        "{found:?}"
    );
    let sentence = &found.sentences()[0];
    assert!(
        sentence.contains("/pool") && sentence.contains("held back 25 %"),
        "{sentence}"
    );
    let begun_late = lost("/pool", 2.0, Charge::Raw, quarter);
    assert!(begun_late.is_some(), "idle time before does not hide it");
    let by_use = |capacity| lost("/pool", capacity, Charge::Raw, None);
    assert!(by_use(1.0).is_some(), "nothing tells, and it uses all");
    assert_eq!(by_use(2.0), None, "it does not use what it may");
    let free = lost("/pool", 1.0, Charge::Raw, Some(0));
    assert_eq!(free, None, "it was never held back");
    let fair = lost("/pool", 0.7, Charge::Mt1, quarter);
    assert_eq!(fair, None, "what siblings take is not charged");
    let other = lost("/poo", 1.0, Charge::Raw, quarter);
    assert_eq!(other, None, "another cgroup");
}

#[test]
fn without_data_there_is_no_advice() {
    let said = |intervals: &[Interval]| advise(intervals).unwrap_err().to_string();
    assert!(said(&[]).contains("nothing was measured"));
    assert!(said(&[second(0, 2, 0.5, 0.1, &[])]).contains("1.0 s"));
    let idle: Vec<Interval> = (0..5).map(|s| second(s, 2, 0.001, 0.0, &[])).collect();
    assert!(said(&idle).contains("nearly nothing ran"));
    let other = [second(0, 2, 0.5, 0.1, &[]), second(1, 3, 0.5, 0.1, &[])];
    assert!(said(&other).contains("do not belong together"));
}

#[test]
fn without_smt_no_lanes_are_lent() {
    let mut seconds: Vec<Interval> = (0..4).map(|s| second(s, 4, 0.1, 0.0, &[])).collect();
    let with_smt = text(&advise(&seconds).unwrap());
    assert!(with_smt.contains("sidelane run"), "{with_smt}");
    for core in seconds.iter_mut().flat_map(|second| &mut second.cores) {
        core.lanes.truncate(1);
        core.by_density_ns.truncate(1);
    }
    let without = text(&advise(&seconds).unwrap());
    assert!(
        without.contains("Room:") && without.contains("without SMT"),
        "{without}"
    );
    assert!(!without.contains("sidelane run"), "{without}");
}
