//! Budgets: how much batch gets beside critical work.

use super::support::*;
use serde_json::Value;

tests! {
    a_budget_gives_batch_more_than_none_and_less_than_no_limit_also_while_it_changes,
    a_rule_has_a_budget_of_its_own_and_the_strictest_counts,
    #[untimed]
    the_budget_grows_while_the_objective_is_far_and_survives_hotplug,
    #[untimed]
    without_counters_a_dynamic_budget_is_charged_by_thread_perf_and_says_so,
    counters_are_read_and_say_what_is_lost,
}

/// A critical task that computes for about 200 ms at a time, and pauses for a moment.
pub(super) fn long_jobs() -> Load {
    let now = "read now _ < /proc/uptime; now=${now%.*}${now#*.}";
    let job = format!("end=$((now+20)); while [ $now -lt $end ]; do {now}; done");
    let script = format!("while :; do {now}; {job}; sleep 0.01; done");
    let traits = Traits {
        cgroup: Some("critical"),
        ..Traits::default()
    };
    Load::spawn("sh", &["-c", &script], &traits)
}

/// Starts the scheduler with these settings, and batch on all lanes.
pub(super) fn attach(settings: &str) -> (Scheduler, Vec<Load>) {
    let path = "/tmp/budget.toml";
    std::fs::write(path, format!("[scheduler]\n{settings}\n")).unwrap();
    let mut args = vec!["--config", path];
    args.extend(RULES);
    let scheduler = Scheduler::attach(&args);
    let batch = (0..nr_cpus()).map(|_| Load::spin_in("batch")).collect();
    (scheduler, batch)
}

/// Lanes busy with batch beside a task with long jobs, over so many seconds.
pub(super) fn batch_lanes(what: &str, seconds: &str) -> f64 {
    let [critical, _, batch] = busy_lanes(seconds);
    println!("{what}: {critical:.2} lanes run critical work, {batch:.2} batch");
    assert!(critical > 0.7, "the critical task computes: {critical}");
    batch
}

/// The same after a change of the running scheduler.
fn batch_lanes_tuned(options: &[&str]) -> f64 {
    printed(&[&["tune"], options].concat());
    batch_lanes(&options.join(" "), "1")
}

fn a_budget_gives_batch_more_than_none_and_less_than_no_limit_also_while_it_changes() {
    let fixed = "borrow = \"fixed\"\nbudget_ms = 50\nthread_perf = [1, 0.7]";
    let (scheduler, _batch) = attach(fixed);
    let _critical = long_jobs();
    let fixed = batch_lanes(fixed, "1");
    let off = batch_lanes_tuned(&["--borrow", "off"]);
    let none = batch_lanes_tuned(&["--borrow", "borrow-idle"]);
    let dynamic = batch_lanes_tuned(&["--borrow", "dynamic", "--budget", "30"]);
    // 50 of 200 ms is a quarter of a sibling lane, 30 ms last for half of it; the host is noisy
    for (name, budget) in [("fixed", fixed), ("dynamic", dynamic)] {
        let share = (budget - none) / (off - none);
        assert!(
            (0.05..0.9).contains(&share),
            "{name}: batch got {share:.2} of what is lost by closing cores"
        );
    }
    let endless = ["tune", "--borrow", "fixed", "--budget", "0"];
    assert!(!sidelane(&endless).status.success());
    assert!(scheduler.stop().success(), "ejected");
}

fn a_rule_has_a_budget_of_its_own_and_the_strictest_counts() {
    // no flag for critical work: flags come before the file's rules
    let rule = |name: &str, borrow: &str| {
        format!("[[rule]]\nclass = \"critical\"\nmatch = \"{name}\"\nborrow = \"{borrow}\"\n")
    };
    let rules = [
        rule("cgroup:/critical", "off"),
        rule("cgroup:/strict", "borrow-idle"),
    ];
    std::fs::write("/tmp/budget.toml", rules.concat()).unwrap();
    let args = ["--config", "/tmp/budget.toml", "--batch", "cgroup:/batch"];
    let scheduler = Scheduler::attach(&args);
    let pinned = |cgroup, cpu| {
        let traits = Traits {
            cgroup: Some(cgroup),
            cpus: Vec::from_iter(cpu),
            ..Traits::default()
        };
        Load::spin(&traits)
    };
    let _batch: Vec<_> = (0..nr_cpus()).map(|_| pinned("batch", None)).collect();
    let _lenient = pinned("critical", Some(0));
    let beside = busy_lanes("1")[2];
    println!("beside a rule without a limit {beside:.2} lanes run batch");
    assert!(
        beside > nr_cpus() as f64 - 1.3,
        "all lanes but one: {beside}"
    );
    // a second critical task, in turns on the same lane, closes the core
    let strict = pinned("strict", Some(0));
    let closed = busy_lanes("1")[2];
    println!("beside a strict one too {closed:.2}");
    assert!(closed < beside - 0.5, "{beside}, then {closed}");
    drop(strict);
    assert!(scheduler.stop().success(), "ejected");
}

/// Of a cgroup whose label has an objective.
const LABELLED: &str = "/labelled";

/// Waits for windows after which the budgets, that of the settings and that of a label, are above so much, ms for each.
fn await_budgets(above_ms: impl Fn(f64) -> f64) {
    let _batch: Vec<_> = (0..nr_cpus()).map(|_| Load::spin_in("batch")).collect();
    // jobs of about a millisecond, many a second
    let _critical = ["critical", &LABELLED[1..]].map(|cgroup| {
        let traits = Traits {
            cgroup: Some(cgroup),
            ..Traits::default()
        };
        Load::jobs(500, "0.001", &traits)
    });
    eventually("budgets", || {
        let rates = rates("0.2");
        let objectives = &rates["objectives"];
        println!("{objectives}");
        let grown = |key: &str, of: Value| {
            let objectives = objectives.as_array().unwrap();
            let objective = objectives.iter().find(|it| it[key] == of)?;
            let [budget_ms, windows] = ["budget_ms", "windows"].map(|key| objective[key].as_f64());
            Some(budget_ms? > above_ms(windows?))
        };
        grown("rule", 0.into()) == Some(true) && grown("cgroup", LABELLED.into()) == Some(true)
    });
}

fn settings_in_force() -> String {
    printed(&["tune"])
}

fn the_budget_grows_while_the_objective_is_far_and_survives_hotplug() {
    let by_label = ["--critical", "label:critical"];
    let mut scheduler = Scheduler::attach(&[&RULES[..], &by_label].concat());
    cgroup(&LABELLED[1..]);
    printed(&["mark", LABELLED, "critical", "--objective", "p90 < 2 s"]);
    let objective = ["--borrow", "slo", "--objective", "p90 < 2 s"];
    printed(&[&["tune"], &objective[..]].concat());
    await_budgets(|_| 63.0);
    let tuned = settings_in_force();
    assert!(tuned.contains("p90 < 2"), "{tuned}");
    for state in ["0", "1"] {
        std::fs::write("/sys/devices/system/cpu/cpu1/online", state).unwrap();
        scheduler.await_line("attaching again");
        scheduler.await_line("attached:");
    }
    assert_eq!(settings_in_force(), tuned);
    // from nothing it grows by a 32th of the objective a window, at first
    await_budgets(|windows| 63.0 * windows);
    assert!(scheduler.stop().success(), "ejected");
}

/// What a dynamic budget is charged by.
fn charge() -> serde_json::Value {
    rates("0.2")["dynamic"][0].clone()
}

const DYNAMIC: &str = "borrow = \"dynamic\"\nbudget_ms = 30\nthread_perf = [1, 0.7]";

fn without_counters_a_dynamic_budget_is_charged_by_thread_perf_and_says_so() {
    // the emulated machine has none
    let (mut scheduler, _batch) = attach(DYNAMIC);
    scheduler.await_line("dynamic budgets: charged by thread_perf: CPU 0 has no counters");
    let charge = charge();
    assert_eq!(charge["charged_by"], "thread_perf", "{charge}");
    assert_eq!(charge["counters"], false, "{charge}");
    let tuned = sidelane(&["tune"]);
    let said = String::from_utf8_lossy(&tuned.stdout);
    assert!(
        said.contains("charged by thread_perf, no counters"),
        "{said}"
    );
    assert!(scheduler.stop().success(), "ejected");
}

fn counters_are_read_and_say_what_is_lost() {
    // the kernel's clock stands for instructions and for cycles: one a cycle, and nothing is lost
    let (mut scheduler, _batch) = attach(&format!("{DYNAMIC}\ncounters = \"clock\""));
    scheduler.await_line("dynamic budgets: charged by counters");
    let _critical = long_jobs();
    eventually("enough intervals of both kinds", || {
        let charge = charge();
        println!("{charge}");
        charge["charged_by"] == "counters"
    });
    let charge = charge();
    for ipc in ["ipc_alone", "ipc_beside"] {
        let ipc = charge[ipc].as_f64().unwrap();
        assert!((0.95..1.05).contains(&ipc), "{charge}");
    }
    assert!(charge["loss"].as_f64().unwrap() < 0.05, "{charge}");
    batch_lanes("with nothing lost", "1");
    assert!(scheduler.stop().success(), "ejected");
}
