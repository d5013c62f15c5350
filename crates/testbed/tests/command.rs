//! `sidelane testbed` as a user runs it: exit status, failures, and nothing left behind.

use crate::{beside_others, sidelane};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long cleaning up may take.
const PATIENCE: Duration = Duration::from_secs(15);

fn testbed(args: &[&str]) -> Output {
    let mut command = Command::new(sidelane());
    command
        .arg("testbed")
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn error_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn output_status_and_time_out() {
    let _host = beside_others();
    let done = testbed(&["run", "--", "sh", "-c", "echo out; echo err >&2; exit 9"]);
    assert_eq!(done.status.code(), Some(9), "{}", error_of(&done));
    assert_eq!(
        (&done.stdout[..], error_of(&done).as_str()),
        (&b"out\n"[..], "err\n")
    );
    let late = testbed(&["run", "--timeout", "1.5", "--", "sleep", "1000"]);
    assert_eq!(late.status.code(), Some(124));
    assert!(error_of(&late).contains("timed out: `sleep` did not end within 1.5 s"));
}

#[test]
fn a_guest_that_ends_early_is_a_failed_machine() {
    let _host = beside_others();
    let off = testbed(&["run", "--", "poweroff", "-f"]);
    assert_eq!(off.status.code(), Some(125));
    assert!(
        error_of(&off).contains("ended before `poweroff` did"),
        "{}",
        error_of(&off)
    );
    let panic = testbed(&["run", "--", "sh", "-c", "echo c > /proc/sysrq-trigger"]);
    assert_eq!(panic.status.code(), Some(125));
    assert!(
        error_of(&panic).contains("Kernel panic"),
        "{}",
        error_of(&panic)
    );
}

/// A run with a quota, until the guest's command speaks.
struct Running {
    child: Child,
    /// Its children: QEMU and the reaper.
    family: Vec<u32>,
}

fn start() -> Running {
    let mut child = Command::new(sidelane())
        .args([
            "testbed",
            "run",
            "--thread-perf",
            "1,0.63",
            "--",
            "sh",
            "-c",
            "echo up; sleep 1000",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "up\n", "the machine did not come up");
    let tasks = format!("/proc/{}/task", child.id());
    let of_task =
        |path: PathBuf| std::fs::read_to_string(path.join("children")).unwrap_or_default();
    let lists = std::fs::read_dir(tasks)
        .unwrap()
        .flatten()
        .map(|task| of_task(task.path()));
    let family = lists.collect::<Vec<_>>().join(" ");
    let family = family
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect();
    Running { child, family }
}

impl Running {
    /// Folders and cgroups of this run, wherever they are.
    fn traces(&self) -> Vec<PathBuf> {
        let name = format!("sidelane-testbed-{}-", self.child.id());
        let mut found = Vec::new();
        search(&std::env::temp_dir(), &name, 1, &mut found);
        search(Path::new("/sys/fs/cgroup"), &name, 6, &mut found);
        found
    }

    fn alive(&self) -> Vec<u32> {
        let runs = |pid: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // One that only waits to be collected by its new parent runs no more.
            stat.rsplit_once(") ")
                .is_some_and(|(_, rest)| !rest.starts_with('Z'))
        };
        self.family.iter().copied().filter(runs).collect()
    }
}

fn search(folder: &Path, name: &str, depth: usize, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(name) {
            found.push(entry.path());
        } else if depth > 1 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            search(&entry.path(), name, depth - 1, found);
        }
    }
}

#[test]
fn nothing_is_left_after_a_signal_or_a_kill() {
    let _host = beside_others();
    for (signal, code) in [
        (Signal::SIGINT, Some(130)),
        (Signal::SIGTERM, Some(130)),
        (Signal::SIGKILL, None),
    ] {
        let mut running = start();
        assert!(
            running.family.len() >= 2,
            "QEMU and the reaper: {:?}",
            running.family
        );
        assert_eq!(running.alive(), running.family);
        let traces = running.traces();
        assert!(
            traces.iter().any(|path| path.starts_with("/sys/fs/cgroup")),
            "{traces:?}"
        );
        kill(Pid::from_raw(running.child.id() as i32), signal).unwrap();
        assert_eq!(running.child.wait().unwrap().code(), code, "{signal}");
        let start = Instant::now();
        while !(running.alive().is_empty() && running.traces().is_empty()) {
            let left = (running.alive(), running.traces());
            assert!(start.elapsed() < PATIENCE, "{signal}: {left:?} are left");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Runs with a cache of its own and a mirror that is not there.
fn offline(cache: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(sidelane());
    command
        .arg("testbed")
        .args(args)
        .env("SIDELANE_CACHE", cache);
    command
        .env("SIDELANE_DEBIAN_MIRROR", "file:/no/such/mirror")
        .output()
        .unwrap()
}

#[test]
fn without_a_network_the_cache_serves_and_an_empty_one_is_an_error() {
    let cache = tempfile::tempdir().unwrap();
    let none = offline(cache.path(), &["run", "--", "true"]);
    assert_eq!(none.status.code(), Some(3), "{}", error_of(&none));
    assert!(
        error_of(&none).contains("apt-get failed"),
        "{}",
        error_of(&none)
    );
    let kernel = cache.path().join("kernels/6.99.1+deb13-cloud-amd64");
    std::fs::create_dir_all(&kernel).unwrap();
    std::fs::write(kernel.join("vmlinuz"), "").unwrap();
    let list = offline(cache.path(), &["kernels", "--format", "json"]);
    assert!(list.status.success() && error_of(&list).contains("only what is cached"));
    let list: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
    assert_eq!(list["schema"], "sidelane.testbed-kernels/1");
    let list = &list["kernels"];
    assert_eq!(list[0]["version"], "6.99.1+deb13-cloud-amd64");
    assert_eq!(
        (&list[0]["cached"], &list[0]["available"]),
        (&true.into(), &false.into())
    );
}

#[test]
fn wrong_machines_are_refused_with_a_remedy() {
    let refused = |args: &[&str], word: &str| {
        let output = testbed(args);
        assert_eq!(output.status.code(), Some(4), "{}", error_of(&output));
        assert!(error_of(&output).contains(word), "{}", error_of(&output));
    };
    refused(
        &["run", "--thread-perf", "1,0.75,0.57,0.45", "--", "true"],
        "1,0.9,0.6,0.45",
    );
    refused(
        &["run", "--add", "/no/such", "--", "true"],
        "--add /no/such: no such file",
    );
    refused(&["run", "--memory", "8", "--", "true"], "at least 256");
}
