//! Pools: what a cgroup may use of the cores.

use super::support::*;
use std::fs;
use std::time::{Duration, Instant};

const SMT: &str = "/sys/devices/system/cpu/smt/control";

/// How long tasks of the cgroups /light and /heavy ran within some seconds, by the kernel's account: as
/// many in each.
fn two_cgroups(tasks: [usize; 2]) -> [f64; 2] {
    let start = |(name, many): (&'static str, usize)| (0..many).map(move |_| Load::spin_in(name));
    let names = ["light", "heavy"];
    let _loads: Vec<Load> = names.into_iter().zip(tasks).flat_map(start).collect();
    std::thread::sleep(Duration::from_secs(1)); // until they all run
    let before = names.map(usage_ns);
    std::thread::sleep(Duration::from_secs(3));
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
    let lanes = || busy_lanes("2")[1];
    for (text, range) in [
        ("max 100000", 2.5..3.2),
        ("50000 100000", 0.4..0.65),
        ("30000 20000", 1.3..1.75),
        ("max 100000", 2.5..3.2),
    ] {
        limit(text);
        std::thread::sleep(Duration::from_secs(1));
        let lanes = lanes();
        println!("cpu.max = {text}: {lanes:.2} lanes");
        assert!(range.contains(&lanes), "{text}: {lanes}");
    }
    limit("20000 100000");
    std::thread::sleep(Duration::from_secs(1));
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
    let lanes = || rates("2")["pools"][0]["lanes"].as_f64().unwrap();
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

/// As Kubernetes names the cgroups of containers, and longer.
const POD: &str = "kubepods.slice/kubepods-burstable.slice/\
    kubepods-burstable-pod0f1e2d3c_4b5a_6978_8796_a5b4c3d2e1f0.slice";
const CONTAINER: &str = "kubepods.slice/kubepods-burstable.slice/\
    kubepods-burstable-pod0f1e2d3c_4b5a_6978_8796_a5b4c3d2e1f0.slice/\
    cri-containerd-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope";

#[test]
#[ignore = "runs in the test bed"]
fn a_container_deep_below_is_a_pool_and_has_its_whole_name() {
    let path = "/tmp/container.toml";
    let pool = |name: &str, lanes: &str| {
        format!("[[pool]]\ncgroup = \"/{name}\"\ncapacity_cores = {lanes}\ncharge = \"raw\"\n")
    };
    // the pod's other containers have a name that begins alike
    let other = format!("{POD}/cri-containerd-0123456789abcdef");
    fs::write(path, pool(CONTAINER, "0.3") + &pool(&other, "2")).unwrap();
    let scheduler = Scheduler::attach(&["--config", path]);
    let _loads = [(); 2].map(|()| Load::spin_in(CONTAINER));
    let lanes = || {
        let pool = rates("2")["pools"][0].clone();
        assert_eq!(pool["cgroup"], format!("/{CONTAINER}"), "{pool}");
        pool["lanes"].as_f64().unwrap()
    };
    let before = lanes();
    assert!((0.2..0.42).contains(&before), "{before}");
    let cgroup = format!("/{CONTAINER}");
    let tuned = sidelane(&["tune", "--pool", &cgroup, "--cores", "1"]);
    let said = String::from_utf8_lossy(&tuned.stdout).into_owned();
    assert!(
        said.contains(&format!("# pool {cgroup}: capacity_cores 1,")),
        "{said}"
    );
    let after = lanes();
    assert!((0.8..1.15).contains(&after), "{after}");
    println!("of 0.3 lanes {before:.2}, of 1 {after:.2}");
    assert!(scheduler.stop().success(), "ejected");
}

#[test]
#[ignore = "runs in the test bed"]
fn more_quotas_than_there_is_room_for_hold_after_it_is_attached_again() {
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu").unwrap();
    let path = "/tmp/many-quotas.toml";
    fs::write(path, "[scheduler]\ncgroup_quotas = true\n").unwrap();
    fs::write(cgroup("many").join("cgroup.subtree_control"), "+cpu").unwrap();
    let mut scheduler = Scheduler::attach(&["--config", path]);
    // those before it in the order of their paths fill the table
    for number in 0..300 {
        let name = format!("many/{number:03}");
        fs::write(cgroup(&name).join("cpu.max"), "1000000 100000").unwrap();
    }
    scheduler.await_line("attaching again");
    scheduler.await_line("attached:");
    let last = "many/299";
    fs::write(cgroup(last).join("cpu.max"), "30000 100000").unwrap();
    let loads = [(); 2].map(|()| Load::spin_in(last));
    std::thread::sleep(Duration::from_secs(3));
    // not all normal work: to read so many files takes the loader a while here
    let (began, before) = (Instant::now(), usage_ns(last));
    std::thread::sleep(Duration::from_secs(4));
    let used_ns = usage_ns(last) - before;
    let lanes = used_ns as f64 / began.elapsed().as_nanos() as f64;
    println!("of 0.3 lanes {lanes:.2}, by the last of 300 limits");
    assert!((0.2..0.42).contains(&lanes), "{lanes}");
    drop(loads);
    for number in 0..300 {
        fs::remove_dir(cgroup(&format!("many/{number:03}"))).unwrap();
    }
    assert!(scheduler.stop().success(), "ejected");
}
