//! Tests of the whole on a real kernel: each runs inside the test bed, on machines of the shapes that
//! [`shape`] lists, and has its own line: `2x2::lifecycle::a_hangup_has_the_configuration_read_again`.
//!
//! One program is both sides. Started by `cargo test` it boots a machine for the first test of a shape, and
//! names one test after the other to the same program inside, which runs it and tells how it ended. Tests that measure no times
//! run two at once, on machines that float on the host's CPUs. A machine
//! that dies fails the test that ran, and the next one boots anew; one that the emulator led astray is booted once more.
//!
//! `SIDELANE_TEST_KERNEL` names another kernel than the shapes do.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    missing_docs
)] // a failure here is a test's

mod inside;
mod machine;
mod shape;
mod tests;

use libtest_mimic::{Arguments, Failed, Trial};
use machine::Machines;
use shape::{Shape, When};
use std::process::ExitCode;
use std::sync::Arc;

/// A test that runs inside.
#[derive(Clone, Copy)]
struct Test {
    /// Path of its function.
    path: &'static str,
    run: fn(),
    runs: Runs,
}

/// What runs while a test does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Runs {
    /// Nothing else, and the scheduler is the one that the test before left, if that runs so, too.
    UnderOneScheduler,
    /// Nothing else: it measures times.
    Alone,
    /// It measures none: another test like this, on another machine.
    BesideOthers,
}

impl Test {
    /// Path below `tests`: `lifecycle::a_hangup_has_the_configuration_read_again`.
    fn name(&self) -> &'static str {
        let tests = concat!(module_path!(), "::tests::");
        self.path.strip_prefix(tests).unwrap_or(self.path)
    }
}

/// Each test on each shape: those that run alone come first, of all shapes, for two of the others fill the host until the end. Of
/// these what counts instructions comes first: it is the only one of its machine, and at the end nothing would run beside it.
fn in_order() -> Vec<(&'static Shape, Test)> {
    let tests = tests::all();
    let on = |shape| tests.iter().map(move |test| (shape, *test));
    let mut all: Vec<_> = shape::ALL.iter().flat_map(on).collect();
    all.sort_by_key(|(_, test)| test.runs);
    let first = all.partition_point(|(_, test)| test.runs < Runs::BesideOthers);
    // one of the last kind comes first: so machines for both kinds boot at once
    let quick = all.remove(first);
    all[first..].sort_by_key(|(shape, _)| shape.name != shape::COUNTED);
    all.insert(0, quick);
    all
}

/// Runs what the arguments ask for; `sidelane` is the program's path.
pub fn main(sidelane: &str) -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some(inside::ARGUMENT) => return inside::serve(),
        Some(tests::jobs::MARKING_ARGUMENT) => tests::jobs::mark(&arguments[2..]),
        Some(tests::only_batch::THREADS_ARGUMENT) => tests::only_batch::have_threads(&arguments[2]),
        Some(tests::field::BOUND_ARGUMENT) => tests::field::may_not_migrate(),
        _ => {}
    }
    let mut arguments = Arguments::from_args();
    // what two tests print at once nobody could tell apart
    arguments.test_threads = Some(if arguments.nocapture { 1 } else { 2 });
    let machines = Arc::new(Machines::new(sidelane, arguments.nocapture));
    let trials = in_order().into_iter().filter_map(|(shape, test)| {
        let (name, machines) = (test.name(), machines.clone());
        let ignored = match shape.runs(name) {
            When::Always => false,
            When::IfAsked => true,
            When::Never => return None,
        };
        let run = move || machines.run(shape, test).map_err(Failed::from);
        Some(Trial::test(format!("{}::{name}", shape.name), run).with_ignored_flag(ignored))
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    if let Err(what) = machines.shut() {
        eprintln!("{what}");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}
