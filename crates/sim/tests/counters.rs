//! The dynamic budget by counters: what critical work loses beside batch is found, whatever the
//! scheduler was told of shared lanes.
#![allow(clippy::unwrap_used, missing_docs)]

use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
/// A job comes that often, and is so much work of an unshared lane.
const PERIOD_NS: u64 = 20 * MS;
const JOB_NS: f64 = 5e6;

/// What a run gave.
struct Run {
    counted: Option<Counted>,
    /// Work of batch, in unshared lanes.
    batch: f64,
    /// Mean response time of the jobs, ms.
    response_ms: f64,
}

/// A server with a job each period beside batch on the other lanes of one core. Kind 0 is the
/// server, kind 1 batch.
fn run(interference: Interference, settings: Settings, lanes: u32, batch: usize) -> Run {
    let topology = Topology::regular(&Regular::one_package(1, lanes)).unwrap();
    let machine = Machine::new(&topology, interference, Costs::default()).unwrap();
    let mut sim = Simulation::new(machine, &Kind::from(settings)).unwrap();
    let server = sim.create(&TaskSpec::new("server", Class::Critical));
    let server = server.unwrap();
    let spec = TaskSpec {
        kind: 1,
        ..TaskSpec::new("batch", Class::Batch)
    };
    let batch: Vec<TaskId> = (0..batch).map(|_| sim.create(&spec).unwrap()).collect();
    for id in &batch {
        sim.give(*id, f64::INFINITY).unwrap();
    }
    // by the second half it is known
    let (mut came_ns, mut response_ns, mut jobs) = (0, 0, 0);
    sim.set_timer(PERIOD_NS, 0);
    while let Some(occurrence) = sim.next(4 * S).unwrap() {
        match occurrence {
            Occurrence::Timer(_) => {
                came_ns = sim.now_ns();
                sim.give(server, JOB_NS).unwrap();
                sim.set_timer(came_ns + PERIOD_NS, 0);
            }
            Occurrence::Done(id) if id == server && came_ns > 2 * S => {
                response_ns += sim.now_ns() - came_ns;
                jobs += 1;
            }
            _ => {}
        }
    }
    sim.account();
    let work_ns: f64 = (batch.iter()).map(|id| sim.task_totals(*id).work_ns).sum();
    Run {
        counted: sim.counted(),
        batch: work_ns / (4 * S) as f64,
        response_ms: response_ns as f64 / f64::from(jobs) / MS as f64,
    }
}

/// What the scheduler was told, and a budget of 1 ms of lost time.
fn dynamic(told: &[f64], counters: bool) -> Settings {
    Settings {
        budget: Budget::limited(Borrow::Dynamic, MS),
        thread_perf: told.to_vec(),
        starvation_bound_ns: 10 * S,
        counters: match counters {
            true => UseCounters::Auto,
            false => UseCounters::Off,
        },
        ..Settings::default()
    }
}

/// A server that keeps `speed` of itself beside batch.
fn keeps(speed: f64) -> Interference {
    Interference::Kinds(vec![vec![1.0, speed], vec![0.5, 0.5]])
}

fn assert_near(found: f64, expected: f64, what: &str) {
    assert!(
        (found - expected).abs() < 0.03,
        "{what}: {found} instead of {expected}"
    );
}

#[test]
fn the_true_loss_is_found_whatever_was_told() {
    for (speed, told) in [(0.9, 0.5), (0.6, 0.9), (0.75, 0.75)] {
        let run = run(keeps(speed), dynamic(&[1.0, told], true), 2, 1);
        let counted = run.counted.unwrap();
        assert_near(counted.ipc_alone, 1.0, "alone");
        assert_near(counted.ipc_beside, speed, "beside");
        assert_near(counted.loss.unwrap(), 1.0 - speed, "lost");
    }
}

#[test]
fn the_charge_is_what_is_lost() {
    // 1 ms may be lost: at 0.9 a job of 5 ms never loses it, at 0.6 it does after 2.5 ms.
    let told = |told, counters| dynamic(&[1.0, told], counters);
    let mild = run(keeps(0.9), told(0.5, true), 2, 1);
    let wrong = run(keeps(0.9), told(0.5, false), 2, 1);
    assert!(wrong.counted.is_none());
    // told that half is lost, it closes the core after 2 ms of each job
    assert!(
        mild.batch > wrong.batch * 1.05,
        "{} and {}",
        mild.batch,
        wrong.batch
    );
    assert_near(mild.response_ms, 5.0 / 0.9, "as long as it may take");
    let harsh = run(keeps(0.6), told(0.9, true), 2, 1);
    let wrong = run(keeps(0.6), told(0.9, false), 2, 1);
    assert!(
        wrong.response_ms > 7.5,
        "told too little, it loses {} ms",
        wrong.response_ms - 5.0
    );
    assert!(
        (5.9..6.1).contains(&harsh.response_ms),
        "it loses its budget: {} ms",
        harsh.response_ms - 5.0
    );
}

#[test]
fn a_share_of_busy_periods_shows_how_it_is_alone() {
    // No job ever uses its budget up, so only those that begin closed are alone.
    let settings = Settings {
        budget: Budget::limited(Borrow::Dynamic, 100 * MS),
        ..dynamic(&[1.0, 0.5], true)
    };
    let run = run(keeps(0.8), settings, 2, 1);
    let counted = run.counted.unwrap();
    assert_near(counted.loss.unwrap_or(f64::NAN), 0.2, "lost");
}

#[test]
fn without_batch_nothing_is_known() {
    let run = run(keeps(0.8), dynamic(&[1.0, 0.5], true), 2, 0);
    let counted = run.counted.unwrap();
    assert_eq!(counted.loss, None);
    assert_near(counted.ipc_alone, 1.0, "alone");
    assert!(counted.ipc_beside.is_nan());
}

#[test]
fn any_number_of_lanes() {
    // Three siblings: it keeps 0.9 beside each of them.
    let run = run(keeps(0.9), dynamic(&[1.0], true), 4, 3);
    let counted = run.counted.unwrap();
    assert_near(counted.loss.unwrap(), 1.0 - 0.9 * 0.9 * 0.9, "lost");
}
