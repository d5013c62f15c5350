//! Pairing: I/O-bound normal work has a lane of its own on each core.

use super::support::*;

#[test]
#[ignore = "runs in the test bed"]
fn computation_makes_room_for_io_bound_work_and_nobody_starves() {
    let config = "[scheduler]\nretain = true\npair = true\n[scheduler.retention]\nstart_ms = 10\n\
                  [scheduler.pairing]\nperiod_ms = 500\n";
    std::fs::write("/tmp/pair.toml", config).unwrap();
    let scheduler = Scheduler::attach(&["--config", "/tmp/pair.toml"]);
    let io: Vec<_> = (0..nr_cpus() / 2)
        .map(|_| Load::jobs(100, "0.001", &Traits::default()))
        .collect();
    let computing: Vec<_> = (0..nr_cpus())
        .map(|_| Load::spin(&Traits::default()))
        .collect();
    let before: Vec<_> = computing.iter().map(Load::ticks).collect();
    let rates = rates("3");
    println!(
        "room made {} times a second, {} changed places, {} lanes held",
        rates["hand_backs"], rates["swaps"], rates["held_lanes"]
    );
    assert!(rates["retentions"].as_f64().unwrap() > 1.0, "{rates}");
    let seen = tasks("2");
    let rate = |load: &Load| {
        let mut tasks = seen["tasks"].as_array().unwrap().iter();
        let task = tasks.find(|task| task["tid"] == load.pid()).unwrap();
        task["retention"]["rate"].as_f64().unwrap()
    };
    let rates = |loads: &[Load]| loads.iter().map(rate).collect::<Vec<f64>>();
    let (high, low) = (rates(&io), rates(&computing));
    println!("retention rates {high:.2?} and {low:.2?}");
    assert!(high.iter().all(|high| low.iter().all(|low| high > low)));
    for (load, before) in computing.iter().zip(before) {
        assert!(load.ticks() > before, "a task that computes was starved");
    }
    assert!(scheduler.stop().success(), "ejected");
}
