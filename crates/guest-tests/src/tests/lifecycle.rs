//! Attach, detach, crash, hotplug.

use super::support::*;
use std::fs;

tests! {
    #[untimed]
    attaches_refuses_a_second_scheduler_and_detaches,
    #[untimed]
    core_scheduling_keeps_it_from_starting,
    #[untimed]
    attaches_with_all_mechanisms_at_once,
    #[untimed]
    short_processes_loaders_and_lanes_come_and_go,
    #[untimed]
    a_malformed_configuration_changes_nothing,
    #[untimed]
    a_hangup_has_the_configuration_read_again,
    #[untimed]
    status_tells_who_is_attached_and_how_the_last_one_ended,
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
    let printed = format!("{PRINTED}/enable");
    fs::write(&printed, "0").unwrap();
    let scheduler = Scheduler::attach(&RULES);
    // else the kernel notes the name of each task that it switches to
    let printed = fs::read_to_string(&printed).unwrap();
    assert_eq!(printed.trim(), "0", "what is not traced costs something");
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
keep_slice = true
keep_lane = true
gather = true
steal_patience_ms = 1
trace = true
"#;

fn attaches_with_all_mechanisms_at_once() {
    let (file, pool) = ("/run/everything.toml", cgroup("pool"));
    fs::write(file, EVERYTHING).unwrap();
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu").unwrap();
    let write = |file: &str, text: &str| fs::write(pool.join(file), text).unwrap();
    write("cpu.weight", "300");
    write("cpu.max", "190000 100000");
    let scheduler = Scheduler::attach(&["--config", file]);
    write("cpu.weight", "100");
    write("cpu.max", "max");
    let mut load = load_every_lane();
    load.push(Load::spin_in("pool"));
    load.push(Load::jobs(100, "0.001", &Traits::default()));
    progresses(&load);
    assert!(scheduler.stop().success(), "ejected");
}

/// Attached as seldom as it takes, for that takes seconds here.
fn short_processes_loaders_and_lanes_come_and_go() {
    let mut scheduler = Scheduler::attach(&[&RULES[..], &soon_due()].concat());
    two_hundred_short_processes_come_and_go();
    let load = load_every_lane();
    lanes_go_and_come_under_load(&mut scheduler, &load);
    a_killed_loader_leaves_the_default_scheduler(scheduler, &load);
}

fn a_killed_loader_leaves_the_default_scheduler(scheduler: Scheduler, load: &[Load]) {
    signal(scheduler.pid(), "KILL");
    eventually("the kernel's default takes over", || state() == "disabled");
    progresses(load);
    assert_eq!(
        fs::read_dir("/sys/fs/bpf").unwrap().count(),
        0,
        "something stayed pinned"
    );
}

/// SMT goes off, then lanes one by one until one is left; then all come back, in the other order.
fn lanes_go_and_come_under_load(scheduler: &mut Scheduler, load: &[Load]) {
    let lanes = nr_cpus();
    let smt = |to: &str| fs::write("/sys/devices/system/cpu/smt/control", to).unwrap();
    let attaches_again = |scheduler: &mut Scheduler, lanes: usize| {
        scheduler.await_line("attaching again");
        scheduler.await_line(&format!(", {lanes} lane"));
        assert!(attached());
        progresses(load);
    };
    let all = online();
    smt("off");
    attaches_again(scheduler, 2);
    let lane = |cpu: usize| format!("/sys/devices/system/cpu/cpu{cpu}/online");
    let mut left: Vec<usize> = (1..lanes).collect();
    left.retain(|cpu| fs::read_to_string(lane(*cpu)).unwrap().trim() == "1");
    for cpu in &left {
        fs::write(lane(*cpu), "0").unwrap();
    }
    assert_eq!(online(), "0");
    attaches_again(scheduler, 1);
    for cpu in &left {
        fs::write(lane(*cpu), "1").unwrap();
    }
    attaches_again(scheduler, 2);
    smt("on");
    assert_eq!(online(), all);
    attaches_again(scheduler, lanes);
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
    printed(&["tune", "--borrow", "off"]);
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
    let tuned = parse(str::from_utf8(&tuned).unwrap());
    assert_eq!(tuned["borrow"], "off", "the file does not say so: {tuned}");
    assert!(scheduler.stop().success());
}

/// What `sidelane status` says, and its exit code.
fn status() -> (serde_json::Value, Option<i32>) {
    let output = sidelane(&["status", "--format", "json"]);
    let said = serde_json::from_slice(&output.stdout).unwrap();
    (said, output.status.code())
}

fn status_tells_who_is_attached_and_how_the_last_one_ended() {
    let scheduler = Scheduler::attach(&RULES);
    eventually("it knows the process", || {
        !status().0["attachment"].is_null()
    });
    let (now, code) = status();
    assert_eq!((now["state"].as_str(), code), (Some("attached"), Some(0)));
    assert_eq!(now["schema"], "sidelane.status/1");
    assert_eq!(now["attachment"]["pid"], scheduler.pid());
    assert_eq!(now["attachment"]["rules"], 2, "{now}");
    let command = now["attachment"]["command"].as_str().unwrap();
    assert!(command.contains("run --critical cgroup:/critical"), "{now}");
    assert_eq!(sidelane(&["run"]).status.code(), Some(3));
    assert_eq!(
        status().0["attachment"],
        now["attachment"],
        "the refused one"
    );

    let pid = scheduler.pid();
    assert!(scheduler.stop().success());
    let (stopped, code) = status();
    assert_eq!(code, Some(5), "{stopped}");
    assert_eq!(stopped["state"], "not_attached");
    let exit = &stopped["last_exit"];
    assert_eq!(
        (&exit["outcome"], &exit["pid"]),
        (&"stopped".into(), &pid.into())
    );
    assert_eq!(exit["exit_code"], 0);

    let mut scheduler = Scheduler::attach(&RULES);
    fs::write("/proc/sysrq-trigger", "S").unwrap();
    let ended = scheduler.child.wait().unwrap().code();
    let (ejected, code) = status();
    assert_eq!((ended, code), (Some(6), Some(5)), "{ejected}");
    let exit = &ejected["last_exit"];
    assert_eq!(
        (&exit["outcome"], &exit["exit_code"]),
        (&"ejected".into(), &6.into())
    );
    assert!(
        exit["reason"].as_str().unwrap().contains("SysRq-S"),
        "{exit}"
    );

    drop(Scheduler::attach(&RULES)); // killed
    let exit = status().0["last_exit"].clone();
    assert_eq!(exit["outcome"], "killed", "{exit}");
}
