//! Kernel threads that are bound to a lane.

use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const EVER: f64 = f64::INFINITY;

fn simulation(cores: u32, lanes: u32) -> Simulation {
    let topology = Topology::regular(&Regular::one_package(cores, lanes)).unwrap();
    let interference = Interference::ThreadPerf(vec![1.0; lanes as usize]);
    let machine = Machine::new(&topology, interference, Costs::default()).unwrap();
    let mut sim = Simulation::new(machine, &Kind::from(Settings::default())).unwrap();
    sim.keep_records();
    sim
}

/// A task of CPU 0.
fn bound(class: Class, kernel_thread: bool) -> TaskSpec {
    TaskSpec {
        cpus: Some(vec![0]),
        kernel_thread,
        ..TaskSpec::new("bound", class)
    }
}

/// Critical tasks without a pause; a task of CPU 0 works for 20 us every 5 ms.
fn housekeeping(critical: usize, kernel_thread: bool) -> Vec<Record> {
    let mut sim = simulation(2, 2);
    let id = sim.create(&bound(Class::Normal, kernel_thread)).unwrap();
    for _ in 0..critical {
        let spec = TaskSpec::new("critical", Class::Critical);
        let critical = sim.create(&spec).unwrap();
        sim.give(critical, EVER).unwrap();
    }
    sim.set_timer(5 * MS, 0);
    while let Some(occurrence) = sim.next(500 * MS).unwrap() {
        if let Occurrence::Timer(_) = occurrence {
            sim.give(id, (20 * US) as f64).unwrap();
            sim.set_timer(sim.now_ns() + 5 * MS + 300 * US, 0);
        }
    }
    sim.take_records()
}

/// The longest time from a wake-up of the first task until it runs, ns; and its runs.
fn longest_wait_ns(records: &[Record]) -> (u64, usize) {
    let (mut woke_ns, mut longest_ns, mut runs) = (None, 0, 0);
    for record in records {
        match record.step {
            Step::Wake { task: TaskId(0) } => woke_ns = woke_ns.or(Some(record.at_ns)),
            Step::Run {
                task: TaskId(0), ..
            } => {
                let from_ns = woke_ns.take().unwrap_or(record.at_ns);
                longest_ns = longest_ns.max(record.at_ns - from_ns);
                runs += 1;
            }
            _ => {}
        }
    }
    (longest_ns, runs)
}

/// The lanes on which each critical task ran.
fn lanes_of_critical(records: &[Record]) -> Vec<Vec<u32>> {
    let mut lanes = vec![Vec::new(); 5];
    for record in records {
        if let Step::Run { task, lane } = record.step
            && task.0 > 0
            && !lanes[task.0 as usize].contains(&lane)
        {
            lanes[task.0 as usize].push(lane);
        }
    }
    lanes.retain(|lanes| !lanes.is_empty());
    lanes
}

#[test]
fn a_kernel_thread_does_not_wait_behind_critical_work() {
    for critical in [1, 2, 4] {
        let (wait_ns, runs) = longest_wait_ns(&housekeeping(critical, true));
        assert!(wait_ns <= 50 * US && runs > 80, "{wait_ns} ns, {runs} runs");
    }
    // any other task waits for the bound
    let (wait_ns, _) = longest_wait_ns(&housekeeping(4, false));
    assert!(wait_ns >= 20 * MS, "{wait_ns} ns");
}

#[test]
fn critical_work_stays_on_its_lane_for_a_kernel_thread() {
    // alone, beside idle cores, and with all lanes busy
    for critical in [1, 2, 4] {
        let lanes = lanes_of_critical(&housekeeping(critical, true));
        assert_eq!(lanes.len(), critical);
        assert!(lanes.iter().all(|lanes| lanes.len() == 1), "{lanes:?}");
    }
}

#[test]
fn critical_work_goes_on_with_its_slice_after_a_kernel_thread() {
    // two take turns of 10 ms on one lane
    let mut sim = simulation(1, 1);
    let kernel_thread = sim.create(&bound(Class::Normal, true)).unwrap();
    for _ in 0..2 {
        let id = sim.create(&bound(Class::Critical, false)).unwrap();
        sim.give(id, EVER).unwrap();
    }
    sim.set_timer(2 * MS, 0);
    while let Some(occurrence) = sim.next(200 * MS).unwrap() {
        if let Occurrence::Timer(_) = occurrence {
            sim.give(kernel_thread, (50 * US) as f64).unwrap();
            sim.set_timer(sim.now_ns() + 3 * MS, 0);
        }
    }
    // how long each had the lane until the other one
    let mut turns_ns = Vec::new();
    let mut last = None;
    for record in sim.take_records() {
        let Step::Run { task, .. } = record.step else {
            continue;
        };
        match last {
            _ if task.0 == 0 => {}
            Some((of, _)) if of == task => {}
            Some((_, from_ns)) => {
                turns_ns.push(record.at_ns - from_ns);
                last = Some((task, record.at_ns));
            }
            None => last = Some((task, record.at_ns)),
        }
    }
    assert!(turns_ns.len() > 10, "{turns_ns:?}");
    // the slice, the threads' runs in it, and the ticks
    let whole = |turn_ns: &u64| (10 * MS..=16 * MS).contains(turn_ns);
    assert!(turns_ns.iter().all(whole), "{turns_ns:?}");
}

/// What share of a second tasks of CPU 0 ran: of two kernel threads without a pause, and two others.
fn shares(others: [Class; 2]) -> [f64; 4] {
    let mut sim = simulation(1, 1);
    let kernel_threads = [0; 2].map(|_| sim.create(&bound(Class::Normal, true)).unwrap());
    let others = others.map(|class| sim.create(&bound(class, false)).unwrap());
    let all = [kernel_threads[0], kernel_threads[1], others[0], others[1]];
    for id in all {
        sim.give(id, EVER).unwrap();
    }
    while sim.next(1_000 * MS).unwrap().is_some() {}
    sim.account();
    all.map(|id| sim.task_totals(id).lane_ns as f64 / 1e9)
}

#[test]
fn kernel_threads_that_keep_running_starve_nothing() {
    let shares_beside = |others| {
        let shares = shares(others);
        assert!(shares.iter().all(|share| *share > 0.02), "{shares:?}");
        shares
    };
    // normal work shares the lane with them by virtual time
    let fair = shares_beside([Class::Normal; 2]);
    assert!(
        fair.iter().all(|share| (0.2..0.3).contains(share)),
        "{fair:?}"
    );
    // critical work has all but the third of what is due
    let shares = shares_beside([Class::Critical, Class::Normal]);
    assert!(shares[2] > 0.65, "{shares:?}");
}

/// Two kernel threads that wake again and again, so that each run is short, but together fill a lane.
#[test]
fn kernel_threads_that_wake_all_the_time_starve_nothing() {
    let mut sim = simulation(1, 1);
    let kernel_threads = [0; 2].map(|_| sim.create(&bound(Class::Normal, true)).unwrap());
    let others = [Class::Critical, Class::Normal, Class::Batch];
    let others = others.map(|class| sim.create(&bound(class, false)).unwrap());
    for id in others {
        sim.give(id, EVER).unwrap();
    }
    for id in kernel_threads {
        sim.give(id, (300 * US) as f64).unwrap();
    }
    while let Some(occurrence) = sim.next(4_000 * MS).unwrap() {
        match occurrence {
            Occurrence::Done(id) => sim.set_timer(sim.now_ns() + 10 * US, id.0.into()),
            Occurrence::Timer(token) => {
                sim.give(kernel_threads[token as usize], (300 * US) as f64)
                    .unwrap();
            }
        }
    }
    sim.account();
    let shares = others.map(|id| sim.task_totals(id).lane_ns as f64 / 4e9);
    // two thirds go to the threads that wake and to what is due, at most
    assert!(shares[0] > 0.33, "{shares:?}");
    assert!(shares[1] > 0.01 && shares[2] > 0.001, "{shares:?}");
}
