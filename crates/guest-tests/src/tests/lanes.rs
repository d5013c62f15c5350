//! The lane signal: `sidelane lanes` on the kernel's own scheduler, and `sidelane run`.

use super::support::*;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Once;
use std::time::Duration;

tests! {
    batch_steps_aside_and_critical_work_keeps_its_speed,
    batch_works_while_critical_work_sleeps,
    #[untimed]
    a_killed_service_ends_naps_and_the_next_one_restores_cpusets,
    programs_find_the_signal_of_the_scheduler_too,
    a_program_that_naps_keeps_its_lane_and_not_for_ever,
    #[untimed]
    what_cannot_be_bound_is_refused_and_changes_nothing,
}

const NOBODY: u32 = 65534;
const SOCKET: &str = "/run/sidelane/signal.sock";
pub(super) const STATE: &str = "/run/sidelane/lanes.json";

/// A running `sidelane lanes`; killed when dropped.
pub(super) struct Lanes(Child);

impl Lanes {
    pub(super) fn start() -> Lanes {
        let _ = (cgroup("critical"), cgroup("batch"));
        let mut child = Command::new(SIDELANE)
            .args(["lanes", "--critical", "/critical", "--batch", "/batch"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = Vec::new();
        while !said.iter().any(|line: &String| line.contains("serving:")) {
            match lines.next() {
                Some(line) => said.push(line.unwrap()),
                None => panic!("sidelane lanes ended: {said:#?}"),
            }
        }
        // what follows is read, or it could not be written
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Lanes(child)
    }

    pub(super) fn stop(mut self) {
        signal(self.0.id(), "TERM");
        assert!(self.0.wait().unwrap().success());
        assert!(!fs::exists(STATE).unwrap(), "the state file is still there");
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn cpus(group: &str) -> String {
    let file = cgroup(group).join("cpuset.cpus");
    fs::read_to_string(file).unwrap().trim().to_owned()
}

/// Starts the matrix multiplication in a cgroup, as nobody.
pub(super) fn multiply(group: &'static str, instrumented: bool, seconds: &str) -> Child {
    let procs = cgroup(group).join("cgroup.procs");
    let mut command = Command::new(matmul(instrumented));
    command
        .args([seconds, "48"])
        .env("SIDELANE_RUNTIME_VERBOSE", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // SAFETY: writes a file and makes a system call between fork and exec
    unsafe {
        command.pre_exec(move || {
            fs::write(&procs, "0")?;
            match libc::setuid(NOBODY) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    command.spawn().unwrap()
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Multiplications a second, as the program printed.
fn rate(output: &Output) -> f64 {
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    said.split(' ').next().unwrap().parse().unwrap()
}

/// Naps and milliseconds, as the runtime printed.
pub(super) fn naps(output: &Output) -> (u64, f64) {
    let said = text(&output.stderr);
    let after = said
        .split("sidelane-runtime: ")
        .nth(1)
        .unwrap_or_else(|| panic!("{said}"));
    let mut words = after.split(' ');
    let naps = words.next().unwrap().parse().unwrap();
    (naps, words.nth(1).unwrap().parse().unwrap())
}

/// Whether the service woke a thread that napped on a futex.
fn was_woken(output: &Output) -> bool {
    let said = text(&output.stderr);
    assert!(said.contains(" wake-ups (futex"), "{said}");
    !said.contains(", 0 wake-ups")
}

pub(super) fn critical_rate() -> f64 {
    rate(&multiply("critical", false, "1").wait_with_output().unwrap())
}

/// Batch on every second lane while `work` runs.
fn beside_batch<R>(
    instrumented: bool,
    seconds: &str,
    work: impl FnOnce() -> R,
) -> (R, Vec<Output>) {
    let start = |_| multiply("batch", instrumented, seconds);
    let batch: Vec<_> = (0..nr_cpus() / 2).map(start).collect();
    std::thread::sleep(Duration::from_millis(300));
    let result = work();
    let wait = |child: Child| child.wait_with_output().unwrap();
    (result, batch.into_iter().map(wait).collect())
}

fn batch_steps_aside_and_critical_work_keeps_its_speed() {
    let lanes = Lanes::start();
    assert_eq!(
        (cpus("critical"), cpus("batch")),
        ("0,2".into(), "1,3".into())
    );
    // the middle of three rounds: whatever else runs on the host disturbs some of them
    let mut slowdowns = [Vec::new(), Vec::new()];
    let mut total = (0, 0.0);
    for _ in 0..3 {
        let alone = critical_rate();
        let (stepping, batch) = beside_batch(true, "1.6", critical_rate);
        let (ignoring, _) = beside_batch(false, "1.6", critical_rate);
        println!("alone {alone:.0}, stepping aside {stepping:.0}, ignoring {ignoring:.0}");
        slowdowns[0].push(alone / stepping);
        slowdowns[1].push(alone / ignoring);
        for output in &batch {
            let (naps, ms) = naps(output);
            total = (total.0 + naps, total.1 + ms);
        }
    }
    slowdowns
        .iter_mut()
        .for_each(|rounds| rounds.sort_by(f64::total_cmp));
    let [stepping, ignoring] = slowdowns.each_ref().map(|rounds| rounds[1]);
    println!(
        "critical work slowed down {stepping:.2} times by batch that steps aside, {ignoring:.2} \
         times by batch that does not; {} naps, {:.0} ms",
        total.0, total.1
    );
    assert!(
        ignoring > 1.3,
        "batch does no harm here, so this shows nothing: {slowdowns:?}"
    );
    // against the same run's harm: the host's speed changes from one second to the next
    let spared = (ignoring - stepping) / (ignoring - 1.0);
    assert!(spared > 0.6, "{spared:.2} of the harm: {slowdowns:?}");
    assert!(total.0 > 0 && total.1 > 1000.0, "{total:?}");
    lanes.stop();
}

fn batch_works_while_critical_work_sleeps() {
    let lanes = Lanes::start();
    let _critical: Vec<_> = (0..2).map(|_| Load::critical_jobs(500, "0.05")).collect();
    let ((), batch) = beside_batch(true, "2", || ());
    let naps: Vec<_> = batch.iter().map(naps).collect();
    println!(
        "naps beside intermittent work: {naps:?} {}",
        text(&batch[0].stderr)
    );
    assert!(batch.iter().all(was_woken), "{batch:?}");
    assert!(
        naps.iter().any(|(naps, _)| *naps > 3),
        "one for each burst: {naps:?}"
    );
    assert!(
        naps.iter().all(|(_, ms)| *ms < 1900.0),
        "it worked in between: {naps:?}"
    );
    lanes.stop();
}

fn a_killed_service_ends_naps_and_the_next_one_restores_cpusets() {
    let (critical, batch) = (cgroup("critical"), cgroup("batch"));
    fs::write(critical.join("cpuset.cpus"), "0-2").unwrap();
    fs::write(batch.join("cpuset.cpus"), "\n").unwrap();
    let mut lanes = Lanes::start();
    let at_work: Vec<_> = (0..2).map(|_| Load::spin_in("critical")).collect();
    let (after, outputs) = beside_batch(true, "3", || {
        lanes.0.kill().unwrap();
        lanes.0.wait().unwrap();
        assert_eq!(cpus("critical"), "0,2", "nobody restored it yet");
        std::thread::sleep(Duration::from_secs(1));
        fs::exists(SOCKET).unwrap()
    });
    for output in &outputs {
        let (_, ms) = naps(output);
        assert!(text(&output.stderr).contains("no service"), "{output:?}");
        assert!(
            ms < 1500.0,
            "it works once the service is gone: {ms} ms of naps"
        );
        assert!(rate(output) > 0.0);
    }
    assert!(after, "nobody removes the socket's file");
    assert_eq!(
        fs::read_dir("/sys/fs/bpf").unwrap().count(),
        0,
        "something stayed pinned"
    );
    Lanes::start().stop();
    assert_eq!(
        (cpus("critical"), cpus("batch")),
        ("0-2".into(), String::new())
    );
    drop(at_work); // before 7.0 the kernel takes no empty list where tasks are
    fs::write(critical.join("cpuset.cpus"), "\n").unwrap();
    assert!(!fs::exists(SOCKET).unwrap());
}

fn programs_find_the_signal_of_the_scheduler_too() {
    let scheduler = Scheduler::attach(&RULES);
    let (_, batch) = beside_batch(true, "1.5", critical_rate);
    for output in &batch {
        println!("{}", text(&output.stderr).trim());
        assert!(text(&output.stderr).contains("attached"), "{output:?}");
    }
    assert!(scheduler.stop().success());
    assert!(!fs::exists(SOCKET).unwrap());
}

/// The least share of the time in which a lane idles that is kept.
const KEPT: f64 = 0.4;

/// Shares of the time in which the second lane of a core idled, soon after critical work began on the first one, and then normal
/// work that has one lane less than tasks, and beyond the starvation bound.
fn idled_beside_critical(first: usize, second: usize) -> [f64; 2] {
    let _critical = Load::spin(&Traits::on("critical", first));
    std::thread::sleep(Duration::from_millis(50));
    let _normal = [(); 3].map(|()| Load::spin(&Traits::default()));
    let idled_after = |wait_ms| {
        std::thread::sleep(Duration::from_millis(wait_ms));
        let before = busy_ticks()[second];
        std::thread::sleep(Duration::from_millis(600));
        1.0 - (busy_ticks()[second] - before) as f64 / 60.0
    };
    [idled_after(100), idled_after(1000)]
}

/// The same with a batch program on that lane that naps, of rounds until the lane was kept, and at most so many.
fn idled_beside_naps(config: &str, rounds: usize) -> Vec<[f64; 2]> {
    let path = "/tmp/naps.toml";
    fs::write(path, format!("[scheduler]\n{config}\n")).unwrap();
    let scheduler = Scheduler::attach(&[&RULES[..], &["--config", path]].concat());
    let [first, second] = first_core()[..2] else {
        panic!("a core of two lanes")
    };
    let batch = multiply("batch", true, "60");
    set_cpus(batch.id(), &[second]).unwrap();
    let round = || {
        let ran_ns = || schedstat(batch.id()).0;
        let before_ns = ran_ns();
        eventually("the batch program runs", || {
            ran_ns() > before_ns + 300_000_000
        });
        idled_beside_critical(first, second)
    };
    let mut idled: Vec<[f64; 2]> = Vec::new();
    while idled.len() < rounds && !idled.iter().any(|[soon, _]| *soon > KEPT) {
        idled.push(round());
    }
    signal(batch.id(), "KILL");
    batch.wait_with_output().unwrap();
    assert!(scheduler.stop().success());
    idled
}

fn a_program_that_naps_keeps_its_lane_and_not_for_ever() {
    // in some it is evicted before: the first nap takes longer than to the next tick here, for its code is new to the emulator
    let held = idled_beside_naps("hold_naps = true", 8);
    let others = idled_beside_naps("hold_naps = false", 1);
    println!(
        "the lane idled for these shares beside naps, and beyond the bound: {held:.2?}; where it is not held: {others:.2?}"
    );
    assert!(
        held.last()
            .is_some_and(|[naps, later]| *naps > KEPT && *later < 0.2)
    );
    assert!(others.iter().all(|[naps, _]| *naps < 0.2));
}

fn what_cannot_be_bound_is_refused_and_changes_nothing() {
    let now = || (cpus("critical"), cpus("batch"));
    let before = now();
    for (critical, batch, says) in [
        ("/critical", "/critical/", "have to be apart"),
        ("/none", "/batch", "no such cgroup"),
        ("/", "/batch", "apart"),
    ] {
        let output = sidelane(&["lanes", "--critical", critical, "--batch", batch]);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(says), "{said}");
    }
    assert_eq!(now(), before);
}

/// The matrix multiplication of `examples/`, with the runtime's checks or without; beside this program, in the guest, too.
pub fn matmul(instrumented: bool) -> PathBuf {
    let name = match instrumented {
        true => "matmul-stepping-aside",
        false => "matmul",
    };
    std::env::current_exe().unwrap().with_file_name(name)
}

/// Compiles both, once.
pub fn build_matmul() {
    static BUILT: Once = Once::new();
    BUILT.call_once(compile_matmul);
}

fn compile_matmul() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/matmul.c");
    let library = matmul(true).with_file_name("libsidelane_runtime.a");
    for instrumented in [false, true] {
        let mut gcc = Command::new("gcc");
        gcc.args(["-O2", source, "-o"]).arg(matmul(instrumented));
        if instrumented {
            gcc.arg("-fsanitize-coverage=trace-pc").arg(&library);
        }
        assert!(gcc.arg("-lm").status().unwrap().success());
    }
}
