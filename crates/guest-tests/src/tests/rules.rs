//! Class rules of every kind, as the running scheduler counts them.

use super::support::*;
use std::fs;
use std::time::Duration;

tests! {
    #[untimed]
    the_first_rule_that_matches_decides,
}

const CONFIG: &str = r#"
[[rule]]
class = "normal"
match = "cgroup:/first"
[[rule]]
class = "critical"
match = "label:critical"
[[rule]]
class = "batch"
match = "label:batch"
[[rule]]
class = "critical"
match = "cgroup:/cri*"
[[rule]]
class = "critical"
match = "unit:web.service"
[[rule]]
class = "critical"
match = "user:nobody"
[[rule]]
class = "critical"
match = "policy:batch"
[[rule]]
class = "critical"
match = "nice:<=-10"
[[rule]]
class = "critical"
match = "exe:/run/busybox-server"
[[rule]]
class = "critical"
match = "comm:busybox-spin*"
"#;

const CRITICAL: usize = 0;
const NORMAL: usize = 1;
const BATCH: usize = 2;

/// The class in which `load` was counted: the one that kept about a lane busy.
fn class_of(load: Load) -> usize {
    let busy = busy_lanes("0.5");
    drop(load);
    let busiest = (0..3).max_by(|&a, &b| busy[a].total_cmp(&busy[b])).unwrap();
    assert!(busy[busiest] > 0.5, "no class ran the load: {busy:?}");
    busiest
}

fn the_first_rule_that_matches_decides() {
    fs::write("/run/rules.toml", CONFIG).unwrap();
    fs::copy("/bin/busybox", "/run/busybox-server").unwrap();
    fs::copy("/bin/busybox", "/run/busybox-spinner").unwrap();
    let scheduler = Scheduler::attach(&["--config", "/run/rules.toml"]);
    let plain = Traits::default();
    let in_group = |name| Traits {
        cgroup: Some(name),
        ..Traits::default()
    };
    let cases = [
        (
            "no rule",
            CLASSES[NORMAL],
            Load::spin as fn(&Traits) -> Load,
            plain.clone(),
        ),
        (
            "cgroup",
            CLASSES[CRITICAL],
            Load::spin,
            in_group("critical"),
        ),
        (
            "below a cgroup",
            CLASSES[CRITICAL],
            Load::spin,
            in_group("critical/deep/below"),
        ),
        (
            "unit",
            CLASSES[CRITICAL],
            Load::spin,
            in_group("system.slice/web.service"),
        ),
        (
            "user",
            CLASSES[CRITICAL],
            Load::spin,
            Traits {
                uid: Some(65534),
                ..plain.clone()
            },
        ),
        (
            "policy",
            CLASSES[CRITICAL],
            Load::spin,
            Traits {
                policy: 3,
                ..plain.clone()
            },
        ),
        (
            "nice",
            CLASSES[CRITICAL],
            Load::spin,
            Traits {
                nice: -15,
                ..plain.clone()
            },
        ),
        ("exe", CLASSES[CRITICAL], spin_as_server, plain.clone()),
        ("comm", CLASSES[CRITICAL], spin_by_name, plain.clone()),
        (
            "idle by itself",
            CLASSES[BATCH],
            Load::spin,
            Traits {
                policy: 5,
                ..plain.clone()
            },
        ),
        (
            "nice by itself",
            CLASSES[NORMAL],
            Load::spin,
            Traits {
                nice: 10,
                ..plain.clone()
            },
        ),
        (
            "first match",
            CLASSES[NORMAL],
            Load::spin,
            Traits {
                nice: -15,
                ..in_group("first")
            },
        ),
    ];
    for (name, expected, spin, traits) in cases {
        assert_eq!(CLASSES[class_of(spin(&traits))], expected, "{name}");
    }
    nice_values_are_weights();
    the_nearest_label_decides();
    assert!(scheduler.stop().success());
}

/// Labels that come and go while the scheduler runs, of cgroups that come and go.
fn the_nearest_label_decides() {
    let mark = |target: &str, word: &str| printed(&["mark", target, word]);
    let one = Load::spin_in("pods/one");
    let is = |expected: usize| {
        let what = format!("the load is {}", CLASSES[expected]);
        eventually(&what, || busy_lanes("0.2")[expected] > 0.5);
    };
    is(NORMAL);
    assert_eq!(mark("/pods", "critical"), "/pods critical\n");
    is(CRITICAL);
    assert_eq!(mark(&one.pid().to_string(), "batch"), "/pods/one batch\n");
    is(BATCH);
    mark("/pods/one", "unheard-of"); // no rule has it
    is(NORMAL);
    mark("/pods/one", "none");
    is(CRITICAL);
    drop(one);
    // as pods come and go, each labelled when it is there
    for n in 0..100 {
        let name = format!("pods/short-{n}");
        let folder = cgroup(&name);
        mark(&format!("/{name}"), "batch");
        fs::remove_dir(folder).unwrap();
    }
    let last = Load::spin_in("pods/last");
    is(CRITICAL);
    drop(last);
    for name in ["pods/last", "pods/one", "pods"] {
        eventually("an empty cgroup goes", || {
            fs::remove_dir(cgroup(name)).is_ok()
        });
    }
    // a label goes with its cgroup
    let load = Load::spin_in("pods");
    is(NORMAL);
    drop(load);
}

/// Of two on one lane, one of nice 0 and one of nice 5: 1024 and 335.
fn nice_values_are_weights() {
    let loads = [0, 5].map(|nice| {
        Load::spin(&Traits {
            nice,
            cpus: vec![1],
            ..Traits::default()
        })
    });
    eventually_all_run(&loads, 20_000_000);
    let before = loads.each_ref().map(Load::ran_ns);
    std::thread::sleep(Duration::from_secs(2));
    let [more, less] = [0, 1].map(|i| loads[i].ran_ns() - before[i]);
    let share = less as f64 / (more + less) as f64;
    assert!((0.20..0.30).contains(&share), "{more} and {less} ns");
}

const CLASSES: [&str; 3] = ["critical", "normal", "batch"];

/// A copy of busybox takes its first argument for the program only if its own name begins so.
fn spin_as_server(traits: &Traits) -> Load {
    Load::spawn("/run/busybox-server", &["yes"], traits)
}

fn spin_by_name(traits: &Traits) -> Load {
    Load::spawn("/run/busybox-spinner", &["yes"], traits)
}
