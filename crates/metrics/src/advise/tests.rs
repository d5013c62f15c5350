use super::*;
use crate::snapshot::{CgroupTotals, Class, CoreTotals, LaneTotals, Rates, TaskTotals, Usage};

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
    advise(&intervals, &BTreeMap::new()).unwrap()
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
        idle_cores,
    } = &found.finding
    else {
        panic!("{found:?}");
    };
    assert_eq!(threads.iter().map(|t| t.pid).collect::<Vec<_>>(), [1, 2, 3]);
    assert!((idle_cores - 0.6).abs() < 1e-9 && (threads[0].speed - 0.7).abs() < 1e-6);
    assert_eq!(found.confidence, Confidence::High);
}

#[test]
fn one_is_a_master() {
    let all = advice(|s| second(s, 8, 0.3, 0.1, &[(1, 0.99), (2, 0.5)]));
    let found = serial(&all).unwrap();
    assert!(matches!(&found.finding, Finding::MasterThread { thread, .. } if thread.pid == 1));
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
        let worth = all.into_iter().find(|a| {
            matches!(
                a.finding,
                Finding::SmtUseful { .. } | Finding::SmtHarmful { .. }
            )
        });
        worth.unwrap()
    };
    let useful = judged([1.0, 0.6], RateSource::Calibrated);
    assert!(matches!(useful.finding, Finding::SmtUseful { gain } if (gain - 0.2).abs() < 1e-9));
    assert_eq!(useful.confidence, Confidence::High);
    let harmful = judged([1.0, 0.45], RateSource::Assumed);
    assert!(matches!(harmful.finding, Finding::SmtHarmful { loss } if (loss - 0.1).abs() < 1e-9));
    assert_eq!(harmful.confidence, Confidence::Low);
}

#[test]
fn a_pool_at_its_limit_loses_what_siblings_take() {
    let intervals: Vec<Interval> = (0..5)
        .map(|s| second(s, 2, 0.2, 0.7, &[(1, 0.5), (2, 0.5)]))
        .collect();
    let lost = |limit: f64| {
        let all = advise(&intervals, &BTreeMap::from([("/pool".to_owned(), limit)])).unwrap();
        let mut found = all.into_iter().map(|advice| advice.finding);
        found.find(|finding| matches!(finding, Finding::LostEntitlement { .. }))
    };
    let found = lost(1.0).unwrap();
    assert!(
        matches!(&found, Finding::LostEntitlement { lost, used_lanes, .. }
            if (lost - 0.3).abs() < 1e-6 && (used_lanes - 1.0).abs() < 1e-6),
        "{found:?}"
    );
    assert!(found.sentences()[0].contains("/pool"));
    assert_eq!(lost(2.0), None, "it does not use what it may");
    let other = advise(&intervals, &BTreeMap::from([("/poo".to_owned(), 1.0)])).unwrap();
    assert!(
        !other
            .iter()
            .any(|a| matches!(a.finding, Finding::LostEntitlement { .. }))
    );
}

#[test]
fn without_data_there_is_no_advice() {
    let none = BTreeMap::new();
    let said = |intervals: &[Interval]| advise(intervals, &none).unwrap_err().to_string();
    assert!(said(&[]).contains("nothing was measured"));
    assert!(said(&[second(0, 2, 0.5, 0.1, &[])]).contains("1.0 s"));
    let idle: Vec<Interval> = (0..5).map(|s| second(s, 2, 0.001, 0.0, &[])).collect();
    assert!(said(&idle).contains("nearly nothing ran"));
    let other = [second(0, 2, 0.5, 0.1, &[]), second(1, 3, 0.5, 0.1, &[])];
    assert!(said(&other).contains("do not belong together"));
}
