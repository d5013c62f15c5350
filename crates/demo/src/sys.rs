//! The few things asked of the kernel that the standard library does not have: processes, the clock that they share, settings.

use crate::error::{During, Error, Result};
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::{Signal, kill};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use nix::unistd::Pid;
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// A child process that is killed and reaped when this value goes, and dies if its parent does.
pub struct Guarded {
    child: Child,
}

impl Guarded {
    /// Starts the command. `who` names it in errors.
    pub fn spawn(command: &mut Command, who: &'static str) -> Result<Guarded> {
        die_with_parent(command);
        Ok(Guarded {
            child: command.spawn().during(|| format!("starting {who}"))?,
        })
    }

    /// The process identifier.
    pub fn pid(&self) -> Pid {
        // Process identifiers fit: the kernel's limit is 2²².
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill(self.pid(), signal).during(|| format!("sending {signal} to process {}", self.pid()))
    }

    /// Waits until the process ended, but not longer than `patience`; says whether it did.
    pub fn ended_within(&mut self, patience: Duration) -> Result<bool> {
        let deadline = Instant::now() + patience;
        loop {
            if self
                .child
                .try_wait()
                .during(|| "waiting for a child".into())?
                .is_some()
            {
                return Ok(true);
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // Both fail only if the process has ended and been reaped already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Deref for Guarded {
    type Target = Child;
    fn deref(&self) -> &Child {
        &self.child
    }
}

impl DerefMut for Guarded {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.child
    }
}

/// Makes the kernel kill the process when the thread that started it ends, however it ends.
fn die_with_parent(command: &mut Command) {
    let die = || nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(io::Error::from);
    // SAFETY: between fork and exec, `die` makes one system call and touches no memory or lock.
    unsafe { command.pre_exec(die) };
}

/// Gives a process the policy `SCHED_IDLE`: the kernel's default scheduler runs it when nothing
/// else wants the lane.
pub fn make_idle_policy(pid: Pid) -> Result<()> {
    set_policy(pid, libc::SCHED_IDLE, 0)
        .during(|| format!("giving process {pid} the policy SCHED_IDLE"))
}

/// Runs `action` on a thread that comes before all others (`SCHED_FIFO`), whatever the scheduler: what it measures is not how
/// that treats the one who measures.
pub fn in_real_time<T: Send>(action: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let act = || {
        let own = Pid::from_raw(0);
        set_policy(own, libc::SCHED_FIFO, 1)
            .during(|| "giving a thread the policy SCHED_FIFO".into())?;
        action()
    };
    std::thread::scope(|scope| match scope.spawn(act).join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// Gives a thread (0 is the calling one) a policy.
fn set_policy(pid: Pid, policy: i32, priority: i32) -> nix::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: the pointer is to a live value.
    let result = unsafe { libc::sched_setscheduler(pid.as_raw(), policy, &parameters) };
    Errno::result(result).map(drop)
}

/// Lets a thread (0 is the calling one) run on these CPUs only.
pub fn pin(pid: Pid, cpus: &[u32]) -> Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu as usize).map_err(|_| {
            Error::Unsupported(format!("CPU {cpu} is beyond what can be pinned to"))
        })?;
    }
    sched_setaffinity(pid, &set).during(|| format!("pinning thread {pid} to CPUs {cpus:?}"))
}

/// Now, in ns of `CLOCK_MONOTONIC`: comparable between processes of one machine.
pub fn now_ns() -> Result<u64> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).during(|| "reading the clock".into())?;
    Ok(now.num_nanoseconds().unsigned_abs())
}

/// Sleeps until a moment of [`now_ns`]; returns at once when it has passed.
pub fn sleep_until_ns(moment_ns: u64) -> Result<()> {
    let moment = TimeSpec::nanoseconds(i64::try_from(moment_ns).unwrap_or(i64::MAX));
    loop {
        let flags = ClockNanosleepFlags::TIMER_ABSTIME;
        match clock_nanosleep(ClockId::CLOCK_MONOTONIC, flags, &moment) {
            Err(Errno::EINTR) => {}
            other => return other.map(drop).during(|| "sleeping".into()),
        }
    }
}

/// Makes the calling thread's timers fire as exactly as the hardware allows.
pub fn precise_timers() -> Result<()> {
    nix::sys::prctl::set_timerslack(1).during(|| "setting the timer slack".into())
}

/// The time that the threads of a process have spent on lanes, ns, from `/proc`.
pub fn cpu_time_ns(pid: Pid) -> Result<u64> {
    let folder = format!("/proc/{pid}/task");
    let threads = std::fs::read_dir(&folder).during(|| folder.clone())?;
    let mut sum_ns = 0;
    for thread in threads {
        let path = thread.during(|| folder.clone())?.path().join("schedstat");
        let text = std::fs::read_to_string(&path).during(|| path.display().to_string())?;
        let on_lane_ns = text
            .split_whitespace()
            .next()
            .and_then(|word| word.parse::<u64>().ok());
        sum_ns += on_lane_ns.ok_or_else(|| {
            Error::Unsupported(format!("{}: no time in {text:?}", path.display()))
        })?;
    }
    Ok(sum_ns)
}

/// How often a process's first thread has left a lane.
pub fn switches(pid: Pid) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).during(|| path.clone())?;
    let counts = text.lines().filter_map(|line| {
        let (name, count) = line.split_once(':')?;
        name.ends_with("voluntary_ctxt_switches")
            .then(|| count.trim().parse::<u64>().ok())
    });
    let counts: Option<Vec<u64>> = counts.collect();
    match counts.as_deref() {
        Some([voluntary, others]) => Ok(voluntary + others),
        _ => Err(Error::Unsupported(format!("{path}: no context switches"))),
    }
}

/// Context switches of the machine since it booted, those to the idle task too.
pub fn machine_switches() -> Result<u64> {
    let path = "/proc/stat";
    let text = std::fs::read_to_string(path).during(|| path.into())?;
    text.lines()
        .find_map(|line| line.strip_prefix("ctxt ")?.trim().parse().ok())
        .ok_or_else(|| Error::Unsupported(format!("{path}: no context switches")))
}

/// A setting of the kernel in a file; as it was when this value goes.
pub struct KernelSetting {
    file: PathBuf,
    before: String,
}

impl KernelSetting {
    /// The one in a file, which stays as it is until it is set.
    pub fn at(file: &Path) -> Result<KernelSetting> {
        let before = std::fs::read_to_string(file).during(|| file.display().to_string())?;
        Ok(KernelSetting {
            file: file.to_owned(),
            before: before.trim().to_owned(),
        })
    }

    /// What it was.
    pub fn before(&self) -> &str {
        &self.before
    }

    /// Sets it.
    pub fn set(&self, value: &str) -> Result<()> {
        std::fs::write(&self.file, value).during(|| self.file.display().to_string())
    }
}

impl Drop for KernelSetting {
    fn drop(&mut self) {
        // It could be written before.
        let _ = std::fs::write(&self.file, &self.before);
    }
}

/// Where a program is, by PATH. Links are not resolved: some programs are several in one, told apart by
/// name.
pub fn find_program(name: &str) -> Option<std::path::PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guarded_child_goes_with_its_guard() {
        let child = Guarded::spawn(Command::new("sleep").arg("1000"), "sleep").unwrap();
        let pid = child.pid();
        make_idle_policy(pid).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        // Field 41 is the policy, counted from the pid; the name ends with ") ".
        let policy = stat
            .rsplit_once(") ")
            .unwrap()
            .1
            .split(' ')
            .nth(38)
            .unwrap();
        assert_eq!(policy, "5");
        drop(child);
        assert!(kill(pid, None).is_err());
    }

    #[test]
    fn waiting_has_a_limit() {
        let mut child = Guarded::spawn(Command::new("sleep").arg("1000"), "sleep").unwrap();
        assert!(!child.ended_within(Duration::from_millis(10)).unwrap());
        child.signal(Signal::SIGTERM).unwrap();
        assert!(child.ended_within(Duration::from_secs(10)).unwrap());
    }

    #[test]
    fn time_on_lanes_grows_with_work() {
        let own = Pid::this();
        let before_ns = cpu_time_ns(own).unwrap();
        sidelane_options::pricing::price_option(std::hint::black_box(200_000), 0, 1);
        // The counter is brought up to date when the thread is switched out.
        std::thread::sleep(Duration::from_millis(20));
        assert!(cpu_time_ns(own).unwrap() > before_ns);
    }

    #[test]
    fn a_sleeper_leaves_its_lane() {
        let child = Guarded::spawn(Command::new("sleep").arg("1000"), "sleep").unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while switches(child.pid()).unwrap() == 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(switches(child.pid()).unwrap() > 0);
        assert!(machine_switches().unwrap() > switches(child.pid()).unwrap());
        assert!(switches(Pid::from_raw(i32::MAX)).is_err());
    }

    #[test]
    fn programs_are_found_by_path_under_their_own_name() {
        let shell = find_program("sh").unwrap();
        assert!(shell.is_absolute() && shell.ends_with("sh"));
        assert_eq!(find_program("no-such-program-anywhere"), None);
    }

    #[test]
    fn sleeping_ends_after_the_moment() {
        let until_ns = now_ns().unwrap() + 5_000_000;
        sleep_until_ns(until_ns).unwrap();
        let woken_ns = now_ns().unwrap();
        assert!(woken_ns >= until_ns);
        sleep_until_ns(until_ns).unwrap();
        assert!(now_ns().unwrap() >= woken_ns);
    }
}
