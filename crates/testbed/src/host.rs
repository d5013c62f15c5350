//! What this machine has, programs and CPUs, and how its scheduler is to treat an emulated machine's threads.

use crate::error::{During, Error, Result};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::{Pid, getpgrp, tcgetpgrp};
use std::io::IsTerminal;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

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

/// How the host's scheduler is to treat the machine's threads. It can be changed while the machine runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostSettings {
    /// The slice that the host's scheduler gives a lane's thread, 0.1 to 100 ms; none is the host's
    /// default.
    pub slice: Option<Duration>,
    /// How often the host's scheduler is made to choose anew between sibling lanes; none leaves it
    /// to its tick. Dear on a virtual machine, and coarser than [`crate::Spec::lane_turn`].
    pub metronome: Option<Duration>,
    /// Lets QEMU's main thread, which fires the guest's timers, run as soon as it wants to
    /// (real-time class).
    pub urgent_timers: bool,
}

impl HostSettings {
    /// What serves a machine with several lanes to a core best (see `examples/hand_over.rs`).
    pub fn recommended() -> Self {
        HostSettings {
            slice: Some(Duration::from_micros(100)),
            metronome: None,
            urgent_timers: true,
        }
    }
}
