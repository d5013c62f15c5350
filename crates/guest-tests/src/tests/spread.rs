//! Spreading: normal work moves to a core that falls idle.

use super::support::*;

tests! {
    who_shares_a_core_moves_to_an_idle_one,
}

fn who_shares_a_core_moves_to_an_idle_one() {
    let scheduler = Scheduler::attach(&[]);
    let first = first_core();
    let bound = Traits {
        cpus: first.clone(),
        ..Traits::default()
    };
    let loads = [(); 2].map(|()| Load::spin(&bound));
    let elsewhere = || {
        loads
            .iter()
            .filter(|load| !first.contains(&load.cpu()))
            .count()
    };
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert_eq!(elsewhere(), 0, "they may use the first core only");
    for load in &loads {
        load.allow(&(0..nr_cpus()).collect::<Vec<_>>());
    }
    eventually("one of them has moved", || elsewhere() == 1);
    assert!(scheduler.stop().success(), "ejected");
}
