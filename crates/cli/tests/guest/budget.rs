//! Budgets: how much batch gets beside critical work.

use super::support::*;

const RULES: [&str; 4] = ["--critical", "cgroup:/critical", "--batch", "cgroup:/batch"];

/// A critical task that computes for about 200 ms at a time, and pauses for a moment.
fn long_jobs() -> Load {
    let now = "read now _ < /proc/uptime; now=${now%.*}${now#*.}";
    let script = format!(
        "while :; do {now}; end=$((now+20)); while [ $now -lt $end ]; do {now}; done; sleep 0.01; done"
    );
    let traits = Traits {
        cgroup: Some("critical"),
        ..Traits::default()
    };
    Load::spawn("sh", &["-c", &script], &traits)
}

/// Lanes busy with batch beside such a task, with these settings.
fn batch_lanes(settings: &str) -> f64 {
    let path = "/tmp/budget.toml";
    std::fs::write(path, format!("[scheduler]\n{settings}\n")).unwrap();
    let mut args = vec!["--config", path];
    args.extend(RULES);
    let scheduler = Scheduler::attach(&args);
    let _batch: Vec<_> = (0..nr_cpus()).map(|_| Load::spin_in("batch")).collect();
    let _critical = long_jobs();
    let [critical, _, batch] = busy_lanes("4");
    println!("{settings:?}: {critical:.2} lanes run critical work, {batch:.2} batch");
    assert!(critical > 0.7, "the critical task computes: {critical}");
    assert!(scheduler.stop().success(), "ejected");
    batch
}

#[test]
#[ignore = "runs in the test bed"]
fn a_budget_gives_batch_more_than_none_and_less_than_no_limit() {
    let none = batch_lanes("borrow = \"borrow-idle\"");
    let fixed = batch_lanes("borrow = \"fixed\"\nbudget_ms = 50");
    let dynamic = batch_lanes("borrow = \"dynamic\"\nbudget_ms = 30\nthread_perf = [1, 0.7]");
    let off = batch_lanes("borrow = \"off\"");
    // 50 of 200 ms is a quarter of each sibling lane; 30 ms last for 100, which is half
    let lanes = off - none;
    for (name, budget, least, most) in [("fixed", fixed, 0.1, 0.5), ("dynamic", dynamic, 0.3, 0.8)]
    {
        let share = (budget - none) / lanes;
        assert!(
            (least..most).contains(&share),
            "{name}: batch got {share:.2} of what is lost by closing cores"
        );
    }
}
