//! Old first: critical work that waits runs in the order of age, wherever it waits; or by the deadlines that programs mark.

use super::{Change, Job, Ran, run_jobs};
use super::{estimate, summarized};
use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

/// Cores of one lane, so many in each of so many caches; nothing costs anything.
fn machine(caches: u32, cores: u32) -> Machine {
    let shape = Regular {
        caches_per_package: caches,
        ..Regular::one_package(cores, 1)
    };
    let topology = Topology::regular(&shape).unwrap();
    Machine::new(
        &topology,
        Interference::ThreadPerf(vec![1.0]),
        Costs::none(),
    )
    .unwrap()
}

fn run_on(machine: Machine, jobs: &[Job], changes: &[Change], end_ms: u64) -> Ran {
    let sim = Simulation::new(machine, &Kind::from(Settings::default())).unwrap();
    run_jobs(sim, jobs, changes, end_ms)
}

/// Numbers that are not regular, 0 to 1.
fn fraction(n: u64) -> f64 {
    (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / (1u64 << 24) as f64
}

/// More work than there are lanes, of many sizes up to two slices.
fn many_jobs(count: u64, seed: u64) -> Vec<Job> {
    let of = |n: u64| fraction(1 + seed * 1000 + n);
    let job = |n: u64| Job(0.01 + 2.0 * n as f64, 0.5 + 19.0 * of(n).powi(3), None);
    (0..count).map(job).collect()
}

#[test]
fn jobs_begin_in_the_order_in_which_they_came_and_make_no_room_for_younger_ones() {
    for (cores, seed) in (2..=6).flat_map(|cores| (0..4).map(move |seed| (cores, seed))) {
        let jobs = many_jobs(60, seed);
        let ran = run_on(machine(1, cores), &jobs, &[], 5_000);
        let began = ran.began_ms();
        let told = format!("{cores} cores, seed {seed}: {began:?}");
        assert!(ran.done_ms.iter().all(|done| !done.is_nan()), "{told}");
        assert!(began.is_sorted(), "{told}");
        assert!(ran.runs.iter().all(|runs| *runs == 1), "{:?}", ran.runs);
    }
}

#[test]
fn a_job_that_was_interrupted_goes_before_those_that_came_after_it() {
    // while job 1 may not use the lane on which it runs, job 2 gets that
    let jobs = [
        Job(0.5, 20.0, Some(&[0][..])),
        Job(1.0, 15.0, None),
        Job(2.0, 10.0, None),
        Job(3.0, 10.0, None),
    ];
    let changes = [(5.0, 1, Some(&[0][..])), (6.0, 1, None)];
    let ran = run_on(machine(1, 2), &jobs, &changes, 200);
    // done by then: 4 ms; job 3 came after it
    let done: Vec<f64> = ran
        .done_ms
        .iter()
        .map(|ms| (ms * 10.0).round() / 10.0)
        .collect();
    assert_eq!(done, [20.5, 26.0, 15.0, 30.5]);
}

#[test]
fn what_does_not_sleep_takes_turns() {
    let jobs = [
        Job(0.01, 1e9, None),
        Job(0.02, 1e9, None),
        Job(5.0, 5.0, None),
        Job(300.0, 5.0, None),
    ];
    let ran = run_on(machine(1, 2), &jobs, &[], 1_000);
    // two slices of 10 ms, each ends at a tick; then one each
    let began = ran.began_ms();
    assert!((20.0..32.0).contains(&began[2]), "{began:?}");
    assert!((300.0..315.0).contains(&began[3]), "{began:?}");
}

#[test]
fn a_lane_takes_from_another_cache_what_is_older_by_more_than_the_move_costs() {
    // a core falls free at 10 ms; job 4 waits in the other cache, where it was bound to, job 5 in that of the core
    for (near_ms, near_first) in [(2.3, true), (4.7, false)] {
        let jobs = [
            Job(0.01, 10.0, Some(&[0][..])),
            Job(0.02, 30.0, Some(&[1][..])),
            Job(0.03, 30.0, Some(&[2][..])),
            Job(0.04, 30.0, Some(&[3][..])),
            Job(2.0, 1.0, Some(&[2, 3][..])),
            Job(near_ms, 1.0, Some(&[0, 1][..])),
        ];
        let changes = [(9.0, 4, None)];
        let ran = run_on(machine(2, 2), &jobs, &changes, 100);
        let began = ran.began_ms();
        let [far, near] = [4, 5].map(|job| began[job]);
        assert_eq!(near < far, near_first, "{began:?}");
        assert!(far.max(near) < 11.5, "{began:?}");
    }
}

/// Of a service of one thread a request.
struct Tail {
    /// p99 and half of its interval, ms.
    p99: f64,
    half: f64,
    /// Migrations between last-level caches, 1/s.
    cache_moves: f64,
}

/// Under Sidelane, with one queue for all, under the default scheduler.
fn tails(cores: u32, caches: u32, load: f64, replications: u32, seconds: f64) -> [Tail; 3] {
    let text = format!(
        "[machine]\ncores = {cores}\ncaches_per_package = {caches}\nlanes = 1\n[run]\nseed = 1\n\
         replications = {replications}\nseconds = {seconds}\nwarmup_seconds = 2\n\
         [[workload]]\nname = \"server\"\nclass = \"critical\"\nopen = {{ load = {load} }}\n\
         workers = {}\ndemand_ms = {{ exponential = 5 }}\n\
         [[configuration]]\nname = \"sidelane\"\nscheduler = \"sidelane\"\n\
         [[configuration]]\nname = \"fifo\"\nscheduler = \"fifo\"\n\
         [[configuration]]\nname = \"default\"\nscheduler = \"default\"\n",
        50 * cores
    );
    let summary = summarized(&text);
    [0, 1, 2].map(|index| {
        let of = &summary.configurations[index];
        let p99 = estimate(&of.workloads[0].metrics, "p99_ms");
        Tail {
            p99: p99.mean,
            half: p99.half_width.unwrap(),
            cache_moves: estimate(&of.machine, "cache_moves_per_s").mean,
        }
    })
}

#[test]
fn the_tail_is_that_of_one_queue() {
    for (cores, caches, load) in [(8, 1, 0.7), (8, 1, 0.9), (32, 4, 0.95)] {
        let [sidelane, fifo, _] = tails(cores, caches, load, 2, 20.0);
        let over = sidelane.p99 / fifo.p99;
        assert!(over < 1.1, "{cores} cores, load {load}: {over}");
        let moves = sidelane.cache_moves / fifo.cache_moves;
        assert!(caches == 1 || moves < 0.5, "{moves}");
    }
}

/// `docs/scheduler.md` has this table.
#[test]
#[ignore = "a minute: --ignored old::by_load --nocapture"]
fn by_load() {
    for (cores, caches) in [(8, 1), (64, 8)] {
        for load in [0.7, 0.8, 0.83, 0.9, 0.94, 0.95] {
            let [sidelane, fifo, default] = tails(cores, caches, load, 4, 60.0);
            println!(
                "| {cores} | {load} | {:.1} ± {:.1} | {:.1} ± {:.1} | {:.2} | {:.2} | {:.2} |",
                sidelane.p99,
                sidelane.half,
                fifo.p99,
                fifo.half,
                sidelane.p99 / fifo.p99,
                default.p99 / fifo.p99,
                sidelane.cache_moves / fifo.cache_moves
            );
        }
    }
}

#[test]
fn what_runs_for_a_moment_does_not_wait_for_the_jobs_of_others() {
    // one that comes for 0.1 ms every 20 ms; from 400 ms on each other lane has a job of 18 ms then, which is 5 ms old
    let mut sim = Simulation::new(machine(1, 2), &Settings::default().into()).unwrap();
    let mut create = || sim.create(&TaskSpec::new("job", Class::Critical)).unwrap();
    let ids = [(); 3].map(|()| create());
    let ms = |ms: u64| ms * 1_000_000;
    (1..40).for_each(|round| sim.set_timer(ms(round * 20 + 1), 0)); // not at a tick
    (20..40).for_each(|round| sim.set_timer(ms(round * 20 - 4), 1));
    let (mut came_ns, mut longest_ns) = (0, 0);
    while let Some(occurrence) = sim.next(ms(820)).unwrap() {
        match occurrence {
            Occurrence::Timer(0) => {
                came_ns = sim.now_ns();
                sim.give(ids[2], 0.1e6).unwrap();
            }
            Occurrence::Timer(_) => ids[..2].iter().for_each(|id| sim.give(*id, 18e6).unwrap()),
            Occurrence::Done(id) if id == ids[2] => {
                longest_ns = longest_ns.max(sim.now_ns() - came_ns);
            }
            Occurrence::Done(_) => {}
        }
    }
    assert!(longest_ns > ms(1), "it does not wait at all");
    assert!(
        longest_ns < ms(4) + 200_000,
        "a tick ends that: {longest_ns} ns"
    );
}

const DEADLINES: &str = include_str!("../../../examples/scenarios/deadlines.toml");

/// Mean quality of the quick requests and of the slow ones, under the default scheduler, by age and by deadline.
fn qualities(load: f64, replications: u32, seconds: u32) -> [[f64; 2]; 3] {
    let text = DEADLINES
        .replace("load = 0.5", &format!("load = {}", load / 2.0))
        .replace(
            "replications = 4",
            &format!("replications = {replications}"),
        )
        .replace("seconds = 30", &format!("seconds = {seconds}"));
    let summary = summarized(&text);
    [0, 1, 2].map(|configuration| {
        let of = &summary.configurations[configuration].workloads;
        [0, 1].map(|workload| estimate(&of[workload].metrics, "quality").mean)
    })
}

/// Of all requests: there are four quick ones for a slow one.
fn of_all([quick, slow]: [f64; 2]) -> f64 {
    (4.0 * quick + slow) / 5.0
}

#[test]
fn what_is_due_sooner_goes_first() {
    let [_, by_age, by_deadline] = qualities(1.0, 2, 10);
    assert!(
        by_deadline[0] > by_age[0] + 0.02,
        "{by_age:?} {by_deadline:?}"
    );
    assert!(of_all(by_deadline) > of_all(by_age) + 0.015);
}

/// `docs/scheduler.md` has this table.
#[test]
#[ignore = "half a minute: --ignored old::deadlines_by_load --nocapture"]
fn deadlines_by_load() {
    for load in [0.8, 0.9, 1.0, 1.1, 1.2] {
        let of = qualities(load, 4, 30);
        let cells = of.map(|each| format!("{:.3} ({:.3}, {:.3})", of_all(each), each[0], each[1]));
        println!("| {load} | {} |", cells.join(" | "));
    }
}
