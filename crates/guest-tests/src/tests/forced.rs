//! What batch borrows, and what critical work forces its siblings to idle.

use super::metrics::{FILE, Recorder, close, stop, sum_within, task};
use super::support::*;
use sidelane_smt::snapshot::Interval;
use std::time::Duration;

tests! {
    a_closed_core_s_lane_idles_or_is_borrowed,
    #[untimed]
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

/// Critical work beside batch on these CPUs, or on any, for two seconds after half a second: until it runs, a task has
/// no class. From when to when, on the monotonic clock.
fn beside(batch: &[Option<usize>]) -> (u64, u64) {
    let _loads: Vec<Load> = batch.iter().map(|cpu| spin("batch", *cpu)).collect();
    std::thread::sleep(Duration::from_millis(500));
    let from_ns = monotonic_ns();
    // of the intervals, those that are within: two seconds at least
    std::thread::sleep(Duration::from_millis(2500));
    (from_ns, monotonic_ns())
}

/// What was recorded of `critical`.
fn tell(critical: &Load, interval: &Interval) {
    let raw_ns = task(interval, critical).usage.raw_ns;
    println!("critical work ran for {raw_ns} ns: {:?}", interval.cores);
    println!("{:?}", interval.notes);
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
    what_waits_already_is_seen_once_it_ran(&critical);
    // one recording of all three, for it takes seconds to start one beside so much load
    let recorder = Recorder::start();
    let any = beside(&[None; 4]);
    let elsewhere = beside(&[Some(2), Some(2), Some(3)]);
    printed(&["tune", "--borrow", "off"]);
    let no_limit = beside(&[None; 4]);
    let woken = batch_is_woken_from_another_core();
    recorder.stop();
    let [any, elsewhere, no_limit, woken] =
        [any, elsewhere, no_limit, woken].map(|(from_ns, to_ns)| {
            let interval = sum_within(from_ns, to_ns);
            tell(&critical, &interval);
            interval
        });
    each_core_has_its_own_time(&woken);
    a_lane_of_a_closed_core_idles(&critical, &any);
    // batch that may not use the lane does not wait for it
    let raw_ns = task(&elsewhere, &critical).usage.raw_ns;
    let (borrowed_ns, forced_ns) = company(&elsewhere);
    assert!(borrowed_ns < raw_ns / 100 && forced_ns < raw_ns / 100);
    without_a_limit_all_is_borrowed_and_nothing_idles(&critical, &no_limit);
    the_scheduler_goes_and_nobody_knows_any_more(scheduler, &critical);
}

/// Batch that is bound to the sibling, woken 500 times a second from a lane of another core. From when to when.
fn batch_is_woken_from_another_core() -> (u64, u64) {
    let wakes = "while :; do echo; sleep 0.002; done | taskset 2 cat";
    let _wakes = Load::spawn("sh", &["-c", wakes], &Traits::on("batch", 3));
    let times = beside(&[]);
    // what the shell has made, too
    std::fs::write(cgroup("batch").join("cgroup.kill"), "1").unwrap();
    times
}

/// The first core is busy all the time, the second hardly.
fn each_core_has_its_own_time(interval: &Interval) {
    let elapsed_ns = interval.elapsed_ns();
    // what contradicts itself is not recorded
    assert!(elapsed_ns > 1_500_000_000, "{:?}", interval.notes);
    for core in &interval.cores {
        let busy_ns: u64 = core.by_density_ns.iter().sum();
        close("elapsed", core.elapsed_ns, elapsed_ns, 0.01);
        assert!(busy_ns <= elapsed_ns + elapsed_ns / 100, "{core:?}");
    }
    let first_ns: u64 = interval.cores[0].by_density_ns.iter().sum();
    close("the first core's time", first_ns, elapsed_ns, 0.02);
}

/// Batch that may only use the sibling waits for it; what waits already when the recorder begins is seen once it ran by
/// the starvation bound, a second.
fn what_waits_already_is_seen_once_it_ran(critical: &Load) {
    let _batch = spin("batch", Some(1));
    std::thread::sleep(Duration::from_millis(500));
    let recorder = Recorder::start();
    std::thread::sleep(Duration::from_secs(2));
    let interval = recorder.stop();
    tell(critical, &interval);
    let raw_ns = task(&interval, critical).usage.raw_ns;
    let (_, forced_ns) = company(&interval);
    assert!(forced_ns > raw_ns * 4 / 10, "{forced_ns} of {raw_ns}");
}

fn a_lane_of_a_closed_core_idles(critical: &Load, interval: &Interval) {
    let raw_ns = task(interval, critical).usage.raw_ns;
    let (borrowed_ns, forced_ns) = company(interval);
    // batch gets the sibling only by the starvation bound; normal work, as the recorder's, takes some
    let alone_ns = interval.cores[0].by_density_ns[0];
    assert!(forced_ns > alone_ns / 100 * 95, "{forced_ns} of {alone_ns}");
    assert!(borrowed_ns < raw_ns / 20, "{borrowed_ns} of {raw_ns}");
    assert!(borrowed_ns + forced_ns <= raw_ns + raw_ns / 100);
    let text = sidelane(&["report", FILE]).stdout;
    let text = String::from_utf8_lossy(&text);
    println!("{text}");
    assert!(text.contains("forced%") && text.contains("borr. ms"));
}

fn without_a_limit_all_is_borrowed_and_nothing_idles(critical: &Load, interval: &Interval) {
    let raw_ns = task(interval, critical).usage.raw_ns;
    let (borrowed_ns, forced_ns) = company(interval);
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
    let report = || {
        let text = sidelane(&["report", FILE]).stdout;
        String::from_utf8_lossy(&text).replace("\n  ", " ")
    };
    eventually("it is recorded", || {
        report().contains("the scheduler has ended")
    });
    let interval = recorder.stop();
    let usage = &task(&interval, critical).usage;
    assert_eq!((usage.borrowed_ns, usage.forced_idle_ns), (None, None));
    let text = report();
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
