//! The collector of metrics, with and without the scheduler.

use super::support::*;
use sidelane_smt::recording::{Frame, open};
use sidelane_smt::snapshot::{Class, Interval, TaskTotals, Usage};
use std::fs;
use std::panic::AssertUnwindSafe;
use std::process::{Child, Command};
use std::time::Duration;

tests! {
    densities_and_times_with_the_kernel_s_scheduler,
    densities_times_and_jobs_with_the_scheduler,
    looking_now_and_then_estimates_the_same,
    #[untimed]
    more_short_tasks_than_are_listed,
    #[untimed]
    lanes_that_go_and_come_are_told,
    #[untimed]
    a_command_is_recorded_and_its_status_handed_on,
}

pub const FILE: &str = "/run/test.rec";
/// Spinners run so long.
const LOAD: Duration = Duration::from_secs(2);

/// A running `sidelane record`.
pub struct Recorder(Child);

impl Recorder {
    /// Starts it and waits until it collects.
    pub fn start() -> Recorder {
        Recorder::start_with(&[])
    }

    /// The same with arguments more.
    fn start_with(more: &[&str]) -> Recorder {
        let _ = fs::remove_file(FILE);
        let child = Command::new(SIDELANE)
            .args(["record", FILE, "--interval-ms", "250"])
            .args(["--thread-perf", "1,0.6,0.5,0.4"])
            .args(more)
            .spawn()
            .unwrap();
        let recorder = Recorder(child);
        eventually("it records", || {
            fs::metadata(FILE).is_ok_and(|file| file.len() > 500)
        });
        recorder
    }

    /// Stops it and adds the intervals up.
    pub fn stop(mut self) -> Interval {
        signal(self.0.id(), "INT");
        assert!(self.0.wait().unwrap().success());
        sum_within(0, u64::MAX)
    }

    /// What it has recorded since a moment, and up to an interval before that and from now on. It goes on.
    fn since(&self, from_ns: u64) -> Interval {
        let now_ns = monotonic_ns();
        let recorded = || {
            let bytes = fs::read(FILE).unwrap();
            let (_, frames) = open(&bytes).unwrap();
            // the last one may be half written
            let all = intervals(frames.map_while(Result::ok));
            all.filter(|interval| interval.to_ns > from_ns)
                .collect::<Vec<_>>()
        };
        eventually("it is recorded", || {
            recorded()
                .last()
                .is_some_and(|interval| interval.to_ns >= now_ns)
        });
        let recorded = recorded().into_iter();
        sum(recorded.filter(|interval| interval.from_ns < now_ns))
    }
}

/// Intervals of the recording between two moments, added up.
pub fn sum_within(from_ns: u64, to_ns: u64) -> Interval {
    let bytes = fs::read(FILE).unwrap();
    let (_, frames) = open(&bytes).unwrap();
    let all = intervals(frames.map(Result::unwrap));
    sum(all.filter(|interval| interval.from_ns >= from_ns && interval.to_ns <= to_ns))
}

fn intervals(frames: impl Iterator<Item = Frame>) -> impl Iterator<Item = Interval> {
    frames.filter_map(|frame| match frame {
        Frame::Interval(interval) => Some(interval),
        _ => None,
    })
}

fn sum(intervals: impl Iterator<Item = Interval>) -> Interval {
    let add = |mut total: Interval, interval| {
        total.add(&interval).unwrap();
        total
    };
    intervals.reduce(add).unwrap()
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spin_on(cpu: usize) -> Load {
    Load::spin(&Traits::on("spin", cpu))
}

pub fn task<'a>(interval: &'a Interval, load: &Load) -> &'a TaskTotals {
    let mut tasks = interval.tasks.iter();
    tasks.find(|task| task.pid == load.pid()).unwrap()
}

pub fn close(of: &str, found: u64, expected: u64, tolerance: f64) {
    close_within(of, found, expected, tolerance, 1_000_000);
}

/// Within a share of what is expected, and some time more.
fn close_within(of: &str, found: u64, expected: u64, tolerance: f64, more_ns: u64) {
    let difference = found.abs_diff(expected) as f64;
    println!("{of}: {found} for {expected}, others had {more_ns}");
    assert!(
        difference <= tolerance * expected as f64 + more_ns as f64,
        "{of}: {found} ns, not {expected} ns within {tolerance} and {more_ns} ns"
    );
}

/// Stops loads at once and waits until they do not run any more: their times stay then.
pub fn stop(loads: &[Load]) {
    for load in loads {
        // SAFETY: plain system call; the child is there, since it was not waited for
        unsafe { libc::kill(load.pid().cast_signed(), libc::SIGSTOP) };
    }
    eventually("they have stopped", || {
        let told: Vec<_> = loads.iter().map(Load::schedstat).collect();
        std::thread::sleep(Duration::from_millis(100));
        loads.iter().map(Load::schedstat).eq(told)
    });
}

/// Memory of a process.
pub(super) fn resident_kb(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.unwrap().trim().trim_end_matches(" kB").trim();
    number.parse().unwrap()
}

/// Time in interrupts on these CPUs, to 10 ms.
pub fn interrupts_ns(cpus: &[usize]) -> u64 {
    let text = fs::read_to_string("/proc/stat").unwrap();
    let ticks = |cpu: &usize| -> u64 {
        let name = format!("cpu{cpu} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        let mut times = line.unwrap().split_whitespace().skip(5);
        let mut next = || times.next().unwrap().parse::<u64>().unwrap();
        next() + next()
    };
    const TICK_NS: u64 = 10_000_000;
    cpus.iter().map(ticks).sum::<u64>() * TICK_NS
}

/// Leaves the first core to the load: this thread and what it starts stay on the others.
fn leave_the_first_core() {
    let mine: Vec<usize> = (2..nr_cpus()).collect();
    // SAFETY: plain system call on this thread
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        mine.iter().for_each(|&cpu| libc::CPU_SET(cpu, &mut set));
        assert_eq!(
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set),
            0
        );
    }
}

/// Measures again where the host stopped a lane between the kernel's look at the clock and ours: rare, and
/// what is wrong is so each time.
fn check_load(recorder: &Recorder, cpus: &[usize], thread_perf: f64) {
    const TIMES: usize = 3;
    let once = || check_load_once(recorder, cpus, thread_perf);
    let holds = |_| std::panic::catch_unwind(AssertUnwindSafe(once)).is_ok();
    assert!((0..TIMES).any(holds), "not once in {TIMES} times");
}

/// What spinners on these lanes of the first core have to show. At most two, or two on one lane.
fn check_load_once(recorder: &Recorder, cpus: &[usize], thread_perf: f64) {
    let from_ns = monotonic_ns();
    let interrupts_ns = interrupts_ns(cpus);
    let loads: Vec<Load> = cpus.iter().map(|&cpu| spin_on(cpu)).collect();
    // until it is bound to its lane, a load runs on another core
    let unbound_ns: u64 = loads.iter().map(|load| load.ran_ns()).sum();
    std::thread::sleep(LOAD);
    stop(&loads);
    let told: Vec<_> = loads.iter().map(Load::schedstat).collect();
    // the kernel counts no task for them
    let interrupts_ns = self::interrupts_ns(cpus) - interrupts_ns;
    let interval = recorder.since(from_ns);
    println!("{:?}\n{:?}", interval.notes, interval.cores);
    let usages: Vec<&Usage> = (loads.iter()).map(|l| &task(&interval, l).usage).collect();
    let raw_ns: u64 = usages.iter().map(|usage| usage.raw_ns).sum();
    let mt1_ns: u64 = usages.iter().map(|usage| usage.mt1_ns).sum();
    let core = &interval.cores[0];
    let lanes_ns: u64 = core.lanes.iter().map(|lane| lane.busy_ns).sum();
    // the kernel's threads, and whatever else was there for moments
    let others_ns = (lanes_ns + unbound_ns).saturating_sub(raw_ns) + unbound_ns + 1_000_000;
    let shared = cpus.len() > 1 && cpus[0] == cpus[1];
    // tasks that take turns on a lane: the kernel and we do not look at the clock at the same moment of a switch,
    // between which the host may run something else; what the one has more by that, the other has less
    let each = if shared { 0.02 } else { 0.01 };
    for (usage, (told_ns, waiting_ns)) in usages.iter().zip(&told) {
        close_within("raw time", usage.raw_ns, *told_ns, each, interrupts_ns);
        // one begins a little before the other
        let expected_ns = (usage.raw_ns as f64 * thread_perf) as u64;
        close_within("MT1 time", usage.mt1_ns, expected_ns, 0.01, others_ns);
        if shared {
            close_within(
                "waiting",
                usage.waiting_ns,
                *waiting_ns,
                each,
                interrupts_ns,
            );
        }
    }
    let told_ns = told.iter().map(|(told_ns, _)| told_ns).sum();
    close_within("raw time of all", raw_ns, told_ns, 0.01, interrupts_ns);
    let of_core = core.smt(&interval.rates).unwrap().metrics().mt1_ns as u64;
    close_within("work of the core", mt1_ns, of_core, 0.01, others_ns);
    match (shared, cpus.len(), core.by_density_ns.as_slice()) {
        (false, 2, [_, both_ns]) => {
            close_within("both lanes", *both_ns, raw_ns / 2, 0.01, others_ns);
        }
        (_, _, times) => close_within("busy", times.iter().sum(), raw_ns, 0.01, others_ns),
    }
    let group = (interval.cgroups.iter()).find(|g| g.path.as_deref() == Some("/spin"));
    // before it moves there, each is in another cgroup
    let group_ns = group.unwrap().usage.raw_ns;
    close_within("the cgroup", group_ns, raw_ns, 0.01, unbound_ns);
    sums_agree(&interval);
}

/// Lanes, cores, tasks and cgroups say the same.
fn sums_agree(interval: &Interval) {
    for core in &interval.cores {
        let lanes: u64 = core.lanes.iter().map(|lane| lane.busy_ns).sum();
        let densities = core.by_density_ns[0] + 2 * core.by_density_ns[1];
        close("lanes", lanes, densities, 0.01);
        close("elapsed", core.elapsed_ns, interval.elapsed_ns(), 0.01);
    }
    let work = interval.metrics().unwrap().mt1_ns as u64;
    let tasks: u64 = (interval.tasks.iter()).map(|t| t.usage.mt1_ns).sum();
    let groups: u64 = (interval.cgroups.iter()).map(|g| g.usage.mt1_ns).sum();
    close("MT1 time of tasks", tasks, work, 0.01);
    // both as of the moment of the view, however long reading took
    close("MT1 time of cgroups", groups, tasks, 0.001);
    assert_eq!((interval.notes.lost, interval.notes.unknown_lanes), (0, 0));
}

/// Alone, beside each other, and in turns on one lane.
fn densities_and_times_are_as_expected(recorder: &Recorder) {
    leave_the_first_core();
    check_load(recorder, &[0], 1.0);
    check_load(recorder, &[0, 1], 0.6);
    check_load(recorder, &[1, 1], 1.0);
}

fn densities_and_times_with_the_kernel_s_scheduler() {
    let recorder = Recorder::start();
    densities_and_times_are_as_expected(&recorder);
    sums_agree(&recorder.stop());
}

/// Under one scheduler and by one recorder, for it takes seconds to start them here.
fn densities_times_and_jobs_with_the_scheduler() {
    let scheduler = Scheduler::attach(&["--critical", "cgroup:/critical"]);
    let recorder = Recorder::start();
    classes_and_jobs_of_the_scheduler_make_throughput(&recorder);
    densities_and_times_are_as_expected(&recorder);
    sums_agree(&recorder.stop());
    stat_has_the_metrics_too();
    assert!(scheduler.stop().success());
}

fn looking_now_and_then_estimates_the_same() {
    let recorder = Recorder::start_with(&["--sample"]);
    let loads = [spin_on(0), spin_on(1)];
    let pausing = Load::jobs(2_000, "0.02", &Traits::default());
    std::thread::sleep(2 * LOAD);
    stop(&loads);
    let told: Vec<_> = loads.iter().map(|load| load.ran_ns()).collect();
    let told_pausing = pausing.ran_ns();
    let interval = recorder.stop();
    println!("{:?}\n{:?}", interval.notes, interval.cores);
    let raw_ns = |load: &Load| task(&interval, load).usage.raw_ns;
    for (load, told_ns) in loads.iter().zip(&told) {
        close("raw time", raw_ns(load), *told_ns, 0.05);
        let mt1_ns = task(&interval, load).usage.mt1_ns;
        // one that reads no topology takes lanes for cores
        let speed = if interval.cores[0].lanes.len() > 1 {
            6
        } else {
            10
        };
        close("MT1 time", mt1_ns, told_ns * speed / 10, 0.08);
    }
    // by some hundred looks
    let (found, told) = (raw_ns(&pausing), told_pausing);
    println!("one that pauses: {found} for {told}");
    assert!((told / 2..told * 2).contains(&found));
    // also of tasks that had ended at the next look
    let work = interval.metrics().unwrap().mt1_ns as u64;
    let groups: u64 = (interval.cgroups.iter()).map(|g| g.usage.mt1_ns).sum();
    close("MT1 time of cgroups", groups, work, 0.01);
    let report = sidelane(&["report", FILE]);
    let text = String::from_utf8_lossy(&report.stdout).replace("\n  ", " ");
    assert!(text.contains("Looked at the lanes 251 times"), "{text}");
}

fn classes_and_jobs_of_the_scheduler_make_throughput(recorder: &Recorder) {
    let from_ns = monotonic_ns();
    let script = "i=0; while [ $i -lt 20 ]; do i=$((i+1)); sleep 0.05; done";
    let critical = Load::spawn(
        "sh",
        &["-c", script],
        &Traits {
            cgroup: Some("critical"),
            ..Traits::default()
        },
    );
    let pid = critical.pid();
    assert!(critical.wait().success());
    let interval = recorder.since(from_ns);
    let shell = interval.tasks.iter().find(|task| task.pid == pid).unwrap();
    assert_eq!((shell.class, shell.ended), (Some(Class::Critical), true));
    assert!(shell.usage.jobs.count() >= 20, "{:?}", shell.usage);
    let report = sidelane(&["report", FILE]);
    let text = String::from_utf8_lossy(&report.stdout);
    println!("{text}");
    assert!(text.contains("jobs of critical tasks") && text.contains("/critical"));
}

fn stat_has_the_metrics_too() {
    let _load = [spin_on(0), spin_on(1)];
    let line = parse(&printed(&["stat", "1", "1", "--format", "json"]));
    println!("{line}");
    let of = |what: &str| line["smt"][what].as_f64().unwrap();
    assert!(of("thread_density") > 1.4 && of("mt_utilization") > 0.4);
    assert!(of("productivity") > 0.85 && line["busy_lanes"]["normal"].as_f64().unwrap() > 1.5);
    assert_eq!(line["smt_rates"], "assumed");
    let interval_s = line["interval_s"].as_f64().unwrap();
    assert!((0.5..2.5).contains(&(of("busy_ns") / 1e9 / interval_s)));
    let text = sidelane(&["stat", "0.5", "1", "--thread-perf", "1,0.7"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    println!("{text}");
    assert!(text.contains("capacity factor") && text.contains("of 1.40"));
    assert!(text.lines().all(|line| line.len() <= 100), "{text}");
    let text = sidelane(&["stat", "0.2", "1", "--no-smt"]);
    assert!(!String::from_utf8_lossy(&text.stdout).contains("density"));
}

fn more_short_tasks_than_are_listed() {
    const THREADS: usize = 6_000;
    let recorder = Recorder::start();
    let memory_kb = resident_kb(recorder.0.id());
    let start = |_| std::thread::spawn(std::thread::yield_now);
    for _ in 0..THREADS / 10 {
        let ten: Vec<_> = (0..10).map(start).collect();
        ten.into_iter().for_each(|one| one.join().unwrap());
    }
    let grown_kb = resident_kb(recorder.0.id()).saturating_sub(memory_kb);
    let interval = recorder.stop();
    let tasks = interval.tasks.len();
    println!("{:?}, {tasks} tasks, {grown_kb} kB more", interval.notes);
    assert!(grown_kb < 32 << 10, "{grown_kb} kB");
    let ended = interval.tasks.iter().filter(|task| task.ended).count();
    assert!(interval.notes.unlisted_tasks as usize + ended >= THREADS);
    assert!(interval.notes.unlisted_tasks as usize <= THREADS + 500);
    assert_eq!(interval.notes.lost, 0);
    // their time is in the cgroup nevertheless, and nothing counts twice
    let work = interval.metrics().unwrap().mt1_ns as u64;
    let groups: u64 = (interval.cgroups.iter()).map(|g| g.usage.mt1_ns).sum();
    close("MT1 time of cgroups", groups, work, 0.01);
    let size = fs::metadata(FILE).unwrap().len();
    assert!(size < 40 << 20, "{size} bytes");
}

fn set_smt(wanted: &str) {
    fs::write("/sys/devices/system/cpu/smt/control", wanted).unwrap();
}

fn lanes_that_go_and_come_are_told() {
    let all = online();
    let recorder = Recorder::start();
    let _load = spin_on(0);
    std::thread::sleep(Duration::from_millis(600));
    set_smt("off");
    std::thread::sleep(Duration::from_millis(900));
    set_smt("on");
    eventually("all lanes are back", || online() == all);
    std::thread::sleep(Duration::from_millis(600));
    let interval = recorder.stop();
    println!(
        "{}",
        String::from_utf8_lossy(&sidelane(&["report", FILE]).stdout)
    );
    assert!(interval.notes.hotplug >= 2, "{:?}", interval.notes);
    sums_agree(&interval);

    // lanes that it does not know: it starts anew
    set_smt("off");
    let recorder = Recorder::start();
    set_smt("on");
    eventually("all lanes are back", || online() == all);
    let report = || {
        let report = sidelane(&["report", FILE]);
        String::from_utf8_lossy(&report.stdout).replace("\n  ", " ")
    };
    let anew = "anew: lanes came online";
    eventually("it is started anew", || report().contains(anew));
    signal(recorder.0.id(), "INT");
    eventually("it ends", || {
        let text = report();
        text.contains(anew) && !text.contains("its end is missing")
    });
}

fn a_command_is_recorded_and_its_status_handed_on() {
    let output = sidelane(&["record", FILE, "--", "sh", "-c", "sleep 0.3; exit 7"]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let report = sidelane(&["report", FILE, FILE, "--transactions", "10,20"]);
    let text = String::from_utf8_lossy(&report.stdout);
    println!("{text}");
    assert!(text.contains("ETR") && text.contains("100.0"), "{text}");
    let report = sidelane(&["report", "/etc/passwd"]);
    assert_eq!(report.status.code(), Some(4));
}
