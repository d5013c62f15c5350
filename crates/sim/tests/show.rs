//! Pictures and traces of runs: made by hand, and of the scheduler's own source.

use roxmltree::Document;
use sidelane_sim::show::{TaskLabel, Trace};
use sidelane_sim::*;
use sidelane_topology::{Builder, CoreSpec, Regular, Topology};

const MS: u64 = 1_000_000;

fn machine_of(topology: &Topology) -> Machine {
    let speeds = Interference::ThreadPerf(vec![1.0, 0.6]);
    Machine::new(topology, speeds, Costs::default()).unwrap()
}

fn machine() -> Machine {
    let topology = Topology::regular(&Regular::one_package(2, 2));
    machine_of(&topology.unwrap())
}

fn labels() -> Vec<TaskLabel> {
    vec![
        TaskLabel::new("a<b>&\"c\"\u{1}", Class::Critical),
        TaskLabel::new("build", Class::Batch),
        TaskLabel::new("shell", Class::Normal),
    ]
}

const CRITICAL: TaskId = TaskId(0);
const BATCH: TaskId = TaskId(1);
const NORMAL: TaskId = TaskId(2);

fn steps(steps: &[(u64, Step)]) -> Vec<Record> {
    let record = |&(at_ns, step): &(u64, Step)| Record { at_ns, step };
    steps.iter().map(record).collect()
}

fn small_run() -> Vec<Record> {
    let run = |task, lane| Step::Run { task, lane };
    steps(&[
        (0, run(BATCH, 0)),
        (2 * MS, Step::Wake { task: CRITICAL }),
        (
            3 * MS,
            Step::Preempt {
                task: BATCH,
                lane: 0,
            },
        ),
        (3 * MS, run(CRITICAL, 0)),
        (3 * MS, run(BATCH, 2)),
        (4 * MS, Step::Offline { lane: 3 }),
        (6 * MS, Step::Online { lane: 3 }),
        (6 * MS, run(NORMAL, 3)),
        (
            7 * MS,
            Step::Sleep {
                task: CRITICAL,
                lane: 0,
            },
        ),
        (
            8 * MS,
            Step::Sleep {
                task: NORMAL,
                lane: 3,
            },
        ),
        (9 * MS, Step::Wake { task: CRITICAL }),
    ])
}

fn draw(records: &[Record], from_ns: u64, to_ns: u64) -> String {
    let (machine, tasks) = (machine(), labels());
    let trace = Trace {
        machine: &machine,
        tasks: &tasks,
        records,
    };
    trace.gantt("A <small> run", from_ns..to_ns)
}

/// All tooltips.
fn tips(svg: &str) -> Vec<String> {
    let document = Document::parse(svg).unwrap();
    let titles = document
        .descendants()
        .filter(|node| node.has_tag_name("title"));
    titles
        .filter_map(|node| node.text().map(String::from))
        .collect()
}

fn compare_with_golden(name: &str, drawn: &str) {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1") {
        std::fs::write(&path, drawn).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert!(
        golden == drawn,
        "{name} differs; UPDATE_GOLDEN=1 rewrites it"
    );
}

#[test]
fn a_small_run_is_drawn_as_it_was() {
    let svg = draw(&small_run(), 0, 10 * MS);
    let tips = tips(&svg);
    assert_eq!(
        tips,
        [
            "build (batch) on lane 0\n0 ns to 3 ms (3 ms)",
            "a<b>&\"c\"\u{fffd} (critical) on lane 0\n3 ms to 7 ms (4 ms)",
            "a<b>&\"c\"\u{fffd} waited 1 ms\n2 ms to 3 ms (1 ms)",
            "build (batch) on lane 2\n3 ms to 10 ms (7 ms)",
            "offline\n4 ms to 6 ms (2 ms)",
            "shell (normal) on lane 3\n6 ms to 8 ms (2 ms)",
            "a<b>&\"c\"\u{fffd} waited 1 ms\n9 ms to 10 ms (1 ms)",
        ]
    );
    compare_with_golden("small_run.svg", &svg);
}

#[test]
fn a_window_shows_whole_times_in_tips() {
    let svg = draw(&small_run(), 4 * MS, 5 * MS);
    let tips = tips(&svg);
    assert_eq!(tips.len(), 3, "{tips:?}");
    assert!(tips[0].ends_with("3 ms to 7 ms (4 ms)"), "{tips:?}");
}

#[test]
fn odd_input_is_drawn_too() {
    let far = u64::MAX;
    for (from_ns, to_ns) in [(0, 0), (5, 5), (9, 3), (0, far), (far, far), (far - 1, far)] {
        for records in [&[][..], &small_run()] {
            let svg = draw(records, from_ns, to_ns);
            assert!(Document::parse(&svg).is_ok(), "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
    assert!(draw(&[], 0, MS).contains("Nothing ran in this time."));
    let unknown = (TaskId(u32::MAX), 99);
    let (task, lane) = unknown;
    let records = steps(&[
        (7, Step::Run { task, lane }),
        (5, Step::Sleep { task, lane }),
        (3, Step::Run { task, lane: 1 }),
    ]);
    let svg = draw(&records, 0, 100);
    assert_eq!(
        tips(&svg),
        ["task 4294967295 (normal) on lane 1\n3 ns to 100 ns (97 ns)"]
    );
}

#[test]
fn what_is_too_short_is_drawn_together_and_says_so() {
    let mut records = Vec::new();
    for n in 0..100_000 {
        let (task, lane) = (TaskId(n % 2), n % 4);
        let at_ns = u64::from(n) * 250;
        records.push((at_ns, Step::Run { task, lane }));
        records.push((at_ns + 250, Step::Preempt { task, lane }));
    }
    let svg = draw(&steps(&records), 0, 25 * MS);
    keep_sample("dense.svg", svg.as_bytes());
    let document = Document::parse(&svg).unwrap();
    let rectangles = document.descendants().filter(|n| n.has_tag_name("rect"));
    let count = rectangles.count();
    assert!((1000..20_100).contains(&count), "{count}");
    let note = document.descendants().filter(|node| node.is_text());
    let note = note.filter_map(|node| node.text());
    let note = note.filter_map(|text| text.split_once(" runs shorter than "));
    let together: Vec<u32> = note.map(|(runs, _)| runs.parse().unwrap()).collect();
    assert_eq!(together.len(), 1);
    assert!((99_000..=100_000).contains(&together[0]), "{together:?}");
    // Zoomed in, they are there one by one.
    let svg = draw(&steps(&records), 0, 25_000);
    assert_eq!(
        tips(&svg)
            .iter()
            .filter(|tip| tip.contains("on lane"))
            .count(),
        100
    );
}

/// A small machine under the scheduler's own source, and what it did until 60 ms.
fn simulated(machine: Machine) -> (Machine, Vec<TaskLabel>, Vec<Record>) {
    let mut sim = Simulation::new(machine, &Kind::from(Settings::default())).unwrap();
    sim.keep_records();
    let mut tasks = Vec::new();
    let mut create = |sim: &mut Simulation, name: String, class| {
        tasks.push(TaskLabel::new(name.clone(), class));
        sim.create(&TaskSpec::new(name, class)).unwrap()
    };
    for n in 0..4 {
        let batch = create(&mut sim, format!("batch{n}"), Class::Batch);
        sim.give(batch, f64::INFINITY).unwrap();
    }
    let shell = create(&mut sim, "shell".into(), Class::Normal);
    let servers = [0, 1].map(|n| create(&mut sim, format!("server{n}"), Class::Critical));
    sim.set_timer(5 * MS, 0);
    sim.set_timer(7 * MS, 1);
    sim.set_timer(16 * MS, 2);
    sim.set_timer(40 * MS, 3);
    sim.set_timer(50 * MS, 4);
    while let Some(occurrence) = sim.next(60 * MS).unwrap() {
        match occurrence {
            Occurrence::Timer(2) => {
                sim.give(shell, 3e6).unwrap();
                sim.give(servers[0], 2e6).unwrap();
                sim.give(servers[1], 3e6).unwrap();
            }
            Occurrence::Timer(3) => sim.set_online(&[3], false).unwrap(),
            Occurrence::Timer(4) => sim.set_online(&[3], true).unwrap(),
            Occurrence::Timer(n) => {
                sim.give(servers[n as usize], 4e6).unwrap();
                sim.set_timer(sim.now_ns() + 12_345_678, n);
            }
            Occurrence::Done(_) => {}
        }
    }
    let records = sim.take_records();
    (sim.machine().clone(), tasks, records)
}

/// Writes what a person may want to look at, if a folder is named.
fn keep_sample(name: &str, text: &[u8]) {
    if let Some(folder) = std::env::var_os("SAMPLES") {
        std::fs::write(std::path::Path::new(&folder).join(name), text).unwrap();
    }
}

#[test]
fn a_simulated_run_is_shown() {
    let (machine, tasks, records) = simulated(machine());
    let trace = Trace {
        machine: &machine,
        tasks: &tasks,
        records: &records,
    };
    let svg = trace.gantt("Critical work beside batch", 0..60 * MS);
    keep_sample("run.svg", svg.as_bytes());
    keep_sample(
        "near.svg",
        trace
            .gantt("The first wake-up", 4_999_000..5_012_000)
            .as_bytes(),
    );
    let drawn = tips(&svg);
    for name in ["batch0 (", "server0 (", "server1 (", "shell (", "offline"] {
        assert!(
            drawn.iter().any(|tip| tip.starts_with(name)),
            "{name}: {drawn:?}"
        );
    }
    let mut out = Vec::new();
    trace.write_perfetto(60 * MS, &mut out).unwrap();
    keep_sample("run.json", &out);
    let document: serde_json::Value = serde_json::from_slice(&out).unwrap();
    let events = document["traceEvents"].as_array().unwrap();
    let count = |key: &str, word: &str| events.iter().filter(|e| e[key] == word).count();
    let step = |is: fn(&Step) -> bool| records.iter().filter(|r| is(&r.step)).count();
    let runs = step(|step| matches!(step, Step::Run { .. }));
    let of_class = Class::ALL.map(|class| count("cat", class.name()));
    assert_eq!(of_class.iter().sum::<usize>(), runs);
    assert!(of_class.iter().all(|&runs| runs > 0));
    assert_eq!(
        count("name", "kick"),
        step(|s| matches!(s, Step::Kick { .. }))
    );
    assert_eq!(
        count("name", "wake"),
        step(|s| matches!(s, Step::Wake { .. }))
    );
    assert!(count("ph", "s") > 0);
    assert_eq!(count("ph", "s"), count("ph", "f"));
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let bytes = || {
        let (machine, tasks, records) = simulated(machine());
        let trace = Trace {
            machine: &machine,
            tasks: &tasks,
            records: &records,
        };
        let mut out = trace.gantt("run", 0..60 * MS).into_bytes();
        trace.write_perfetto(0, &mut out).unwrap();
        out
    };
    assert!(bytes() == bytes());
}

#[test]
fn cores_of_several_capacities_are_labelled() {
    let topology = Builder::new()
        .core(CoreSpec::new([0, 1]).capacity(1024))
        .core(CoreSpec::new([2]).capacity(620))
        .build()
        .unwrap();
    let machine = machine_of(&topology);
    let trace = Trace {
        machine: &machine,
        tasks: &[],
        records: &[],
    };
    let svg = trace.gantt("hybrid", 0..MS);
    keep_sample("hybrid.svg", svg.as_bytes());
    assert!(svg.contains(">core 1 (620)<"), "{svg}");
}
