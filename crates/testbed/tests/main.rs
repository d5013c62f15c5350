//! The test bed's tests: one program, in which each file is a module. Most boot a machine.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod command;
mod machine;

use sidelane_testbed::{Job, Machine, Spec};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The `sidelane` program: `$SIDELANE_BIN`, else beside the folder of this test's program, where
/// `cargo build` and `cargo test --workspace` put it.
fn sidelane() -> PathBuf {
    if let Some(path) = std::env::var_os("SIDELANE_BIN") {
        return path.into();
    }
    let me = std::env::current_exe().expect("this test's own path");
    let path = me
        .ancestors()
        .nth(2)
        .expect("a target folder")
        .join("sidelane");
    assert!(
        path.exists(),
        "{} is not built: run `cargo build -p sidelane-cli` first or set SIDELANE_BIN",
        path.display()
    );
    path
}

/// Taken to boot a machine: to read by tests that only boot and look, to write by one that measures, which
/// others would starve of this host's CPUs.
static HOST: RwLock<()> = RwLock::new(());

/// Beside other machines.
fn beside_others() -> RwLockReadGuard<'static, ()> {
    HOST.read().unwrap_or_else(PoisonError::into_inner)
}

/// The only machine.
fn alone() -> RwLockWriteGuard<'static, ()> {
    HOST.write().unwrap_or_else(PoisonError::into_inner)
}

/// The default machine.
fn spec() -> Spec {
    Spec::new(sidelane()).expect("a specification")
}

/// Runs a command; its status, standard output and standard error.
fn run(machine: &mut Machine, job: Job) -> (ExitStatus, Vec<u8>, Vec<u8>) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = machine
        .run(job, &mut out, &mut err)
        .expect("the command runs");
    (status, out, err)
}

/// The standard output of a shell script that must succeed.
fn shell(machine: &mut Machine, script: &str) -> String {
    let (status, out, err) = run(machine, Job::new(["sh", "-ec", script]));
    let (out, err) = (String::from_utf8_lossy(&out), String::from_utf8_lossy(&err));
    assert!(status.success(), "{script}: {status}\n{out}\n{err}");
    out.into_owned()
}
