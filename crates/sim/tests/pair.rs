//! Pairing: I/O-bound and CPU-bound work on lanes of their own, and cores that have both. Symbiosis: who shares a core,
//! by what cycles go into.

use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};

const MS: u64 = 1_000_000;
/// What an I/O-bound task computes for each request, and how long its device takes.
const REQUEST_NS: f64 = 0.2 * MS as f64;
const WAIT_NS: u64 = MS;
/// One in so many waits is longer than any lane is held.
const LONG: u64 = 10;
const LONG_WAIT_NS: u64 = 12 * MS;
/// What a daemon computes each time, and how long it sleeps.
const DAEMON_NS: f64 = 0.001 * MS as f64;
const DAEMON_WAIT_NS: u64 = 3 * MS;
/// Timers from here on are theirs.
const FIRST_DAEMON: u64 = 1000;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Plain,
    Retain,
    Pair,
}

impl Mode {
    fn settings(self) -> Settings {
        Settings {
            // where what wakes waits for slices, as in the source
            dispatching: Dispatching::Slices,
            retain: self != Mode::Plain,
            pair: self == Mode::Pair,
            pairing: Pairing {
                period_ns: 50 * MS,
                ..Pairing::default()
            },
            ..Settings::default()
        }
    }
}

/// I/O-bound tasks, which wait for a device after each request, and CPU-bound ones.
struct Mix {
    sim: Simulation,
    io: Vec<TaskId>,
    cpu: Vec<TaskId>,
    /// Wake often and hardly run.
    daemons: Vec<TaskId>,
    requests: u64,
    /// Some waits are long.
    varied: bool,
}

impl Mix {
    fn new(cores: u32, mode: Mode, nr_io: usize, nr_cpu: usize) -> Mix {
        Mix::with(cores, &mode.settings(), nr_io, nr_cpu)
    }

    fn with(cores: u32, settings: &Settings, nr_io: usize, nr_cpu: usize) -> Mix {
        let topology = Topology::regular(&Regular::one_package(cores, 2)).unwrap();
        let speeds = Interference::ThreadPerf(vec![1.0, 0.6]);
        let machine = Machine::new(&topology, speeds, Costs::default()).unwrap();
        let mut sim = Simulation::new(machine, &Kind::from(settings.clone())).unwrap();
        let mut create = |name: &str, count: usize| -> Vec<TaskId> {
            let spec = TaskSpec::new(name, Class::Normal);
            (0..count).map(|_| sim.create(&spec).unwrap()).collect()
        };
        let (io, cpu) = (create("io", nr_io), create("cpu", nr_cpu));
        let mut mix = Mix {
            sim,
            io,
            cpu,
            daemons: Vec::new(),
            requests: 0,
            varied: false,
        };
        for id in mix.cpu.clone() {
            mix.sim.give(id, f64::INFINITY).unwrap();
        }
        for token in 0..nr_io as u64 {
            mix.sim.set_timer(1, token);
        }
        mix
    }

    fn with_daemons(mut self, count: u64) -> Mix {
        let spec = TaskSpec::new("daemon", Class::Normal);
        for token in 0..count {
            self.daemons.push(self.sim.create(&spec).unwrap());
            self.sim.set_timer(1, FIRST_DAEMON + token);
        }
        self
    }

    fn until(&mut self, until_ns: u64) {
        while let Some(occurrence) = self.sim.next(until_ns).unwrap() {
            match occurrence {
                Occurrence::Done(id) if self.daemons.contains(&id) => {
                    let token = self.daemons.iter().position(|daemon| *daemon == id);
                    let wakes_ns = self.sim.now_ns() + DAEMON_WAIT_NS;
                    let token = FIRST_DAEMON + token.unwrap() as u64;
                    self.sim.set_timer(wakes_ns, token);
                }
                Occurrence::Timer(token) if token >= FIRST_DAEMON => {
                    let id = self.daemons[(token - FIRST_DAEMON) as usize];
                    self.sim.give(id, DAEMON_NS).unwrap();
                }
                Occurrence::Done(id) => {
                    self.requests += 1;
                    let long = self.varied && self.requests.is_multiple_of(LONG);
                    let wait_ns = if long { LONG_WAIT_NS } else { WAIT_NS };
                    let wakes_ns = self.sim.now_ns() + wait_ns;
                    let token = self.io.iter().position(|io| *io == id).unwrap();
                    self.sim.set_timer(wakes_ns, token as u64);
                }
                Occurrence::Timer(token) => {
                    let id = self.io[token as usize];
                    self.sim.give(id, REQUEST_NS).unwrap();
                }
            }
        }
        self.sim.account();
    }

    /// Requests, and work of the CPU-bound tasks, ms, in the time from one moment to another.
    fn measure(&mut self, from_ns: u64, until_ns: u64) -> (u64, f64) {
        let work = |mix: &Mix| -> f64 {
            let of = |id: &TaskId| mix.sim.task_totals(*id).work_ns;
            mix.cpu.iter().map(of).sum::<f64>() / MS as f64
        };
        self.until(from_ns);
        let (requests, before) = (self.requests, work(self));
        self.until(until_ns);
        (self.requests - requests, work(self) - before)
    }
}

#[test]
fn retention_brings_the_requests_and_pairing_more_of_both() {
    let run = |mode| {
        let mut mix = Mix::new(4, mode, 8, 8);
        let measured = mix.measure(500 * MS, 2500 * MS);
        println!("{mode:?}: {measured:?}, {:?}", mix.sim.counters());
        measured
    };
    let [plain, retain, pair] = [Mode::Plain, Mode::Retain, Mode::Pair].map(run);
    assert!(retain.0 > 3 * plain.0, "requests {plain:?}, {retain:?}");
    assert!(2 * pair.0 > 3 * retain.0, "requests {retain:?}, {pair:?}");
    assert!(pair.1 > 1.03 * retain.1, "computation {retain:?}, {pair:?}");
}

#[test]
fn without_io_bound_work_nothing_is_lost() {
    for count in [4, 8, 13] {
        let run = |mode| Mix::new(4, mode, 0, count).measure(0, 2000 * MS).1;
        let (plain, pair) = (run(Mode::Plain), run(Mode::Pair));
        println!("{count} tasks: {plain} ms, paired {pair} ms");
        assert!((pair / plain - 1.0).abs() < 0.02, "{plain}, then {pair}");
    }
}

#[test]
fn computation_that_may_use_lanes_for_io_alone_gets_some_of_them() {
    let mut mix = Mix::new(2, Mode::Pair, 6, 4);
    let first = |core: &Core| core.lanes[0];
    let first: Vec<u32> = mix.sim.machine().cores.iter().map(first).collect();
    let bound = mix.cpu[0];
    mix.sim.set_cpus(bound, Some(&first)).unwrap();
    mix.until(2000 * MS);
    let before = mix.sim.task_totals(bound).work_ns;
    mix.until(4000 * MS);
    let work_ns = mix.sim.task_totals(bound).work_ns - before;
    println!("{:.3} of a lane", work_ns / (2000 * MS) as f64);
    assert!(work_ns > (600 * MS) as f64, "{work_ns}");
}

/// I/O-bound tasks on the first half of the cores, one a lane, CPU-bound ones on the others. Time-outs stay: while a short one is
/// tried, idle lanes take tasks, too.
fn sorted(cores: u32, mode: Mode) -> Mix {
    let tasks = cores as usize;
    let retention = Retention {
        period_ns: 0,
        ..Retention::default()
    };
    let settings = Settings {
        retention,
        ..mode.settings()
    };
    let mut mix = Mix::with(cores, &settings, tasks, tasks);
    mix.sim.keep_records();
    let all: Vec<TaskId> = mix.io.iter().chain(&mix.cpu).copied().collect();
    let lanes: Vec<Vec<u32>> = mix
        .sim
        .machine()
        .cores
        .iter()
        .map(|core| core.lanes.clone())
        .collect();
    for (index, id) in all.iter().enumerate() {
        mix.sim.set_cpus(*id, Some(&lanes[index / 2])).unwrap();
    }
    mix.until(100 * MS);
    for id in all {
        mix.sim.set_cpus(id, None).unwrap();
    }
    mix
}

/// Of each core, how many I/O-bound and CPU-bound tasks ran there last.
fn homes(mix: &mut Mix) -> Vec<[usize; 2]> {
    let cores = mix.sim.machine().cores.clone();
    let mut last = vec![None; mix.io.len() + mix.cpu.len()];
    for record in mix.sim.take_records() {
        if let Step::Run { task, lane } = record.step {
            last[task.0 as usize] = Some(lane);
        }
    }
    let on = |tasks: &[TaskId], lanes: &[u32]| {
        let here = |id: &&TaskId| last[id.0 as usize].is_some_and(|cpu| lanes.contains(&cpu));
        tasks.iter().filter(here).count()
    };
    let home = |core: &Core| [on(&mix.io, &core.lanes), on(&mix.cpu, &core.lanes)];
    cores.iter().map(home).collect()
}

#[test]
fn a_sorted_start_is_mixed_in_a_bounded_number_of_swaps() {
    for cores in [2, 4, 8, 24] {
        let mut before = sorted(cores, Mode::Retain);
        let retain = before.measure(1500 * MS, 2000 * MS);
        drop(before);
        let mut mix = sorted(cores, Mode::Pair);
        let pair = mix.measure(1500 * MS, 2000 * MS);
        let (homes, counters) = (homes(&mut mix), mix.sim.counters());
        println!(
            "{cores} cores: {} swaps, {retain:?}, {pair:?}, {homes:?}",
            counters.swaps
        );
        assert!(homes.iter().all(|home| *home == [1, 1]), "{homes:?}");
        // each swap takes two tasks
        assert_eq!(counters.swaps, u64::from(cores), "{counters:?}");
        assert!(pair.1 > 1.2 * retain.1, "computation {retain:?}, {pair:?}");
    }
}

#[test]
fn computation_that_fills_the_io_lane_hands_it_back_at_once() {
    let run = |mode| {
        let mut mix = Mix::new(1, mode, 1, 3);
        mix.varied = true;
        mix.until(500 * MS);
        mix.sim.keep_records();
        mix.until(2000 * MS);
        let (mut wakes_ns, mut slowest_ns) = (None, 0);
        for record in mix.sim.take_records() {
            match record.step {
                Step::Wake { task } if task == mix.io[0] => wakes_ns = Some(record.at_ns),
                Step::Run { task, .. } if task == mix.io[0] => {
                    let from_ns = wakes_ns.take().unwrap_or(record.at_ns);
                    slowest_ns = slowest_ns.max(record.at_ns - from_ns);
                }
                _ => {}
            }
        }
        (slowest_ns, mix.sim.counters().hand_backs)
    };
    let (retain, pair) = (run(Mode::Retain), run(Mode::Pair));
    println!("slowest wake-up, hand-backs: {retain:?}, paired {pair:?}");
    assert!(retain.0 > MS && retain.1 == 0, "{retain:?}");
    assert!(pair.1 > 20, "{pair:?}");
    assert!(pair.0 < 20_000, "a kick and a switch: {pair:?}");
}

/// Work of each CPU-bound task, ms.
fn shares(mix: &Mix) -> Vec<f64> {
    let of = |id: &TaskId| mix.sim.task_totals(*id).work_ns / MS as f64;
    mix.cpu.iter().map(of).collect()
}

#[test]
fn computation_is_not_starved_beside_much_io_bound_work() {
    // more than the I/O lane can do
    let mut mix = Mix::new(1, Mode::Pair, 12, 2);
    mix.until(2000 * MS);
    let shares = shares(&mix);
    println!("{shares:?} ms, {} requests", mix.requests);
    // what two lanes do at once, among 14
    let fair = 2.0 * 0.6 * 2000.0 / 14.0;
    assert!(shares.iter().all(|ms| *ms > fair), "{shares:?}");
}

#[test]
fn those_that_hardly_run_do_not_crowd_out_those_that_do_io() {
    let requests = |daemons| {
        let mut mix = Mix::new(1, Mode::Pair, 2, 2).with_daemons(daemons);
        mix.measure(500 * MS, 2000 * MS)
    };
    let (without, with) = (requests(0), requests(8));
    println!("requests and computation without daemons {without:?}, with {with:?}");
    assert!(with.0 as f64 > 0.9 * without.0 as f64);
    assert!(with.1 > 0.9 * without.1);
}

#[test]
fn while_computation_waits_a_lane_is_held_for_no_longer_than_it_pays() {
    let run = |switches_ns, thread_perf: [f64; 2]| {
        let settings = Settings {
            retention: Retention {
                period_ns: 0, // the time-out stays
                switches_ns,
                ..Retention::default()
            },
            thread_perf: thread_perf.to_vec(),
            ..Mode::Pair.settings()
        };
        let mut mix = Mix::with(4, &settings, 8, 8);
        let (requests, work_ms) = mix.measure(500 * MS, 2500 * MS);
        let waited_ms = mix.sim.counters().held_waited_ns / MS;
        println!("{switches_ns} ns, {thread_perf:?}: {requests}, {work_ms} ms, {waited_ms} ms");
        (requests, work_ms, waited_ms)
    };
    let (unpaid, paid) = (run(100 * MS, [1.0, 0.6]), run(50_000, [1.0, 0.6]));
    assert!(paid.2 * 2 < unpaid.2, "held while others waited");
    assert!(paid.0 as f64 > 0.98 * unpaid.0 as f64, "requests");
    assert!(paid.1 > 1.02 * unpaid.1, "computation");
    // of a second lane that adds nothing nobody misses anything
    assert_eq!(run(50_000, [1.0, 0.5]), run(100 * MS, [1.0, 0.5]));
}

#[test]
fn a_lane_that_is_held_from_other_io_bound_work_too_is_switched_less() {
    let run = |exclusive| {
        let settings = Settings {
            retention: Retention {
                period_ns: 0,
                switches_ns: 100 * MS,
                exclusive,
                ..Retention::default()
            },
            ..Mode::Pair.settings()
        };
        let mut mix = Mix::with(2, &settings, 8, 4);
        let (requests, work_ms) = mix.measure(500 * MS, 2500 * MS);
        let switches = mix.sim.event_counts().switches;
        println!("exclusive {exclusive}: {requests}, {work_ms} ms, {switches} switches");
        (requests, work_ms, switches)
    };
    let (shared, exclusive) = (run(false), run(true));
    assert!(exclusive.2 * 4 < shared.2, "switches");
    // four wait for devices, one after the other, on a lane that each of them could have
    assert!(exclusive.0 < shared.0, "requests");
    assert!(exclusive.1 > 0.98 * shared.1, "computation");
}

/// Kinds of tasks: one computes, the other mostly waits for memory.
const COMPUTES: usize = 0;
const WAITS: usize = 1;

/// Speeds as the default model has them: one executes an instruction each cycle, the other waits for memory as long.
fn speeds() -> [[f64; 2]; 2] {
    let model = Symbiosis::default();
    let beside_what_waits = model.miss + model.miss_miss;
    [
        [1.0 / model.base, 1.0 / model.base],
        [1.0 / model.miss, 1.0 / beside_what_waits],
    ]
}

fn machine(lanes: u32) -> Machine {
    let topology = Topology::regular(&Regular::one_package(1, lanes)).unwrap();
    let table = speeds().map(|speeds| speeds.to_vec()).to_vec();
    let mut machine = Machine::new(&topology, Interference::Kinds(table), Costs::none()).unwrap();
    machine.misses = vec![0.0, 1.0];
    machine
}

/// Two tasks of each kind, in this order, which have each had the core to themselves before all of them
/// always compute. What each did within two seconds, ms, and how many were chosen.
fn run(lanes: u32, symbiosis: Option<Symbiosis>, kinds: [usize; 4]) -> ([f64; 4], u64) {
    let settings = Settings {
        symbiotic: symbiosis.is_some(),
        symbiosis: symbiosis.unwrap_or_default(),
        ..Settings::default()
    };
    let mut sim = Simulation::new(machine(lanes), &Kind::from(settings)).unwrap();
    let ids = kinds.map(|kind| {
        let spec = TaskSpec {
            kind,
            ..TaskSpec::new("task", Class::Normal)
        };
        sim.create(&spec).unwrap()
    });
    for id in ids {
        sim.give(id, 50.0 * MS as f64).unwrap();
        assert_eq!(sim.next(u64::MAX).unwrap(), Some(Occurrence::Done(id)));
    }
    let before = ids.map(|id| sim.task_totals(id).work_ns);
    for id in ids {
        sim.give(id, f64::INFINITY).unwrap();
    }
    let until_ns = sim.now_ns() + 2000 * MS;
    assert_eq!(sim.next(until_ns).unwrap(), None);
    sim.account();
    let mut done = ids.map(|id| sim.task_totals(id).work_ns);
    for (done, before) in done.iter_mut().zip(before) {
        *done = (*done - before) / MS as f64;
    }
    (done, sim.counters().symbiotic)
}

fn work(lanes: u32, symbiosis: Option<Symbiosis>, kinds: [usize; 4]) -> [f64; 4] {
    run(lanes, symbiosis, kinds).0
}

#[test]
fn each_component_and_each_product_of_the_model_counts() {
    let model = Symbiosis::default();
    let (own, other) = ([0.5, 0.25, 2.0], [1.0, 3.0, 0.5]);
    // 1.396 B + 0.861 W + 0.277 W W' + 1.436 M + 0.910 M M'
    let beside = 1.396 * 0.5 + 0.861 * 0.25 + 0.277 * 0.25 * 3.0 + 1.436 * 2.0 + 0.910 * 2.0 * 0.5;
    let speed = symbiotic_speed(&model, own, other);
    assert!((speed - 2.75 / beside).abs() < 0.002, "{speed}");
    assert!((symbiotic_speed(&model, [1.0, 0.0, 0.0], other) - 1.0 / 1.396).abs() < 0.002);
}

#[test]
fn who_computes_shares_a_core_with_who_waits_for_memory() {
    let sum = |work: [f64; 4]| work.iter().sum::<f64>();
    // without, it is up to their order who meets whom
    let orders = [
        [COMPUTES, COMPUTES, WAITS, WAITS],
        [COMPUTES, WAITS, COMPUTES, WAITS],
        [COMPUTES, WAITS, WAITS, COMPUTES],
    ];
    let plain = orders.map(|kinds| sum(work(2, None, kinds)));
    let worst = plain.into_iter().fold(f64::INFINITY, f64::min);
    for kinds in orders {
        let symbiotic = work(2, Some(Symbiosis::default()), kinds);
        println!("{plain:?}, symbiotic {symbiotic:?} {}", sum(symbiotic));
        let best = speeds()[COMPUTES][WAITS] + speeds()[WAITS][COMPUTES];
        assert!(sum(symbiotic) > 0.97 * 2000.0 * best);
        assert!(sum(symbiotic) > 1.1 * worst);
        // nobody pays for that with turns
        let least = symbiotic.into_iter().fold(f64::INFINITY, f64::min);
        assert!(least > 0.9 * sum(symbiotic) / 4.0);
    }
}

/// But for rounding: counters are read at moments at which nothing else happens.
fn alike(one: [f64; 4], other: [f64; 4]) -> bool {
    let apart = one.iter().zip(other).map(|(one, other)| one - other);
    apart.into_iter().all(|apart| apart.abs() < 1e-6)
}

#[test]
fn tasks_that_are_alike_are_served_as_without() {
    let plain = work(2, None, [COMPUTES; 4]);
    let symbiotic = work(2, Some(Symbiosis::default()), [COMPUTES; 4]);
    assert!(alike(plain, symbiotic), "{plain:?} {symbiotic:?}");
}

#[test]
fn more_than_two_lanes_and_one_go_too() {
    let kinds = [COMPUTES, WAITS, COMPUTES, WAITS];
    for lanes in [1, 3] {
        let (symbiotic, chosen) = run(lanes, Some(Symbiosis::default()), kinds);
        println!("{lanes} lanes: {symbiotic:?}, {chosen} chosen");
        let sum = symbiotic.iter().sum::<f64>();
        assert!(symbiotic.iter().all(|work| *work > 0.1 * sum));
        assert_eq!(
            chosen > 0,
            lanes > 1,
            "beside nobody there is nothing to choose by"
        );
    }
}

#[test]
fn another_model_is_another_choice() {
    // told that all bear each other alike, it leaves their order
    let indifferent = Symbiosis {
        miss: Symbiosis::default().base,
        miss_miss: 0.0,
        ..Symbiosis::default()
    };
    let kinds = [COMPUTES, WAITS, COMPUTES, WAITS];
    let plain = work(2, None, kinds);
    assert!(alike(work(2, Some(indifferent), kinds), plain));
    let symbiotic = work(2, Some(Symbiosis::default()), kinds);
    assert!(plain.iter().sum::<f64>() < 0.9 * symbiotic.iter().sum::<f64>());
}
