//! The scheduler on a real kernel: boots the test bed and runs the tests of `guest` in it.
//!
//! `SIDELANE_TEST_KERNEL` names another kernel than the newest, and than the oldest.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod guest;

use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

/// Two emulated machines at once would share the host's CPUs.
static ONE_MACHINE: Mutex<()> = Mutex::new(());

/// The matrix multiplication of `examples/`, beside this program: in the guest, too.
fn matmul(instrumented: bool) -> PathBuf {
    let name = if instrumented {
        "matmul-stepping-aside"
    } else {
        "matmul"
    };
    std::env::current_exe().unwrap().with_file_name(name)
}

/// Compiles it, with the runtime's library and without.
fn build_matmul() {
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

/// Runs the guest tests whose names contain one of `filters` on an emulated machine.
fn run_on(machine: &[&str], filters: &[&str]) {
    run_with("newest", machine, filters);
}

/// The same with another kernel.
fn run_with(kernel: &str, machine: &[&str], filters: &[&str]) {
    let _one = ONE_MACHINE.lock();
    build_matmul();
    let tests = std::env::current_exe().unwrap();
    let kernel = std::env::var("SIDELANE_TEST_KERNEL").unwrap_or_else(|_| kernel.to_owned());
    let status = Command::new(env!("CARGO_BIN_EXE_sidelane"))
        .args(["testbed", "run", "--timeout", "2400", "--kernel", &kernel])
        .args(machine)
        .arg("--add")
        .arg(&tests)
        .arg("--add")
        .arg(matmul(false))
        .arg("--add")
        .arg(matmul(true))
        .args(["--add", "/usr/bin/gzip", "--keep-awake"])
        .arg("--")
        .arg(&tests)
        .args(filters)
        .args(["--ignored", "--test-threads=1", "--nocapture"])
        .status()
        .unwrap();
    assert!(
        status.success(),
        "the tests in the test bed ended with {status}"
    );
}

#[test]
fn scheduler_on_two_cores_of_two_lanes() {
    // the budgets and lanes of this shape have tests of their own; virtual machines need KVM; demonstrations
    // take their time
    let filters = [
        "guest::",
        "--skip",
        "guest::shapes::",
        "--skip",
        "guest::demos::",
        "--skip",
        "guest::vms::",
    ];
    run_on(&["--cores", "2", "--lanes", "2"], &filters);
}

/// That batch leaves all lanes of a core; `make test-shapes` runs more of it.
#[test]
fn scheduler_on_two_cores_of_four_lanes() {
    let filters = ["guest::protection::a_trace_shows"];
    run_on(&["--cores", "2", "--lanes", "4"], &filters);
}

/// What the verifiers of older kernels refuse shows at once; `make test-kernels` runs all. On the test bed
/// that kernel, 6.16, finds no SMT to switch off.
#[test]
fn scheduler_on_the_oldest_kernel() {
    let filters = [
        "guest::lifecycle::attaches",
        "guest::metrics::a_command_is_recorded",
        "guest::metrics::looking_now_and_then",
    ];
    run_with("oldest", &["--cores", "2", "--lanes", "2"], &filters);
}

/// By `make test-demos`.
#[test]
#[ignore = "takes minutes"]
fn demonstrations_on_two_cores_of_two_lanes() {
    run_on(&["--cores", "2", "--lanes", "2"], &["guest::demos::"]);
}

/// By `make test-vms`: the emulator's virtualization may end the whole machine.
#[test]
#[ignore = "takes minutes"]
fn virtual_machines_on_two_cores_of_two_lanes() {
    let machine = ["--cores", "2", "--lanes", "2", "--module", "kvm-amd"];
    run_on(&machine, &["guest::vms::"]);
}

/// Of other shapes, by `make test-shapes`.
#[test]
#[ignore = "takes minutes"]
fn machine_of_two_cores_of_one_lane() {
    run_on(&["--cores", "2", "--lanes", "1"], &["guest::shapes::"]);
}

#[test]
#[ignore = "takes minutes"]
fn machine_of_two_cores_of_four_lanes() {
    let filters = ["guest::shapes::", "guest::protection::"];
    run_on(&["--cores", "2", "--lanes", "4"], &filters);
}

#[test]
#[ignore = "takes minutes"]
fn machine_of_one_core_of_eight_lanes() {
    run_on(&["--cores", "1", "--lanes", "8"], &["guest::shapes::"]);
}
