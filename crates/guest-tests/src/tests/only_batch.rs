//! Batch tasks come to a scheduler of batch alone, and have afterwards what they had.

use super::field::{batch_that_may_not_migrate_goes_on_beside, batch_with_much_memory_ends_beside};
use super::support::*;
use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsRawFd;
use std::time::Duration;

tests! {
    #[untimed]
    tasks_come_and_go_with_what_rules_call_them,
    #[untimed]
    what_a_task_chooses_itself_is_respected,
    // alone, for it fills the host
    a_storm_of_forks_gets_back_what_it_had,
    #[untimed]
    after_a_crash_all_have_what_they_had,
    #[untimed]
    batch_that_never_gets_a_lane_is_lent,
}

/// Makes this program one with threads, so many.
pub const THREADS_ARGUMENT: &str = "--have-threads";
const ONLY_BATCH: [&str; 4] = ["--only", "batch", "--batch", "cgroup:/batch"];
/// By the kernel's numbers.
const NORMAL: i32 = 0;
const BATCH: i32 = 3;
const IDLE: i32 = 5;
const EXT: i32 = 7;
/// Policy and nice value of an adopted task.
const ADOPTED: (i32, i32) = (EXT, 19);

/// A program with so many threads, each with a child now and then.
pub fn have_threads(count: &str) -> ! {
    for _ in 1..count.parse().unwrap() {
        std::thread::spawn(|| {
            loop {
                let slept = std::process::Command::new("sleep").arg("0.2").status();
                assert!(slept.unwrap().success());
            }
        });
    }
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn threads(traits: &Traits) -> Load {
    let load = Load::of_this_program(&[THREADS_ARGUMENT, "4"], traits);
    let has_all =
        || fs::read_dir(format!("/proc/{}/task", load.pid())).is_ok_and(|it| it.count() == 4);
    eventually("it has its threads", has_all);
    load
}

fn is_in(group: &'static str, nice: i32, policy: i32) -> Traits {
    Traits {
        cgroup: Some(group),
        nice,
        policy,
        ..Traits::default()
    }
}

/// Policy and nice value of a thread, if it is there.
fn has(tid: u32) -> Option<(i32, i32)> {
    // SAFETY: plain system calls
    let (policy, nice) = unsafe {
        let policy = libc::sched_getscheduler(tid.cast_signed());
        *libc::__errno_location() = 0;
        (policy, libc::getpriority(libc::PRIO_PROCESS, tid))
    };
    let gone = std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
    (policy >= 0 && !gone).then_some((policy, nice))
}

fn numbers(path: &str) -> Vec<u32> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// What the threads of a cgroup have, each kind once.
fn have(group: &str) -> Vec<(i32, i32)> {
    let tids = numbers(&format!("/sys/fs/cgroup/{group}/cgroup.threads"));
    let mut have: Vec<_> = tids.into_iter().filter_map(has).collect();
    have.sort();
    have.dedup();
    have
}

/// Waits until all threads of a cgroup have this, and children that they make, too.
fn all_have(group: &'static str, what: (i32, i32)) {
    let told = format!("all in {group} have {what:?}: {:?}", have(group));
    eventually(&told, || have(group) == [what]);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(have(group), [what], "{group}");
}

fn move_to(group: &str, pid: u32) {
    fs::write(cgroup(group).join("cgroup.procs"), pid.to_string()).unwrap();
}

/// All threads of the machine that have the policy of adopted ones.
fn left() -> BTreeMap<u32, String> {
    let numbers = |path: String| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
    };
    let tids = numbers("/proc".to_owned()).flat_map(|pid| numbers(format!("/proc/{pid}/task")));
    let left = tids.filter(|tid| has(*tid).is_some_and(|(policy, _)| policy == EXT));
    left.map(|tid| {
        let name = fs::read_to_string(format!("/proc/{tid}/comm")).unwrap_or_default();
        (tid, name.trim().to_owned())
    })
    .collect()
}

/// A child that is made in a cgroup right away, and sleeps.
fn made_in(group: &str) -> libc::pid_t {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    let folder = fs::File::open(cgroup(group)).unwrap();
    // SAFETY: all that the kernel reads of it is set below, or 0
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = CLONE_INTO_CGROUP;
    args.exit_signal = libc::SIGCHLD as u64;
    args.cgroup = folder.as_raw_fd() as u64;
    // SAFETY: as fork; the child makes one system call until it is killed
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of_val(&args)) };
    if pid == 0 {
        // SAFETY: plain calls
        unsafe {
            libc::sleep(600);
            libc::_exit(0);
        }
    }
    assert!(pid > 0, "{}", std::io::Error::last_os_error());
    pid as libc::pid_t
}

fn end(pid: libc::pid_t) {
    // SAFETY: plain calls on a child
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
}

fn tasks_come_and_go_with_what_rules_call_them() {
    let _other = cgroup("other");
    let before = threads(&is_in("batch", 3, BATCH));
    let real_time = Load::spawn("sleep", &["600"], &is_in("batch", 0, libc::SCHED_FIFO));
    let elsewhere = Load::spin_in("other");
    let rules = [&ONLY_BATCH[..], &["--batch", "comm:later*"]].concat();
    let mut scheduler = Scheduler::attach(&rules);
    scheduler.await_line("are the scheduler's now");
    let fifo = has(real_time.pid()).unwrap();
    assert_eq!(fifo.0, libc::SCHED_FIFO);
    drop(real_time);
    all_have("batch", ADOPTED);
    assert_eq!(has(elsewhere.pid()), Some((NORMAL, 0)));
    others_know();

    move_to("other", before.pid());
    eventually("all threads left", || {
        let mut threads = fs::read_dir(format!("/proc/{}/task", before.pid())).unwrap();
        let tid = |entry: fs::DirEntry| entry.file_name().to_str().unwrap().parse().unwrap();
        threads.all(|entry| has(tid(entry.unwrap())) == Some((BATCH, 3)))
    });
    move_to("batch", before.pid());
    // with its policy already: what it chose in the moment of its adoption could be lost
    let later = Load::spin(&is_in("other", 0, IDLE));
    move_to("batch/made/later", later.pid());
    let made = made_in("batch");
    all_have("batch", ADOPTED);
    all_have("batch/made/later", ADOPTED);
    end(made);

    a_thread_by_its_name();

    assert!(scheduler.stop().success());
    assert_eq!(left(), BTreeMap::new());
    assert_eq!(has(later.pid()), Some((IDLE, 0)));
    all_have("batch", (BATCH, 3));
    assert!(!fs::exists("/run/sidelane/adopted").unwrap());
}

/// Commands that ask the scheduler, or change it, know what it is.
fn others_know() {
    let rates = rates("1");
    assert_eq!(rates["scope"], "batch", "{rates}");
    assert!(rates["threads"]["adopted"].as_u64() >= Some(4), "{rates}");
    let tuned = sidelane(&["tune", "--format", "json"]);
    assert!(String::from_utf8_lossy(&tuned.stdout).contains("\"batch\""));
    let seen = sidelane(&["doctor"]);
    assert!(String::from_utf8_lossy(&seen.stdout).contains("for batch alone"));
    for asks_for_others in [
        &["tune", "--polarization", "vertical"][..],
        &["control", "--actuator", "scheduler"],
    ] {
        let refused = sidelane(asks_for_others);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success(), "{asks_for_others:?}");
        assert!(said.contains("has no effect"), "{said}");
    }
}

/// Only a thread's own process may rename it.
fn a_thread_by_its_name() {
    // SAFETY: a plain call
    let own = unsafe { libc::gettid() };
    let rename = |name: &str| fs::write(format!("/proc/self/task/{own}/comm"), name).unwrap();
    let has = || has(own.cast_unsigned());
    let before = has();
    rename("later-on");
    eventually("it is batch by its name", || has() == Some(ADOPTED));
    rename("earlier");
    eventually("it is not by the next", || has() == before);
}

fn set_policy(tid: u32, policy: i32) {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: a plain system call
    let set = unsafe { libc::sched_setscheduler(tid.cast_signed(), policy, &raw const param) };
    assert_eq!(set, 0);
}

fn what_a_task_chooses_itself_is_respected() {
    let (chooses, nicer, own) = (
        Load::spin_in("batch"),
        Load::spin_in("batch"),
        Load::spin(&Traits::default()),
    );
    set_policy(own.pid(), EXT);
    let mut scheduler = Scheduler::attach(&ONLY_BATCH);
    all_have("batch", ADOPTED);
    set_policy(chooses.pid(), NORMAL);
    // SAFETY: a plain system call
    unsafe { libc::setpriority(libc::PRIO_PROCESS, nicer.pid(), 7) };
    scheduler.await_line("have chosen another policy themselves");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(has(chooses.pid()), Some((NORMAL, 19)));
    assert_eq!(has(nicer.pid()), Some((EXT, 7)));
    lanes_go_and_come(&mut scheduler);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(has(chooses.pid()), Some((NORMAL, 19)));
    assert_eq!(has(nicer.pid()), Some((EXT, 7)));
    // as another class in between it is like any other
    move_to("other", chooses.pid());
    std::thread::sleep(Duration::from_secs(3));
    move_to("batch", chooses.pid());
    eventually("it is adopted anew", || has(chooses.pid()) == Some(ADOPTED));
    assert!(scheduler.stop().success());
    assert_eq!(has(chooses.pid()), Some((NORMAL, 19)));
    assert_eq!(has(nicer.pid()), Some((NORMAL, 7)));
    assert_eq!(
        has(own.pid()),
        Some((EXT, 0)),
        "it is nobody else's business"
    );
}

/// Each time the scheduler is attached anew.
fn lanes_go_and_come(scheduler: &mut Scheduler) {
    for online in ["0", "1"] {
        fs::write("/sys/devices/system/cpu/cpu3/online", online).unwrap();
        scheduler.await_line("attaching again");
        scheduler.await_line("are the scheduler's now");
    }
}

/// Shells that do nothing but fork, and whose parents end before they do.
fn storm(group: &'static str) -> Vec<Load> {
    let script = "while :; do (sleep 0.05 & (sleep 0.02 &) ) & wait $!; done";
    let traits = is_in(group, 2, NORMAL);
    let storm = |_| Load::spawn("sh", &["-c", script], &traits);
    (0..4).map(storm).collect()
}

fn a_storm_of_forks_gets_back_what_it_had() {
    let storm = storm("batch");
    let adopted = || {
        let scheduler = Scheduler::attach(&ONLY_BATCH);
        for load in &storm {
            eventually("it is adopted", || has(load.pid()) == Some(ADOPTED));
        }
        std::thread::sleep(Duration::from_secs(2));
        scheduler
    };
    let as_before = || {
        assert_eq!(left(), BTreeMap::new());
        assert_eq!(have("batch"), [(NORMAL, 2)]);
    };
    assert!(adopted().stop().success());
    as_before();
    let mut scheduler = adopted();
    fs::write("/proc/sysrq-trigger", "S").unwrap();
    assert_eq!(
        scheduler.child.wait().unwrap().code(),
        Some(6),
        "not ejected"
    );
    as_before();
}

fn restore() {
    printed(&["run", "--restore"]);
}

fn after_a_crash_all_have_what_they_had() {
    let kinds = [
        ("batch", (NORMAL, 0)),
        ("batch/b", (BATCH, 5)),
        ("batch/c", (IDLE, -4)),
    ];
    let load = kinds.map(|(group, (policy, nice))| threads(&is_in(group, nice, policy)));
    let as_before = || {
        assert_eq!(left(), BTreeMap::new());
        for (group, had) in kinds {
            assert_eq!(have(group), [had], "{group}");
        }
    };
    restore(); // nothing to do
    for round in 0..3 {
        let scheduler = Scheduler::attach(&ONLY_BATCH);
        for (group, _) in kinds {
            all_have(group, ADOPTED);
        }
        if round == 0 {
            let refused = sidelane(&["run", "--restore"]);
            let said = String::from_utf8_lossy(&refused.stderr);
            assert_eq!(refused.status.code(), Some(3), "{said}");
            assert!(said.contains("stop it first"), "{said}");
        }
        drop(scheduler); // killed
        if round % 2 == 0 {
            restore();
            as_before();
        }
    }
    // what the one before left was restored first
    assert!(Scheduler::attach(&ONLY_BATCH).stop().success());
    as_before();
    drop(load);
}

fn batch_that_never_gets_a_lane_is_lent() {
    let batch = Load::spin_in("batch");
    let mut scheduler = Scheduler::attach(&[&ONLY_BATCH[..], &soon_due()].concat());
    eventually("it is adopted", || has(batch.pid()) == Some(ADOPTED));
    let others: Vec<Load> = (0..2 * nr_cpus())
        .map(|_| Load::spin(&Traits::default()))
        .collect();
    scheduler.await_line("as SCHED_IDLE");
    eventually("it is adopted again", || has(batch.pid()) == Some(ADOPTED));
    eventually("it is lent again", || has(batch.pid()) == Some((IDLE, 19)));
    drop(others);
    eventually("it comes back", || has(batch.pid()) == Some(ADOPTED));
    eventually_all_run(&[batch], 20_000_000);
    batch_with_much_memory_ends_beside("normal");
    batch_that_may_not_migrate_goes_on_beside("normal");
    assert!(scheduler.stop().success(), "ejected");
}
