//! Jobs that programs mark: what counts as a job is what they say.

use super::support::*;
use sidelane_runtime::Job;
use std::time::{Duration, Instant};

/// What the marking program does, as arguments of its own.
const WORK: &str = "MARKING_PROGRAM";

const CONFIG: &str = "/tmp/jobs.toml";

/// Starts the scheduler with an objective for what runs in /critical.
fn attach(objective: &str) -> Scheduler {
    let text = format!("[scheduler]\nborrow = \"slo\"\nobjective = \"{objective}\"\n");
    std::fs::write(CONFIG, text).unwrap();
    Scheduler::attach(&["--config", CONFIG, "--critical", "cgroup:/critical"])
}

/// The marking program in /critical: so many jobs of so many ms at each wake-up, then a pause, ms.
fn marking(jobs: u32, job_ms: u64, pause_ms: u64) -> Load {
    let traits = Traits {
        cgroup: Some("critical"),
        ..Traits::default()
    };
    let program = std::env::current_exe().unwrap();
    let work = format!("{WORK}={jobs} {job_ms} {pause_ms}");
    let test = "guest::jobs::marking_program --exact --ignored --nocapture";
    let mut args = vec![work.as_str(), program.to_str().unwrap()];
    args.extend(test.split(' '));
    Load::spawn("env", &args, &traits)
}

/// Not a test: the marking program.
#[test]
#[ignore = "started by the tests below"]
fn marking_program() {
    let Ok(work) = std::env::var(WORK) else {
        return;
    };
    let numbers: Vec<u64> = work.split(' ').map(|word| word.parse().unwrap()).collect();
    let [jobs, job_ms, pause_ms] = numbers[..] else {
        panic!("{work}");
    };
    loop {
        for _ in 0..jobs {
            let job = Job::begin(0);
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(job_ms) {
                std::hint::spin_loop();
            }
            job.end();
        }
        if pause_ms > 0 {
            std::thread::sleep(Duration::from_millis(pause_ms));
        }
    }
}

/// Marked jobs a second, and the tail in ms, once there is one.
fn jobs_and_tail() -> (f64, f64) {
    let mut seen = (0.0, 0.0);
    for _ in 0..30 {
        let rates = rates("1");
        assert_eq!(rates["marked_jobs_missed"].as_f64(), Some(0.0), "{rates}");
        let tail = rates["objectives"][0]["tail_ms"].as_f64().unwrap_or(0.0);
        seen = (rates["marked_jobs"].as_f64().unwrap(), tail);
        if tail > 0.0 {
            break;
        }
    }
    println!("{:.0} marked jobs a second, tail {:.1} ms", seen.0, seen.1);
    seen
}

#[test]
#[ignore = "runs in the test bed"]
fn several_jobs_in_one_go_are_jobs_each() {
    let scheduler = attach("p90 < 60 ms");
    // to a scheduler that sees no marks a job takes 40 ms here
    let _program = marking(20, 2, 20);
    let (jobs, tail_ms) = jobs_and_tail();
    assert!((60.0..500.0).contains(&jobs), "{jobs}");
    assert!((1.0..20.0).contains(&tail_ms), "{tail_ms}");
    assert!(scheduler.stop().success(), "ejected");
}

#[test]
#[ignore = "runs in the test bed"]
fn a_program_that_never_sleeps_has_jobs() {
    let scheduler = attach("p90 < 100 ms");
    let _program = marking(1, 10, 0);
    let (jobs, tail_ms) = jobs_and_tail();
    assert!((20.0..101.0).contains(&jobs), "{jobs}");
    assert!((9.0..60.0).contains(&tail_ms), "{tail_ms}");
    assert!(scheduler.stop().success(), "ejected");
}
