//! What this machine has, programs and CPUs, and how much of them others use.

use crate::error::{During, Error, Result};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::{Pid, getpgrp, tcgetpgrp};
use std::fs;
use std::io::IsTerminal;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

/// Finds a program on PATH (and in the administrator's folders, which are not on everyone's).
pub fn program(name: &'static str, package: &'static str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([
            "/usr/sbin".into(),
            "/sbin".into(),
            "/usr/bin".into(),
            "/bin".into(),
        ])
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
        .ok_or(Error::MissingProgram {
            program: name,
            package,
        })
}

/// The CPUs that this process may use, in order.
pub fn allowed_cpus() -> Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(0)).during(|| "read the CPUs allowed".into())?;
    Ok((0..CpuSet::count())
        .filter(|cpu| set.is_set(*cpu).unwrap_or(false))
        .collect())
}

/// The guest runs this very program, so both must be of one architecture.
pub fn check_architecture() -> Result<()> {
    if cfg!(target_arch = "x86_64") {
        return Ok(());
    }
    Err(Error::Unsupported(format!(
        "the test bed emulates an x86-64 machine and runs this program in it, which is built for \
         {}; \
         run it on an x86-64 host",
        std::env::consts::ARCH
    )))
}

/// This process's standard input, to be forwarded; none if it is closed, or a terminal that others
/// use now (reading it would stop a background job).
pub fn standard_input() -> Option<OwnedFd> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() && tcgetpgrp(stdin.as_fd()).ok() != Some(getpgrp()) {
        return None;
    }
    stdin.as_fd().try_clone_to_owned().ok()
}

/// CPU time of the host so far, in the kernel's ticks.
#[derive(Clone, Debug)]
pub struct Disturbance {
    own: Vec<u32>,
    busy: f64,
    total: f64,
}

impl Disturbance {
    /// Begins to watch. `own` are the processes that do not count as others.
    pub fn watch(own: &[u32]) -> Result<Self> {
        let read = |path: String| fs::read_to_string(&path).during(|| format!("read {path}"));
        let (mut busy, total) = host_time(&read("/proc/stat".into())?);
        for pid in own {
            busy -= process_time(&read(format!("/proc/{pid}/stat"))?);
        }
        Ok(Disturbance {
            own: own.to_vec(),
            busy,
            total,
        })
    }

    /// The share of all CPUs that others used since, what a hypervisor took away included: 0 to 1.
    pub fn share(&self) -> Result<f64> {
        let now = Disturbance::watch(&self.own)?;
        let total = (now.total - self.total).max(1.0);
        Ok(((now.busy - self.busy) / total).clamp(0.0, 1.0))
    }
}

fn numbers(text: &str) -> Vec<f64> {
    text.split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect()
}

/// Busy and total time in the first line of `/proc/stat`: user nice system idle iowait irq softirq
/// steal.
fn host_time(stat: &str) -> (f64, f64) {
    let fields = numbers(stat.lines().next().unwrap_or_default());
    let total: f64 = fields.iter().take(8).sum();
    let idle: f64 = fields.iter().skip(3).take(2).sum();
    (total - idle, total)
}

/// User and system time of a process, fields 14 and 15 of its `stat`; the state, a letter, is no
/// number.
fn process_time(stat: &str) -> f64 {
    let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    numbers(rest).iter().skip(10).take(2).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let (busy, total) = host_time("cpu  10 20 30 400 50 6 7 8 0 0\ncpu0 1 2\n");
        assert_eq!((busy, total), (81.0, 531.0));
        let stat = "77 (a) b) S 1 77 77 0 -1 4 100 0 0 0 250 50 0 0 20 0 1 0 999";
        assert_eq!(process_time(stat), 300.0);
    }

    #[test]
    fn own_work_is_no_disturbance_and_others_work_is() {
        let mut busy = std::process::Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .unwrap();
        let me = std::process::id();
        let watches = [&[me][..], &[me, busy.id()]].map(|own| Disturbance::watch(own).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(600));
        let [with, without] = watches.map(|watch| watch.share().unwrap());
        busy.kill().unwrap();
        busy.wait().unwrap();
        // The difference is that process, which had up to one CPU.
        assert!(with > without, "{with} {without}");
    }
}
