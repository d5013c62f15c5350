//! What the guest tests share: the scheduler as a child, load in cgroups, files of the kernel.

use serde_json::Value;
use sidelane_collect::proc_stat;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

pub const SIDELANE: &str = "/usr/bin/sidelane";
/// What most tests want: the cgroups /critical and /batch are that.
pub const RULES: [&str; 4] = ["--critical", "cgroup:/critical", "--batch", "cgroup:/batch"];
/// The kernel's tracer, and its event for what BPF programs print.
pub const TRACING: &str = "/sys/kernel/tracing";
pub const PRINTED: &str = "/sys/kernel/tracing/events/bpf_trace/bpf_trace_printk";
/// A short starvation bound, where batch waits for it time and again.
pub fn soon_due() -> [&'static str; 2] {
    let file = "/run/soon-due.toml";
    fs::write(file, "[scheduler]\nstarvation_bound_ms = 50\n").unwrap();
    ["--config", file]
}

/// Emulated, and beside other work on the host: generous.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `condition` holds.
pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until each of `load` has run for more than `least_ns` from now on.
pub fn eventually_all_run(load: &[Load], least_ns: u64) {
    let ran_ns = || load.iter().map(Load::ran_ns);
    let before: Vec<_> = ran_ns().collect();
    eventually("all load progresses", || {
        let mut pairs = ran_ns().zip(&before);
        pairs.all(|(ran_ns, before)| ran_ns > before + least_ns)
    });
}

pub fn state() -> String {
    fs::read_to_string("/sys/kernel/sched_ext/state")
        .unwrap()
        .trim()
        .to_owned()
}

pub fn attached() -> bool {
    fs::read_to_string("/sys/kernel/sched_ext/root/ops").is_ok_and(|n| n.starts_with("sidelane"))
}

/// Of the loader: seven eighths of a lane beside one other task, and no rule of a test's.
const LOADER_NICE: i32 = -9;

/// A running `sidelane run`; killed when dropped.
pub struct Scheduler {
    pub child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

/// What tests share, between two of them.
static SHARED: Mutex<Option<Scheduler>> = Mutex::new(None);

impl Scheduler {
    /// The one with [`RULES`], and a trace, that tests share, for it takes seconds to attach here. A test that fails ends it.
    pub fn shared() -> Scheduler {
        let left = SHARED.lock().unwrap().take();
        left.unwrap_or_else(|| {
            let file = "/run/traced.toml";
            fs::write(file, "[scheduler]\ntrace = true\n").unwrap();
            Scheduler::attach(&[&RULES[..], &["--config", file]].concat())
        })
    }

    /// Leaves it to the next test.
    pub fn leave(self) {
        assert!(attached(), "ejected");
        *SHARED.lock().unwrap() = Some(self);
    }

    /// Ends what the tests before shared.
    pub fn end_shared() {
        if let Some(left) = SHARED.lock().unwrap().take() {
            assert!(left.stop().success(), "ejected");
        }
    }

    /// Starts it and waits until it is attached: soon, also beside load.
    pub fn attach(args: &[&str]) -> Scheduler {
        let mut command = Command::new(SIDELANE);
        command.arg("run").args(args).stderr(Stdio::piped());
        // SAFETY: a system call between fork and exec
        unsafe {
            command.pre_exec(|| {
                libc::setpriority(libc::PRIO_PROCESS, 0, LOADER_NICE);
                Ok(())
            });
        }
        let mut child = command.spawn().unwrap();
        let lines = lines_of(child.stderr.take().unwrap());
        let mut scheduler = Scheduler {
            child,
            lines,
            seen: Vec::new(),
        };
        scheduler.await_line("attached:");
        assert!(attached());
        scheduler
    }

    /// Waits for the next line that contains `word`.
    pub fn await_line(&mut self, word: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    let found = line.contains(word);
                    self.seen.push(line);
                    if found {
                        return;
                    }
                }
                Err(_) => panic!("no '{word}' from sidelane run; it said {:#?}", self.seen),
            }
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to stop and waits; prints what it said if it did not end well.
    pub fn stop(mut self) -> ExitStatus {
        signal(self.pid(), "TERM");
        let status = self.child.wait().unwrap();
        if !status.success() {
            self.seen.extend(self.lines.iter());
            println!("{status}: {:#?}", self.seen);
        }
        status
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let ended = self.child.try_wait();
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            self.seen.extend(self.lines.iter());
            println!("sidelane run, {ended:?}: {:#?}", self.seen);
            if matches!(ended, Ok(Some(_))) {
                let seen = fs::read_to_string("/run/sidelane/ejected.txt");
                println!("{}", seen.unwrap_or_default());
            }
        }
        eventually("the default scheduler is back", || state() == "disabled");
    }
}

pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

/// Runs `sidelane` to its end.
pub fn sidelane(args: &[&str]) -> Output {
    Command::new(SIDELANE).args(args).output().unwrap()
}

/// What `sidelane` prints, which has to succeed.
pub fn printed(args: &[&str]) -> String {
    let output = sidelane(args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{args:?}: {}: {said}",
        output.status
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Lines of what a program prints, as they come.
fn lines_of(printed: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        BufReader::new(printed)
            .lines()
            .map_while(Result::ok)
            .all(|line| sender.send(line).is_ok())
    });
    lines
}

/// A document that a command printed; the published schema describes it.
pub fn parse(document: &str) -> Value {
    let document = serde_json::from_str(document).unwrap();
    sidelane_interface::check::document(&document).unwrap();
    document
}

/// A running `sidelane stat`; killed when dropped.
pub struct Stat {
    child: Child,
    lines: Receiver<String>,
}

impl Stat {
    pub fn start(args: &[&str]) -> Stat {
        let mut child = Command::new(SIDELANE)
            .arg("stat")
            .args(args)
            .args(["--format", "json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = lines_of(child.stdout.take().unwrap());
        Stat { child, lines }
    }

    /// Waits for its next line.
    pub fn next(&self) -> Value {
        parse(&self.lines.recv_timeout(PATIENCE).unwrap())
    }

    /// The other lines, once it has ended.
    pub fn end(mut self) -> Vec<Value> {
        let lines = self.lines.iter().map(|line| parse(&line)).collect();
        assert!(self.child.wait().unwrap().success());
        lines
    }

    /// The other lines, the last one of an interval that ends after this moment. Asks it to end.
    pub fn end_beyond_now(self) -> Vec<Value> {
        let come = self.lines.try_iter();
        let mut lines: Vec<Value> = come.map(|line| parse(&line)).collect();
        // the first one may be of an interval that has ended already
        lines.extend([(); 2].map(|()| self.next()));
        signal(self.child.id(), "INT");
        lines.extend(self.end());
        lines
    }
}

impl Drop for Stat {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One line of `sidelane stat` over `seconds`.
pub fn rates(seconds: &str) -> Value {
    // SMT metrics need a collector, which takes seconds to load here
    parse(&printed(&[
        "stat", seconds, "1", "--format", "json", "--no-smt",
    ]))
}

/// What `sidelane tasks` says over `seconds`.
pub fn tasks(seconds: &str) -> Value {
    parse(&printed(&[
        "tasks",
        "--seconds",
        seconds,
        "--format",
        "json",
    ]))
}

/// Lanes busy with critical, normal and batch work.
pub fn busy_lanes(seconds: &str) -> [f64; 3] {
    let rates = rates(seconds);
    ["critical", "normal", "batch"].map(|class| rates["busy_lanes"][class].as_f64().unwrap())
}

/// Time of a process on lanes and waiting for one, as the kernel counts them, ns.
pub fn schedstat(pid: u32) -> (u64, u64) {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    let mut numbers = text.split_whitespace().map(|word| word.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// Time that each CPU was busy, in clock ticks. Idle time is no measure: 6.19.14 and 7.0.13 do not count all of it.
pub fn busy_ticks() -> Vec<u64> {
    let lanes = proc_stat::read(Path::new("/")).unwrap();
    lanes
        .values()
        .map(|ticks| ticks.busy + ticks.nice)
        .collect()
}

/// The monotonic clock, by which intervals are recorded.
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills in the structure
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    (time.tv_sec * 1_000_000_000 + time.tv_nsec).cast_unsigned()
}

/// A cgroup of the unified hierarchy, made if need be.
pub fn cgroup(name: &str) -> PathBuf {
    let path = Path::new("/sys/fs/cgroup").join(name);
    fs::create_dir_all(&path).unwrap();
    path
}

/// Time that tasks of a cgroup ran, by the kernel's account, ns.
pub fn usage_ns(group: &str) -> u64 {
    let text = fs::read_to_string(cgroup(group).join("cpu.stat")).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("usage_usec "));
    line.unwrap().parse::<u64>().unwrap() * 1000
}

/// How a process differs from its parent.
#[derive(Clone, Default)]
pub struct Traits {
    pub cgroup: Option<&'static str>,
    pub uid: Option<u32>,
    pub nice: i32,
    pub policy: i32,
    /// That it may run on; none: all.
    pub cpus: Vec<usize>,
}

impl Traits {
    /// In a cgroup, bound to one lane.
    pub fn on(cgroup: &'static str, cpu: usize) -> Traits {
        Traits {
            cgroup: Some(cgroup),
            cpus: vec![cpu],
            ..Traits::default()
        }
    }
}

/// A child process; killed when dropped.
pub struct Load(Child);

impl Load {
    pub fn spawn(program: &str, args: &[&str], traits: &Traits) -> Load {
        let mut command = Command::new(program);
        command
            .args(args)
            .stdout(Stdio::null())
            .stdin(Stdio::null());
        if let Some(uid) = traits.uid {
            command.uid(uid);
        }
        let procs = traits.cgroup.map(|name| cgroup(name).join("cgroup.procs"));
        let (nice, policy, cpus) = (traits.nice, traits.policy, traits.cpus.clone());
        let prepare = move || {
            if let Some(procs) = &procs {
                fs::write(procs, "0")?;
            }
            set_scheduling(nice, policy, &cpus)
        };
        // SAFETY: only writes a file and makes system calls between fork and exec
        unsafe { command.pre_exec(prepare) };
        Load(command.spawn().unwrap())
    }

    /// This program, as what its first argument makes of it.
    pub fn of_this_program(args: &[&str], traits: &Traits) -> Load {
        let program = std::env::current_exe().unwrap();
        Load::spawn(program.to_str().unwrap(), args, traits)
    }

    /// Spins on one lane: `yes`, for its name.
    pub fn spin(traits: &Traits) -> Load {
        Load::spawn("yes", &[], traits)
    }

    pub fn spin_in(cgroup: &'static str) -> Load {
        Load::spin(&Traits {
            cgroup: Some(cgroup),
            ..Traits::default()
        })
    }

    /// A task that counts so far and then sleeps, over and over.
    pub fn jobs(count: u32, pause_s: &str, traits: &Traits) -> Load {
        let job = format!("i=0; while [ $i -lt {count} ]; do i=$((i+1)); done");
        let script = format!("while :; do {job}; sleep {pause_s}; done");
        Load::spawn("sh", &["-c", &script], traits)
    }

    pub fn critical_jobs(count: u32, pause_s: &str) -> Load {
        let traits = Traits {
            cgroup: Some("critical"),
            ..Traits::default()
        };
        Load::jobs(count, pause_s, &traits)
    }

    /// Waits for its end.
    pub fn wait(mut self) -> ExitStatus {
        self.0.wait().unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// From now on it may use these CPUs.
    pub fn allow(&self, cpus: &[usize]) {
        set_cpus(self.pid(), cpus).unwrap();
    }

    /// CPU time it used, in clock ticks.
    pub fn ticks(&self) -> u64 {
        self.stat(11) + self.stat(12)
    }

    /// Time on lanes and time waiting for one, as the kernel counts them, ns.
    pub fn schedstat(&self) -> (u64, u64) {
        schedstat(self.pid())
    }

    /// Time on lanes: much finer than ticks.
    pub fn ran_ns(&self) -> u64 {
        self.schedstat().0
    }

    /// The CPU on which it ran last.
    pub fn cpu(&self) -> usize {
        self.stat(36) as usize
    }

    /// A number of its `stat` file, counted from after the name.
    fn stat(&self, index: usize) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        let fields: Vec<_> = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .collect();
        fields[index].parse().unwrap()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn set_scheduling(nice: i32, policy: i32, cpus: &[usize]) -> std::io::Result<()> {
    // SAFETY: plain system calls on this process
    unsafe {
        if nice != 0 {
            libc::setpriority(libc::PRIO_PROCESS, 0, nice);
        }
        if policy != 0 {
            let mut param: libc::sched_param = std::mem::zeroed();
            // 0 where the policy knows no priorities
            param.sched_priority = libc::sched_get_priority_max(policy);
            if libc::sched_setscheduler(0, policy, &param) != 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
    }
    match cpus.is_empty() {
        true => Ok(()),
        false => set_cpus(0, cpus),
    }
}

/// The CPUs that a process may use; 0: this one.
pub fn set_cpus(pid: u32, cpus: &[usize]) -> std::io::Result<()> {
    // SAFETY: plain system calls
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &cpu in cpus {
            libc::CPU_SET(cpu, &mut set);
        }
        match libc::sched_setaffinity(pid.cast_signed(), size_of::<libc::cpu_set_t>(), &set) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }
}

/// CPUs that are online.
pub fn online() -> String {
    fs::read_to_string("/sys/devices/system/cpu/online")
        .unwrap()
        .trim()
        .to_owned()
}

/// CPUs of the core of CPU 0.
pub fn first_core() -> Vec<usize> {
    let path = "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list";
    let list = fs::read_to_string(path).unwrap();
    let numbers = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse().unwrap()..=last.parse::<usize>().unwrap()
    };
    list.trim().split(',').flat_map(numbers).collect()
}

/// Number of possible CPUs.
pub fn nr_cpus() -> usize {
    let possible = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap();
    possible
        .trim()
        .rsplit('-')
        .next()
        .unwrap()
        .parse::<usize>()
        .unwrap()
        + 1
}
