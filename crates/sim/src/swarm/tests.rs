//! Random scenarios, each from one number, violate nothing; and each rule fails when it is broken: runs written by hand.
#![allow(clippy::unwrap_used)]

use super::verdict::{Rule, Verdict};
use super::watch::Watch;
use crate::machine::{Costs, Interference, Machine};
use crate::record::{Record, Step};
use crate::scheduler::Pool;
use crate::task::{Class, TaskId, TaskSpec};
use sidelane_policy::{Charge, Settings};
use sidelane_topology::{Regular, Topology};

const MS: u64 = 1_000_000;

/// One core with two lanes, and tasks of these classes that have work.
fn watch(classes: &[Class]) -> Watch {
    watch_core(vec![1.0, 0.5], classes)
}

/// The same with a lane for each speed.
fn watch_core(speeds: Vec<f64>, classes: &[Class]) -> Watch {
    let topology = Topology::regular(&Regular::one_package(1, speeds.len() as u32)).unwrap();
    let speeds = Interference::ThreadPerf(speeds);
    let machine = Machine::new(&topology, speeds, Costs::default()).unwrap();
    let settings = Settings {
        smt_level: 2,
        slice_ns: 10 * MS,
        batch_slice_ns: 10 * MS,
        starvation_bound_ns: 50 * MS,
        ..Settings::default()
    };
    let mut watch = Watch::new(&machine, &settings.into());
    for (index, &class) in classes.iter().enumerate() {
        watch.create(&TaskSpec::new("task", class), 0);
        let task = TaskId(index as u32);
        step(&mut watch, 0, Step::Wake { task }).unwrap();
    }
    watch
}

fn step(watch: &mut Watch, at_ns: u64, step: Step) -> Verdict {
    watch.step(Record { at_ns, step })
}

fn queue(watch: &mut Watch, at_ns: u64, task: u32, class: Class) -> Verdict {
    let (task, queue) = (TaskId(task), (class as u64 + 1) << 32);
    step(watch, at_ns, Step::Queue { task, queue })
}

fn run(watch: &mut Watch, at_ns: u64, task: u32, lane: u32) -> Verdict {
    let task = TaskId(task);
    step(watch, at_ns, Step::QueueLocal { task, lane })?;
    step(watch, at_ns, Step::Run { task, lane })
}

fn leave(watch: &mut Watch, at_ns: u64, task: u32, lane: u32) -> Verdict {
    let task = TaskId(task);
    step(watch, at_ns, Step::Preempt { task, lane })
}

fn broken(verdict: Verdict) -> Rule {
    verdict.unwrap_err().rule
}

#[test]
fn batch_has_to_leave_a_closed_core_within_the_kick() {
    for (left_ns, allowed) in [(MS + 1_000, true), (MS + 1_001, false)] {
        let mut watch = watch(&[Class::Batch, Class::Critical]);
        run(&mut watch, 0, 0, 0).unwrap();
        run(&mut watch, MS, 1, 1).unwrap();
        let left = leave(&mut watch, left_ns, 0, 0);
        assert_eq!(left.is_ok(), allowed);
        assert!(allowed || broken(left) == Rule::ClosedCore);
    }
}

#[test]
fn a_task_is_in_one_place() {
    let mut watch = watch(&[Class::Normal, Class::Normal]);
    run(&mut watch, 0, 0, 0).unwrap();
    assert_eq!(broken(run(&mut watch, 1, 0, 1)), Rule::Twice);
    assert_eq!(broken(run(&mut watch, 1, 1, 0)), Rule::Twice);
    let sleep = Step::Sleep {
        task: TaskId(1),
        lane: 1,
    };
    assert_eq!(broken(step(&mut watch, 2, sleep)), Rule::Twice);
}

#[test]
fn work_does_not_wait_beside_an_idle_lane() {
    let mut watch = watch(&[Class::Normal]);
    queue(&mut watch, 0, 0, Class::Normal).unwrap();
    // Nothing runs, so nothing ticks: only a kick and the exit from idleness, twice.
    watch.sample(6_001).unwrap();
    assert_eq!(broken(watch.sample(6_002)), Rule::IdleLane);
}

#[test]
fn batch_need_not_run_on_a_closed_core() {
    let mut watch = watch(&[Class::Critical, Class::Batch]);
    run(&mut watch, 0, 0, 0).unwrap();
    queue(&mut watch, 0, 1, Class::Batch).unwrap();
    watch.sample(60 * MS).unwrap();
    // Unless it is due, at 50 ms, and its lanes have gone on without it: two overdue runs of 5 ms, a
    // quarter of the bound, three ticks and reach later.
    let until_ns = 50 * MS + 10 * MS + 12_500_000 + 12 * MS + watch.reach_ns();
    watch.sample(until_ns).unwrap();
    assert_eq!(broken(watch.sample(until_ns + 1)), Rule::Starvation);
}

#[test]
fn what_is_due_is_served_on_the_lane_to_which_it_is_bound() {
    let mut watch = watch(&[Class::Critical, Class::Normal, Class::Normal]);
    watch.set_cpus(TaskId(1), Some(&[0]), 0).unwrap();
    run(&mut watch, 0, 0, 0).unwrap();
    run(&mut watch, 0, 2, 1).unwrap();
    queue(&mut watch, 0, 1, Class::Normal).unwrap();
    // the other lane runs normal work all the time, and may not take it
    watch.sample(45 * MS).unwrap();
    assert_eq!(broken(watch.sample(60 * MS)), Rule::Starvation);
}

#[test]
fn a_class_change_takes_effect_within_a_slice() {
    let mut watch = watch(&[Class::Normal]);
    run(&mut watch, 0, 0, 0).unwrap();
    watch.set_class(TaskId(0), Class::Batch, MS).unwrap();
    watch.sample(18 * MS).unwrap();
    assert_eq!(broken(watch.sample(20 * MS)), Rule::ClassChange);
    leave(&mut watch, 18 * MS, 0, 0).unwrap();
    let wrong = queue(&mut watch, 18 * MS, 0, Class::Critical);
    assert_eq!(broken(wrong), Rule::ClassChange);
}

#[test]
fn lanes_beyond_the_smt_level_fall_idle_when_slices_end() {
    let mut watch = watch(&[Class::Normal, Class::Normal]);
    watch.settings.smt_level = 1;
    run(&mut watch, 0, 0, 0).unwrap();
    run(&mut watch, 0, 1, 1).unwrap();
    // a slice, one of work that is due, and two ticks
    watch.sample(19 * MS).unwrap();
    assert_eq!(broken(watch.sample(20 * MS)), Rule::Level);
}

#[test]
fn critical_work_does_not_wait_for_normal_work_of_its_core() {
    let mut watch = watch_core(vec![1.0], &[Class::Normal, Class::Critical]);
    run(&mut watch, 0, 0, 0).unwrap();
    queue(&mut watch, MS, 1, Class::Critical).unwrap();
    // two ticks and kick
    let until_ns = MS + 8 * MS + 1_000;
    watch.sample(until_ns).unwrap();
    assert_eq!(broken(watch.sample(until_ns + 1)), Rule::Precedence);
}

/// One core with two lanes; tasks of a pool that may run for so long of each 100 ms.
fn watch_pool(allowance_ms: u64, tasks: usize) -> Watch {
    let mut watch = watch(&[]);
    watch.limits = vec![Pool {
        name: "pool".into(),
        allowance_ns: allowance_ms * MS,
        period_ns: 100 * MS,
        charge: Charge::Raw,
        parent: None,
        weight: None,
    }];
    watch.attach();
    for index in 0..tasks as u32 {
        let pool = Some(0);
        let spec = TaskSpec {
            pool,
            ..TaskSpec::new("task", Class::Normal)
        };
        watch.create(&spec, 0);
        let task = TaskId(index);
        step(&mut watch, 2 * MS, Step::Wake { task }).unwrap();
        queue(&mut watch, 2 * MS, index, Class::Normal).unwrap();
    }
    watch
}

fn hold(watch: &mut Watch, at_ns: u64, task: u32) -> Verdict {
    let (task, queue) = (TaskId(task), 4 << 32);
    step(watch, at_ns, Step::Queue { task, queue })
}

#[test]
fn a_pool_gets_its_allowance_and_a_tick_of_each_lane() {
    // from 2 ms on; the period ends at 101 ms
    for (until_ns, allowed) in [(20 * MS, true), (30 * MS, false)] {
        let mut watch = watch_pool(10, 1);
        run(&mut watch, 2 * MS, 0, 0).unwrap();
        leave(&mut watch, until_ns, 0, 0).unwrap();
        hold(&mut watch, until_ns, 0).unwrap();
        let verdict = watch.sample(102 * MS);
        match allowed {
            true => verdict.unwrap(),
            false => assert_eq!(broken(verdict), Rule::Pool),
        }
    }
}

#[test]
fn a_task_is_held_only_while_its_pool_is_used_up() {
    let mut watch = watch_pool(40, 2);
    assert_eq!(broken(hold(&mut watch, 2_500_000, 1)), Rule::Pool);
    run(&mut watch, 2_500_000, 0, 0).unwrap();
    leave(&mut watch, 44 * MS, 0, 0).unwrap();
    hold(&mut watch, 44 * MS, 0).unwrap();
    watch.pass_periods(102 * MS).unwrap();
    watch.check_held(TaskId(0)).unwrap();
    watch.pass_periods(103 * MS).unwrap();
    assert_eq!(broken(watch.check_held(TaskId(0))), Rule::Pool);
}

/// Of two tasks bound to one lane the one of nice 0 waits while the other runs for so long.
fn gets_ahead(nice: i32, ran_ms: u64) -> Verdict {
    let mut watch = watch_core(vec![1.0], &[]);
    for (index, nice) in [0, nice].into_iter().enumerate() {
        let spec = TaskSpec {
            nice,
            cpus: Some(vec![0]),
            ..TaskSpec::new("task", Class::Normal)
        };
        watch.create(&spec, 0);
        let task = TaskId(index as u32);
        step(&mut watch, 0, Step::Wake { task }).unwrap();
    }
    run(&mut watch, 0, 1, 0).unwrap();
    queue(&mut watch, 0, 0, Class::Normal).unwrap();
    leave(&mut watch, ran_ms * MS, 1, 0)
}

#[test]
fn neither_of_two_tasks_of_a_lane_gets_more_than_its_share() {
    // two turns of each, of the lag, 12 ms, and two ticks of 4 ms, and the lag
    gets_ahead(0, 2 * 2 * 20 + 12).unwrap();
    assert_eq!(broken(gets_ahead(0, 2 * 2 * 20 + 13)), Rule::Shares);
    // of weight 9548 / 1024
    gets_ahead(-10, 524).unwrap();
    assert_eq!(broken(gets_ahead(-10, 526)), Rule::Shares);
}

#[test]
fn a_failure_says_how_to_see_it_again() {
    let mut driven = super::Failure::new(7, run_fails(), "one core".into());
    driven.steps = vec![Record {
        at_ns: 5,
        step: Step::Queue {
            task: TaskId(3),
            queue: 3 << 32 | 9,
        },
    }];
    let text = driven.to_string();
    assert!(text.contains("sidelane sim --swarm-seed 7"), "{text}");
    assert!(
        text.contains("task 3 waits in the batch vector of core number 9"),
        "{text}"
    );
}

fn run_fails() -> super::Broken {
    let mut watch = watch(&[Class::Normal]);
    run(&mut watch, 0, 0, 0).unwrap();
    run(&mut watch, 1, 0, 1).unwrap_err()
}

#[test]
fn seven_hundred_scenarios_violate_nothing() {
    let total = super::run_many(0..700, &|_| {});
    if let Some(failure) = total.failures.first() {
        panic!("{} seeds fail. The first:\n{failure}", total.failures.len());
    }
    assert_eq!(total.passed, 700);
    // What is to be checked has happened: often, and all of it.
    assert!(total.faults > 1_000, "{} faults", total.faults);
    let counters = total.counters;
    assert!(counters.evictions > 1_000 && counters.openings > 1_000);
    assert!(counters.promotions > 100 && counters.promotions_dropped > 10);
    let [_, normal, batch] = counters.overdue;
    assert!(normal > 100 && batch > 100, "{normal}, {batch}");
    assert!(counters.steals.iter().skip(1).all(|&steals| steals > 100));
}

#[test]
fn a_seed_gives_the_same_steps_on_every_thread() {
    for seed in [3, 42, 1_000_000_007] {
        let (summary, records) = super::run_recorded(seed).unwrap();
        let again = super::run_recorded(seed).unwrap();
        let elsewhere = std::thread::spawn(move || super::run_recorded(seed).unwrap());
        assert!(records.len() > 100, "{}", records.len());
        assert_eq!((&summary, &records), (&again.0, &again.1));
        assert_eq!((summary, records), elsewhere.join().unwrap());
    }
}

/// Seeds that failed once, each for a reason that a few hundred others do not meet.
#[test]
fn scenarios_that_violated_something_once_do_so_no_more() {
    // a task bound to a busy lane was passed over while idle lanes of its core served others
    for seed in [5234] {
        if let Err(failure) = super::run_recorded(seed) {
            panic!("seed {seed}: {failure}");
        }
    }
}
