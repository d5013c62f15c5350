//! Jobs that programs mark: what counts as a job is what they say.

use super::support::*;
use sidelane_runtime::Job;
use std::time::{Duration, Instant};

tests! {
    what_counts_as_a_job_is_what_the_program_marks,
}

/// Makes this program the marking program, with what it does.
pub const MARKING_ARGUMENT: &str = "--mark-jobs";

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
    let numbers = [jobs.to_string(), job_ms.to_string(), pause_ms.to_string()];
    let mut args = vec![MARKING_ARGUMENT];
    args.extend(numbers.iter().map(String::as_str));
    Load::of_this_program(&args, &traits)
}

/// The marking program.
pub fn mark(numbers: &[String]) -> ! {
    let numbers: Vec<u64> = numbers.iter().map(|word| word.parse().unwrap()).collect();
    let [jobs, job_ms, pause_ms] = numbers[..] else {
        panic!("{numbers:?}");
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

/// Runs the marking program for some windows: marked jobs a second, and the tail in ms.
fn jobs_and_tail(jobs: u32, job_ms: u64, pause_ms: u64) -> (f64, f64) {
    let _program = marking(jobs, job_ms, pause_ms);
    let mut first = None;
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let rates = rates("1");
        let number = |value: &serde_json::Value| value.as_f64().unwrap_or(0.0);
        assert_eq!(number(&rates["marked_jobs_missed"]), 0.0, "{rates}");
        let objective = &rates["objectives"][0];
        let (windows, tail_ms) = (number(&objective["windows"]), number(&objective["tail_ms"]));
        // the first window has jobs of before
        if windows >= *first.get_or_insert(windows) + 2.0 {
            let jobs = number(&rates["marked_jobs"]);
            println!("{jobs:.0} marked jobs a second, tail {tail_ms:.1} ms");
            return (jobs, tail_ms);
        }
    }
    panic!("no windows");
}

fn what_counts_as_a_job_is_what_the_program_marks() {
    let scheduler = attach("p90 < 60 ms");
    // to a scheduler that sees no marks it has no jobs at all: it never sleeps
    let (jobs, tail_ms) = jobs_and_tail(1, 5, 0);
    assert!((20.0..201.0).contains(&jobs), "{jobs}");
    assert!((4.0..50.0).contains(&tail_ms), "{tail_ms}");
    // and here a job takes 80 ms
    let (jobs, tail_ms) = jobs_and_tail(40, 2, 20);
    assert!((60.0..500.0).contains(&jobs), "{jobs}");
    assert!((1.0..40.0).contains(&tail_ms), "{tail_ms}");
    assert!(scheduler.stop().success(), "ejected");
}
