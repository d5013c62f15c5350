//! Pools: what a cgroup may use of the cores.

use super::support::*;
use serde_json::Value;
use std::fs;
use std::time::{Duration, Instant};

tests! {
    weights_of_cgroups_count_whatever_the_number_of_their_tasks,
    quotas_of_cgroups_hold_also_more_than_there_is_room_for,
    pools_are_tuned_and_stay_so_when_lanes_go,
}

const SMT: &str = "/sys/devices/system/cpu/smt/control";

/// How long tasks of the cgroups /light and /heavy ran within some seconds, by the kernel's account: as
/// many in each.
fn two_cgroups(tasks: [usize; 2]) -> [f64; 2] {
    let start = |(name, many): (&'static str, usize)| (0..many).map(move |_| Load::spin_in(name));
    let names = ["light", "heavy"];
    let loads: Vec<Load> = names.into_iter().zip(tasks).flat_map(start).collect();
    eventually_all_run(&loads, 8_000_000);
    let before = names.map(usage_ns);
    std::thread::sleep(Duration::from_secs(4));
    let used = names.map(usage_ns);
    [0, 1].map(|index| (used[index] - before[index]) as f64 / 1e9)
}

fn weights_of_cgroups_count_whatever_the_number_of_their_tasks() {
    let root = "/sys/fs/cgroup/cgroup.subtree_control";
    fs::write(root, "+cpu").unwrap();
    for (name, weight) in [("light", "100"), ("heavy", "300")] {
        fs::write(cgroup(name).join("cpu.weight"), weight).unwrap();
    }
    let scheduler = Scheduler::attach(&[]);
    let many = 2 * nr_cpus();
    for (weight, range) in [("300", 2.6..3.4), ("100", 0.85..1.15)] {
        fs::write(cgroup("heavy").join("cpu.weight"), weight).unwrap();
        let [light, heavy] = two_cgroups([2 * many, many]);
        let ratio = heavy / light;
        println!(
            "twice as many tasks of weight 100 beside {weight}: {light:.1} and {heavy:.1} s, {ratio:.2}"
        );
        assert!(range.contains(&ratio), "{ratio}");
    }
    assert!(scheduler.stop().success(), "ejected");
}

/// Under one scheduler, for it takes seconds to attach here.
fn quotas_of_cgroups_hold_also_more_than_there_is_room_for() {
    let root = "/sys/fs/cgroup/cgroup.subtree_control";
    fs::write(root, "+cpu").unwrap();
    let mut scheduler = Scheduler::attach(&[]);
    the_first_limit_of_all_is_seen(&mut scheduler);
    a_quota_of_a_cgroup_holds_from_when_it_is_set_until_it_is_lifted();
    more_quotas_than_there_is_room_for_hold_after_it_is_attached_again(&mut scheduler);
    assert!(scheduler.stop().success(), "ejected");
}

/// What `sidelane stat` says of the pool of a cgroup.
fn pool_of<'a>(rates: &'a Value, cgroup: &str) -> Option<&'a Value> {
    let mut pools = rates["pools"].as_array().unwrap().iter();
    pools.find(|pool| pool["cgroup"] == *cgroup)
}

/// Writes a cgroup's `cpu.max` and waits until the scheduler knows, and a few periods more.
fn set_quota(cgroup: &str, text: &str, lanes: Option<f64>) {
    fs::write(super::support::cgroup(cgroup).join("cpu.max"), text).unwrap();
    let name = format!("/{cgroup}");
    eventually("the limit is known", || {
        let rates = rates("0.1");
        let pool = pool_of(&rates, &name);
        pool.and_then(|pool| pool["capacity_cores"].as_f64()) == lanes
    });
    std::thread::sleep(Duration::from_millis(300));
}

/// Nobody has one, and pools cost nothing until somebody has.
fn the_first_limit_of_all_is_seen(scheduler: &mut Scheduler) {
    assert_eq!(rates("0.1")["pools"].as_array().map(Vec::len), Some(0));
    fs::write(cgroup("capped").join("cpu.max"), "50000 100000").unwrap();
    scheduler.await_line("1 cgroups have a cpu.max, there was room for 0");
    eventually("attached again", attached);
}

fn a_quota_of_a_cgroup_holds_from_when_it_is_set_until_it_is_lifted() {
    let loads = [(); 3].map(|()| Load::spin_in("capped"));
    let lanes = || busy_lanes("2")[1];
    eventually_all_run(&loads, 8_000_000);
    for (text, limit, range) in [
        ("max 100000", None, 2.5..3.2),
        ("50000 100000", Some(0.5), 0.4..0.65),
        ("30000 20000", Some(1.5), 1.3..1.75),
        ("max 100000", None, 2.5..3.2),
    ] {
        set_quota("capped", text, limit);
        let lanes = lanes();
        println!("cpu.max = {text}: {lanes:.2} lanes");
        assert!(range.contains(&lanes), "{text}: {lanes}");
    }
    set_quota("capped", "20000 100000", Some(0.2));
    let pool = &rates("1")["pools"][0];
    assert_eq!(pool["cgroup"], "/capped", "{pool}");
    assert!(
        (0.15..0.3).contains(&pool["lanes"].as_f64().unwrap()),
        "{pool}"
    );
    assert!(pool["throttled"].as_f64().unwrap() > 0.5, "{pool}");
}

/// As Kubernetes names the cgroups of containers, and longer.
const POD: &str = "kubepods.slice/kubepods-burstable.slice/\
    kubepods-burstable-pod0f1e2d3c_4b5a_6978_8796_a5b4c3d2e1f0.slice";
const CONTAINER: &str = "kubepods.slice/kubepods-burstable.slice/\
    kubepods-burstable-pod0f1e2d3c_4b5a_6978_8796_a5b4c3d2e1f0.slice/\
    cri-containerd-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope";

/// The cgroups of pools, one of them deep below.
const POOLS: [&str; 2] = ["tuned", CONTAINER];

/// Lanes busy with work of each pool.
fn lanes_of_pools() -> [f64; 2] {
    let rates = rates("1");
    POOLS.map(|pool| {
        let name = format!("/{pool}");
        let found = pool_of(&rates, &name);
        found.unwrap_or_else(|| panic!("{name}: {rates}"))["lanes"]
            .as_f64()
            .unwrap()
    })
}

fn pools_are_tuned_and_stay_so_when_lanes_go() {
    let path = "/tmp/tuned.toml";
    let pool = |name: &str, lanes: &str| {
        format!("[[pool]]\ncgroup = \"/{name}\"\ncapacity_cores = {lanes}\ncharge = \"raw\"\n")
    };
    // the pod's other containers have a name that begins alike
    let other = format!("{POD}/cri-containerd-0123456789abcdef");
    let text = POOLS.map(|name| pool(name, "0.3")).concat() + &pool(&other, "2");
    fs::write(path, text).unwrap();
    let mut scheduler = Scheduler::attach(&["--config", path]);
    are_tuned();
    let none = ["tune", "--pool", "/none", "--cores", "1"];
    assert!(!sidelane(&none).status.success());
    // without load, for to attach again takes long enough
    for smt in ["off", "on"] {
        fs::write(SMT, smt).unwrap();
        scheduler.await_line("attaching again");
        eventually("attached again", attached);
    }
    let said = sidelane(&["tune"]).stdout;
    let said = String::from_utf8_lossy(&said);
    for pool in POOLS {
        let tuned = format!("# pool /{pool}: capacity_cores 1,");
        assert!(said.contains(&tuned), "{said}");
    }
    assert!(scheduler.stop().success(), "ejected");
}

/// Pools of 0.3 lanes get these, and each a whole one once that is set for it.
fn are_tuned() {
    let _critical = Load::critical_jobs(2_000, "0.01");
    let _loads = POOLS.map(|pool| [(); 2].map(|()| Load::spin_in(pool)));
    for tuned in 0..=POOLS.len() {
        if let Some(last) = POOLS[..tuned].last() {
            let name = format!("/{last}");
            let output = sidelane(&["tune", "--pool", &name, "--cores", "1"]);
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(said.contains(&format!("# pool {name}: capacity_cores 1,")));
        }
        let found = lanes_of_pools();
        println!("{tuned} of them tuned: {found:.2?} lanes");
        let (whole, small) = found.split_at(tuned);
        assert!(whole.iter().all(|lanes| (0.8..1.15).contains(lanes)));
        assert!(small.iter().all(|lanes| (0.2..0.42).contains(lanes)));
    }
}

fn more_quotas_than_there_is_room_for_hold_after_it_is_attached_again(scheduler: &mut Scheduler) {
    fs::write(cgroup("many").join("cgroup.subtree_control"), "+cpu").unwrap();
    // those before it in the order of their paths fill the table
    for number in 0..300 {
        let name = format!("many/{number:03}");
        fs::write(cgroup(&name).join("cpu.max"), "1000000 100000").unwrap();
    }
    scheduler.await_line("attaching again");
    scheduler.await_line("attached:");
    let last = "many/299";
    let loads = [(); 2].map(|()| Load::spin_in(last));
    set_quota(last, "30000 100000", Some(0.3));
    // not all normal work: to read so many files takes the loader a while here
    let (began, before) = (Instant::now(), usage_ns(last));
    std::thread::sleep(Duration::from_secs(2));
    let used_ns = usage_ns(last) - before;
    let lanes = used_ns as f64 / began.elapsed().as_nanos() as f64;
    println!("of 0.3 lanes {lanes:.2}, by the last of 300 limits");
    assert!((0.2..0.42).contains(&lanes), "{lanes}");
    drop(loads);
    for number in 0..300 {
        fs::remove_dir(cgroup(&format!("many/{number:03}"))).unwrap();
    }
}
