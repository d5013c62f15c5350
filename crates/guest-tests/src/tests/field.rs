//! What people report of machines in the field: storms of changes, hogs, and tasks that are held up from outside.

use super::control::Control;
use super::metrics::resident_kb;
use super::support::*;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

tests! {
    #[untimed]
    storms_a_real_time_hog_and_a_lock_that_batch_holds,
    #[untimed]
    tasks_are_stopped_frozen_throttled_and_traced_while_cgroups_come_and_go,
    #[untimed]
    a_flood_of_hotplug_under_the_scheduler_and_the_daemon,
    #[untimed]
    an_isolated_partition_comes_and_goes_under_the_scheduler,
}

/// Classes by the names of threads, so that this process may have threads of each.
const NAMED: [&str; 4] = ["--critical", "comm:critical*", "--batch", "comm:batch*"];
const CLASSES: [&str; 3] = ["critical", "normal", "batch"];

/// Threads of this process that repeat something until dropped.
struct Threads {
    stop: Arc<AtomicBool>,
    /// How often each did it.
    done: Vec<Arc<AtomicU64>>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    /// One thread of each name; `turn` is told which thread and which turn it is.
    fn start(names: &[&str], turn: impl Fn(usize, u64) + Clone + Send + 'static) -> Threads {
        let stop = Arc::new(AtomicBool::new(false));
        let done: Vec<Arc<AtomicU64>> = names.iter().map(|_| Arc::default()).collect();
        let start = |(index, name): (usize, &&str)| {
            let (turn, stop, done) = (turn.clone(), stop.clone(), done[index].clone());
            let repeat = move || {
                while !stop.load(Relaxed) {
                    turn(index, done.fetch_add(1, Relaxed));
                }
            };
            let builder = std::thread::Builder::new().name((*name).to_owned());
            builder.spawn(repeat).unwrap()
        };
        let handles = names.iter().enumerate().map(start).collect();
        Threads {
            stop,
            done,
            handles,
        }
    }

    /// Waits until each has had this many turns more.
    fn eventually_each(&self, more: u64) {
        let before: Vec<_> = self.done.iter().map(|done| done.load(Relaxed)).collect();
        eventually("each thread has had its turns", || {
            let mut pairs = self.done.iter().zip(&before);
            pairs.all(|(done, before)| done.load(Relaxed) >= before + more)
        });
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for handle in self.handles.drain(..) {
            assert!(handle.join().is_ok(), "a thread panicked");
        }
    }
}

/// Numbers without a pattern.
fn scrambled(index: usize, turn: u64) -> usize {
    let seed = (index as u64) << 32 | turn;
    (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize
}

/// Other CPUs at each turn, often a single one, and every sixteenth turn a new process.
fn wander(index: usize, turn: u64) {
    let random = scrambled(index, turn);
    let first = random % nr_cpus();
    let cpus: Vec<_> = match random / nr_cpus() % 3 {
        0 => (0..nr_cpus()).collect(),
        1 => vec![first],
        _ => vec![first, random / 64 % nr_cpus()],
    };
    set_cpus(0, &cpus).unwrap();
    std::thread::yield_now();
    if turn.is_multiple_of(16) {
        assert!(Command::new("true").status().unwrap().success());
    }
}

/// Under one scheduler, for it takes seconds to attach here.
fn storms_a_real_time_hog_and_a_lock_that_batch_holds() {
    let scheduler = Scheduler::attach(&[&NAMED[..], &RULES, &soon_due()].concat());
    a_storm_of_affinities_forks_and_execs_in_all_classes();
    assert!(attached(), "ejected");
    a_real_time_hog_takes_its_own_lane_only();
    assert!(attached(), "ejected");
    critical_work_gets_a_lock_that_batch_holds();
    assert!(attached(), "ejected");
    batch_with_much_memory_ends_beside("critical");
    batch_that_may_not_migrate_goes_on_beside("critical");
    assert!(scheduler.stop().success(), "ejected");
}

/// Makes this program one that may not migrate, nearly all the time.
pub const BOUND_ARGUMENT: &str = "--may-not-migrate";

/// A BPF program runs where it began, and may be preempted. This one goes round for as long as the kernel lets it.
pub fn may_not_migrate() -> ! {
    use libbpf_rs::libbpf_sys::*;
    let insn = |code: u32, off| bpf_insn {
        code: code as u8,
        off,
        ..bpf_insn::default()
    };
    let insns = [
        insn(BPF_ALU64 | BPF_MOV, 0),
        insn(BPF_JMP | BPF_JCOND, 1),
        insn(BPF_JMP | BPF_JA, -2),
        insn(BPF_JMP | BPF_EXIT, 0),
    ];
    let sleepable = bpf_prog_load_opts {
        sz: size_of::<bpf_prog_load_opts>() as size_t,
        prog_flags: BPF_F_SLEEPABLE,
        ..bpf_prog_load_opts::default()
    };
    let (name, license) = (c"round", c"GPL");
    // SAFETY: all that is pointed to lives until the call returns
    let program = unsafe {
        bpf_prog_load(
            BPF_PROG_TYPE_SYSCALL,
            name.as_ptr(),
            license.as_ptr(),
            insns.as_ptr(),
            insns.len() as size_t,
            (&raw const sleepable).cast_mut(),
        )
    };
    assert!(program >= 0, "{}", std::io::Error::last_os_error());
    loop {
        let mut run = bpf_test_run_opts {
            sz: size_of::<bpf_test_run_opts>() as size_t,
            ..bpf_test_run_opts::default()
        };
        // SAFETY: as above
        let ran = unsafe { bpf_prog_test_run_opts(program, &raw mut run) };
        assert_eq!(ran, 0, "{}", std::io::Error::last_os_error());
    }
}

/// What waits for so long was forgotten: others come to its rescue after 15 s, or the watchdog after 30.
const RESCUED: Duration = Duration::from_secs(10);

/// The kernel leaves it on its lane, also where its class may not run, and may let that idle.
pub(super) fn batch_that_may_not_migrate_goes_on_beside(closes: &'static str) {
    let core = first_core();
    let traits = Traits::on("batch", core[1]);
    let batch = [Load::of_this_program(&[BOUND_ARGUMENT], &traits)];
    for _ in 0..5 {
        eventually_all_run(&batch, 50_000_000);
        let closing = [Load::spin(&Traits::on(closes, core[0]))];
        eventually_all_run(&closing, 50_000_000);
        let began = Instant::now();
        eventually_all_run(&batch, 8_000_000);
        assert!(began.elapsed() < RESCUED, "{:?}", began.elapsed());
        assert!(attached(), "ejected");
    }
}

/// A task that exits gives its memory back for longer than a slice, and goes on doing so where its class may not run.
pub(super) fn batch_with_much_memory_ends_beside(closes: &'static str) {
    let huge_pages = "/sys/kernel/mm/transparent_hugepage/enabled";
    let before = fs::read_to_string(huge_pages).unwrap();
    let before = before.split(['[', ']']).nth(1).unwrap();
    fs::write(huge_pages, "never").unwrap();
    let core = first_core();
    let args = ["if=/dev/zero", "of=/dev/null", "bs=128M"];
    for _ in 0..3 {
        let batch = Load::spawn("dd", &args, &Traits::on("batch", core[1]));
        eventually("it has memory", || resident_kb(batch.pid()) > 128 << 10);
        let closing = [Load::spin(&Traits::on(closes, core[0]))];
        eventually_all_run(&closing, 20_000_000);
        let began = Instant::now();
        drop(batch);
        println!("it took {:?} to end", began.elapsed());
        assert!(began.elapsed() < RESCUED, "{:?}", began.elapsed());
        assert!(attached(), "ejected");
    }
    fs::write(huge_pages, before).unwrap();
}

fn a_storm_of_affinities_forks_and_execs_in_all_classes() {
    let storm = Threads::start(&[CLASSES, CLASSES].concat(), wander);
    storm.eventually_each(120);
}

/// Some kernels give what waits behind a real-time task a twentieth of its lane.
const A_SERVER_GIVES: f64 = 0.05;

/// What runs where a real-time task comes, and may run elsewhere, does so.
fn what_a_real_time_hog_finds_goes_on_elsewhere(class: &'static str) {
    let found = Load::spin_in(class);
    eventually_all_run(std::slice::from_ref(&found), 50_000_000);
    let hog = Load::spin(&Traits {
        cpus: vec![found.cpu()],
        policy: libc::SCHED_FIFO,
        ..Traits::default()
    });
    eventually_all_run(std::slice::from_ref(&hog), 100_000_000);
    let (began, ran_ns) = (Instant::now(), found.ran_ns());
    eventually("it goes on", || found.ran_ns() > ran_ns + 300_000_000);
    let share = 0.3 / began.elapsed().as_secs_f64();
    println!("{class}: {share:.2} of a lane");
    assert!(share > 2.0 * A_SERVER_GIVES, "{class}: {share}");
}

/// The kernel serves real-time tasks first: what is bound to the hog's lane may have to wait for it, all else may not.
fn a_real_time_hog_takes_its_own_lane_only() {
    for class in ["critical", "normal", "batch"] {
        what_a_real_time_hog_finds_goes_on_elsewhere(class);
    }
    let bound = |policy| Traits {
        cpus: vec![nr_cpus() - 1],
        policy,
        ..Traits::default()
    };
    let beside = [Load::spin(&bound(0))];
    let hog = Load::spin(&bound(libc::SCHED_FIFO));
    let others = ["critical", "normal", "batch"].map(Load::spin_in);
    eventually_all_run(std::slice::from_ref(&hog), 100_000_000);
    eventually_all_run(&others, 8_000_000);
    drop(hog);
    eventually_all_run(&beside, 8_000_000);
}

/// Stops or continues each.
fn signal_all(load: &[Load], name: &str) {
    load.iter().for_each(|load| signal(load.pid(), name));
}

/// Stops a process as a debugger does, looks, and lets it go on.
fn trace(load: &Load) {
    let pid = load.pid().cast_signed();
    let ask = |request| {
        // SAFETY: requests without data, of a child of this process
        assert_eq!(unsafe { libc::ptrace(request, pid, 0, 0) }, 0, "{request}");
    };
    let stopped = || {
        let mut status = 0;
        // SAFETY: the status is a valid place to write to
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert!(libc::WIFSTOPPED(status), "{status:#x}");
    };
    ask(libc::PTRACE_SEIZE);
    for _ in 0..3 {
        ask(libc::PTRACE_INTERRUPT);
        stopped();
        ask(libc::PTRACE_CONT);
    }
    ask(libc::PTRACE_INTERRUPT);
    stopped();
    ask(libc::PTRACE_DETACH);
}

/// Makes cgroups in those of each class, has a process in one for a moment, and removes them.
fn churn_cgroups() {
    for group in ["critical/brief", "held/brief", "batch/brief"] {
        let brief = cgroup(group);
        let procs = brief.join("cgroup.procs");
        let script = format!("echo 0 > {}", procs.display());
        let inside = Load::spawn("sh", &["-c", &script], &Traits::default());
        assert!(inside.wait().success());
        eventually("it is empty", || fs::remove_dir(&brief).is_ok());
    }
}

fn tasks_are_stopped_frozen_throttled_and_traced_while_cgroups_come_and_go() {
    let file = "/run/held-up.toml";
    let rules = "[[rule]]\nclass = \"critical\"\nmatch = \"cgroup:/critical\"\n\
                 [[rule]]\nclass = \"batch\"\nmatch = \"cgroup:/batch\"\n";
    fs::write(file, rules).unwrap();
    let held = cgroup("held");
    let scheduler = Scheduler::attach(&["--config", file]);
    let load = ["critical", "held", "held", "batch"].map(Load::spin_in);
    let write = |file: &str, text: &str| fs::write(held.join(file), text).unwrap();
    for round in 0..12 {
        signal_all(&load, "STOP");
        write("cgroup.freeze", "1");
        signal_all(&load, "CONT");
        write("cpu.max", &format!("{} 100000", 2000 + 1000 * round));
        write("cgroup.freeze", "0");
        load.iter().for_each(trace);
        churn_cgroups();
    }
    write("cpu.max", "max");
    eventually_all_run(&load, 8_000_000);
    assert!(scheduler.stop().success(), "ejected");
}

fn a_flood_of_hotplug_under_the_scheduler_and_the_daemon() {
    let before = online();
    let mut scheduler = Scheduler::attach(&RULES);
    let load = ["critical", "normal", "batch"].map(Load::spin_in);
    let control = Control::start(&[]);
    for round in 0..30 {
        for cpu in 1..nr_cpus() {
            // refused where SMT is off: that, too, is part of the flood
            let online = if (round + cpu) % 3 == 0 { "0" } else { "1" };
            let _ = fs::write(format!("/sys/devices/system/cpu/cpu{cpu}/online"), online);
        }
    }
    assert!(control.stop().success());
    assert_eq!(online(), before);
    scheduler.await_line("attaching again");
    eventually("attached on all lanes", attached);
    eventually_all_run(&load, 8_000_000);
    assert!(scheduler.stop().success());
}

/// Critical work that waits for a lock waits for the batch task that holds it, and that one for critical hogs: until
/// the starvation bound lends it a lane.
fn critical_work_gets_a_lock_that_batch_holds() {
    let _hogs: Vec<_> = (0..nr_cpus()).map(|_| Load::spin_in("critical")).collect();
    let lock = Mutex::new(0_u64);
    let lock = Arc::new(lock);
    let contenders = Threads::start(&["batch-holder", "critical-waiter"], move |_, _| {
        let mut count = lock.lock().unwrap();
        for _ in 0..20_000 {
            *count = std::hint::black_box(*count + 1);
        }
        drop(count);
        std::thread::sleep(Duration::from_millis(1));
    });
    contenders.eventually_each(20);
}

/// Tasks in the partition and outside go on, whether it was there first or the scheduler.
fn an_isolated_partition_comes_and_goes_under_the_scheduler() {
    let apart = cgroup("apart");
    let first = first_core();
    let others: Vec<_> = (0..nr_cpus()).filter(|cpu| !first.contains(cpu)).collect();
    let list: Vec<_> = others.iter().map(usize::to_string).collect();
    fs::write(apart.join("cpuset.cpus"), list.join(",")).unwrap();
    let make_it = |kind: &str| {
        let file = apart.join("cpuset.cpus.partition");
        fs::write(&file, kind).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap().trim(), kind);
    };
    make_it("isolated");
    let scheduler = Scheduler::attach(&[&RULES[..], &soon_due()].concat());
    let bound = |&cpu: &usize| Load::spin(&Traits::on("apart", cpu));
    let inside: Vec<_> = others.iter().map(bound).collect();
    let outside = ["critical", "normal", "batch"].map(Load::spin_in);
    for kind in ["member", "isolated"] {
        eventually_all_run(&inside, 8_000_000);
        eventually_all_run(&outside, 8_000_000);
        make_it(kind);
    }
    eventually_all_run(&inside, 8_000_000);
    eventually_all_run(&outside, 8_000_000);
    assert!(outside.iter().all(|load| first.contains(&load.cpu())));
    drop(inside);
    make_it("member");
    assert!(scheduler.stop().success(), "ejected");
}
