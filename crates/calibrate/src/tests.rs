//! From settings to a calibration, on whatever machine this is.

use super::*;
use sidelane_topology::{Builder, CoreSpec};

/// A machine whose one core has two lanes; both must be CPUs of this machine.
fn two_lanes() -> (Topology, CpuList) {
    let here = allowed().unwrap();
    let cpus: Vec<u32> = here.iter().take(2).collect();
    let core = Builder::new().core(CoreSpec::new(cpus));
    (core.build().unwrap(), here)
}

fn short(work: Work) -> Settings {
    Settings {
        work,
        duration: Duration::from_millis(5),
        repetitions: 2,
        cores: 1,
    }
}

#[test]
fn settings_of_nothing_are_refused() {
    let (topology, here) = two_lanes();
    let refused = |settings: Settings| Task::new(Path::new("/"), &topology, &here, settings);
    let wrong = [
        Settings {
            work: Work::Mix(Vec::new()),
            ..Settings::default()
        },
        Settings {
            repetitions: 0,
            ..Settings::default()
        },
        Settings {
            duration: Duration::ZERO,
            ..Settings::default()
        },
    ];
    for settings in wrong {
        assert!(refused(settings).unwrap_err().is_input());
    }
}

#[test]
fn a_mix_is_measured() {
    let (topology, here) = two_lanes();
    if here.len() < 2 {
        return; // this machine has no two lanes
    }
    let settings = short(Work::Mix(vec![Kernel::Integer, Kernel::Branchy]));
    let task = Task::new(Path::new("/"), &topology, &here, settings).unwrap();
    assert_eq!(
        (task.runs(), task.expected()),
        (12, Duration::from_millis(60))
    );
    let mut told = 0;
    let found = task.run(&AtomicBool::new(false), |ran| told = ran).unwrap();
    assert_eq!(told, 12);
    assert_eq!(sidelane_smt::thread_perf::fault(&found.thread_perf), None);
    assert_eq!((found.lanes(), found.groups[0].work.len()), (2, 2));
    // Two measurements tell no spread.
    assert_eq!(found.confidence, Confidence::Low);
    assert!(
        found
            .notes
            .iter()
            .any(|note| note.contains("measured 2 times"))
    );
    let text = found.to_string();
    assert!(
        text.contains("floating") ^ text.contains("branchy"),
        "{text}"
    );
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
}

#[test]
fn a_command_is_measured() {
    let (topology, here) = two_lanes();
    if here.len() < 2 {
        return; // this machine has no two lanes
    }
    let command = Measured {
        argv: vec!["sleep".into(), "0.01".into()],
        show_output: false,
    };
    let task = Task::new(
        Path::new("/"),
        &topology,
        &here,
        short(Work::Command(command)),
    )
    .unwrap();
    let found = task.run(&AtomicBool::new(false), |_| {}).unwrap();
    assert_eq!(
        found.method.command,
        Some(vec!["sleep".into(), "0.01".into()])
    );
    // Sleepers do not slow each other down.
    assert!(
        found.groups[0].densities[1].measured.median > 0.6,
        "{found:?}"
    );
}
