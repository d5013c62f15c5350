//! Around the loading of BPF programs: what it needs of privileges and of libbpf, what that says, the loader's turn on a busy
//! machine, lanes that have not switched since, and when the storage of tasks may go.

use libbpf_rs::libbpf_sys::bpf_btf_get_fd_by_id;
use libbpf_rs::{MapInfo, PrintLevel};
use libc::{PRIO_PROCESS, getpriority, setpriority};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use sidelane_topology::Topology;
use std::fmt;
use std::fs;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// What the kernel asks capabilities for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// To load BPF programs that trace or schedule.
    Load,
    /// To find maps and programs of others, such as the running scheduler's, among the kernel's.
    Find,
}

/// Why the kernel would refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was wanted.
    pub need: Need,
    /// Capabilities that would do and are not there; none: those that there are count in a user namespace alone.
    pub missing: Option<&'static str>,
}

/// The effective capabilities of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    bits: u64,
    /// It lives in a user namespace of its own, where they say nothing to BPF.
    confined: bool,
}

impl Capabilities {
    // numbers of linux/capability.h
    const SYS_ADMIN: u64 = 1 << 21;
    const PERFMON: u64 = 1 << 38;
    const BPF: u64 = 1 << 39;

    /// From the text of `/proc/PID/status` and `/proc/PID/uid_map`; none: it tells no capabilities.
    pub fn parse(status: &str, uid_map: &str) -> Option<Capabilities> {
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let bits = u64::from_str_radix(effective?.trim(), 16).ok()?;
        // the first user namespace maps all users to themselves
        let identity = ["0", "0", "4294967295"];
        let confined = !uid_map.is_empty() && !uid_map.split_whitespace().eq(identity);
        Some(Capabilities { bits, confined })
    }

    /// Those of this process; none: the kernel does not tell.
    pub fn own() -> Option<Capabilities> {
        let read = |file| fs::read_to_string(file).unwrap_or_default();
        Capabilities::parse(&read("/proc/self/status"), &read("/proc/self/uid_map"))
    }

    /// Is it CAP_SYS_ADMIN, which stands for the others?
    pub fn has_sys_admin(self) -> bool {
        self.has(Capabilities::SYS_ADMIN)
    }

    fn has(self, bits: u64) -> bool {
        self.bits & bits == bits
    }

    /// Do they suffice?
    ///
    /// # Errors
    /// What is missing.
    pub fn suffice(self, need: Need) -> Result<(), Refusal> {
        let [bpf, perfmon] = [Capabilities::BPF, Capabilities::PERFMON].map(|one| self.has(one));
        let missing = match (self.has_sys_admin(), need, bpf, perfmon) {
            (true, ..) | (false, Need::Load, true, true) => match self.confined {
                true => None,
                false => return Ok(()),
            },
            (false, Need::Load, true, false) => Some("CAP_PERFMON"),
            (false, Need::Load, false, true) => Some("CAP_BPF"),
            (false, Need::Load, false, false) => Some("CAP_BPF and CAP_PERFMON"),
            (false, Need::Find, ..) => Some("CAP_SYS_ADMIN"),
        };
        Err(Refusal { need, missing })
    }
}

/// Does the kernel let this process do it? Where it does not say what this process has, it is tried.
///
/// # Errors
/// What is missing.
pub fn allowed(need: Need) -> Result<(), Refusal> {
    Capabilities::own().map_or(Ok(()), |own| own.suffice(need))
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, needed, remedy) = match self.need {
            Need::Load => (
                "loading BPF programs",
                "CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN",
                "CAP_BPF CAP_PERFMON",
            ),
            Need::Find => (
                "finding the running scheduler among the kernel's BPF maps",
                "CAP_SYS_ADMIN",
                "CAP_SYS_ADMIN",
            ),
        };
        match self.missing {
            Some(missing) => write!(
                f,
                "{what} needs {needed}; this process lacks {missing}; run as root, or in a service with \
                 AmbientCapabilities={remedy}"
            ),
            None => write!(
                f,
                "{what} needs {needed} outside of a user namespace, where the kernel ignores them; run outside the \
                 container, or in one that shares the host's users"
            ),
        }
    }
}

/// What any use of libbpf needs first.
pub fn prepare() {
    scx_utils::try_set_rlimit_infinity();
    open_files();
    hush();
}

/// Counters take some files a lane, and each program that hears the lane signal takes one: more than the usual 1024. Where the
/// limit stays, what cannot be opened says so.
fn open_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
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

/// After so long without another one retired, lanes no longer come and go.
const QUIET: Duration = Duration::from_secs(10);

/// The kernel needs tens of milliseconds; it is not waited for longer than this.
const FREED: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(5);

/// Storage of tasks, of one object or of several. Dropped after those, it waits for the end of the maps.
///
/// Kernels from 6.14 to 6.19 free such a map bound to a CPU, and wait there for a grace period that waits for the end of CPU
/// hotplug. If just that CPU goes offline, hotplug waits for what is bound to it: none of the three ever ends, and neither does
/// anything else that needs one of them. Therefore a program that attaches anew because lanes come and go keeps the old maps
/// until they no longer do, and one that ends waits until the kernel has freed them. A map lives as long as a descriptor of it is open.
#[derive(Default)]
pub struct TaskStorage {
    maps: Vec<OwnedFd>,
    retired: Option<Instant>,
}

impl TaskStorage {
    /// That of an object which has this map and describes its types itself.
    pub fn of(map: &impl AsFd) -> TaskStorage {
        TaskStorage {
            // what cannot be kept goes with the object: most kernels do not mind
            maps: map.as_fd().try_clone_to_owned().into_iter().collect(),
            retired: None,
        }
    }

    /// Takes over that of an object that will be replaced.
    pub fn retire(&mut self, mut other: TaskStorage) {
        self.maps.append(&mut other.maps);
        self.retired = Some(Instant::now());
    }

    /// Lets go of what was retired if it has been quiet. To be called now and then.
    pub fn let_go(&mut self) {
        if self.retired.is_some_and(|since| since.elapsed() >= QUIET) {
            self.retired = None;
            self.maps.clear();
        }
    }
}

impl Drop for TaskStorage {
    fn drop(&mut self) {
        // the last thing that a map gives back is the description of its types
        let mut types: Vec<u32> = self.maps.iter().filter_map(types_of).collect();
        self.maps.clear();
        let begun = Instant::now();
        while begun.elapsed() < FREED {
            types.retain(|types| exists(*types));
            if types.is_empty() {
                return;
            }
            std::thread::sleep(POLL);
        }
    }
}

/// The number under which the kernel knows the description of a map's types.
fn types_of(map: &OwnedFd) -> Option<u32> {
    let info = MapInfo::new(map.as_fd()).ok()?.info;
    (info.btf_id != 0).then_some(info.btf_id)
}

fn exists(types: u32) -> bool {
    // SAFETY: a call without memory; the descriptor is ours alone
    let fd = unsafe { bpf_btf_get_fd_by_id(types) };
    if fd < 0 {
        return false;
    }
    // SAFETY: just opened
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    true
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn nice() -> i32 {
        // SAFETY: a plain system call about this thread
        unsafe { getpriority(PRIO_PROCESS, 0) }
    }

    #[test]
    fn what_is_missing_is_named() {
        let first = "         0          0 4294967295\n";
        let lacks = |bits: u64, map: &str, need| {
            let status = format!("Name:\tx\nCapPrm:\tffff\nCapEff:\t{bits:016x}\n");
            let own = Capabilities::parse(&status, map).unwrap();
            own.suffice(need).map_err(|refusal| refusal.missing)
        };
        let (bpf, perfmon, admin) = (1 << 39, 1 << 38, 1 << 21);
        for enough in [admin, bpf | perfmon, u64::MAX] {
            assert_eq!(lacks(enough, first, Need::Load), Ok(()));
            assert_eq!(lacks(enough, "0 1000 1\n", Need::Load), Err(None));
        }
        assert_eq!(lacks(bpf, first, Need::Load), Err(Some("CAP_PERFMON")));
        assert_eq!(lacks(perfmon, "", Need::Load), Err(Some("CAP_BPF")));
        let both = Some("CAP_BPF and CAP_PERFMON");
        assert_eq!(
            lacks(!(bpf | perfmon | admin), first, Need::Load),
            Err(both)
        );
        let admin_alone = Err(Some("CAP_SYS_ADMIN"));
        assert_eq!(lacks(bpf | perfmon, first, Need::Find), admin_alone);
        assert_eq!(lacks(admin, first, Need::Find), Ok(()));
        assert_eq!(Capabilities::parse("Name:\tx\n", ""), None);
        let refusal = Refusal {
            need: Need::Load,
            missing: Some("CAP_PERFMON"),
        };
        let said = refusal.to_string();
        assert!(said.contains("lacks CAP_PERFMON; run as root"), "{said}");
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
