//! What becomes of a task whose waker says that it is about to sleep, and of tasks that answer each other.
//!
//! A grid of the latter, fewest answers first:
//! `cargo test --release --locked --workspace --test sim -- --ignored --nocapture waker::answers_beside`

use super::ordinary::{P99, THROUGHPUT, cores_of_two_lanes};
use crate::Lcg;
use rayon::prelude::*;
use sidelane_sim::*;
use sidelane_topology::{Builder, CoreSpec};
use std::collections::VecDeque;
use std::fmt;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
/// Between two ticks, in the simulator.
const TICK_NS: u64 = 4 * MS;
/// When the waker wakes the other task: not at a tick.
const WOKEN_NS: u64 = 100 * MS + 300 * US;
/// When that has run for a moment, and slept, before.
const RAN_NS: u64 = 90 * MS;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Lane {
    Wakers,
    Siblings,
}

fn simulation(settings: Settings) -> Simulation {
    let builder = Builder::new().core(CoreSpec::new(0..2));
    let interference = Interference::ThreadPerf(vec![1.0, 0.6]);
    let machine = Machine::new(&builder.build().unwrap(), interference, Costs::none()).unwrap();
    let mut sim = Simulation::new(machine, &Kind::from(settings)).unwrap();
    sim.keep_records();
    sim
}

/// The lane of a task's first run from a moment on, and how long after that.
fn begins(records: &[Record], id: TaskId, from_ns: u64) -> Option<(u32, u64)> {
    records.iter().find_map(|record| match record.step {
        Step::Run { task, lane } if task == id && record.at_ns >= from_ns => {
            Some((lane, record.at_ns - from_ns))
        }
        _ => None,
    })
}

/// One core of two lanes. A waker, which runs for `burst_ns` each time, wakes a task of `class` and says
/// that it will sleep, but stays for `stays_ns`; the other lane is idle, or runs normal work. Where
/// the woken task begins to run, and how long after it was woken.
fn wake(class: Class, burst_ns: u64, stays_ns: u64, sibling_runs: bool) -> (Lane, u64) {
    wake_under(Settings::default(), class, burst_ns, stays_ns, sibling_runs)
}

/// The same with these settings.
fn wake_under(
    settings: Settings,
    class: Class,
    burst_ns: u64,
    stays_ns: u64,
    sibling_runs: bool,
) -> (Lane, u64) {
    let mut sim = simulation(settings);
    let mut create = |name: &str, class| sim.create(&TaskSpec::new(name, class)).unwrap();
    let woken = create("woken", class);
    let waker = create("waker", Class::Normal);
    let sibling = create("sibling", Class::Normal);
    if sibling_runs {
        sim.give(sibling, f64::INFINITY).unwrap();
    }
    for earlier in 0..8 {
        sim.set_timer(earlier * 10 * MS, 0);
    }
    sim.set_timer(RAN_NS, 1);
    sim.set_timer(WOKEN_NS, 0);
    let mut woken_ns = None;
    while let Some(occurrence) = sim.next(200 * MS).unwrap() {
        match occurrence {
            Occurrence::Timer(1) => sim.give(woken, (100 * US) as f64).unwrap(),
            Occurrence::Timer(_) => sim.give(waker, burst_ns as f64).unwrap(),
            Occurrence::Done(id)
                if id == waker && sim.now_ns() > WOKEN_NS && woken_ns.is_none() =>
            {
                woken_ns = Some(sim.now_ns());
                sim.give(woken, MS as f64).unwrap();
                if stays_ns > 0 {
                    sim.give(waker, stays_ns as f64).unwrap();
                }
            }
            Occurrence::Done(_) => (),
        }
    }
    let records = sim.take_records();
    let (wakers, _) = begins(&records, waker, WOKEN_NS).unwrap();
    let (lane, after_ns) = begins(&records, woken, woken_ns.unwrap()).unwrap();
    let which = if lane == wakers {
        Lane::Wakers
    } else {
        Lane::Siblings
    };
    (which, after_ns)
}

#[test]
fn a_brief_waker_is_believed_and_its_sibling_left_alone() {
    for sibling_runs in [false, true] {
        let critical = wake(Class::Critical, 200 * US, 0, sibling_runs);
        assert_eq!(critical, (Lane::Wakers, 0));
    }
}

#[test]
fn a_brief_waker_that_stays_costs_no_more_than_a_tick() {
    let cases = [(Class::Critical, 200 * US), (Class::Normal, 5 * US)];
    for ((class, burst_ns), sibling_runs) in cases
        .into_iter()
        .flat_map(|case| [(case, false), (case, true)])
    {
        let (lane, after_ns) = wake(class, burst_ns, 50 * MS, sibling_runs);
        assert!(
            (1..=TICK_NS).contains(&after_ns),
            "{class:?}: {lane:?} after {after_ns} ns"
        );
    }
}

#[test]
fn a_waker_that_runs_long_is_not_waited_for() {
    let critical = |sibling_runs| wake(Class::Critical, 5 * MS, 50 * MS, sibling_runs);
    assert_eq!(critical(false), (Lane::Siblings, 0));
    assert_eq!(critical(true), (Lane::Wakers, 0));
}

#[test]
fn normal_work_follows_a_waker_that_is_gone_sooner_than_another_lane_comes() {
    assert_eq!(wake(Class::Normal, 5 * US, 0, false), (Lane::Wakers, 0));
    assert_eq!(wake(Class::Normal, 5 * US, 0, true), (Lane::Wakers, 0));
    assert_eq!(wake(Class::Normal, 20 * US, 0, false), (Lane::Siblings, 0));
    let never = Settings {
        follow_waker_ns: 0,
        ..Settings::default()
    };
    let alone = wake_under(never, Class::Normal, 5 * US, 0, false);
    assert_eq!(alone, (Lane::Siblings, 0));
}

/// Two critical tasks that may use one lane only keep it busy; two normal tasks share the other one, in
/// which nobody of them may run. How often those take turns in a second.
fn turns_beside_bound_critical_work(critical: usize) -> usize {
    let mut sim = simulation(Settings::default());
    let mut create = |class, lane, count: usize| -> Vec<TaskId> {
        let mut spec = TaskSpec::new(format!("{class:?}"), class);
        spec.cpus = Some(vec![lane]);
        let ids: Vec<TaskId> = (0..count).map(|_| sim.create(&spec).unwrap()).collect();
        for id in &ids {
            sim.give(*id, f64::INFINITY).unwrap();
        }
        ids
    };
    create(Class::Critical, 1, critical);
    let normal = create(Class::Normal, 0, 2);
    while sim.next(1_000 * MS).unwrap().is_some() {}
    let runs =
        |record: &&Record| matches!(record.step, Step::Run { task, .. } if normal.contains(&task));
    sim.take_records().iter().filter(runs).count()
}

#[test]
fn critical_work_that_may_not_use_a_lane_takes_nothing_from_it() {
    let undisturbed = turns_beside_bound_critical_work(0);
    let disturbed = turns_beside_bound_critical_work(2);
    assert!(
        (1..=undisturbed + 1).contains(&disturbed),
        "{undisturbed} {disturbed}"
    );
}

/// On a machine of one lane a normal task wakes another one, and then, if it is to, a critical one. Where these wait
/// first, by the steps, and how long after the second wake-up the critical task begins to run.
fn wakes_two(critical_too: bool) -> (bool, Option<u64>) {
    let builder = Builder::new().core(CoreSpec::new(0..1));
    let interference = Interference::ThreadPerf(vec![1.0]);
    let machine = Machine::new(&builder.build().unwrap(), interference, Costs::none()).unwrap();
    let mut sim = Simulation::new(machine, &Kind::from(Settings::default())).unwrap();
    sim.keep_records();
    let mut create = |name: &str, class| sim.create(&TaskSpec::new(name, class)).unwrap();
    let critical = create("critical", Class::Critical);
    let waker = create("waker", Class::Normal);
    let next = create("next", Class::Normal);
    sim.set_timer(WOKEN_NS, 0);
    let mut woken_ns = 0;
    while let Some(occurrence) = sim.next(200 * MS).unwrap() {
        match occurrence {
            Occurrence::Timer(_) => sim.give(waker, 200.0 * US as f64).unwrap(),
            Occurrence::Done(id) if id == waker => {
                woken_ns = sim.now_ns();
                sim.give(next, 50.0 * MS as f64).unwrap();
                if critical_too {
                    sim.give(critical, MS as f64).unwrap();
                }
            }
            Occurrence::Done(_) => (),
        }
    }
    let records = sim.take_records();
    let straight = (records.iter())
        .any(|record| matches!(record.step, Step::QueueLocal { task, .. } if task == next));
    let after_ns = begins(&records, critical, woken_ns).map(|(_, after_ns)| after_ns);
    (straight, after_ns)
}

#[test]
fn what_is_next_in_any_case_waits_in_the_lanes_own_queue_and_behind_critical_work() {
    assert_eq!(wakes_two(false), (true, None));
    assert_eq!(wakes_two(true), (true, Some(0)));
}

/// Clients and servers that compute for as long as each other, beside tasks that compute, on cores of two lanes.
#[derive(Debug, Clone, Copy)]
struct Answering {
    cores: u32,
    pairs: usize,
    /// Requests of a client that are on their way at a time.
    connections: usize,
    /// Of a client or a server for an answer, ± a quarter.
    work_ns: u64,
    computing: usize,
    /// For how long those compute, and wait, each time, ± a quarter; none: they never wait.
    cycle_ns: Option<[u64; 2]>,
}

impl fmt::Display for Answering {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let Answering {
            cores,
            pairs,
            connections,
            work_ns,
            computing,
            ..
        } = *self;
        let work_us = work_ns / US;
        write!(
            out,
            "{cores} x 2: {pairs} x {connections} of {work_us:>3} us, {computing:>2} computing"
        )?;
        let ms = |ns| ns as f64 / MS as f64;
        let [burst_ns, wait_ns] = self.cycle_ns.unwrap_or_default();
        match self.cycle_ns {
            Some(_) => write!(out, " {}/{} ms", ms(burst_ns), ms(wait_ns)),
            None => Ok(()),
        }
    }
}

/// What came out.
struct Answers {
    p99_ns: u64,
    a_second: f64,
    /// Part of a lane that a client or server had, and one that computes.
    had: [f64; 2],
}

/// What runs: tasks that answer, a client before each server, then those that compute.
struct Exchange {
    sim: Simulation,
    point: Answering,
    ids: Vec<TaskId>,
    /// When what waits for each that answers was asked for.
    waits: Vec<VecDeque<u64>>,
    took_ns: Vec<u64>,
    draws: Lcg,
}

impl Exchange {
    const UNTIL_NS: u64 = 5_000 * MS;

    fn new(kind: &Kind, point: Answering) -> Exchange {
        let mut sim = cores_of_two_lanes(point.cores, kind);
        let tasks = 2 * point.pairs + point.computing;
        let task = TaskSpec::new("task", Class::Normal);
        let ids = (0..tasks).map(|_| sim.create(&task).unwrap()).collect();
        Exchange {
            sim,
            point,
            ids,
            waits: vec![VecDeque::new(); 2 * point.pairs],
            took_ns: Vec::new(),
            draws: Lcg(1),
        }
    }

    /// `mean` ± a quarter.
    fn about(&mut self, mean: u64) -> u64 {
        mean - mean / 4 + self.draws.below((mean / 2).max(1))
    }

    /// Something is asked of a task that answers.
    fn ask(&mut self, at: usize, asked_ns: u64) {
        self.waits[at].push_back(asked_ns);
        if self.waits[at].len() == 1 {
            self.work(at);
        }
    }

    fn work(&mut self, at: usize) {
        let work_ns = self.about(self.point.work_ns);
        self.sim.give(self.ids[at], work_ns as f64).unwrap();
    }

    /// One that computes goes on.
    fn compute(&mut self, at: usize) {
        let work_ns = match self.point.cycle_ns {
            Some([burst_ns, _]) => self.about(burst_ns) as f64,
            None => 1e15,
        };
        self.sim.give(self.ids[at], work_ns).unwrap();
    }

    /// The task at this place has done its work.
    fn done(&mut self, at: usize) {
        let now_ns = self.sim.now_ns();
        if at >= self.waits.len() {
            let [_, wait_ns] = self.point.cycle_ns.unwrap();
            let at_ns = now_ns + self.about(wait_ns);
            return self.sim.set_timer(at_ns, at as u64);
        }
        let mut asked_ns = self.waits[at].pop_front().unwrap();
        if at.is_multiple_of(2) {
            self.took_ns.push(now_ns - asked_ns);
            asked_ns = now_ns;
        }
        self.ask(at ^ 1, asked_ns);
        if !self.waits[at].is_empty() {
            self.work(at);
        }
    }

    fn run(mut self) -> Answers {
        let answering = self.waits.len();
        (answering..self.ids.len()).for_each(|at| self.compute(at));
        for client in (0..answering).step_by(2) {
            (0..self.point.connections).for_each(|_| self.ask(client, 0));
        }
        while let Some(occurrence) = self.sim.next(Self::UNTIL_NS).unwrap() {
            match occurrence {
                Occurrence::Timer(at) => self.compute(at as usize),
                Occurrence::Done(id) => {
                    self.done(self.ids.iter().position(|&of| of == id).unwrap())
                }
            }
        }
        let until_ns = Self::UNTIL_NS as f64;
        let had = |ids: &[TaskId]| {
            let lane_ns = ids.iter().map(|&id| self.sim.task_totals(id).lane_ns);
            lane_ns.sum::<u64>() as f64 / until_ns / ids.len() as f64
        };
        let (peers, computing) = self.ids.split_at(answering);
        let had = [peers, computing].map(had);
        self.took_ns.sort_unstable();
        Answers {
            p99_ns: self.took_ns[self.took_ns.len() * 99 / 100],
            a_second: self.took_ns.len() as f64 * 1e9 / until_ns,
            had,
        }
    }
}

fn answers(kind: &Kind, point: Answering) -> Answers {
    Exchange::new(kind, point).run()
}

#[test]
fn tasks_that_answer_each_other_wait_for_no_turn_of_what_computes() {
    let point = Answering {
        cores: 2,
        pairs: 1,
        connections: 4,
        work_ns: 40 * US,
        computing: 4,
        cycle_ns: None,
    };
    let default = answers(&Kind::Baseline(Baseline::Eevdf), point);
    let settings = Settings::default();
    let turn_ns = settings.fair_slice_ns;
    let sidelane = answers(&settings.into(), point);
    let (p99_ns, a_second) = (sidelane.p99_ns, sidelane.a_second);
    println!(
        "p99 {p99_ns} ns, default {}; {a_second} answers a second, default {}",
        default.p99_ns, default.a_second
    );
    // 4.25 ms and as many answers when each took a lane of its own
    assert!(p99_ns < turn_ns / 3, "{p99_ns} ns");
    assert!(
        a_second >= THROUGHPUT * default.a_second,
        "{a_second} of {}",
        default.a_second
    );
}

fn grid() -> Vec<Answering> {
    let mut points = Vec::new();
    for cores in [2, 4] {
        let lanes = 2 * cores as usize;
        for (pairs, connections) in [(1, 1), (1, 4), (2, 1), (2, 4)] {
            for work_ns in [20, 60, 300].map(|us| us * US) {
                for computing in [lanes / 2, lanes - 1, lanes, 3 * lanes / 2] {
                    let cycles = [[400, 200], [3_000, 1_000], [20_000, 8_000]]
                        .map(|cycle| Some(cycle.map(|us| us * US)));
                    points.extend([None].into_iter().chain(cycles).map(|cycle_ns| Answering {
                        cores,
                        pairs,
                        connections,
                        work_ns,
                        computing,
                        cycle_ns,
                    }));
                }
            }
        }
    }
    points
}

/// Sidelane relative to the default scheduler, and what a task that answers had of a lane under each, over what one that computes had.
#[test]
#[ignore = "takes a minute or two: the whole grid, to be read"]
fn answers_beside_computation() {
    let compare = |point: Answering| {
        let default = answers(&Kind::Baseline(Baseline::Eevdf), point);
        let sidelane = answers(&Settings::default().into(), point);
        let share = |of: &Answers| of.had[0] / of.had[1];
        let shares = [&default, &sidelane].map(share);
        let p99 = sidelane.p99_ns as f64 / default.p99_ns as f64;
        (point, sidelane.a_second / default.a_second, p99, shares)
    };
    let mut compared: Vec<_> = grid().into_par_iter().map(compare).collect();
    compared.sort_by(|a, b| a.1.total_cmp(&b.1));
    println!("answers   p99   shares: default, Sidelane");
    for (point, a_second, p99, [default, sidelane]) in &compared {
        println!("{a_second:7.2} {p99:5.2} {default:6.2} {sidelane:6.2}  {point}");
    }
    let few = compared.iter().filter(|of| of.1 < THROUGHPUT).count();
    let long = compared.iter().filter(|of| of.2 > P99).count();
    println!(
        "{} mixes; below {THROUGHPUT} of the answers: {few}; beyond {P99} of the p99: {long}",
        compared.len()
    );
}
