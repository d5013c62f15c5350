//! Tasks that serve stages of several workloads.
#![allow(clippy::unwrap_used, missing_docs)]

use sidelane_sim::{Outcome, Scenario, run};

/// Two streams of 0.25 requests a ms, each with a demand of 1 ms on the mean, and one task for both.
const SHARED: &str = r#"
[machine]
cores = 2
lanes = 1
costs = "none"
[run]
replications = 4
seconds = 20
[[workload]]
name = "crew"
class = "normal"
serve = { tasks = 1 }
[[workload]]
name = "a"
class = "normal"
open = { rate_per_s = 250 }
stages = [{ by = "crew", demand_ms = { exponential = 1 } }]
[[workload]]
name = "b"
class = "normal"
open = { rate_per_s = 250 }
stages = [{ by = "crew", demand_ms = { exponential = 1 } }, { delay_ms = 3 }]
[[configuration]]
scheduler = "sidelane"
[[configuration]]
scheduler = "fifo"
"#;

fn mean(outcome: &Outcome, workload: &str, metric: &str) -> f64 {
    let values = outcome.values(Some(workload), metric).unwrap();
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn requests_of_several_workloads_wait_in_one_queue() {
    let scenario = Scenario::parse(SHARED, "shared.toml").unwrap();
    for outcome in run(&scenario, &|| ()).unwrap() {
        // M/M/1 at half load: 2 ms, and what the second waits besides
        for (workload, expected_ms) in [("a", 2.0), ("b", 5.0)] {
            let mean_ms = mean(&outcome, workload, "mean_ms");
            assert!(
                (mean_ms - expected_ms).abs() < 0.15,
                "{workload}: {mean_ms} ms"
            );
            assert_eq!(
                mean(&outcome, workload, "lane_rate"),
                0.0,
                "it has no tasks"
            );
        }
        let busy = mean(&outcome, "crew", "lane_rate");
        assert!((busy - 0.5).abs() < 0.02, "{busy}");
    }
}

#[test]
fn a_request_whose_time_is_up_leaves_the_task_to_others() {
    let text = SHARED.replace("name = \"a\"", "name = \"a\"\ndeadline_ms = 1");
    let scenario = Scenario::parse(&text, "shared.toml").unwrap();
    for outcome in run(&scenario, &|| ()).unwrap() {
        let [missed, a_ms, b_ms] = [
            mean(&outcome, "a", "deadline_misses"),
            mean(&outcome, "a", "mean_ms"),
            mean(&outcome, "b", "mean_ms"),
        ];
        assert!(
            (0.3..0.9).contains(&missed) && a_ms <= 1.0,
            "{missed}, {a_ms} ms"
        );
        assert!((4.0..4.8).contains(&b_ms), "{b_ms} ms");
    }
}
