//! Jobs that programs mark, under the scheduler's own source: the board is what a test writes there.

use super::native::{self, job_slot};
use super::tables::Boards;
use crate::task::Mark;
use crate::{
    Budget, Class, Costs, Interference, Machine, Objective, Occurrence, Record, Settings,
    Simulation, Step, TaskId, TaskSpec,
};
use sidelane_topology::{Builder, CoreSpec, Regular, Topology};
use std::cell::RefCell;

const MS: u64 = 1_000_000;
const SLOTS: usize = native::job_board_limits_JOB_SLOTS as usize;

/// A board, which all programs of this thread's simulation share while this lives.
#[derive(Default)]
struct Board(RefCell<Boards>);

impl Board {
    /// What the thread of a task writes into its slot.
    fn write(&self, id: TaskId, change: impl FnOnce(&mut job_slot)) {
        self.0.borrow_mut().tell(id, change);
    }

    /// The task ends a job that took so long.
    fn end(&self, id: TaskId, latency_ns: u64) {
        self.0
            .borrow_mut()
            .mark(id, Mark::Ends { latency_ns }, true);
    }
}

fn simulation(settings: Settings) -> Simulation {
    let topology = Topology::regular(&Regular::one_package(2, 2)).unwrap();
    let interference = Interference::ThreadPerf(vec![1.0, 0.5]);
    let machine = Machine::new(&topology, interference, Costs::none()).unwrap();
    Simulation::new(machine, &settings.into()).unwrap()
}

fn critical(sim: &mut Simulation) -> TaskId {
    sim.create(&TaskSpec::new("job", Class::Critical)).unwrap()
}

/// Runs to the end; `at` is called at each timer.
fn run(sim: &mut Simulation, end_ns: u64, mut at: impl FnMut(&mut Simulation, u64)) {
    while let Some(occurrence) = sim.next(end_ns).unwrap() {
        if let Occurrence::Timer(token) = occurrence {
            at(sim, token);
        }
    }
}

/// Tasks 0 and 2 share a core; task 1 leaves the other one at 21 ms. Which of the two moves there? The younger one, if it is
/// not too young for that.
fn promoted(mark: impl Fn(&Board, [TaskId; 3])) -> usize {
    let board = Board::default();
    let mut sim = simulation(Settings::default());
    sim.keep_records();
    let ids = [(); 3].map(|()| critical(&mut sim));
    for (token, at_ms) in [(0, 10), (1, 11), (2, 12), (3, 13)] {
        sim.set_timer(at_ms * MS, token);
    }
    run(&mut sim, 40 * MS, |sim, token| match token {
        3 => mark(&board, ids),
        token => {
            let work_ms = if token == 1 { 10.0 } else { 100.0 };
            sim.give(ids[token as usize], work_ms * 1e6).unwrap();
        }
    });
    let on_other_core = |record: &Record| match record.step {
        Step::Run { task, lane } => (lane >= 2 && task != ids[1]).then_some(task),
        _ => None,
    };
    let moved: Vec<TaskId> = sim
        .take_records()
        .iter()
        .filter_map(on_other_core)
        .collect();
    ids.iter().position(|id| *id == moved[0]).unwrap()
}

#[test]
fn the_age_of_a_job_is_that_of_its_mark() {
    assert_eq!(promoted(|_, _| ()), 2, "the one that woke last");
    let begins = |at_ns| {
        move |board: &Board, ids: [TaskId; 3]| {
            board.end(ids[2], MS);
            board.write(ids[2], |slot| slot.began_ns = at_ns);
        }
    };
    assert_eq!(
        promoted(begins(2 * MS)),
        0,
        "the other's request came at 2 ms"
    );
    assert_eq!(promoted(begins(13 * MS)), 2, "that came later");
    let between = |board: &Board, ids: [TaskId; 3]| board.end(ids[0], MS);
    assert_eq!(promoted(between), 2, "task 0 works on no job");
    assert_eq!(promoted(begins(1_000 * MS)), 2, "that is to come");
    let only_begins = |board: &Board, ids: [TaskId; 3]| {
        board.write(ids[2], |slot| slot.began_ns = 2 * MS);
    };
    assert_eq!(promoted(only_begins), 2, "it ends none");
}

#[test]
fn the_latencies_of_marked_jobs_count_and_the_wake_up_does_not() {
    let board = Board::default();
    let mut sim = simulation(Settings {
        budget: Budget::slo(Objective {
            latency_ns: 100 * MS,
            beyond: 100,
        }),
        ..Settings::default()
    });
    let id = critical(&mut sim);
    // a thread of another program has the next number
    board.write(id, |slot| slot.tid += SLOTS as u32);
    sim.give(id, f64::INFINITY).unwrap();
    sim.set_timer(10 * MS, 0);
    run(&mut sim, 900 * MS, |sim, _| {
        let next_ns = sim.now_ns() + 10 * MS;
        sim.set_timer(next_ns, 0);
    });
    assert_eq!(sim.objective().unwrap().windows, 0, "no jobs yet");
    run(&mut sim, 2_900 * MS, |sim, _| {
        // two at a time
        board.end(id, 20 * MS);
        board.end(id, 10 * MS);
        let next_ns = sim.now_ns() + 10 * MS;
        sim.set_timer(next_ns, 0);
    });
    let state = sim.objective().unwrap();
    assert!(state.windows > 0, "{state:?}");
    let tail_ms = state.tail_ns / MS;
    assert!((20..24).contains(&tail_ms), "{state:?}");
}

#[test]
fn more_jobs_than_can_be_are_not_believed() {
    let board = Board::default();
    let mut sim = simulation(Settings {
        budget: Budget::slo(Objective {
            latency_ns: 100 * MS,
            beyond: 100,
        }),
        ..Settings::default()
    });
    let id = critical(&mut sim);
    sim.give(id, f64::INFINITY).unwrap();
    sim.set_timer(10 * MS, 0);
    run(&mut sim, 3_000 * MS, |sim, _| {
        board.write(id, |slot| slot.ended = slot.ended.wrapping_add(1 << 62));
        let next_ns = sim.now_ns() + 10 * MS;
        sim.set_timer(next_ns, 0);
    });
    assert_eq!(sim.objective().unwrap().windows, 0);
}

/// When batch left its lane beside critical work that begins at 100, 200, ... ms and lasts for 50 ms, after that began, ms. Its
/// program has a board, and does not nap.
fn leaves_after_ms(has_board: bool) -> Vec<f64> {
    let board = Board::default();
    let mut sim = simulation(Settings::default());
    sim.keep_records();
    let spec = TaskSpec {
        cpus: Some(vec![1]),
        ..TaskSpec::new("batch", Class::Batch)
    };
    let batch = sim.create(&spec).unwrap();
    let spec = TaskSpec {
        cpus: Some(vec![0]),
        ..TaskSpec::new("job", Class::Critical)
    };
    let job = sim.create(&spec).unwrap();
    if has_board {
        board.write(batch, |_| ());
    }
    sim.give(batch, f64::INFINITY).unwrap();
    // not at a tick
    let begins_ns = |round: u64| round * 100 * MS + MS / 2;
    (1..=8).for_each(|round| sim.set_timer(begins_ns(round), round));
    run(&mut sim, 1_000 * MS, |sim, _| sim.give(job, 50e6).unwrap());
    let records = sim.take_records();
    let left = records.iter().filter_map(|record| match record.step {
        Step::Preempt { task, .. } if task == batch => Some(record.at_ns),
        _ => None,
    });
    left.zip(1..)
        .map(|(at_ns, round)| (at_ns - begins_ns(round)) as f64 / MS as f64)
        .collect()
}

#[test]
fn a_program_that_does_not_nap_is_evicted_at_its_tick_and_soon_at_once() {
    assert_eq!(leaves_after_ms(false), [0.0; 8]);
    let left_ms = leaves_after_ms(true);
    let (trusted, rest) = left_ms.split_at(4);
    assert!(
        trusted.iter().all(|ms| (0.1..=4.0).contains(ms)),
        "{left_ms:?}"
    );
    assert_eq!(rest, [0.0; 4], "{left_ms:?}");
}

/// Two lanes, and on each a job of 100 ms that began at 0, with that deadline; one of 5 ms comes at 15 ms. When that is done, ms.
fn done_ms(deadline_ms: u64) -> f64 {
    let board = Board::default();
    let topology = Topology::regular(&Regular::one_package(2, 1)).unwrap();
    let machine = Machine::new(
        &topology,
        Interference::ThreadPerf(vec![1.0]),
        Costs::none(),
    );
    let mut sim = Simulation::new(machine.unwrap(), &Settings::default().into()).unwrap();
    let ids = [(); 3].map(|()| critical(&mut sim));
    for id in &ids[..2] {
        board.end(*id, MS);
        board.write(*id, |slot| {
            (slot.began_ns, slot.deadline_ns) = (1, deadline_ms * MS);
        });
        sim.give(*id, 100e6).unwrap();
    }
    sim.set_timer(15 * MS, 0);
    let mut done = None;
    while let Some(occurrence) = sim.next(400 * MS).unwrap() {
        match occurrence {
            Occurrence::Timer(_) => {
                board.end(ids[2], MS);
                let now_ns = sim.now_ns();
                board.write(ids[2], |slot| {
                    (slot.began_ns, slot.deadline_ns) = (now_ns, now_ns + 200 * MS);
                });
                sim.give(ids[2], 5e6).unwrap();
            }
            Occurrence::Done(id) if id == ids[2] => done = Some(sim.now_ns() as f64 / MS as f64),
            Occurrence::Done(_) => {}
        }
    }
    done.unwrap()
}

#[test]
fn a_job_beyond_its_deadline_yields_to_those_that_can_meet_theirs() {
    assert_eq!(done_ms(150), 105.0, "it is on time");
    // a tick ends it
    let late_ms = done_ms(30);
    assert!((35.0..=39.0).contains(&late_ms), "{late_ms}");
}

/// Threads that never sleep, and go from one marked job to the next: one on each lane in use, in the order in which they came.
struct Servers {
    /// Capacity and number of lanes of each core; CPUs are numbered through.
    cores: &'static [(u32, u32)],
    settings: Settings,
    /// Which CPUs each may use.
    cpus: Vec<Option<Vec<u32>>>,
}

const MARK_NS: u64 = 30 * MS + MS / 2;
const TICKS_NS: u64 = 8 * MS;

impl Servers {
    fn new(cores: &'static [(u32, u32)], threads: usize) -> Servers {
        Servers {
            cores,
            settings: Settings::default(),
            cpus: vec![None; threads],
        }
    }

    /// A fast core and a slow one, a thread on each.
    fn two() -> Servers {
        Servers::new(&[(1024, 1), (512, 1)], 2)
    }

    /// Each takes its next job at these moments, too. The lanes on which each ran, and since when, ns, and how many were promoted.
    fn run(&self, marks: &[(u64, usize)]) -> (Vec<Vec<(u64, u32)>>, u64) {
        let (mut builder, mut cpu) = (Builder::new(), 0);
        for &(capacity, lanes) in self.cores {
            builder = builder.core(CoreSpec::new(cpu..cpu + lanes).capacity(capacity.into()));
            cpu += lanes;
        }
        let interference = Interference::ThreadPerf(vec![1.0, 0.5]);
        let topology = builder.build().unwrap();
        let machine = Machine::new(&topology, interference, Costs::none()).unwrap();
        let board = Board::default();
        let mut sim = Simulation::new(machine, &self.settings.clone().into()).unwrap();
        sim.keep_records();
        let create = |cpus: &Option<Vec<u32>>| TaskSpec {
            cpus: cpus.clone(),
            ..TaskSpec::new("server", Class::Critical)
        };
        let ids: Vec<TaskId> = self
            .cpus
            .iter()
            .map(create)
            .map(|spec| sim.create(&spec).unwrap())
            .collect();
        for index in 0..ids.len() as u64 {
            sim.set_timer((10 + index) * MS, index);
        }
        for (at_ns, index) in marks {
            sim.set_timer(*at_ns, *index as u64);
        }
        run(&mut sim, 100 * MS, |sim, index| {
            let (id, now_ns) = (ids[index as usize], sim.now_ns());
            board.end(id, MS);
            board.write(id, |slot| slot.began_ns = now_ns);
            if now_ns < MARK_NS {
                sim.give(id, f64::INFINITY).unwrap();
            }
        });
        let records = sim.take_records();
        let lanes = |id: &TaskId| {
            let runs = records.iter().filter_map(|record| match record.step {
                Step::Run { task, lane } if task == *id => Some((record.at_ns, lane)),
                _ => None,
            });
            let mut lanes: Vec<_> = runs.collect();
            lanes.dedup_by_key(|(_, lane)| *lane);
            lanes
        };
        (ids.iter().map(lanes).collect(), sim.counters().promotions)
    }

    /// The lanes of each, if all moves were soon after the mark.
    fn moves(&self) -> (Vec<Vec<u32>>, u64) {
        let (ran, promotions) = self.run(&[(MARK_NS, 0)]);
        for (at_ns, _) in ran.iter().flat_map(|lanes| &lanes[1..]) {
            assert!((MARK_NS..MARK_NS + TICKS_NS).contains(at_ns), "{ran:?}");
        }
        let lanes = |lanes: &Vec<(u64, u32)>| lanes.iter().map(|(_, lane)| *lane).collect();
        (ran.iter().map(lanes).collect(), promotions)
    }
}

#[test]
fn at_the_mark_of_a_new_job_an_older_one_gets_the_faster_core() {
    assert_eq!(Servers::two().moves(), (vec![vec![0, 1], vec![1, 0]], 1));
    // and back, with the next one
    let (ran, promotions) = Servers::two().run(&[(MARK_NS, 0), (2 * MARK_NS, 1)]);
    let lanes = |index: usize| -> Vec<u32> { ran[index].iter().map(|(_, lane)| *lane).collect() };
    assert_eq!(
        (lanes(0), lanes(1), promotions),
        (vec![0, 1, 0], vec![1, 0, 1], 2)
    );
    // the slower one takes a new job: all is well
    let (ran, promotions) = Servers::two().run(&[(MARK_NS, 1)]);
    assert_eq!((ran[0].len(), ran[1].len(), promotions), (1, 1, 0));
}

#[test]
fn at_the_mark_of_a_new_job_an_older_one_gets_a_core_of_its_own() {
    // thread 0 alone on the core of CPU 0, threads 1 and 2 on the other
    let servers = Servers::new(&[(1024, 1), (1024, 2)], 3);
    assert_eq!(servers.moves(), (vec![vec![0, 1], vec![1, 0], vec![2]], 1));
}

#[test]
fn of_three_speeds_the_oldest_gets_the_fastest_and_the_young_one_the_slowest() {
    let servers = Servers::new(&[(1024, 1), (512, 1), (256, 1)], 3);
    assert_eq!(
        servers.moves(),
        (vec![vec![0, 2], vec![1, 0], vec![2, 1]], 2)
    );
}

#[test]
fn nobody_changes_places_where_that_is_off_or_cannot_be() {
    let stays = (vec![vec![0], vec![1]], 0);
    let mut servers = Servers::two();
    servers.settings.promote = false;
    assert_eq!(servers.moves(), stays);
    let mut servers = Servers::two();
    servers.settings.promote_after_ns = 100 * MS;
    assert_eq!(servers.moves(), stays, "too young");
    let mut servers = Servers::two();
    servers.cpus[0] = Some(vec![0]);
    assert_eq!(servers.moves(), stays, "the young one may not");
    let mut servers = Servers::two();
    servers.cpus[1] = Some(vec![1]);
    assert_eq!(servers.moves(), stays, "the old one may not");
    assert_eq!(
        Servers::new(&[(1024, 1), (1024, 1)], 2).moves(),
        stays,
        "no gain"
    );
}
