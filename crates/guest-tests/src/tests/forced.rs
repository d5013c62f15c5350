//! What batch borrows, and what critical work forces its siblings to idle.

use super::metrics::{FILE, Recorder, close, stop, task};
use super::support::*;
use sidelane_smt::snapshot::Interval;
use std::time::Duration;

tests! {
    a_closed_core_s_lane_idles_or_is_borrowed,
    without_the_scheduler_it_is_unknown,
}

/// Where a spinner runs.
fn spin(cgroup: &'static str, cpu: Option<usize>) -> Load {
    Load::spin(&Traits {
        cgroup: Some(cgroup),
        cpus: Vec::from_iter(cpu),
        ..Traits::default()
    })
}

/// What was recorded of `critical` beside batch on these CPUs, or on any: of both for the same two seconds.
fn record(critical: &Load, batch: &[Option<usize>]) -> Interval {
    let mut loads: Vec<Load> = batch.iter().map(|cpu| spin("batch", *cpu)).collect();
    // until it runs, a task has no class
    std::thread::sleep(Duration::from_millis(500));
    let recorder = Recorder::start();
    std::thread::sleep(Duration::from_secs(2));
    let interval = recorder.stop();
    loads.clear();
    let raw_ns = task(&interval, critical).usage.raw_ns;
    println!("critical work ran for {raw_ns} ns: {:?}", interval.cores);
    println!("{:?}", interval.notes);
    interval
}

/// Borrowed and forced-idle time of all cgroups, checked against cores and tasks.
fn company(interval: &Interval) -> (u64, u64) {
    let groups = interval.cgroups.iter().map(|group| &group.usage);
    let borrowed_ns = groups.clone().map(|u| u.borrowed_ns.unwrap()).sum();
    let forced_ns: u64 = groups.map(|usage| usage.forced_idle_ns.unwrap()).sum();
    let tasks = interval.tasks.iter().map(|task| &task.usage);
    let of_tasks: u64 = tasks.clone().map(|u| u.borrowed_ns.unwrap()).sum();
    // the load runs on while it is read: a cgroup may have it an interval later
    close("borrowed by tasks", of_tasks, borrowed_ns, 0.03);
    let of_tasks: u64 = tasks.map(|usage| usage.forced_idle_ns.unwrap()).sum();
    close("forced by tasks", of_tasks, forced_ns, 0.03);
    let cores = interval.cores.iter();
    let of_cores: u64 = cores.map(|core| core.forced_idle_ns.unwrap()).sum();
    close("forced of cores", of_cores, forced_ns, 0.03);
    println!("borrowed {borrowed_ns} ns, forced idle {forced_ns} ns");
    (borrowed_ns, forced_ns)
}

fn a_closed_core_s_lane_idles_or_is_borrowed() {
    let scheduler = Scheduler::attach(&RULES);
    let critical = spin("critical", Some(0));
    let interval = record(&critical, &[None; 4]);
    let raw_ns = task(&interval, &critical).usage.raw_ns;
    let (borrowed_ns, forced_ns) = company(&interval);
    // batch gets the sibling only by the starvation bound; normal work, as the recorder's, takes some
    let alone_ns = interval.cores[0].by_density_ns[0];
    assert!(forced_ns > alone_ns / 100 * 95, "{forced_ns} of {alone_ns}");
    assert!(borrowed_ns < raw_ns / 20, "{borrowed_ns} of {raw_ns}");
    assert!(borrowed_ns + forced_ns <= raw_ns + raw_ns / 100);
    let text = sidelane(&["report", FILE]).stdout;
    let text = String::from_utf8_lossy(&text);
    println!("{text}");
    assert!(text.contains("forced%") && text.contains("borr. ms"));

    // batch that may not use the lane does not wait for it
    let interval = record(&critical, &[Some(2), Some(2), Some(3)]);
    let raw_ns = task(&interval, &critical).usage.raw_ns;
    let (borrowed_ns, forced_ns) = company(&interval);
    assert!(borrowed_ns < raw_ns / 100 && forced_ns < raw_ns / 100);
    // batch that may only use that lane does; it is seen once it ran by the starvation bound, a second
    let interval = record(&critical, &[Some(1)]);
    let raw_ns = task(&interval, &critical).usage.raw_ns;
    let (_, forced_ns) = company(&interval);
    assert!(forced_ns > raw_ns * 4 / 10, "{forced_ns} of {raw_ns}");
    without_a_limit_all_is_borrowed_and_nothing_idles(&critical);
    the_scheduler_goes_and_nobody_knows_any_more(scheduler, &critical);
}

fn without_a_limit_all_is_borrowed_and_nothing_idles(critical: &Load) {
    assert!(sidelane(&["tune", "--borrow", "off"]).status.success());
    let interval = record(critical, &[None; 4]);
    let raw_ns = task(&interval, critical).usage.raw_ns;
    let (borrowed_ns, forced_ns) = company(&interval);
    // the recorder, too, runs on the sibling
    let both_ns = interval.cores[0].by_density_ns[1];
    assert!(borrowed_ns > raw_ns / 2, "{borrowed_ns} of {raw_ns}");
    assert!(
        borrowed_ns < both_ns + both_ns / 100,
        "{borrowed_ns} of {both_ns}"
    );
    assert!(forced_ns < raw_ns / 100, "{forced_ns} of {raw_ns}");
}

fn the_scheduler_goes_and_nobody_knows_any_more(scheduler: Scheduler, critical: &Load) {
    let recorder = Recorder::start();
    assert!(scheduler.stop().success());
    std::thread::sleep(Duration::from_millis(1500));
    let interval = recorder.stop();
    let usage = &task(&interval, critical).usage;
    assert_eq!((usage.borrowed_ns, usage.forced_idle_ns), (None, None));
    let text = sidelane(&["report", FILE]).stdout;
    let text = String::from_utf8_lossy(&text);
    let text = text.replace("\n  ", " ");
    assert!(
        text.contains("the scheduler has ended") && !text.contains("forced%"),
        "{text}"
    );
}

fn without_the_scheduler_it_is_unknown() {
    let load = spin("spin", Some(0));
    let recorder = Recorder::start();
    std::thread::sleep(Duration::from_millis(500));
    stop(std::slice::from_ref(&load));
    let told = load.schedstat();
    let interval = recorder.stop();
    let usage = &task(&interval, &load).usage;
    assert!(usage.raw_ns > 0 && told.0 > 0);
    assert_eq!((usage.borrowed_ns, usage.forced_idle_ns), (None, None));
    assert_eq!(interval.cores[0].forced_idle_ns, None);
    let text = sidelane(&["report", FILE]).stdout;
    assert!(!String::from_utf8_lossy(&text).contains("forced%"));
}
