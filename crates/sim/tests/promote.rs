//! Fast old on hand-made schedules: nothing costs anything, two lanes of a core run at half speed.

use super::{Change, Job, Ran, run_jobs};
use sidelane_sim::*;
use sidelane_topology::{Builder, CoreSpec};

const MS: u64 = 1_000_000;
const END_MS: u64 = 400;

struct Schedule {
    /// Capacity and number of lanes of each core; CPUs are numbered through.
    cores: Vec<(u32, u32)>,
    settings: Settings,
    batch: usize,
    jobs: Vec<Job>,
    changes: Vec<Change>,
}

/// Two equal cores of two lanes: job 0 comes to core 0, job 1 to core 1, job 2 to core 0 again; core 1
/// falls free at 11 ms.
fn three_jobs() -> Schedule {
    Schedule {
        cores: vec![(1024, 2), (1024, 2)],
        settings: Settings::default(),
        batch: 0,
        jobs: vec![
            Job(0.0, 100.0, None),
            Job(1.0, 10.0, None),
            Job(2.0, 100.0, None),
        ],
        changes: Vec::new(),
    }
}

impl Schedule {
    fn run(&self) -> Ran {
        let mut builder = Builder::new();
        let mut cpu = 0;
        for &(capacity, lanes) in &self.cores {
            builder = builder.core(CoreSpec::new(cpu..cpu + lanes).capacity(capacity.into()));
            cpu += lanes;
        }
        let topology = builder.build().unwrap();
        let interference = Interference::ThreadPerf(vec![1.0, 0.5]);
        let machine = Machine::new(&topology, interference, Costs::none()).unwrap();
        let mut sim = Simulation::new(machine, &Kind::from(self.settings.clone())).unwrap();
        for _ in 0..self.batch {
            let id = sim.create(&TaskSpec::new("batch", Class::Batch)).unwrap();
            sim.give(id, f64::INFINITY).unwrap();
        }
        run_jobs(sim, &self.jobs, &self.changes, END_MS)
    }
}

fn near(actual: &[f64], expected: &[f64]) {
    let same = actual
        .iter()
        .zip(expected)
        .all(|(a, e)| (a - e).abs() < 0.1);
    assert!(same, "done at {actual:?} ms instead of {expected:?} ms");
}

#[test]
fn who_shares_the_core_of_the_oldest_job_moves_to_the_core_that_falls_free() {
    let ran = three_jobs().run();
    assert_eq!(ran.lanes[0], [(0.0, 0)]);
    assert_eq!(ran.lanes[2], [(2.0, 1), (11.0, 2)]);
    // Job 0: 2 alone, 4.5 shared, the rest alone; job 2: 4.5 shared, the rest alone.
    near(&ran.done_ms, &[104.5, 11.0, 106.5]);
    assert_eq!(
        (ran.counters.promotions, ran.counters.promotions_dropped),
        (1, 0)
    );
}

/// That one is younger, and most young jobs are done soon; the oldest is not.
#[test]
fn the_oldest_job_of_a_shared_core_moves_where_the_other_is_too_young_or_may_not() {
    let mut schedule = three_jobs();
    schedule.settings.promote_after_ns = 10 * MS;
    assert_eq!(schedule.run().lanes[0], [(0.0, 0), (11.0, 2)]);
    let mut schedule = three_jobs();
    schedule.jobs[2].2 = Some(&[0, 1]);
    assert_eq!(schedule.run().lanes[0], [(0.0, 0), (11.0, 2)]);
    // a core that is faster goes to the oldest
    let mut schedule = three_jobs();
    schedule.cores[1].0 = 2048;
    schedule.jobs[0].0 = 1.5;
    schedule.jobs[2].2 = Some(&[0, 1, 2]);
    let ran = schedule.run();
    let cores = |job: usize| -> Vec<_> { ran.lanes[job].iter().map(|lane| lane.1 / 2).collect() };
    assert_eq!((cores(0), cores(1)), (vec![0, 1], vec![1]));
    // the other one has to wait until that is done
    assert!(
        ran.lanes[2][0].1 < 2 && ran.lanes[2][1].0 >= ran.done_ms[0],
        "{:?}",
        ran.lanes
    );
}

#[test]
fn nobody_moves_when_promotion_is_off() {
    let mut schedule = three_jobs();
    schedule.settings.promote = false;
    let ran = schedule.run();
    // Job 0 has 98 left at 2 ms, at half speed; job 2 then has 2 left, alone.
    near(&ran.done_ms, &[198.0, 11.0, 200.0]);
    assert_eq!(ran.counters.promotions, 0);
}

#[test]
fn a_core_that_runs_only_batch_is_free() {
    let mut schedule = three_jobs();
    schedule.batch = 1;
    // Job 0 avoids the core of the batch task, job 1 takes it, job 2 comes beside.
    schedule.jobs[0].1 = 10.0;
    schedule.jobs[1].1 = 100.0;
    let ran = schedule.run();
    assert_eq!(ran.lanes[2].last(), Some(&(10.0, 3)));
    near(&ran.done_ms, &[10.0, 105.0, 106.0]);
    assert_eq!(ran.counters.promotions, 1);
}

#[test]
fn a_young_job_moves_when_it_is_old_enough() {
    let mut schedule = three_jobs();
    schedule.settings.promote_after_ns = 18 * MS;
    // The first tick after 18 ms, at 20 ms.
    assert_eq!(schedule.run().lanes[0], [(0.0, 0), (20.0, 2)]);
}

#[test]
fn a_job_that_may_not_use_the_core_leaves_it_to_the_next() {
    let mut schedule = three_jobs();
    schedule.jobs[0].2 = Some(&[0, 1]);
    let ran = schedule.run();
    assert_eq!(ran.lanes[0], [(0.0, 0)]);
    assert_eq!(ran.lanes[2], [(2.0, 1), (11.0, 2)]);
}

#[test]
fn a_job_keeps_its_age_when_it_is_queued_anew() {
    let mut schedule = three_jobs();
    schedule.jobs[2].2 = Some(&[0, 1]); // only the older one may leave
    // Job 0 has to wait for the lane of job 2 for a moment. (At 0 ns a task has not woken yet.)
    schedule.jobs[0].0 = 0.5;
    schedule.changes = vec![(5.0, 0, Some(&[1])), (6.0, 0, None)];
    let ran = schedule.run();
    assert_eq!(ran.lanes[0].last(), Some(&(11.0, 2)), "{:?}", ran.lanes);
    assert_eq!(ran.lanes[2], [(2.0, 1)]);
}

#[test]
fn one_job_moves_to_one_freed_core() {
    let mut schedule = three_jobs();
    schedule.cores.push((1024, 2));
    // Cores 0, 1 and 2, then 0 and 1 shared; core 2 falls free.
    schedule.jobs = [
        (0.0, 500.0),
        (1.0, 500.0),
        (2.0, 20.0),
        (3.0, 500.0),
        (4.0, 500.0),
    ]
    .map(|(at_ms, work_ms)| Job(at_ms, work_ms, None))
    .into();
    schedule.jobs[4].2 = Some(&[2, 3]);
    let ran = schedule.run();
    assert_eq!(ran.lanes[3].last(), Some(&(22.0, 4)));
    assert!(
        [0, 1, 4].iter().all(|job| ran.lanes[*job].len() == 1),
        "{:?}",
        ran.lanes
    );
}

#[test]
fn a_job_moves_to_a_faster_core_and_never_to_a_slower_one() {
    let mut schedule = three_jobs();
    schedule.cores = vec![(1024, 1), (512, 1)];
    schedule.jobs = vec![Job(0.0, 10.0, None), Job(1.0, 20.0, None)];
    let ran = schedule.run();
    // 4.5 by 10 ms at half speed, then 15.5.
    assert_eq!(ran.lanes[1], [(1.0, 1), (10.0, 0)]);
    near(&ran.done_ms, &[10.0, 25.5]);
    // Shared on the fast core, while the slow one falls free: as the speeds are not known, they stay.
    schedule.cores = vec![(1024, 2), (512, 1)];
    schedule.jobs = vec![
        Job(0.0, 50.0, None),
        Job(1.0, 10.0, Some(&[2])),
        Job(2.0, 50.0, Some(&[0, 1])),
    ];
    let ran = schedule.run();
    assert_eq!(
        (ran.lanes[0].len(), ran.lanes[2].len()),
        (1, 1),
        "{:?}",
        ran.lanes
    );
    assert_eq!(ran.counters.promotions, 0);
}

#[test]
fn a_job_that_sleeps_first_gives_the_core_up() {
    // Both are done while the kick is on its way: the core is there for the next, whole.
    let mut schedule = three_jobs();
    schedule.jobs[1].1 = 10.0;
    schedule.jobs[0].1 = 2.0 + 4.5;
    schedule.jobs.push(Job(12.0, 10.0, None));
    let ran = schedule.run();
    near(&ran.done_ms, &[11.0, 11.0, 106.5, 22.0]);
}

#[test]
fn a_shared_fast_lane_is_compared_with_a_slow_core_if_the_speeds_are_known() {
    let mut schedule = three_jobs();
    schedule.cores = vec![(1024, 2), (716, 1)];
    schedule.settings.thread_perf = vec![1.0, 0.5];
    // 0.7 of a core of its own is more than half of a fast one.
    schedule.jobs = vec![
        Job(0.0, 500.0, None),
        Job(1.0, 10.0, Some(&[2])),
        Job(2.0, 500.0, None),
    ];
    let ran = schedule.run();
    let moved_ms = 1.0 + 10.0 * 1024.0 / 716.0;
    let (at_ms, lane) = ran.lanes[0][1];
    assert!(
        (at_ms - moved_ms).abs() < 0.1 && lane == 2,
        "{:?}",
        ran.lanes
    );
    assert_eq!(ran.lanes[2].len(), 1);
    assert_eq!(ran.counters.promotions, 1);
    // A third of it is less: job 1 comes beside job 0, and nobody moves.
    schedule.cores[1].0 = 341;
    schedule.jobs.truncate(2);
    schedule.jobs[1].2 = None;
    let ran = schedule.run();
    assert_eq!(
        (&ran.lanes[0][..], &ran.lanes[1][..]),
        (&[(0.0, 0)][..], &[(1.0, 1)][..])
    );
    // If nothing is known of shared lanes, it takes the core of its own.
    schedule.settings.thread_perf.clear();
    let ran = schedule.run();
    assert_eq!(ran.lanes[1][0], (1.0, 2));
}

/// Where critical work waits: the oldest job that runs moves to the core that falls free, the next one to where that ran, and who
/// waits gets the slowest place.
#[test]
fn what_waits_gets_the_place_that_a_promoted_job_leaves() {
    let mut schedule = three_jobs();
    schedule.cores = vec![(1024, 1), (512, 1), (256, 1)];
    schedule.jobs = vec![
        Job(0.0, 10.0, None),
        Job(1.0, 14.5, None),
        Job(2.0, 22.0, None),
        Job(3.0, 5.0, None),
    ];
    let ran = schedule.run();
    assert_eq!(ran.lanes[1], [(1.0, 1), (10.0, 0)]);
    assert_eq!(ran.lanes[2], [(2.0, 2), (10.0, 1), (20.0, 0)]);
    assert_eq!(ran.lanes[3], [(10.0, 2), (20.0, 1)]);
    near(&ran.done_ms, &[10.0, 20.0, 35.0, 25.0]);
    assert_eq!(ran.counters.promotions, 4);
    assert_eq!(ran.counters.promotions_dropped, 0);
}
