//! Ordinary work of several kinds at a time: shares by weight, and work that waits for devices beside computation.
//!
//! Everything here has class normal, and no rule names it. The whole grid, points that miss first:
//! `cargo test --release --locked --workspace --test sim -- --ignored --nocapture mixes::`

use super::ordinary::{MS, P99, THROUGHPUT, beside_default};
use rayon::prelude::*;
use sidelane_sim::*;
use sidelane_topology::{Regular, Topology};
use std::fmt;

/// By how much a share of the lanes may differ from the default scheduler's, of that.
const SHARE: f64 = 0.03;
/// What a task may have more or less by its last turn, ms.
const TURN_MS: f64 = 10.0;

/// Tasks of one kind.
#[derive(Debug, Clone, Copy)]
struct Group {
    tasks: usize,
    nice: i32,
    /// They compute and wait for so long on average, exponentially; none: they never wait.
    io_ms: Option<(f64, f64)>,
    /// The CPU to which they are bound.
    bound: Option<u32>,
}

fn spin(tasks: usize) -> Group {
    Group {
        tasks,
        nice: 0,
        io_ms: None,
        bound: None,
    }
}

fn io(tasks: usize, burst_ms: f64, wait_ms: f64) -> Group {
    Group {
        io_ms: Some((burst_ms, wait_ms)),
        ..spin(tasks)
    }
}

impl Group {
    fn nice(self, nice: i32) -> Group {
        Group { nice, ..self }
    }

    fn on(self, cpu: u32) -> Group {
        Group {
            bound: Some(cpu),
            ..self
        }
    }

    fn workload(&self) -> Workload {
        let about = |ms: f64| Distribution::Exponential(ms * MS);
        let tasks = self.tasks;
        Workload {
            task: TaskSpec {
                nice: self.nice,
                cpus: self.bound.map(|cpu| vec![cpu]),
                ..TaskSpec::new("task", Class::Normal)
            },
            behaviour: match self.io_ms {
                Some((burst_ms, wait_ms)) => Behaviour::Io {
                    tasks,
                    burst: about(burst_ms),
                    wait: about(wait_ms),
                    poll: None,
                    relayed: 0.0,
                },
                None => Behaviour::Batch { tasks },
            },
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        write!(out, "{}", self.tasks)?;
        if let Some((burst_ms, wait_ms)) = self.io_ms {
            write!(out, " of {burst_ms}/{wait_ms} ms")?;
        }
        if self.nice != 0 {
            write!(out, " nice {}", self.nice)?;
        }
        self.bound.map_or(Ok(()), |cpu| write!(out, " on {cpu}"))
    }
}

/// A machine and what runs there.
#[derive(Debug, Clone)]
struct Mix {
    /// Packages, and last-level caches of each.
    caches: [u32; 2],
    /// Of the whole machine.
    cores: u32,
    lanes: u32,
    groups: Vec<Group>,
    seconds: u64,
}

impl Mix {
    fn scenario(&self) -> Scenario {
        let [packages, caches_per_package] = self.caches;
        let cores_per_cache = self.cores / (packages * caches_per_package);
        let topology = Topology::regular(&Regular {
            packages,
            caches_per_package,
            ..Regular::one_package(cores_per_cache, self.lanes)
        })
        .unwrap();
        let speeds = [1.0, 0.63][..self.lanes as usize].to_vec();
        let interference = Interference::ThreadPerf(speeds);
        let machine = Machine::new(&topology, interference, Costs::default()).unwrap();
        let workloads = self.groups.iter().map(Group::workload).collect();
        beside_default(machine, workloads, self.seconds as f64 * 1e3, 2_000.0)
    }

    fn all_lanes(&self) -> f64 {
        f64::from(self.cores * self.lanes)
    }

    fn compare(&self) -> Compared {
        let outcomes = run(&self.scenario(), &|| ()).unwrap();
        let both = [0, 1].map(|at: usize| &outcomes[at].replications[0]);
        let [default, sidelane] = both.map(|of| &of.workloads);
        let io = self.groups.iter().position(|group| group.io_ms.is_some());
        let p99 = |measured: &Measured| measured.quantile_ns(0.99).unwrap_or(1) as f64;
        let rounds = |measured: &Measured| measured.completed as f64;
        let lane_ms = |measured: &Measured| measured.totals.lane_ns as f64 / MS;
        let apart = |(default, sidelane): (&Measured, &Measured)| {
            let (default, sidelane) = (lane_ms(default), lane_ms(sidelane));
            ((sidelane - default).abs() - TURN_MS).max(0.0) / default
        };
        Compared {
            mix: self.clone(),
            rounds: io.map(|at| rounds(&sidelane[at]) / rounds(&default[at])),
            p99: io.map(|at| p99(&sidelane[at]) / p99(&default[at])),
            moves: both.map(|of| of.cache_moves as f64 / self.all_lanes() / self.seconds as f64),
            // what waits takes what it needs: the rest has less where it needs more
            apart: match io {
                Some(_) => 0.0,
                None => default.iter().zip(sidelane).map(apart).fold(0.0, f64::max),
            },
        }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let groups: Vec<String> = self.groups.iter().map(Group::to_string).collect();
        let shape = format!("{} x {}", self.cores, self.lanes);
        write!(out, "{shape:>6}: {}", groups.join(", "))?;
        match self.caches {
            [1, 1] => Ok(()),
            [packages, caches] => write!(out, " on {packages} x {caches} caches"),
        }
    }
}

/// Sidelane relative to the default scheduler.
struct Compared {
    mix: Mix,
    /// Of the first group that waits.
    rounds: Option<f64>,
    p99: Option<f64>,
    /// Migrations between last-level caches, by the default scheduler and Sidelane, a lane and second.
    moves: [f64; 2],
    /// The largest difference of a group's lane time, of that.
    apart: f64,
}

impl Compared {
    /// How far it is beyond a limit; at most 1: within all.
    fn badness(&self) -> f64 {
        let rounds = self.rounds.map_or(0.0, |rounds| THROUGHPUT / rounds);
        let p99 = self.p99.map_or(0.0, |p99| p99 / P99);
        rounds.max(p99).max(self.apart / SHARE)
    }
}

impl fmt::Display for Compared {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let ratio = |of: Option<f64>| of.map_or("-".to_owned(), |of| format!("{of:.2}"));
        let (rounds, p99) = (ratio(self.rounds), ratio(self.p99));
        let apart = 100.0 * self.apart;
        let [default, sidelane] = self.moves;
        write!(
            out,
            "{rounds:>6} {p99:>6} {apart:6.1} % {default:6.1} {sidelane:6.1}  {}",
            self.mix
        )
    }
}

fn compare(mixes: Vec<Mix>) -> Vec<Compared> {
    let mut compared: Vec<Compared> = mixes.par_iter().map(Mix::compare).collect();
    compared.sort_by(|a, b| b.badness().total_cmp(&a.badness()));
    compared
}

fn mix(cores: u32, lanes: u32, seconds: u64, groups: &[Group]) -> Mix {
    Mix {
        caches: [1, 1],
        cores,
        lanes,
        groups: groups.to_vec(),
        seconds,
    }
}

/// Two nice values, on one lane, and on many.
fn weights() -> Vec<Mix> {
    let nices = [-20, -10, -5, 0, 5, 10, 19];
    let mut mixes = Vec::new();
    for (at, one) in nices.iter().enumerate() {
        for other in &nices[at + 1..] {
            let groups = [spin(1).nice(*one), spin(1).nice(*other)];
            mixes.push(mix(1, 1, 30, &groups));
        }
    }
    for (cores, lanes) in [(2, 1), (1, 2), (2, 2), (4, 2), (8, 2), (16, 1), (64, 2)] {
        let all = (cores * lanes) as usize;
        for (one, other) in [(-5, 0), (0, 5), (0, 10)] {
            for each in [1, 2] {
                let [one, other] = [one, other].map(|nice| spin(each * all).nice(nice));
                let seconds = if cores < 16 { 20 } else { 10 };
                mixes.push(mix(cores, lanes, seconds, &[one, other]));
            }
        }
    }
    mixes
}

/// Tasks bound to one lane, beside others that are bound to the next one, of the core or of another.
fn bound() -> Vec<Mix> {
    let mut mixes = Vec::new();
    for (cores, lanes) in [(2, 1), (1, 2)] {
        for (one, other) in [(-10, 0), (-5, 0), (0, 5), (0, 10), (0, 19)] {
            let two = [spin(2).nice(one).on(0), spin(2).nice(other).on(0)];
            for next in [spin(1).on(1), spin(1).nice(19).on(1), spin(3).on(1)] {
                mixes.push(mix(cores, lanes, 30, &[two[0], two[1], next]));
            }
        }
    }
    for spinning in [1, 3] {
        for (burst_ms, wait_ms) in [(0.2, 1.0), (1.0, 3.0)] {
            let one = [io(1, burst_ms, wait_ms).on(0), spin(spinning).on(0)];
            for next in [spin(1), spin(1).nice(-10), io(1, 5.0, 0.1)] {
                for (cores, lanes) in [(2, 1), (1, 2)] {
                    mixes.push(mix(cores, lanes, 10, &[one[0], one[1], next.on(1)]));
                }
            }
        }
    }
    mixes
}

/// As many tasks that wait as lanes, beside computation; and several times as many alone.
fn waiting() -> Vec<Mix> {
    let mut mixes = Vec::new();
    for (cores, lanes) in [(1, 1), (2, 2), (4, 2), (8, 2), (16, 2), (64, 2)] {
        let all = (cores * lanes) as usize;
        let seconds = if cores < 16 { 10 } else { 3 };
        for (burst_ms, wait_ms) in [(0.1, 1.0), (0.3, 1.0), (1.0, 3.0), (3.0, 10.0)] {
            for spinning in [all, all + all / 2, 3 * all] {
                let waits = io(all, burst_ms, wait_ms);
                mixes.push(mix(cores, lanes, seconds, &[waits, spin(spinning)]));
            }
        }
        for times in [1, 2, 3, 4] {
            for (burst_ms, wait_ms) in [(0.1, 0.3), (1.0, 3.0)] {
                mixes.push(mix(
                    cores,
                    lanes,
                    seconds,
                    &[io(times * all, burst_ms, wait_ms)],
                ));
            }
        }
    }
    mixes
}

/// One or two tasks that want to run for half of the time to five sixths of it, beside three to six that compute, on four lanes.
fn busy() -> Vec<Mix> {
    let mut mixes = Vec::new();
    for (burst_ms, wait_ms) in [
        (0.1, 0.1),
        (0.1, 0.05),
        (0.1, 0.02),
        (0.3, 0.3),
        (0.3, 0.1),
        (1.0, 1.0),
        (1.0, 0.3),
        (3.0, 1.0),
    ] {
        for spinning in [3, 4, 6] {
            for waiting in [1, 2] {
                let waits = io(waiting, burst_ms, wait_ms);
                mixes.push(mix(2, 2, 10, &[waits, spin(spinning)]));
            }
        }
    }
    mixes
}

/// On several last-level caches and packages: what never sleeps, in numbers that no cache holds evenly, and what waits.
fn on_caches() -> Vec<Mix> {
    let mut mixes = Vec::new();
    for (caches, cores, lanes) in [
        ([1, 2], 8, 2),
        ([2, 1], 8, 2),
        ([2, 4], 32, 2),
        ([2, 4], 64, 1),
    ] {
        let all = (cores * lanes) as usize;
        let kinds = [
            vec![spin(3 * all / 4)],
            vec![spin(3 * all / 2)],
            vec![spin(3 * all)],
            vec![spin(2 * all), spin(2 * all).nice(5)],
            vec![io(all, 0.3, 1.0)],
            vec![io(all, 0.3, 1.0), spin(all)],
            vec![io(2 * all, 1.0, 3.0)],
        ];
        mixes.extend(kinds.map(|groups| Mix {
            caches,
            ..mix(cores, lanes, 5, &groups)
        }));
    }
    mixes
}

/// None of these is beyond a limit.
fn hold(mixes: Vec<Mix>) {
    let compared = compare(mixes);
    let beyond = compared.iter().filter(|compared| compared.badness() > 1.0);
    let beyond: Vec<String> = beyond.map(Compared::to_string).collect();
    assert!(beyond.is_empty(), "{beyond:#?}");
}

#[test]
fn nice_values_count_on_one_lane_and_on_many() {
    let pairs = [(-5, 0), (0, 5)];
    let shapes = [(1, 2), (2, 2), (8, 2)];
    let mixes = shapes.iter().flat_map(|&(cores, lanes)| {
        let each = 2 * (cores * lanes) as usize;
        pairs.map(|(one, other)| {
            mix(
                cores,
                lanes,
                10,
                &[one, other].map(|nice| spin(each).nice(nice)),
            )
        })
    });
    hold(mixes.collect());
}

/// Though the lanes of all cores look for work at the same tick, one after the other, each sees other cores each time.
#[test]
fn nice_values_count_on_as_many_cores_as_lanes_look_at_in_a_tick() {
    hold(vec![mix(16, 1, 10, &[spin(16), spin(16).nice(10)])]);
}

/// What would run for most of the time waits for its turn no longer than with the default scheduler.
#[test]
fn what_waits_seldom_waits_for_short_turns() {
    hold(busy());
}

#[test]
fn what_one_lane_does_takes_nothing_from_another() {
    hold(bound());
}

/// What wakes on one lane of a core does not wait for what is bound there to come as far as what the other lane runs.
#[test]
fn what_wakes_competes_with_what_its_own_lane_runs() {
    let next = [spin(1).nice(19), spin(2).nice(19), io(1, 40.0, 0.8)];
    let one = [io(1, 0.2, 1.0).on(0), spin(2).on(0)];
    let mixes = next.map(|next| mix(1, 2, 20, &[one[0], one[1], next.on(1)]));
    hold(mixes.to_vec());
    // what waits for the other lane only, and has come less far, is not next on this one
    let one = [io(1, 0.2, 1.0).on(0), spin(1).on(0)];
    let waits = [spin(2), spin(3)].map(|next| mix(1, 2, 20, &[one[0], one[1], next.on(1)]));
    hold(waits.to_vec());
}

/// What never sleeps goes to another cache less than once a second and lane. What waits goes there up to twice as often as by the
/// default scheduler, and 50 times more.
#[test]
fn few_tasks_go_to_another_cache() {
    let mixes = on_caches().into_iter().filter(|mix| mix.cores <= 8);
    for compared in compare(mixes.collect()) {
        let [default, sidelane] = compared.moves;
        let waits = compared.rounds.is_some();
        let most = if waits { 2.0 * default + 50.0 } else { 1.0 };
        assert!(sidelane <= most, "{compared}");
    }
}

#[test]
#[ignore = "takes a minute or two: the whole grid, to be read"]
fn the_whole_grid() {
    let compared = compare([weights(), bound(), waiting(), busy(), on_caches()].concat());
    println!("rounds    p99   apart    moves: default, Sidelane");
    compared.iter().for_each(|compared| println!("{compared}"));
    let beyond = compared.iter().filter(|compared| compared.badness() > 1.0);
    println!(
        "{} mixes; beyond {THROUGHPUT} of the rounds, {P99} of the p99 or {SHARE} of a share: {}",
        compared.len(),
        beyond.count()
    );
}
