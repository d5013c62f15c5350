//! Recordings of each version stay readable: another layout needs another version.
//!
//! `UPDATE_GOLDEN=1` writes the file of the present version anew.
#![allow(clippy::unwrap_used)] // Clippy spares test functions, but not their helpers.

use sidelane_smt::histogram::LogHistogram;
use sidelane_smt::recording::{Frame, Header, Writer, open};
use sidelane_smt::snapshot::{
    CgroupTotals, Charge, Class, CoreTotals, Interval, LaneTotals, Limit, Notes, RateSource, Rates,
    TaskTotals, Usage,
};
use std::path::Path;

const VERSION_2: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/version-2.rec");
const VERSION_3: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/version-3.rec");

fn usage(raw_ns: u64) -> Usage {
    Usage {
        raw_ns,
        mt1_ns: raw_ns / 2,
        prorated_ns: None, // a recording does not keep it
        waiting_ns: 7,
        runs: 3,
        jobs: LogHistogram::of([1500, 90_000]),
        borrowed_ns: Some(raw_ns / 5),
        forced_idle_ns: Some(8),
    }
}

/// Every field has a value of its own.
fn interval() -> Interval {
    Interval {
        from_ns: 1_000,
        to_ns: 2_000_000_000,
        wall_ms: 1_700_000_000_000,
        clock_set_ms: -5,
        suspended_ns: 11,
        rates: Rates {
            source: RateSource::Calibrated,
            thread_perf: vec![1.0, 0.625],
        },
        cores: vec![CoreTotals {
            core: 3,
            elapsed_ns: 1_999_999_000,
            by_density_ns: vec![500, 600],
            lanes: vec![LaneTotals {
                cpu: 6,
                online: true,
                busy_ns: 1_100,
                instructions: Some(42),
            }],
            forced_idle_ns: Some(12),
        }],
        tasks: vec![TaskTotals {
            pid: 77,
            tgid: 70,
            start_ns: 123,
            comm: "worker".to_owned(),
            cgroup: 9,
            class: Some(Class::Batch),
            ended: true,
            usage: usage(1_000),
        }],
        cgroups: vec![CgroupTotals {
            id: 9,
            path: Some("/a".to_owned()),
            usage: usage(2_000),
        }],
        notes: Notes {
            hotplug: 1,
            unknown_lanes: 2,
            lost: 3,
            inconsistent: 4,
            unlisted_tasks: 5,
            unlisted_cgroups: 6,
            messages: vec!["A note.".to_owned()],
        },
        limits: vec![Limit {
            cgroup: "/a".to_owned(),
            charge: Charge::Mt1,
            capacity: 0.5,
            throttled_ns: Some(13),
        }],
    }
}

fn header() -> Header {
    Header {
        program: "0.1.0".to_owned(),
        kernel: "6.12".to_owned(),
        scheduler: Some("sidelane".to_owned()),
        lanes: 2,
        wall_ms: 1_699_999_998_000,
        interval_ms: 2_000,
        command: Some(vec!["make".to_owned()]),
    }
}

fn frames(interval: Interval) -> [Frame; 2] {
    let restarted = Frame::Restarted("lanes came online".to_owned());
    [Frame::Interval(interval), restarted]
}

fn check(file: &str, frames: &[Frame]) {
    let bytes = std::fs::read(Path::new(file)).unwrap();
    let (found, mut read) = open(&bytes).unwrap();
    assert_eq!(found, header());
    for frame in frames {
        assert_eq!(&read.next().unwrap().unwrap(), frame);
    }
    let end = read.next().unwrap().unwrap();
    assert!(matches!(end, Frame::End(end) if end.status == Some(2) && end.frames == 3));
    assert_eq!(read.next(), None);
}

#[test]
fn version_2_is_read_without_limits() {
    let without = Interval {
        limits: Vec::new(),
        ..interval()
    };
    check(VERSION_2, &frames(without));
}

#[test]
fn version_3_is_read() {
    let frames = frames(interval());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let mut writer = Writer::new(Vec::new(), header()).unwrap();
        frames.iter().for_each(|frame| writer.write(frame).unwrap());
        std::fs::write(VERSION_3, writer.finish(Some(2)).unwrap()).unwrap();
    }
    check(VERSION_3, &frames);
}
