//! Around the loading of BPF programs: what libbpf needs and says, the loader's turn on a busy machine, and lanes that have not
//! switched since.

use libbpf_rs::PrintLevel;
use libc::{PRIO_PROCESS, getpriority, setpriority};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use sidelane_topology::Topology;
use std::sync::Mutex;

/// What any use of libbpf needs first.
pub fn prepare() {
    scx_utils::try_set_rlimit_infinity();
    hush();
}

/// libbpf tells a lot; its warnings are kept for the one error that matters.
fn hush() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, message| {
        if let Ok(mut kept) = WARNINGS.lock() {
            kept.push_str(&message);
        }
    })));
}

/// The end of what libbpf warned of: the verifier's verdict comes last.
pub fn warnings() -> String {
    const LINES: usize = 40;
    let kept = WARNINGS.lock().map(|kept| kept.clone()).unwrap_or_default();
    let lines: Vec<_> = kept.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

static WARNINGS: Mutex<String> = Mutex::new(String::new());

/// Loading takes long where lanes are busy: the kernel's verifier has its turns like any other work.
///
/// As long as this lives, the calling thread comes before ordinary work: a machine that waits for its
/// scheduler after lanes came or went is without it for a short time, however busy it is. Without the
/// privilege for it nothing changes.
pub struct Urgent {
    nice_before: i32,
}

const MOST_URGENT: i32 = -20;

impl Urgent {
    /// From now on. Threads that are started meanwhile would stay so.
    pub fn begin() -> Urgent {
        // SAFETY: plain system calls about the calling thread, which is there
        unsafe {
            let nice_before = getpriority(PRIO_PROCESS, 0);
            setpriority(PRIO_PROCESS, 0, MOST_URGENT);
            Urgent { nice_before }
        }
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        // SAFETY: as above
        unsafe { setpriority(PRIO_PROCESS, 0, self.nice_before) };
    }
}

/// Makes every lane switch once: the tracer has not seen what began to run before it came.
pub fn switch_everywhere(topology: &Topology) {
    let cpus: Vec<u32> = topology.online().iter().collect();
    let visit = move || {
        for cpu in cpus {
            let mut set = CpuSet::new();
            // a lane that has gone offline runs nothing
            let _ = set.set(cpu as usize);
            let _ = sched_setaffinity(Pid::from_raw(0), &set);
        }
    };
    // without it, lanes are seen from their next switch on
    let _ = std::thread::spawn(visit).join();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nice() -> i32 {
        // SAFETY: a plain system call about this thread
        unsafe { getpriority(PRIO_PROCESS, 0) }
    }

    #[test]
    fn it_is_as_it_was_afterwards() {
        let (before, allowed) = (nice(), nix::unistd::geteuid().is_root());
        let urgent = Urgent::begin();
        assert_eq!(nice(), if allowed { MOST_URGENT } else { before });
        drop(urgent);
        assert_eq!(nice(), before);
    }
}
