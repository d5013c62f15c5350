//! C programs with checks: by the compiler's hooks, gcc's and clang's, and by the header.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use support::FakeService;

/// The library that was built with this test.
fn library() -> PathBuf {
    std::env::current_exe()
        .unwrap()
        .with_file_name("libsidelane_runtime.a")
}

fn in_crate(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Compilers that are here: gcc, and the clang that the BPF sources need.
fn compilers() -> Vec<&'static str> {
    let runs = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    ["gcc", "clang-19", "clang"]
        .into_iter()
        .filter(runs)
        .take(2)
        .collect()
}

/// In two steps: with the option of the hooks, clang would link a library of its own that has them.
fn compile(compiler: &str, options: &[&str], source: &Path, to: &Path) {
    let object = to.with_extension("o");
    let include = in_crate("include");
    let mut command = Command::new(compiler);
    command.args(["-c", "-O2", "-Wall", "-Wextra", "-Werror", "-I"]);
    succeed(
        command
            .arg(include)
            .args(options)
            .arg(source)
            .arg("-o")
            .arg(&object),
    );
    let mut command = Command::new(compiler);
    succeed(
        command
            .arg(&object)
            .arg(library())
            .args(["-lm", "-o"])
            .arg(to),
    );
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        text(&output.stderr)
    );
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(program: &Path, arguments: &[&str], socket: &Path) -> Output {
    let output = Command::new(program)
        .args(arguments)
        .env("SIDELANE_SIGNAL_SOCKET", socket)
        .env("SIDELANE_RUNTIME_VERBOSE", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

#[test]
fn instrumented_programs_nap_and_others_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("signal.sock");
    let program = folder.path().join("matmul");
    let matmul = in_crate("../../examples/matmul.c");
    let mut service = FakeService::start(&socket);
    for compiler in compilers() {
        for options in ["-fsanitize-coverage=trace-pc", "-finstrument-functions"] {
            compile(compiler, &[options], &matmul, &program);
            service.critical_for(Duration::from_millis(300));
            let said = text(&run(&program, &["0.2", "16"], &socket).stderr);
            assert!(said.contains("attached"), "{compiler} {options}: {said}");
            assert!(!said.contains(" 0 naps"), "{compiler} {options}: {said}");
        }
        compile(compiler, &[], &matmul, &program);
        let said = text(&run(&program, &["0.01", "16"], &socket).stderr);
        assert_eq!(said, "", "{compiler}");
    }
}

#[test]
fn the_header_s_functions_work_without_a_service() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("header");
    for compiler in compilers() {
        compile(compiler, &[], &in_crate("tests/header.c"), &program);
        let output = run(&program, &[], &folder.path().join("none.sock"));
        assert!(text(&output.stderr).contains("0 naps"), "{output:?}");
    }
}

/// Not a test: the service's process.
#[test]
#[ignore = "started by the tests above"]
fn fake_service() {
    support::serve();
}
