//! The analysis of traces against answers computed by hand, and against a slow second method.

#![allow(clippy::unwrap_used)] // an unwrap that fails fails the test

use proptest::prelude::*;
use sidelane_smt::trace::{Analysis, Class, Event, Kind, TraceError, analyse, parse};
use std::collections::HashMap;

const CRITICAL: u32 = 10;
const CRITICAL_2: u32 = 11;
const BATCH: u32 = 20;
const BATCH_2: u32 = 21;
const OTHER: u32 = 30;

fn classes() -> HashMap<u32, Class> {
    HashMap::from([
        (CRITICAL, Class::Critical),
        (CRITICAL_2, Class::Critical),
        (BATCH, Class::Batch),
        (BATCH_2, Class::Batch),
    ])
}

fn switch(time_ns: u64, cpu: u32, prev_pid: u32, next_pid: u32) -> Event {
    Event {
        time_ns,
        cpu,
        kind: Kind::Switch {
            prev_pid,
            prev_runnable: false,
            next_pid,
        },
    }
}

fn waking(time_ns: u64, pid: u32) -> Event {
    Event {
        time_ns,
        cpu: 0,
        kind: Kind::Waking { pid },
    }
}

/// Two cores of two lanes, numbered as firmware often does: siblings are 0,2 and 1,3.
fn two_cores(events: &[Event]) -> Analysis {
    analyse(events, &[vec![0, 2], vec![1, 3]], &classes()).unwrap()
}

#[test]
fn a_wakeup_beside_batch_that_leaves() {
    // Batch on both lanes of core 0 from 0. Critical wakes at 100, runs on lane 0 at 130; batch
    // leaves lane 2 at 160, critical ends at 500, batch returns to both at 500 and 510.
    let analysis = two_cores(&[
        switch(0, 0, 0, BATCH),
        switch(0, 2, 0, BATCH_2),
        waking(100, CRITICAL),
        switch(130, 0, BATCH, CRITICAL),
        switch(160, 2, BATCH_2, 0),
        switch(500, 0, CRITICAL, BATCH),
        switch(510, 2, 0, BATCH_2),
        switch(600, 0, BATCH, 0),
    ]);
    assert_eq!(analysis.span_ns, 600);
    assert_eq!(analysis.lane_time.critical_ns, 370);
    // Lane 0: 0..130 and 500..600; lane 2: 0..160 and 510..600.
    assert_eq!(analysis.lane_time.batch_ns, 130 + 100 + 160 + 90);
    assert_eq!(analysis.lane_time.idle_ns, 2 * 600 + 350);
    assert_eq!(analysis.batch_beside_critical_ns, 30);
    assert_eq!(analysis.batch_beside_critical, 30.0 / 480.0);
    assert_eq!(analysis.wake_to_run.p50_ns, 30);
    assert_eq!(analysis.wake_to_clear.p50_ns, 60);
    assert_eq!(analysis.wake_to_clear_found.count, 1);
    assert_eq!(analysis.never_clear, 0);
}

#[test]
fn siblings_that_clear_before_the_thread_runs() {
    // Batch leaves the sibling at 120, between wake-up (100) and running (150).
    let analysis = two_cores(&[
        switch(0, 2, 0, BATCH),
        waking(100, CRITICAL),
        switch(120, 2, BATCH, 0),
        switch(150, 0, 0, CRITICAL),
        switch(200, 0, CRITICAL, 0),
    ]);
    assert_eq!(analysis.wake_to_clear.max_ns, 20);
    assert_eq!(analysis.wake_to_run.max_ns, 50);
    assert_eq!(analysis.batch_beside_critical_ns, 0);
}

#[test]
fn a_wakeup_to_a_core_without_batch_counts_as_zero() {
    // Batch runs on core 0 only and left core 1 long before.
    let analysis = two_cores(&[
        switch(0, 0, 0, BATCH),
        switch(0, 3, 0, BATCH_2),
        switch(50, 3, BATCH_2, 0),
        waking(100, CRITICAL),
        switch(140, 1, 0, CRITICAL),
        switch(300, 1, CRITICAL, 0),
    ]);
    assert_eq!(analysis.wake_to_clear.count, 1);
    assert_eq!(analysis.wake_to_clear.max_ns, 0);
    assert_eq!(analysis.wake_to_clear_found.count, 0);
}

#[test]
fn batch_that_never_leaves_is_said_so() {
    let analysis = two_cores(&[
        switch(0, 2, 0, BATCH),
        waking(100, CRITICAL),
        switch(110, 0, 0, CRITICAL),
        switch(400, 0, CRITICAL, 0),
        switch(500, 2, BATCH, 0),
    ]);
    assert_eq!(analysis.never_clear, 1);
    assert_eq!(analysis.wake_to_clear.max_ns, 300);
    assert_eq!(analysis.batch_beside_critical, 290.0 / 500.0);
}

#[test]
fn one_batch_task_after_another_on_a_sibling_is_not_clear() {
    let analysis = two_cores(&[
        switch(0, 2, 0, BATCH),
        waking(100, CRITICAL),
        switch(110, 0, 0, CRITICAL),
        switch(150, 2, BATCH, BATCH_2),
        switch(180, 2, BATCH_2, 0),
        switch(400, 0, CRITICAL, 0),
    ]);
    assert_eq!(analysis.wake_to_clear.max_ns, 80);
    assert_eq!(analysis.never_clear, 0);
}

#[test]
fn two_critical_threads_beside_one_batch_task_on_four_lanes() {
    let events = [
        switch(0, 3, 0, BATCH),
        waking(0, CRITICAL),
        switch(10, 0, 0, CRITICAL),
        waking(20, CRITICAL_2),
        switch(30, 1, 0, CRITICAL_2),
        switch(100, 3, BATCH, 0),
        switch(200, 0, CRITICAL, 0),
    ];
    let analysis = analyse(&events, &[vec![0, 1, 2, 3]], &classes()).unwrap();
    // Batch ran 0..100, of which a critical thread was beside it from 10 on: counted once.
    assert_eq!(analysis.batch_beside_critical_ns, 90);
    assert_eq!(
        (analysis.wake_to_clear.p50_ns, analysis.wake_to_clear.max_ns),
        (80, 100)
    );
}

#[test]
fn a_woken_thread_that_still_runs_is_not_a_wakeup() {
    let analysis = two_cores(&[
        switch(0, 0, 0, CRITICAL),
        waking(50, CRITICAL),
        switch(100, 0, CRITICAL, 0),
        // The wake-up that counts: of its two events, the first.
        waking(200, CRITICAL),
        Event {
            time_ns: 210,
            cpu: 1,
            kind: Kind::Wakeup {
                pid: CRITICAL,
                target_cpu: 1,
            },
        },
        switch(230, 1, 0, CRITICAL),
    ]);
    assert_eq!(analysis.wake_to_run.count, 1);
    assert_eq!(analysis.wake_to_run.max_ns, 30);
}

#[test]
fn children_inherit_and_reused_numbers_do_not() {
    let fork = |time_ns, parent_pid, child_pid| Event {
        time_ns,
        cpu: 0,
        kind: Kind::Fork {
            parent_pid,
            child_pid,
        },
    };
    let analysis = two_cores(&[
        fork(0, BATCH, 99),
        switch(0, 0, 0, 99),
        switch(100, 0, 99, 0),
        fork(100, OTHER, 99),
        switch(100, 0, 0, 99),
        switch(140, 0, 99, 0),
    ]);
    assert_eq!(analysis.lane_time.batch_ns, 100);
    assert_eq!(analysis.lane_time.normal_ns, 40);
}

#[test]
fn the_thread_before_the_first_switch_is_known_from_it() {
    let analysis = two_cores(&[
        waking(0, CRITICAL),
        switch(70, 2, BATCH, 0),
        switch(90, 0, OTHER, CRITICAL),
        switch(100, 0, CRITICAL, 0),
    ]);
    assert_eq!(analysis.lane_time.batch_ns, 70);
    assert_eq!(analysis.lane_time.normal_ns, 90);
    assert_eq!(analysis.wake_to_clear.max_ns, 70);
}

#[test]
fn preemptions_of_critical_threads_are_counted() {
    let mut preempted = switch(10, 0, CRITICAL, OTHER);
    if let Kind::Switch { prev_runnable, .. } = &mut preempted.kind {
        *prev_runnable = true;
    }
    let events = [
        switch(0, 0, 0, CRITICAL),
        preempted,
        switch(20, 0, OTHER, CRITICAL),
    ];
    let analysis = two_cores(&events);
    assert_eq!(analysis.critical_preemptions, 1);
    assert_eq!(analysis.wake_to_run.count, 0);
}

#[test]
fn wrong_input_is_refused() {
    let unknown = analyse(&[switch(0, 7, 0, BATCH)], &[vec![0, 1]], &classes());
    assert_eq!(unknown, Err(TraceError::UnknownCpu { index: 0, cpu: 7 }));
    let backwards = analyse(&[waking(5, 1), waking(4, 1)], &[vec![0, 1]], &classes());
    assert_eq!(backwards, Err(TraceError::OutOfOrder { index: 1 }));
    assert_eq!(
        analyse(&[], &[vec![0, 1]], &classes()),
        Ok(Analysis::default())
    );
}

/// A trace of the kernel, `trace` in tracefs.
const AS_THE_KERNEL_WRITES_IT: &str = r#"# tracer: nop
#
# entries-in-buffer/entries-written: 7/7   #P:4
#
#                                _-----=> irqs-off/BH-disabled
#                               / _----=> need-resched
#                              | / _---=> hardirq/softirq
#                              || / _--=> preempt-depth
#                              ||| / _-=> migrate-disable
#                              |||| /     delay
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
          <idle>-0       [002] d..2.     1.000100: sched_switch: prev_comm=swapper/2 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=gzip next_pid=20 next_prio=120
        driver-5         [001] .....     1.000150: tracing_mark_write: begin
        driver-5         [001] d..4.     1.000200: sched_waking: comm=worker 1 pid=10 prio=120 target_cpu=000
          <idle>-0       [000] dNh3.     1.000210: sched_wakeup: comm=worker 1 pid=10 prio=120 target_cpu=000
          <idle>-0       [000] d..2.     1.000220: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=worker 1 next_pid=10 next_prio=120
            gzip-20      [002] d..2.     1.000250: sched_switch: prev_comm=gzip prev_pid=20 prev_prio=120 prev_state=R+ ==> next_comm=swapper/2 next_pid=0 next_prio=120
        worker 1-10      [000] d..2.     1.000900: sched_switch: prev_comm=worker 1 prev_pid=10 prev_prio=120 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120
"#;

#[test]
fn from_text_to_figures() {
    let parsed = parse(AS_THE_KERNEL_WRITES_IT).unwrap();
    assert_eq!((parsed.lost, parsed.skipped), (0, 1));
    let analysis = two_cores(&parsed.events);
    // Batch 1.000100..1.000250 on lane 2, critical 1.000220..1.000900 on lane 0, woken 1.000200.
    assert_eq!(analysis.lane_time.batch_ns, 150_000);
    assert_eq!(analysis.batch_beside_critical_ns, 30_000);
    assert_eq!(analysis.wake_to_clear.p99_ns, 50_000);
    assert_eq!(analysis.wake_to_run.p99_ns, 20_000);
}

/// The same shares, found by looking at every nanosecond.
fn slowly(events: &[Event], cores: &[Vec<u32>], classes: &HashMap<u32, Class>) -> (u64, u64) {
    let (mut batch_ns, mut beside_ns) = (0, 0);
    let end_ns = events.last().map_or(0, |event| event.time_ns);
    let start_ns = events.first().map_or(0, |event| event.time_ns);
    let class_on = |cpu: u32, time_ns: u64| {
        let switches = events.iter().filter(|event| event.cpu == cpu);
        let before = switches.clone().rfind(|event| event.time_ns <= time_ns);
        let pid = match (before, switches.clone().next()) {
            (
                Some(Event {
                    kind: Kind::Switch { next_pid, .. },
                    ..
                }),
                _,
            ) => *next_pid,
            (
                _,
                Some(Event {
                    kind: Kind::Switch { prev_pid, .. },
                    ..
                }),
            ) => *prev_pid,
            _ => 0,
        };
        classes.get(&pid).copied()
    };
    for time_ns in start_ns..end_ns {
        for lanes in cores {
            let batch = lanes
                .iter()
                .filter(|&&c| class_on(c, time_ns) == Some(Class::Batch));
            let batch = batch.count() as u64;
            let critical = lanes
                .iter()
                .any(|&c| class_on(c, time_ns) == Some(Class::Critical));
            batch_ns += batch;
            beside_ns += if critical { batch } else { 0 };
        }
    }
    (batch_ns, beside_ns)
}

fn switches_strategy() -> impl Strategy<Value = Vec<Event>> {
    let pid = prop::sample::select(vec![0, CRITICAL, CRITICAL_2, BATCH, BATCH_2, OTHER]);
    let step = (0u64..20, 0u32..6, pid);
    prop::collection::vec(step, 0..40).prop_map(|steps| {
        let mut time_ns = 1000;
        let mut on = [0; 6];
        let mut events = Vec::new();
        for (gap_ns, cpu, next_pid) in steps {
            time_ns += gap_ns;
            events.push(switch(time_ns, cpu, on[cpu as usize], next_pid));
            on[cpu as usize] = next_pid;
        }
        events
    })
}

proptest! {
    #[test]
    fn one_pass_agrees_with_looking_at_every_nanosecond(events in switches_strategy()) {
        let cores = [vec![0, 3], vec![1, 2, 4, 5]];
        let analysis = analyse(&events, &cores, &classes()).unwrap();
        let (batch_ns, beside_ns) = slowly(&events, &cores, &classes());
        prop_assert_eq!(analysis.lane_time.batch_ns, batch_ns);
        prop_assert_eq!(analysis.batch_beside_critical_ns, beside_ns);
    }

    #[test]
    fn shares_and_sums_hold(events in switches_strategy(), wakes in prop::collection::vec(0u64..800, 0..10)) {
        let mut events = events;
        events.extend(wakes.iter().map(|&ns| waking(1000 + ns, CRITICAL)));
        events.sort_by_key(|event| event.time_ns);
        let analysis = analyse(&events, &[vec![0, 3], vec![1, 2, 4, 5]], &classes()).unwrap();
        let time = analysis.lane_time;
        let sum = time.critical_ns + time.batch_ns + time.normal_ns + time.idle_ns;
        prop_assert_eq!(sum, analysis.span_ns * 6);
        prop_assert!((0.0..=1.0).contains(&analysis.batch_beside_critical));
        prop_assert!(analysis.wake_to_clear_found.count <= analysis.wake_to_clear.count);
        prop_assert!(analysis.wake_to_clear.count <= analysis.wake_to_run.count);
        prop_assert!(analysis.never_clear <= analysis.wake_to_clear_found.count + analysis.wake_to_clear.count);
        prop_assert!(analysis.wake_to_clear.max_ns <= analysis.span_ns);
    }
}
