//! Tests of the whole on a real kernel: each runs inside the test bed, on machines of the shapes that
//! [`shape`] lists, and has its own line: `2x2::lifecycle::a_hangup_has_the_configuration_read_again`.
//!
//! One program is both sides. Started by `cargo test` it boots a machine for the first test of a shape, and
//! names one test after the other to the same program inside, which runs it and tells how it ended. Tests that measure no times
//! run two at once, on machines that float on the host's CPUs. A machine
//! that dies fails the test that ran, and the next one boots anew; one that the emulator led astray is booted once more.
//!
//! `SIDELANE_TEST_KERNEL` names another kernel than the shapes do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)] // a failure here is a test's

mod inside;
mod machine;
mod matmul;
mod shape;
mod tests;

use jsonschema::Validator;
use libtest_mimic::{Arguments, Failed, Trial};
use machine::Machines;
use serde_json::Value;
use shape::When;
use sidelane_interface::Kind;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

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

/// Refuses a document that the published schema does not describe to the last key.
pub fn check_document(document: &Value) -> Result<(), String> {
    // made once each: that takes as long as thousands of documents, beside what is measured
    static VALIDATORS: [OnceLock<Validator>; Kind::ALL.len()] =
        [const { OnceLock::new() }; Kind::ALL.len()];
    let name = document["schema"].as_str().unwrap_or_default();
    let known = Kind::ALL.iter().zip(&VALIDATORS);
    let found = known.into_iter().find(|(kind, _)| kind.schema() == name);
    let (kind, validator) = found.ok_or_else(|| format!("schema is {}", document["schema"]))?;
    let faults = validator
        .get_or_init(|| validator_of(*kind))
        .iter_errors(document);
    let faults = faults.map(|fault| format!("{name}{}: {fault}", fault.instance_path()));
    match faults.collect::<Vec<_>>() {
        none if none.is_empty() => Ok(()),
        faults => Err(faults.join("\n")),
    }
}

fn validator_of(kind: Kind) -> Validator {
    let mut schema: Value = serde_json::from_str(sidelane_interface::SCHEMA).unwrap();
    close(&mut schema);
    let entry = format!("#/$defs/{}", kind.name());
    let schema = serde_json::json!({"$ref": entry, "$defs": schema["$defs"]});
    jsonschema::validator_for(&schema).unwrap()
}

/// Keys may be added to what is published; that they are described as well is for tests to see.
fn close(schema: &mut Value) {
    if let Some(object) = schema.as_object_mut()
        && object.contains_key("properties")
    {
        object
            .entry("additionalProperties")
            .or_insert(Value::Bool(false));
    }
    let below: Vec<&mut Value> = match schema {
        Value::Object(object) => object.values_mut().collect(),
        Value::Array(array) => array.iter_mut().collect(),
        _ => Vec::new(),
    };
    below.into_iter().for_each(close);
}

/// Runs what the arguments ask for; `sidelane` is the program's path.
pub fn main(sidelane: &str) -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some(inside::ARGUMENT) => return inside::serve(),
        Some(tests::jobs::MARKING_ARGUMENT) => tests::jobs::mark(&arguments[2..]),
        Some(tests::only_batch::THREADS_ARGUMENT) => tests::only_batch::have_threads(&arguments[2]),
        _ => {}
    }
    let mut arguments = Arguments::from_args();
    // what two tests print at once nobody could tell apart
    arguments.test_threads = Some(if arguments.nocapture { 1 } else { 2 });
    let machines = Arc::new(Machines::new(sidelane, arguments.nocapture));
    let trials = shape::ALL.iter().flat_map(|shape| {
        let machines = machines.clone();
        tests::all().into_iter().filter_map(move |test| {
            let (name, machines) = (test.name(), machines.clone());
            let ignored = match shape.runs(name) {
                When::Always => false,
                When::IfAsked => true,
                When::Never => return None,
            };
            let run = move || machines.run(shape, test).map_err(Failed::from);
            Some(Trial::test(format!("{}::{name}", shape.name), run).with_ignored_flag(ignored))
        })
    });
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    if let Err(what) = machines.shut() {
        eprintln!("{what}");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}
