//! Old first: critical work that waits runs in the order of age, wherever it waits.

use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

const MS: u64 = 1_000_000;

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

type Cpus = Option<&'static [u32]>;

/// A critical job: when it comes, how much it is, ms, and the CPUs that it may use.
type Job = (f64, f64, Cpus);

/// From when on, ms, which job may use which CPUs.
type Change = (f64, usize, Cpus);

struct Ran {
    /// When each job began, and was done, ms.
    began: Vec<f64>,
    done: Vec<f64>,
    /// How often each began or went on.
    runs: Vec<usize>,
}

/// One thread a job.
fn run_jobs(
    machine: Machine,
    settings: Settings,
    jobs: &[Job],
    changes: &[Change],
    until_ms: u64,
) -> Ran {
    let mut sim = Simulation::new(machine, &Kind::from(settings)).unwrap();
    sim.keep_records();
    let create = |(index, job): (usize, &Job)| {
        let spec = TaskSpec {
            cpus: job.2.map(<[u32]>::to_vec),
            ..TaskSpec::new(format!("job{index}"), Class::Critical)
        };
        sim.create(&spec).unwrap()
    };
    let ids: Vec<TaskId> = jobs.iter().enumerate().map(create).collect();
    let moments = jobs.iter().map(|job| job.0);
    let moments = moments.chain(changes.iter().map(|change| change.0));
    for (token, at_ms) in moments.enumerate() {
        sim.set_timer((at_ms * MS as f64) as u64, token as u64);
    }
    let index_of = |id: TaskId| ids.iter().position(|job| *job == id).unwrap();
    let mut done = vec![f64::NAN; jobs.len()];
    while let Some(occurrence) = sim.next(until_ms * MS).unwrap() {
        match occurrence {
            Occurrence::Timer(token) if (token as usize) < jobs.len() => {
                let index = token as usize;
                sim.give(ids[index], jobs[index].1 * MS as f64).unwrap();
            }
            Occurrence::Timer(token) => {
                let (_, job, cpus) = changes[token as usize - jobs.len()];
                sim.set_cpus(ids[job], cpus).unwrap();
            }
            Occurrence::Done(id) => done[index_of(id)] = sim.now_ns() as f64 / MS as f64,
        }
    }
    let (mut began, mut runs) = (vec![f64::NAN; jobs.len()], vec![0; jobs.len()]);
    for record in sim.take_records() {
        if let Step::Run { task, .. } = record.step {
            let index = index_of(task);
            runs[index] += 1;
            if runs[index] == 1 {
                began[index] = record.at_ns as f64 / MS as f64;
            }
        }
    }
    Ran { began, done, runs }
}

/// Numbers that are not regular, 0 to 1.
fn fraction(n: u64) -> f64 {
    (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / (1u64 << 24) as f64
}

/// More work than there are lanes, of many sizes up to two slices.
fn many_jobs(count: u64, seed: u64) -> Vec<Job> {
    let of = |n: u64| fraction(1 + seed * 1000 + n);
    let job = |n: u64| (0.01 + 2.0 * n as f64, 0.5 + 19.0 * of(n).powi(3), None);
    (0..count).map(job).collect()
}

#[test]
fn jobs_begin_in_the_order_in_which_they_came_and_make_no_room_for_younger_ones() {
    for (cores, seed) in (2..=6).flat_map(|cores| (0..4).map(move |seed| (cores, seed))) {
        let jobs = many_jobs(60, seed);
        let ran = run_jobs(machine(1, cores), Settings::default(), &jobs, &[], 5_000);
        let told = format!("{cores} cores, seed {seed}: {:?}", ran.began);
        assert!(ran.done.iter().all(|done| !done.is_nan()), "{told}");
        assert!(ran.began.is_sorted(), "{told}");
        assert!(ran.runs.iter().all(|runs| *runs == 1), "{:?}", ran.runs);
    }
}

#[test]
fn a_job_that_was_interrupted_goes_before_those_that_came_after_it() {
    // while job 1 may not use the lane on which it runs, job 2 gets that
    let jobs = [
        (0.5, 20.0, Some(&[0][..])),
        (1.0, 15.0, None),
        (2.0, 10.0, None),
        (3.0, 10.0, None),
    ];
    let changes = [(5.0, 1, Some(&[0][..])), (6.0, 1, None)];
    let ran = run_jobs(machine(1, 2), Settings::default(), &jobs, &changes, 200);
    // done by then: 4 ms; job 3 came after it
    let done: Vec<f64> = ran
        .done
        .iter()
        .map(|ms| (ms * 10.0).round() / 10.0)
        .collect();
    assert_eq!(done, [20.5, 26.0, 15.0, 30.5]);
}

#[test]
fn what_does_not_sleep_takes_turns() {
    let jobs = [
        (0.01, 1e9, None),
        (0.02, 1e9, None),
        (5.0, 5.0, None),
        (300.0, 5.0, None),
    ];
    let ran = run_jobs(machine(1, 2), Settings::default(), &jobs, &[], 1_000);
    // two slices of 10 ms, each ends at a tick; then one each
    assert!((20.0..32.0).contains(&ran.began[2]), "{:?}", ran.began);
    assert!((300.0..315.0).contains(&ran.began[3]), "{:?}", ran.began);
}

#[test]
fn a_lane_takes_from_another_cache_what_is_older_by_more_than_the_move_costs() {
    // a core falls free at 10 ms; job 4 waits in the other cache, where it was bound to, job 5 in that of the core
    for (near_ms, near_first) in [(2.3, true), (4.7, false)] {
        let jobs = [
            (0.01, 10.0, Some(&[0][..])),
            (0.02, 30.0, Some(&[1][..])),
            (0.03, 30.0, Some(&[2][..])),
            (0.04, 30.0, Some(&[3][..])),
            (2.0, 1.0, Some(&[2, 3][..])),
            (near_ms, 1.0, Some(&[0, 1][..])),
        ];
        let changes = [(9.0, 4, None)];
        let ran = run_jobs(machine(2, 2), Settings::default(), &jobs, &changes, 100);
        let [far, near] = [4, 5].map(|job| ran.began[job]);
        assert_eq!(near < far, near_first, "{:?}", ran.began);
        assert!(far.max(near) < 11.5, "{:?}", ran.began);
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
    let scenario = Scenario::parse(&text, "age.toml").unwrap();
    let outcomes = run(&scenario, &|| ()).unwrap();
    let summary = Summary::new(&scenario, &outcomes);
    let find = |metrics: &[Metric], name| {
        let metric = metrics.iter().find(|metric| metric.name == name);
        metric.unwrap().estimate
    };
    [0, 1, 2].map(|index| {
        let of = &summary.configurations[index];
        let p99 = find(&of.workloads[0].metrics, "p99_ms");
        Tail {
            p99: p99.mean,
            half: p99.half_width.unwrap(),
            cache_moves: find(&of.machine, "cache_moves_per_s").mean,
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
