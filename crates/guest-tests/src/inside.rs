//! Inside the machine: runs each test that standard input names, and tells how it ended.

use crate::tests::{self, support::Scheduler};
use crate::{Runs, Test};
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

/// Makes the program serve inside a machine.
pub const ARGUMENT: &str = "--inside";
/// A line of its output that begins so says how a test ended: `passed` or `failed`; before the first, that the machine has
/// `booted`.
pub const ENDED: &str = "@guest-test ";
const BOOTED: &str = "booted";
pub const PASSED: &str = "passed";
const FAILED: &str = "failed";

/// Runs tests until standard input ends.
pub fn serve() -> ExitCode {
    // one stream, so that the order of lines is kept
    // SAFETY: duplicates one open descriptor over another.
    unsafe { libc::dup2(libc::STDOUT_FILENO, libc::STDERR_FILENO) };
    println!("\n{ENDED}{BOOTED}");
    for name in std::io::stdin().lock().lines() {
        let name = name.unwrap();
        let test = find(&name).unwrap_or_else(|| panic!("no test is called {name}"));
        let run = move || {
            if test.runs != Runs::UnderOneScheduler {
                Scheduler::end_shared();
            }
            (test.run)();
        };
        let began = Instant::now();
        let thread = thread::Builder::new().name(name.clone());
        let ended = match thread.spawn(run).unwrap().join() {
            Ok(()) => PASSED,
            Err(_) => FAILED,
        };
        // a test may have left its line open
        println!("\n{name} took {:.1} s", began.elapsed().as_secs_f64());
        println!("{ENDED}{ended}");
        std::io::stdout().flush().unwrap();
    }
    Scheduler::end_shared();
    ExitCode::SUCCESS
}

fn find(name: &str) -> Option<Test> {
    tests::all().into_iter().find(|test| test.name() == name)
}
