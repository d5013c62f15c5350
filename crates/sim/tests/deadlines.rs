//! Deadlines that programs mark: what waits is ordered by them.

use super::{estimate, summarized};

const SCENARIO: &str = include_str!("../../../examples/scenarios/deadlines.toml");

/// Mean quality of the quick requests and of the slow ones, under the default scheduler, by age and by deadline.
fn qualities(load: f64, replications: u32, seconds: u32) -> [[f64; 2]; 3] {
    let text = SCENARIO
        .replace("load = 0.5", &format!("load = {}", load / 2.0))
        .replace(
            "replications = 4",
            &format!("replications = {replications}"),
        )
        .replace("seconds = 30", &format!("seconds = {seconds}"));
    let summary = summarized(&text);
    [0, 1, 2].map(|configuration| {
        let of = &summary.configurations[configuration].workloads;
        [0, 1].map(|workload| estimate(&of[workload].metrics, "quality").mean)
    })
}

/// Of all requests: there are four quick ones for a slow one.
fn of_all([quick, slow]: [f64; 2]) -> f64 {
    (4.0 * quick + slow) / 5.0
}

#[test]
fn what_is_due_sooner_goes_first() {
    let [_, by_age, by_deadline] = qualities(1.0, 2, 10);
    assert!(
        by_deadline[0] > by_age[0] + 0.02,
        "{by_age:?} {by_deadline:?}"
    );
    assert!(of_all(by_deadline) > of_all(by_age) + 0.015);
}

/// `docs/scheduler.md` has this table.
#[test]
#[ignore = "half a minute: --ignored deadlines::by_load --nocapture"]
fn by_load() {
    for load in [0.8, 0.9, 1.0, 1.1, 1.2] {
        let of = qualities(load, 4, 30);
        let cells = of.map(|each| format!("{:.3} ({:.3}, {:.3})", of_all(each), each[0], each[1]));
        println!("| {load} | {} |", cells.join(" | "));
    }
}
