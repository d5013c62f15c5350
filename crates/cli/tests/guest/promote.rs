//! Fast old: critical work moves to a core that falls free.

use super::support::*;
use std::time::Duration;

const RULES: [&str; 2] = ["--critical", "cgroup:/critical"];

/// The core of the lane on which a task ran last; two lanes a core, numbered core after core.
fn core_of(load: &Load) -> usize {
    load.cpu() / 2
}

#[test]
#[ignore = "runs in the test bed"]
fn one_of_two_gets_the_core_that_falls_free() {
    let scheduler = Scheduler::attach(&RULES);
    let mut spinners: Vec<Load> = (0..3).map(|_| Load::spin_in("critical")).collect();
    // All of them run, on three lanes of two cores: one has a core of its own.
    let before: Vec<_> = spinners.iter().map(Load::ticks).collect();
    eventually("all progress", || {
        spinners
            .iter()
            .zip(&before)
            .all(|(load, before)| load.ticks() > before + 5)
    });
    let watched = std::thread::spawn(|| rates("8"));
    std::thread::sleep(Duration::from_secs(4)); // until it has begun to watch
    // only now: they change places now and then
    let cores: Vec<_> = spinners.iter().map(core_of).collect();
    let alone = (0..3).find(|&i| cores.iter().filter(|core| **core == cores[i]).count() == 1);
    let alone = alone.expect("two cores for three");
    let free = cores[alone];
    drop(spinners.remove(alone));
    eventually("the two have a core each", || {
        core_of(&spinners[0]) != core_of(&spinners[1])
    });
    // Which of them is older is not certain here: a job begins when its task wakes, and a process
    // may sleep for a moment after its start. The simulator's tests know.
    assert!(spinners.iter().any(|load| core_of(load) == free));
    let rates = watched.join().unwrap();
    assert!(rates["promotions"].as_f64().unwrap() > 0.0, "{rates}");
    assert!(scheduler.stop().success(), "ejected");
}
