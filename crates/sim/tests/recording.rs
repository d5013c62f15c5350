//! Simulated runs as recordings.
#![allow(clippy::unwrap_used, missing_docs)]

use sidelane_sim::{Scenario, record, run};
use sidelane_smt::recording::{Frame, intervals, open};
use sidelane_smt::report::{Options, report};

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
