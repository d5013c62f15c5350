//! The arithmetic of a runqueue, and what the public interface does not reach.

use super::Eevdf;
use super::runqueue::{Entity, Place, RunQueue, Slices};
use crate::engine::{Engine, Event};
use crate::scheduler::Scheduler;
use crate::task::{Class, Policy, State, TaskId, TaskSpec};
use crate::{Costs, Interference, Machine};
use sidelane_topology::{Regular, Topology};

const MS: u64 = 1_000_000;

/// A queue with a task of each of these nice values; all wait.
fn queue_of(nices: &[i32]) -> (RunQueue, Vec<Entity>) {
    let mut queue = RunQueue::default();
    queue.slices = Slices {
        slice_ns: 3 * MS,
        tick_ns: 4 * MS,
        cfs: None,
    };
    let mut entities = Vec::new();
    for (index, &nice) in nices.iter().enumerate() {
        let spec = TaskSpec {
            nice,
            ..TaskSpec::new("task", Class::Normal)
        };
        let mut entity = Entity::new(&spec, 0);
        queue.join(TaskId(index as u32), &mut entity);
        entities.push(entity);
    }
    (queue, entities)
}

/// Runs the queue for so many turns that end at a tick, and counts the turns of each task.
fn run(queue: &mut RunQueue, entities: &mut [Entity], turns: u64) -> Vec<u64> {
    let mut counts = vec![0; entities.len()];
    for turn in 0..turns {
        let id = queue.pick(entities).unwrap();
        let entity = &mut entities[id.index()];
        if queue.current != Some(id) {
            queue.start(id, entity, turn * 4 * MS);
        }
        if queue.charge(entity, (turn + 1) * 4 * MS) {
            queue.put_back(id, entity);
        }
        counts[id.index()] += 1;
        assert!(queue.is_sound(entities));
    }
    counts
}

#[test]
fn shares_follow_weights() {
    let (mut queue, mut entities) = queue_of(&[0, 0, 5]);
    let counts = run(&mut queue, &mut entities, 2383 * 2);
    // 1024 : 1024 : 335 of 2383.
    for (count, wanted) in counts.iter().zip([2048_u64, 2048, 670]) {
        assert!(count.abs_diff(wanted) <= 2, "{counts:?}");
    }
}

#[test]
fn a_task_keeps_its_lag_over_a_change_of_queues() {
    let (mut queue, mut entities) = queue_of(&[0, 0]);
    let id = queue.pick(&entities).unwrap();
    let other = 1 - id.index();
    queue.start(id, &mut entities[id.index()], 0);
    queue.charge(&mut entities[id.index()], MS);
    // It ran 1 ms: it is half of that ahead of the average, the other as much behind.
    queue.leave(&mut entities[other], false);
    assert_eq!(entities[other].lag_ns, MS as i64 / 2);
    let (mut far, mut there) = queue_of(&[0, 0, -5]);
    there.push(entities[other].clone());
    far.join(TaskId(3), &mut there[3]);
    far.leave(&mut there[3], false);
    assert!(
        there[3].lag_ns.abs_diff(MS as i64 / 2) <= 2,
        "{}",
        there[3].lag_ns
    );
    assert_eq!(there[3].place, Place::Asleep);
}

#[test]
fn a_task_that_had_too_much_stays_until_it_is_even() {
    let (mut queue, mut entities) = queue_of(&[0, 0]);
    let id = queue.pick(&entities).unwrap();
    let other = TaskId(1 - id.0);
    queue.start(id, &mut entities[id.index()], 0);
    queue.charge(&mut entities[id.index()], MS);
    queue.sleep(id, &mut entities[id.index()]);
    assert_eq!(entities[id.index()].place, Place::Delayed);
    assert_eq!((queue.nr_runnable, queue.load), (1, 1024));
    queue.start(other, &mut entities[other.index()], MS);
    queue.charge(&mut entities[other.index()], 5 * MS);
    // Long even: it is as if it had just come, no better.
    queue.resume(id, &mut entities[id.index()]);
    assert_eq!(queue.nr_runnable, 2);
    queue.leave(&mut entities[id.index()], true);
    assert_eq!(entities[id.index()].lag_ns, 0);
    // One that had no more than its share leaves at once.
    queue.sleep(other, &mut entities[other.index()]);
    assert_eq!(entities[other.index()].place, Place::Asleep);
    assert!(queue.is_sound(&entities) && queue.nr_runnable == 0);
}

#[test]
fn the_current_task_is_protected_while_it_is_eligible() {
    let (mut queue, mut entities) = queue_of(&[0]);
    queue.start(TaskId(0), &mut entities[0], 0);
    let spec = TaskSpec {
        nice: -5,
        ..TaskSpec::new("late", Class::Normal)
    };
    entities.push(Entity::new(&spec, 0));
    // With so much weight, its slice is short in virtual time.
    queue.charge(&mut entities[0], MS / 2);
    queue.join(TaskId(1), &mut entities[1]);
    assert!(entities[1].deadline_ns < entities[0].deadline_ns);
    assert_eq!(queue.pick(&entities), Some(TaskId(0)));
    queue.charge(&mut entities[0], MS);
    assert_eq!(queue.pick(&entities), Some(TaskId(1)));
}

#[test]
fn weights_are_the_kernels() {
    let weight = |policy, nice| {
        let spec = TaskSpec {
            policy,
            nice,
            ..TaskSpec::new("task", Class::Normal)
        };
        Entity::new(&spec, 0).weight
    };
    let normal = [-20, 0, 5, 19].map(|nice| weight(Policy::Normal, nice));
    assert_eq!(normal, [88761, 1024, 335, 15]);
    assert_eq!(weight(Policy::Idle, -20), 3);
}

/// A machine of one lane with two busy tasks.
fn two_on_a_lane() -> (Engine, Eevdf, [TaskId; 2]) {
    let topology = Topology::regular(&Regular::one_package(1, 1)).unwrap();
    let speeds = Interference::ThreadPerf(vec![1.0]);
    let machine = Machine::new(&topology, speeds, Costs::none()).unwrap();
    let mut engine = Engine::new(machine);
    let mut eevdf = Eevdf::new(&mut engine, super::IdleSearch::CoreFirst);
    let ids = [(); 2].map(|()| {
        let id = engine
            .create(&TaskSpec::new("task", Class::Normal))
            .unwrap();
        eevdf.create(&mut engine, id);
        engine.add_work(id, f64::INFINITY);
        engine.waits(id);
        eevdf.wake(&mut engine, id, false);
        id
    });
    (engine, eevdf, ids)
}

fn pass(engine: &mut Engine, eevdf: &mut Eevdf, until_ns: u64) {
    while let Some(event) = engine.events.take(until_ns) {
        match event {
            Event::Tick { lane } if engine.ticks(lane) => eevdf.tick(engine, lane),
            Event::Look { lane } if engine.take_look(lane) => eevdf.look(engine, lane),
            _ => {}
        }
        eevdf.check(engine).unwrap();
    }
}

#[test]
fn a_new_nice_value_counts_at_once() {
    let (mut engine, mut eevdf, ids) = two_on_a_lane();
    pass(&mut engine, &mut eevdf, 10 * MS);
    // One of them runs, the other waits.
    for (id, nice) in ids.into_iter().zip([0, 5]) {
        engine.task_mut(id).spec.nice = nice;
        eevdf.change_class(&mut engine, id);
        eevdf.check(&engine).unwrap();
    }
    pass(&mut engine, &mut eevdf, 5_000 * MS);
    engine.account_all();
    let share = engine.task(ids[1]).totals.lane_ns as f64 / (5_000 * MS) as f64;
    assert!((share - 335.0 / 1359.0).abs() < 0.005, "{share}");
    // Normal work that becomes SCHED_IDLE gives way as soon as the lane looks.
    let running = ids
        .into_iter()
        .find(|&id| engine.current(0) == Some(id))
        .unwrap();
    engine.task_mut(running).spec.policy = Policy::Idle;
    eevdf.change_class(&mut engine, running);
    pass(&mut engine, &mut eevdf, 6_000 * MS);
    assert_eq!(engine.task(running).state, State::Waiting);
}
