//! Random scenarios, each from one number.

use sidelane_sim::swarm;

#[test]
fn seven_hundred_scenarios_violate_nothing() {
    let total = swarm::run_many(0..700, &|_| {});
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
        let (summary, records) = swarm::run_recorded(seed).unwrap();
        let again = swarm::run_recorded(seed).unwrap();
        let elsewhere = std::thread::spawn(move || swarm::run_recorded(seed).unwrap());
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
        if let Err(failure) = swarm::run_recorded(seed) {
            panic!("seed {seed}: {failure}");
        }
    }
}
