//! Pools: what a cgroup may use of the cores, with SMT and without.

use super::support::*;
use std::fs;
use std::process::Command;
use std::time::Duration;

const SMT: &str = "/sys/devices/system/cpu/smt/control";

/// Counts as fast as it can, anew when it is told to, and writes how far it came when it is asked
/// to end.
struct Counter {
    load: Load,
    path: String,
}

impl Counter {
    fn start(name: &str, traits: &Traits) -> Counter {
        let path = format!("/tmp/count-{name}");
        let _ = fs::remove_file(&path);
        let script = format!(
            "i=0; trap i=0 USR1; trap 'echo $i > {path}.new; mv {path}.new {path}; exit' TERM; \
             while :; do i=$((i+1)); done"
        );
        Counter {
            load: Load::spawn("sh", &["-c", &script], traits),
            path,
        }
    }

    /// How far it came.
    fn count(self) -> f64 {
        eventually("it has counted", || fs::metadata(&self.path).is_ok());
        let count = fs::read_to_string(&self.path).unwrap();
        count.trim().parse().unwrap()
    }
}

/// How far counters come in the same seconds, each.
fn count(counters: Vec<Counter>, seconds: f64) -> Vec<f64> {
    let pids: Vec<String> = (counters.iter().map(|c| c.load.pid().to_string())).collect();
    let all = |name: &str| {
        let status = Command::new("kill").args(["-s", name]).args(&pids).status();
        assert!(status.unwrap().success());
    };
    let sleep = |seconds| std::thread::sleep(Duration::from_secs_f64(seconds));
    sleep(1.0); // until they all have set their traps
    all("USR1");
    sleep(seconds);
    all("TERM");
    counters.into_iter().map(Counter::count).collect()
}

fn in_cgroup(cgroup: &'static str) -> Traits {
    Traits {
        cgroup: Some(cgroup),
        ..Traits::default()
    }
}

fn pinned(cpus: &[usize]) -> Traits {
    Traits {
        cpus: cpus.to_vec(),
        ..Traits::default()
    }
}

/// What counters of `core` come to in units of one that has another core for itself: the host's
/// speed comes and goes, for both alike.
fn by_a_core_of_its_own(core: &[usize], mut counters: Vec<Counter>, seconds: f64) -> Vec<f64> {
    let other = (0..nr_cpus()).find(|cpu| !core.contains(cpu)).unwrap();
    counters.push(Counter::start("other", &pinned(&[other])));
    let mut counts = count(counters, seconds);
    let other = counts.pop().unwrap();
    counts.iter().map(|count| count / other).collect()
}

/// threadPerf of the emulated machine: the lanes of a core share its speed evenly.
fn even_shares() -> Vec<f64> {
    (1..=first_core().len())
        .map(|lanes| 1.0 / lanes as f64)
        .collect()
}

/// Of the pools /a and /b: cores that they used by their own account.
fn accounted(charge: &str) -> [f64; 2] {
    let rates = rates("4");
    let used = |index: usize| {
        let pool = &rates["pools"][index];
        let unit = if charge == "mt1" {
            "mt1_cores"
        } else {
            "lanes"
        };
        pool[unit].as_f64().unwrap()
    };
    [used(0), used(1)]
}

/// How much of a core two tasks on `core` get in each of the pools /a and /b, a third of a core each.
fn two_pools(core: &[usize], charge: &str, speeds: &[f64]) -> [f64; 2] {
    let path = "/tmp/pools.toml";
    let pool = |name: &str| {
        format!("[[pool]]\ncgroup = \"/{name}\"\ncapacity_cores = 0.33\ncharge = \"{charge}\"\n")
    };
    let speeds = format!("[scheduler]\nthread_perf = {speeds:?}\n");
    fs::write(path, pool("a") + &pool("b") + &speeds).unwrap();
    let scheduler = Scheduler::attach(&["--config", path]);
    let start = |name: &'static str| {
        let traits = Traits {
            cpus: core.to_vec(),
            ..in_cgroup(name)
        };
        [0, 1].map(|index| Counter::start(&format!("{name}{index}"), &traits))
    };
    let both: Vec<_> = ["a", "b"].into_iter().flat_map(start).collect();
    let used = accounted(charge);
    let counts = by_a_core_of_its_own(core, both, 10.0);
    assert!(scheduler.stop().success(), "ejected");
    println!("{charge}: {used:.3?} charged, work {counts:.3?}");
    for used in used {
        assert!((0.31..0.35).contains(&used), "charged {used} of 0.33");
    }
    [&counts[..2], &counts[2..]].map(|pool| pool.iter().sum())
}

#[test]
#[ignore = "runs in the test bed"]
fn an_entitlement_buys_the_same_work_with_smt_and_without() {
    let core = first_core(); // as it is with SMT
    let speeds = even_shares();
    let with_smt = ["mt1", "raw"].map(|charge| two_pools(&core, charge, &speeds));
    fs::write(SMT, "off").unwrap();
    let without = two_pools(&core, "raw", &speeds);
    fs::write(SMT, "on").unwrap();
    let sum = |counts: [f64; 2]| counts[0] + counts[1];
    let [mt1, raw] = with_smt.map(|counts| sum(counts) / sum(without));
    println!("with SMT, of the work without: {mt1:.3} by MT1 time, {raw:.3} by lane time");
    // the cores' speeds differ for seconds at a time, by half and more: the host's doing
    assert!((0.4..2.5).contains(&mt1), "{mt1}");
    assert!(raw < 0.85 * mt1, "{raw}, {mt1} by MT1 time");
    for [a, b] in with_smt {
        assert!((0.7..1.4).contains(&(a / b)), "{a} and {b}");
    }
}

/// How long tasks of the cgroups /light and /heavy ran within some seconds, by the kernel's account: as
/// many in each.
fn two_cgroups(tasks: [usize; 2]) -> [f64; 2] {
    let start = |(name, many): (&'static str, usize)| (0..many).map(move |_| Load::spin_in(name));
    let names = ["light", "heavy"];
    let _loads: Vec<Load> = names.into_iter().zip(tasks).flat_map(start).collect();
    std::thread::sleep(Duration::from_secs(2)); // until they all run
    let before = names.map(usage_ns);
    std::thread::sleep(Duration::from_secs(8));
    let used = names.map(usage_ns);
    [0, 1].map(|index| (used[index] - before[index]) as f64 / 1e9)
}

#[test]
#[ignore = "runs in the test bed"]
fn weights_of_cgroups_count_whatever_the_number_of_their_tasks() {
    let root = "/sys/fs/cgroup/cgroup.subtree_control";
    fs::write(root, "+cpu").unwrap();
    for (name, weight) in [("light", "100"), ("heavy", "300")] {
        fs::write(cgroup(name).join("cpu.weight"), weight).unwrap();
    }
    let path = "/tmp/weights.toml";
    fs::write(path, "[scheduler]\ncgroup_weights = true\n").unwrap();
    let scheduler = Scheduler::attach(&["--config", path]);
    let many = 2 * nr_cpus();
    for (weight, range) in [("300", 2.6..3.4), ("100", 0.85..1.15)] {
        fs::write(cgroup("heavy").join("cpu.weight"), weight).unwrap();
        std::thread::sleep(Duration::from_secs(2));
        let [light, heavy] = two_cgroups([2 * many, many]);
        let ratio = heavy / light;
        println!(
            "twice as many tasks of weight 100 beside {weight}: {light:.1} and {heavy:.1} s, {ratio:.2}"
        );
        assert!(range.contains(&ratio), "{ratio}");
    }
    assert!(scheduler.stop().success(), "ejected");
}

#[test]
#[ignore = "runs in the test bed"]
fn a_quota_of_a_cgroup_holds_from_when_it_is_set_until_it_is_lifted() {
    let root = "/sys/fs/cgroup/cgroup.subtree_control";
    fs::write(root, "+cpu").unwrap();
    let path = "/tmp/quotas.toml";
    fs::write(path, "[scheduler]\ncgroup_quotas = true\n").unwrap();
    let scheduler = Scheduler::attach(&["--config", path]);
    let limit = |text: &str| fs::write(cgroup("capped").join("cpu.max"), text).unwrap();
    let loads = [(); 3].map(|()| Load::spin_in("capped"));
    let lanes = || busy_lanes("3")[1];
    for (text, range) in [
        ("max 100000", 2.5..3.2),
        ("50000 100000", 0.4..0.65),
        ("30000 20000", 1.3..1.75),
        ("max 100000", 2.5..3.2),
    ] {
        limit(text);
        std::thread::sleep(Duration::from_secs(2));
        let lanes = lanes();
        println!("cpu.max = {text}: {lanes:.2} lanes");
        assert!(range.contains(&lanes), "{text}: {lanes}");
    }
    limit("20000 100000");
    std::thread::sleep(Duration::from_secs(2));
    let pool = &rates("2")["pools"][0];
    assert_eq!(pool["cgroup"], "/capped", "{pool}");
    assert!(
        (0.15..0.3).contains(&pool["lanes"].as_f64().unwrap()),
        "{pool}"
    );
    assert!(pool["throttled"].as_f64().unwrap() > 0.5, "{pool}");
    drop(loads);
    assert!(scheduler.stop().success(), "ejected");
}

#[test]
#[ignore = "runs in the test bed"]
fn a_pool_is_tuned_and_stays_so_when_lanes_go() {
    let path = "/tmp/tuned.toml";
    let pool = "[[pool]]\ncgroup = \"/tuned\"\ncapacity_cores = 0.3\ncharge = \"raw\"\n";
    fs::write(path, pool).unwrap();
    let mut scheduler = Scheduler::attach(&["--config", path]);
    let critical = Load::critical_jobs(2_000, "0.01");
    let loads = [(); 2].map(|()| Load::spin_in("tuned"));
    let lanes = || rates("3")["pools"][0]["lanes"].as_f64().unwrap();
    let before = lanes();
    assert!((0.2..0.42).contains(&before), "{before}");
    let tuned = sidelane(&["tune", "--pool", "/tuned", "--cores", "1"]);
    let said = String::from_utf8_lossy(&tuned.stdout).into_owned();
    assert!(said.contains("# pool /tuned: capacity_cores 1,"), "{said}");
    let after = lanes();
    assert!((0.8..1.15).contains(&after), "{after}");
    assert!(
        !sidelane(&["tune", "--pool", "/none", "--cores", "1"])
            .status
            .success()
    );
    println!("of 0.3 lanes {before:.2}, of 1 {after:.2}");
    drop((critical, loads)); // to attach again takes long enough
    for smt in ["off", "on"] {
        fs::write(SMT, smt).unwrap();
        scheduler.await_line("attaching again");
        eventually("attached again", attached);
    }
    let said = sidelane(&["tune"]).stdout;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("# pool /tuned: capacity_cores 1,"), "{said}");
    assert!(scheduler.stop().success(), "ejected");
}
