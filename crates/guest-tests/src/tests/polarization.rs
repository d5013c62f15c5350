//! Vertical polarization: cores without work are left alone.

use super::support::*;
use std::fs;
use std::time::Duration;

tests! {
    cores_without_work_are_left_idle_until_there_is_more,
}

/// Share of some seconds in which the lanes of other cores than the first idled.
fn others_idled() -> f64 {
    const SECONDS: u64 = 2;
    let first = first_core();
    let before = idle_ticks();
    std::thread::sleep(Duration::from_secs(SECONDS));
    let after = idle_ticks();
    let others: Vec<usize> = (0..nr_cpus()).filter(|cpu| !first.contains(cpu)).collect();
    let idled: u64 = others.iter().map(|&cpu| after[cpu] - before[cpu]).sum();
    // 100 ticks a second
    idled as f64 / (others.len() as u64 * SECONDS * 100) as f64
}

fn cores_awake() -> u64 {
    rates("0.5")["cores_awake"].as_u64().unwrap()
}

fn cores_without_work_are_left_idle_until_there_is_more() {
    let path = "/tmp/polarization.toml";
    fs::write(path, "[scheduler]\npolarization = \"vertical\"\n").unwrap();
    let scheduler = Scheduler::attach(&["--config", path]);
    let cores = nr_cpus() / first_core().len();
    let _one = Load::spin(&Traits::default());
    eventually("one core is awake", || cores_awake() == 1);
    let idled = others_idled();
    println!("the lanes of parked cores idled {idled:.2} of the time");
    assert!(idled > 0.85, "{idled}");
    let more: Vec<_> = (0..nr_cpus())
        .map(|_| Load::spin(&Traits::default()))
        .collect();
    eventually("all cores are awake", || cores_awake() == cores as u64);
    let idled = others_idled();
    println!("with work for all lanes {idled:.2}");
    assert!(idled < 0.2, "{idled}");
    drop(more);
    eventually("one core is awake again", || cores_awake() == 1);
    let tuned = sidelane(&["tune", "--polarization", "horizontal"]);
    assert!(tuned.status.success());
    eventually("none is parked", || {
        rates("0.5")["cores_awake"].is_null()
            && String::from_utf8_lossy(&sidelane(&["tune"]).stdout).contains("horizontal")
    });
    assert!(scheduler.stop().success(), "ejected");
}
