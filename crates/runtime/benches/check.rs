//! What a check costs, what checks cost the matrix multiplication, and how soon a nap ends.
//!
//! `cargo bench -p sidelane-runtime --bench check`
//!
//! Rounds take turns, and the best of each counts: the others were disturbed. Naps that this machine
//! cannot execute are left out, which is said.

#![allow(clippy::print_stdout, missing_docs)]

use sidelane_runtime::nap::Method;
use sidelane_runtime::{BoundLane, check, ffi, start};
use std::error::Error;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: u32 = 15;
const CALLS: u32 = 2_000_000;
const NAPS: usize = 300;

fn main() -> Result<(), Box<dyn Error>> {
    start();
    println!("check, ns a call");
    for (name, ns) in check_ns()? {
        println!("  {name:<44} {ns:>8.2}");
    }
    println!("matrix multiplication, 128 x 128, relative time");
    for (name, slowdown) in matmul()? {
        println!("  {name:<44} {slowdown:>8.2}");
    }
    println!("from the flag's clearing to the end of the nap, us: median, 99th percentile");
    for method in Method::ALL {
        match method.supported() {
            true => {
                let [median, p99] = resume_us(method);
                println!("  {:<44} {median:>8.2} {p99:>8.2}", method.name());
            }
            false => println!("  {:<44} this machine does not have it", method.name()),
        }
    }
    Ok(())
}

/// Best time of a call, and of the empty loop that is around each.
fn check_ns() -> std::io::Result<Vec<(&'static str, f64)>> {
    let mut best = [f64::INFINITY; 4];
    let lane = BoundLane::bind()?;
    let hook: extern "C" fn() = black_box(ffi::__sanitizer_cov_trace_pc);
    for _ in 0..ROUNDS {
        let times = [
            per_call(|| ()),
            per_call(check),
            per_call(|| lane.check()),
            per_call(|| hook()),
        ];
        for (best, time) in best.iter_mut().zip(times) {
            *best = best.min(time);
        }
    }
    let names = [
        "the empty loop, in all others, too",
        "check()",
        "BoundLane::check()",
        "the hook __sanitizer_cov_trace_pc, by pointer",
    ];
    unbind();
    Ok(names.into_iter().zip(best).collect())
}

fn per_call(call: impl Fn()) -> f64 {
    let began = Instant::now();
    for i in 0..CALLS {
        black_box(i);
        call();
    }
    began.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}

/// The measurements that follow need both CPUs.
fn unbind() {
    // SAFETY: a set of ones is a valid one
    unsafe {
        let mut all: libc::cpu_set_t = std::mem::zeroed();
        (0..8 * size_of::<libc::cpu_set_t>()).for_each(|cpu| libc::CPU_SET(cpu, &mut all));
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &all);
    }
}

fn matmul() -> Result<Vec<(String, f64)>, Box<dyn Error>> {
    let library = std::env::current_exe()?.with_file_name("libsidelane_runtime.a");
    let folder = tempfile::tempdir()?;
    let mut programs: Vec<(String, PathBuf, f64)> = Vec::new();
    for compiler in ["gcc", "clang-19"] {
        for option in ["", "-finstrument-functions", "-fsanitize-coverage=trace-pc"] {
            let to = folder.path().join(format!("{compiler}{option}"));
            if compile(compiler, option, &library, &to) {
                programs.push((format!("{compiler} -O2 {option}"), to, 0.0));
            }
        }
    }
    for _ in 0..3 {
        for (_, program, best) in &mut programs {
            *best = best.max(rate(program)?);
        }
    }
    let plain = |name: &str| {
        let compiler = name.split(' ').next().unwrap_or(name);
        let found = programs
            .iter()
            .find(|(name, ..)| name.starts_with(compiler));
        found.map_or(f64::NAN, |(_, _, rate)| *rate)
    };
    let slowdown = |(name, _, rate): &(String, PathBuf, f64)| (name.clone(), plain(name) / rate);
    Ok(programs.iter().map(slowdown).collect())
}

/// In two steps: with the option of the hooks, clang would link a library of its own that has them.
fn compile(compiler: &str, option: &str, library: &Path, to: &Path) -> bool {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/matmul.c");
    let object = to.with_extension("o");
    let mut compile = Command::new(compiler);
    compile.args(["-c", "-O2"]);
    compile.args(Some(option).filter(|option| !option.is_empty()));
    compile.arg(source).arg("-o").arg(&object);
    let mut link = Command::new(compiler);
    link.arg(&object).arg(library).args(["-lm", "-o"]).arg(to);
    let succeeds = |command: &mut Command| command.status().is_ok_and(|status| status.success());
    succeeds(&mut compile) && succeeds(&mut link)
}

/// Multiplications a second.
fn rate(program: &Path) -> Result<f64, Box<dyn Error>> {
    let output = Command::new(program).args(["0.3", "128"]).output()?;
    let said = String::from_utf8(output.stdout)?;
    Ok(said.split(' ').next().unwrap_or_default().parse()?)
}

/// Another thread clears the flag, and wakes the futex, while this one naps.
fn resume_us(method: Method) -> [f64; 2] {
    let (flag, word) = (AtomicU64::new(0), AtomicU32::new(0));
    let (cleared_ns, end) = (AtomicU64::new(0), AtomicBool::new(false));
    let began = Instant::now();
    let now_ns = || began.elapsed().as_nanos() as u64;
    let mut times: Vec<f64> = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !end.load(Ordering::Acquire) {
                if flag.load(Ordering::Acquire) != 0 {
                    std::thread::sleep(Duration::from_micros(200));
                    cleared_ns.store(now_ns(), Ordering::Release);
                    flag.store(0, Ordering::Release);
                    word.fetch_add(1, Ordering::Release);
                    wake(&word);
                }
            }
        });
        for _ in 0..NAPS {
            flag.store(1, Ordering::Release);
            while flag.load(Ordering::Acquire) != 0 {
                method.wait(&flag, Some(&word));
            }
            let ns = now_ns().saturating_sub(cleared_ns.load(Ordering::Acquire));
            times.push(ns as f64 / 1e3);
        }
        end.store(true, Ordering::Release);
    });
    times.sort_by(f64::total_cmp);
    [times[NAPS / 2], times[NAPS * 99 / 100]]
}

fn wake(word: &AtomicU32) {
    // SAFETY: the word outlives the call
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
