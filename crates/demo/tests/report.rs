//! From findings to figures, table, JSON and drawing: against values computed by hand and kept files.
//! `UPDATE_GOLDEN=1 cargo test` rewrites the kept files.

#![allow(clippy::unwrap_used)] // an unwrap that fails fails the test

use sidelane_demo::figures::Facts;
use sidelane_demo::lines::MachineFacts;
use sidelane_demo::plan::{Calibration, Finding, Reference, Run, TraceRun};
use sidelane_demo::plan::{Configuration, Workload};
use sidelane_demo::report::{self, Document};
use sidelane_demo::results::Results;
use sidelane_smt::histogram::LogHistogram;
use sidelane_smt::latency::Summary;
use sidelane_smt::trace::Analysis;

const THREAD_PERF: [f64; 2] = [1.0, 0.5];

/// Hundred latencies from `scale` × 0.1 ms to `scale` × 10 ms.
fn run(workload: Workload, configuration: Configuration, repetition: u32, scale: f64) -> Run {
    let mut latency_ns: Vec<u64> = (1..=100).map(|n| (n as f64 * scale * 1e5) as u64).collect();
    let batch_mb = match configuration {
        Configuration::Alone => 0.0,
        Configuration::Default => 14.4,
        Configuration::SmtOff => 13.68,
        Configuration::Sidelane => 14.7 + f64::from(repetition) * 0.1,
        Configuration::BatchOnly => 13.0,
    };
    let is_compute = workload == Workload::Compute;
    let only_of_compute = |ns: u64| Summary::of(&mut vec![ns; usize::from(is_compute)]);
    Run {
        workload,
        configuration,
        repetition,
        elapsed_ns: 1_000_000_000,
        histogram: LogHistogram::of(latency_ns.iter().copied()),
        latency: Summary::of(&mut latency_ns),
        late: Summary::of(&mut [40_000, 50_000]),
        wait: only_of_compute(200_000),
        service: only_of_compute(6_000_000),
        batch_bytes: (batch_mb * 1e6).round() as u64,
        units: if is_compute { 480_000 } else { 0 },
        server_lane_ns: 300_000_000,
    }
}

fn reference(batch_mb_per_s: f64) -> Finding {
    Finding::Reference(Reference {
        batch_bytes_per_core_s: batch_mb_per_s * 1e6,
        units_per_core_s: 1e6,
    })
}

fn trace(configuration: Configuration, share: f64, lost: u64) -> Finding {
    let analysis = Analysis {
        span_ns: 4_000_000_000,
        batch_beside_critical: share,
        wake_to_clear: Summary::of(&mut [0, 0, 0, 120_000]),
        wake_to_clear_found: Summary::of(&mut [120_000]),
        wake_to_run: Summary::of(&mut [30_000, 40_000, 90_000]),
        ..Analysis::default()
    };
    Finding::Trace(TraceRun {
        configuration,
        events: 1000,
        lost,
        analysis,
    })
}

fn findings() -> Vec<Finding> {
    let mut findings = vec![Finding::Calibration(Calibration {
        units_per_core_s: 1e6,
        mean_units: 8000.0,
        compute_rate_per_s: 60.0,
        redis_service_ns: 600_000.0,
        redis_rate_per_s: 500.0,
    })];
    for repetition in 0..3 {
        for &configuration in Configuration::ALL {
            findings.push(reference(9.0));
            for &workload in Workload::ALL {
                let of_configuration = match configuration {
                    Configuration::Alone => 1.0,
                    Configuration::Default => 2.0,
                    Configuration::SmtOff => 1.25,
                    Configuration::Sidelane => 1.04,
                    Configuration::BatchOnly => 1.1,
                };
                // The middle one of three repetitions is the one with factor 1.
                let scale = of_configuration * [0.5, 1.0, 1.5][repetition as usize];
                findings.push(Finding::Run(run(
                    workload,
                    configuration,
                    repetition,
                    scale,
                )));
            }
            findings.push(reference(11.0));
        }
    }
    findings.push(trace(Configuration::Default, 0.2, 3));
    findings.push(trace(Configuration::Sidelane, 0.002, 0));
    findings
}

/// What the driver says of a machine; `emulated` as there.
fn facts(emulated: Option<&[f64]>) -> Facts {
    Facts {
        machine: MachineFacts {
            kernel: "7.0.0".into(),
            cores: vec![vec![0, 1], vec![2, 3]],
        },
        speeds: Vec::new(),
        emulated: emulated.map(<[f64]>::to_vec),
    }
}

fn made(findings: &[Finding], emulated: Option<&[f64]>) -> Results {
    Results::new(facts(emulated), findings).unwrap()
}

fn results() -> Results {
    made(&findings(), Some(&THREAD_PERF))
}

#[test]
fn figures_computed_by_hand() {
    let results = results();
    let compute = &results.workloads[0];
    let sidelane = &compute.configurations[3];
    assert_eq!(sidelane.name, Configuration::Sidelane);
    // Nearest rank of 0.104 … 10.4 ms in the middle repetition.
    assert!((sidelane.p50_ms - 5.2).abs() < 1e-9 && (sidelane.p99_ms - 10.296).abs() < 1e-9);
    assert!((sidelane.over_alone.p99 - 1.04).abs() < 1e-9);
    assert_eq!((sidelane.repetitions, sidelane.requests), (3, 300));
    // 480,000 units/s of 1,000,000 leave 2 − 0.48 cores; one does (9 + 11) / 2 MB/s; 14.8 MB were done.
    assert!((sidelane.batch_share - 14.8 / (10.0 * 1.52)).abs() < 1e-9);
    assert!((sidelane.spread.batch_share.min - 14.7 / 15.2).abs() < 1e-9);
    assert!((sidelane.spread.p50_ms.max - 7.8).abs() < 1e-9);
    // redis needs 0.3 s of a core each second, by its time on lanes in `alone`.
    let redis = &results.workloads[1];
    assert!((redis.configurations[1].batch_share - 14.4 / (10.0 * 1.7)).abs() < 1e-9);
    assert_eq!(redis.configurations[0].batch_share, 0.0);
    assert_eq!(results.reference.batch_bytes_per_core_s.min, 9e6);
}

#[test]
fn each_repetition_is_held_against_its_own_references() {
    let mut findings = findings();
    let last_reference = findings
        .iter()
        .rposition(|m| matches!(m, Finding::Reference(_)))
        .unwrap();
    // The third repetition's references are the last ten: twice as fast from there on.
    let third: Vec<usize> = (0..=last_reference)
        .filter(|&index| matches!(findings[index], Finding::Reference(_)))
        .skip(20)
        .collect();
    assert_eq!(third.len(), 10);
    for index in third {
        if let Finding::Reference(reference) = &mut findings[index] {
            reference.batch_bytes_per_core_s *= 2.0;
        }
    }
    let results = made(&findings, None);
    let share = results.workloads[0].configurations[3].spread.batch_share;
    // 14.7, 14.8 and 14.9 MB of 15.2, of 15.2 and of about 30.4; the reference before the third
    // repetition's first run is its own.
    assert!((share.min - 14.9 / 30.4).abs() < 1e-9, "{share:?}");
    assert!((share.median - 14.7 / 15.2).abs() < 1e-9, "{share:?}");
    assert!((share.max - 14.8 / 15.2).abs() < 1e-9, "{share:?}");
}

#[test]
fn the_json_has_the_promised_keys() {
    let results = results();
    let json: serde_json::Value =
        serde_json::from_str(&serde_json::to_string(&Document::new(results)).unwrap()).unwrap();
    assert_eq!(json["emulated_smt"], true);
    assert_eq!(json["thread_perf"], serde_json::json!([1.0, 0.5]));
    let names = |list: &serde_json::Value| -> Vec<String> {
        list.as_array()
            .unwrap()
            .iter()
            .map(|v| v["name"].as_str().unwrap().into())
            .collect()
    };
    assert_eq!(names(&json["workloads"]), ["compute", "redis"]);
    let configurations = &json["workloads"][0]["configurations"];
    assert_eq!(
        names(configurations),
        ["alone", "default", "smt-off", "sidelane", "batch-only"]
    );
    for key in ["p50_ms", "p95_ms", "p99_ms", "batch_share"] {
        assert!(configurations[3][key].is_f64(), "{key}");
    }
    assert_eq!(configurations[3]["repetitions"], 3);
    let met: Vec<bool> = json["aims"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| a["met"].as_bool().unwrap())
        .collect();
    assert_eq!(met, [true, true, true, true]);
}

#[test]
fn the_table_is_as_kept_and_not_too_wide() {
    let table = report::render(&results());
    assert!(table.contains("SMT is emulated") && table.contains("threadPerf {1, 0.5}"));
    for line in table.lines() {
        assert!(
            line.chars().count() <= 100,
            "{} columns: {line}",
            line.chars().count()
        );
    }
    golden("table.txt", &table);
}

#[test]
fn the_document_is_as_kept() {
    let document = Document::new(results());
    sidelane_interface::check::result(sidelane_interface::Kind::Demo, &document).unwrap();
    let json = serde_json::to_string_pretty(&document).unwrap();
    golden("document.json", &(json + "\n"));
}

#[test]
fn the_drawing_is_as_kept_and_well_formed() {
    let svg = report::draw(&results());
    assert!(svg.contains("emulated"));
    for name in [
        "alone",
        "default",
        "smt-off",
        "sidelane",
        "batch-only",
        "compute",
        "redis",
    ] {
        assert!(svg.contains(name), "{name}");
    }
    assert_eq!(svg.matches("<polyline").count(), 10);
    well_formed(&svg);
    golden("drawing.svg", &svg);
}

#[test]
fn a_drawing_without_samples_is_well_formed_too() {
    let mut results = results();
    for workload in &mut results.workloads {
        for configuration in &mut workload.configurations {
            configuration.histogram = LogHistogram::default();
            configuration.requests = 0;
        }
    }
    let svg = report::draw(&results);
    well_formed(&svg);
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
}

#[test]
fn real_smt_is_not_called_emulated() {
    let results = made(&findings(), None);
    assert!(!results.emulated_smt);
    assert!(!report::render(&results).contains("emulated"));
    assert!(!report::draw(&results).contains("emulated"));
}

#[test]
fn incomplete_findings_are_refused_by_name() {
    let refused = |keep: &dyn Fn(&Finding) -> bool| {
        let kept: Vec<Finding> = findings().into_iter().filter(keep).collect();
        Results::new(facts(None), &kept).unwrap_err().to_string()
    };
    assert!(refused(&|m| !matches!(m, Finding::Calibration(_))).contains("calibration"));
    assert!(refused(&|m| !matches!(m, Finding::Reference(_))).contains("reference"));
    let not_alone =
        |m: &Finding| !matches!(m, Finding::Run(r) if r.configuration == Configuration::Alone);
    assert!(refused(&not_alone).contains("alone"));
}

#[test]
fn an_unsteady_machine_is_said() {
    let warning = "varied a lot";
    assert!(!report::render(&results()).contains(warning));
    let mut findings = findings();
    findings.insert(2, reference(4.0));
    assert!(report::render(&made(&findings, None)).contains(warning));
}

#[test]
fn missed_aims_are_said() {
    let mut slow = findings();
    for finding in &mut slow {
        if let Finding::Run(run) = finding
            && run.configuration == Configuration::Sidelane
        {
            run.latency.p99_ns = run.latency.p99_ns * 11 / 10;
            run.batch_bytes /= 2;
        }
    }
    let table = report::render(&made(&slow, Some(&THREAD_PERF)));
    assert_eq!(table.matches("not met").count(), 2, "{table}");
}

/// Every element is closed in order, and text contains no stray markup.
fn well_formed(svg: &str) {
    let mut open = Vec::new();
    for piece in svg.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').unwrap();
        assert!(!text.contains('>'), "stray > in {text:?}");
        let name = tag
            .trim_start_matches('/')
            .split([' ', '/'])
            .next()
            .unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(name);
        }
        assert!(tag.matches('"').count().is_multiple_of(2), "{tag}");
    }
    assert!(open.is_empty(), "{open:?}");
}

/// Compares with the kept file, or rewrites that.
fn golden(name: &str, actual: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        std::fs::write(&path, actual).unwrap();
    }
    let kept = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; UPDATE_GOLDEN=1 writes it", path.display()));
    assert!(
        kept == actual,
        "{} differs; UPDATE_GOLDEN=1 rewrites it:\n{actual}",
        path.display()
    );
}
