//! Attach, detach, crash, hotplug.

use super::support::*;
use std::fs;

tests! {
    attaches_refuses_a_second_scheduler_and_detaches,
    core_scheduling_keeps_it_from_starting,
    attaches_with_all_mechanisms_at_once,
    short_processes_loaders_and_lanes_come_and_go,
    a_malformed_configuration_changes_nothing,
    a_hangup_has_the_configuration_read_again,
}

/// Critical and batch work on every lane.
fn load_every_lane() -> Vec<Load> {
    let spinners = |_| [Load::spin_in("critical"), Load::spin_in("batch")];
    (0..nr_cpus().div_ceil(2)).flat_map(spinners).collect()
}

/// Every process of the load gets on, be it by the starvation bound.
fn progresses(load: &[Load]) {
    eventually_all_run(load, 2_000_000);
}

fn attaches_refuses_a_second_scheduler_and_detaches() {
    let scheduler = Scheduler::attach(&RULES);
    assert_eq!(state(), "enabled");
    let output = sidelane(&["run"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("sidelane_") && said.contains("stop it first"),
        "{said}"
    );
    assert!(attached());
    assert!(scheduler.stop().success());
    assert_eq!(state(), "disabled");
    assert_eq!(
        fs::read_dir("/sys/fs/bpf").unwrap().count(),
        0,
        "something stayed pinned"
    );
    let stat = sidelane(&["stat", "0.1", "1"]);
    assert!(!stat.status.success());
    assert!(
        String::from_utf8_lossy(&stat.stderr).contains("sidelane run"),
        "{stat:?}"
    );
}

/// Gives a task a core-scheduling cookie of its own.
fn give_cookie(pid: u32) -> std::io::Result<()> {
    const PIDTYPE_PID: libc::c_ulong = 0;
    // SAFETY: this form of prctl takes numbers only
    let done = unsafe {
        libc::prctl(
            libc::PR_SCHED_CORE,
            libc::PR_SCHED_CORE_CREATE as libc::c_ulong,
            libc::c_ulong::from(pid),
            PIDTYPE_PID,
            0 as libc::c_ulong,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn core_scheduling_keeps_it_from_starting() {
    let load = Load::spin_in("batch");
    if let Err(error) = give_cookie(load.pid()) {
        // kernels for virtual machines are often built without it
        assert!([Some(libc::EINVAL), Some(libc::ENODEV)].contains(&error.raw_os_error()));
        println!("no core scheduling in this kernel: {error}");
        return;
    }
    let output = sidelane(&["run"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    let holder = format!("({})", load.pid());
    assert!(
        said.contains("core scheduling is in use by") && said.contains(&holder),
        "{said}"
    );
    assert_eq!(state(), "disabled");
    let doctor = sidelane(&["doctor"]);
    let told = String::from_utf8_lossy(&doctor.stdout);
    assert!(told.contains("FAIL      core scheduling"), "{told}");
    drop(load);
    assert!(Scheduler::attach(&RULES).stop().success());
}

/// All mechanisms at once: what a verifier refuses of any of them shows here.
const EVERYTHING: &str = r#"
[[rule]]
class = "critical"
match = "cgroup:/critical"
borrow = "dynamic"
budget_ms = 20
[[rule]]
class = "batch"
match = "cgroup:/batch"
[[pool]]
cgroup = "/pool"
capacity_cores = 0.5
[scheduler]
borrow = "slo"
objective = "p99 < 100 ms"
thread_perf = [1, 0.6]
counters = "clock"
retain = true
pair = true
retention.exclusive = true
symbiotic = true
polarization = "vertical"
cgroup_weights = true
cgroup_quotas = true
keep_slice = true
steal_patience_ms = 1
trace = true
"#;

fn attaches_with_all_mechanisms_at_once() {
    let (file, _pool) = ("/run/everything.toml", cgroup("pool"));
    fs::write(file, EVERYTHING).unwrap();
    let scheduler = Scheduler::attach(&["--config", file]);
    let mut load = load_every_lane();
    load.push(Load::spin_in("pool"));
    load.push(Load::jobs(100, "0.001", &Traits::default()));
    progresses(&load);
    assert!(scheduler.stop().success(), "ejected");
}

/// Attached twice in all, for it takes seconds here.
fn short_processes_loaders_and_lanes_come_and_go() {
    let flags = [&RULES[..], &soon_due()].concat();
    let scheduler = Scheduler::attach(&flags);
    two_hundred_short_processes_come_and_go();
    a_killed_loader_leaves_the_default_scheduler(scheduler);
    lanes_go_offline_and_smt_goes_off_under_load(Scheduler::attach(&flags));
}

fn a_killed_loader_leaves_the_default_scheduler(scheduler: Scheduler) {
    let load = load_every_lane();
    progresses(&load);
    signal(scheduler.pid(), "KILL");
    eventually("the kernel's default takes over", || state() == "disabled");
    progresses(&load);
    assert_eq!(
        fs::read_dir("/sys/fs/bpf").unwrap().count(),
        0,
        "something stayed pinned"
    );
}

fn lanes_go_offline_and_smt_goes_off_under_load(mut scheduler: Scheduler) {
    let load = load_every_lane();
    let all = online();
    for cpu in 1..nr_cpus() {
        fs::write(format!("/sys/devices/system/cpu/cpu{cpu}/online"), "0").unwrap();
    }
    assert_eq!(online(), "0");
    scheduler.await_line("attaching again");
    eventually("attached on lane 0", attached);
    progresses(&load);
    for cpu in 1..nr_cpus() {
        fs::write(format!("/sys/devices/system/cpu/cpu{cpu}/online"), "1").unwrap();
    }
    assert_eq!(online(), all);
    scheduler.await_line("attaching again");
    scheduler.await_line(&format!("{} lanes", nr_cpus()));
    progresses(&load);
    smt_goes_off_and_on(&mut scheduler, &load);
    assert!(scheduler.stop().success());
}

fn smt_goes_off_and_on(scheduler: &mut Scheduler, load: &[Load]) {
    let lanes = nr_cpus();
    fs::write("/sys/devices/system/cpu/smt/control", "off").unwrap();
    scheduler.await_line("attaching again");
    scheduler.await_line("2 cores, 2 lanes");
    progresses(load);
    fs::write("/sys/devices/system/cpu/smt/control", "on").unwrap();
    scheduler.await_line("attaching again");
    scheduler.await_line(&format!("2 cores, {lanes} lanes"));
    progresses(load);
}

fn two_hundred_short_processes_come_and_go() {
    // One critical task leaves other cores to batch; one on each core would leave it the starvation bound.
    let batch = (1..nr_cpus()).map(|_| Load::spin_in("batch"));
    let _load: Vec<Load> = batch.chain([Load::spin_in("critical")]).collect();
    for batch in 0..20 {
        let group = if batch % 2 == 0 { "batch" } else { "critical" };
        let traits = Traits {
            cgroup: Some(group),
            ..Traits::default()
        };
        let ten: Vec<_> = (0..10).map(|_| Load::spawn("true", &[], &traits)).collect();
        for load in ten {
            assert!(load.wait().success());
        }
    }
    assert!(attached());
}

fn a_malformed_configuration_changes_nothing() {
    fs::write(
        "/run/bad.toml",
        "[[rule]]\nclass = \"critical\"\nmatch = \"unit:nginx\"\n",
    )
    .unwrap();
    let output = sidelane(&["run", "--config", "/run/bad.toml"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(
        said.contains("/run/bad.toml:3:9: ") && said.contains("unit:nginx.service"),
        "{said}"
    );
    assert_eq!(state(), "disabled");
}

fn a_hangup_has_the_configuration_read_again() {
    let file = "/run/reread.toml";
    fs::write(file, "[scheduler]\nslice_ms = 5\n").unwrap();
    let mut scheduler = Scheduler::attach(&["--config", file]);
    // not on every lane: it takes twice as long to attach again beside that
    let load = ["critical", "batch"].map(Load::spin_in);
    assert!(sidelane(&["tune", "--trace", "on"]).status.success());
    let hang_up = |scheduler: &mut Scheduler, text: &str, said: &str| {
        fs::write(file, text).unwrap();
        signal(scheduler.pid(), "HUP");
        scheduler.await_line(said);
    };
    hang_up(&mut scheduler, "[scheduler]\nslice_ms = 5.0\n", "as before");
    let wrong = "[scheduler]\nslice_ms = -1\n";
    hang_up(&mut scheduler, wrong, "slice_ms");
    let nobody = "[[rule]]\nclass = \"batch\"\nmatch = \"user:nobody-of-that-name\"\n";
    hang_up(&mut scheduler, nobody, "nobody-of-that-name");
    assert!(attached(), "it was detached for a mistake");

    let other =
        "[[rule]]\nclass = \"batch\"\nmatch = \"cgroup:/batch\"\n[scheduler]\nretain = true\n";
    hang_up(&mut scheduler, other, "attaching again");
    scheduler.await_line("1 class rules");
    progresses(&load);
    let tuned = sidelane(&["tune", "--format", "json"]).stdout;
    let tuned: serde_json::Value = serde_json::from_slice(&tuned).unwrap();
    assert_eq!(tuned["trace"], true, "the file does not say so: {tuned}");
    assert!(scheduler.stop().success());
}
