//! Naps: how a thread sleeps so that its core's other lanes have the resources.
//!
//! `umwait` (Intel WAITPKG) and `mwaitx` (AMD MONITORX) let a lane sleep until its line of the signal
//! is written, without the kernel: the thread is still on its lane, and is awake again in well
//! below a microsecond. Elsewhere the thread sleeps on a futex, which gives the lane to the kernel; the
//! service wakes it. Each wait has a time-out of its own, after which the signal is looked at again.

use crate::cpu;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Longest wait for a write to the line, in ticks of the time-stamp counter: about half a
/// millisecond. The kernel may allow less (`/sys/devices/system/cpu/umwait_control/max_time`).
const WAIT_TICKS: u32 = 1 << 20;
/// Longest wait on a futex: how late a nap ends if the service dies. Each time-out disturbs the sibling.
const FUTEX_WAIT_NS: libc::c_long = 50_000_000;

/// Names a method in the environment, if the automatic choice is not wanted.
const VARIABLE: &str = "SIDELANE_RUNTIME_NAP";

/// How to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Intel's user-level monitor and wait, in the deeper of its two states (C0.2).
    Umwait,
    /// AMD's monitor and wait with a timer.
    Mwaitx,
    /// A futex: any machine.
    Futex,
}

impl Method {
    /// All, best first.
    pub const ALL: [Method; 3] = [Method::Umwait, Method::Mwaitx, Method::Futex];

    /// Its name in the environment and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Method::Umwait => "umwait",
            Method::Mwaitx => "mwaitx",
            Method::Futex => "futex",
        }
    }

    /// Can this machine execute it?
    pub fn supported(self) -> bool {
        match self {
            Method::Futex => true,
            #[cfg(target_arch = "x86_64")]
            Method::Umwait => x86::has_waitpkg(),
            #[cfg(target_arch = "x86_64")]
            Method::Mwaitx => x86::has_monitorx(),
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// What naps use: the best that this machine has, or what `SIDELANE_RUNTIME_NAP` names if it has that.
    pub fn selected() -> Method {
        static SELECTED: OnceLock<Method> = OnceLock::new();
        *SELECTED.get_or_init(|| {
            let wanted = std::env::var(VARIABLE).unwrap_or_default();
            let supported = || Method::ALL.into_iter().filter(|method| method.supported());
            let named = supported().find(|method| method.name() == wanted);
            named.or(supported().next()).unwrap_or(Method::Futex)
        })
    }

    /// Sleeps while `flag` is not 0, until it is written or `word` is woken; not long, and it may end
    /// sooner.
    pub fn wait(self, flag: &AtomicU64, word: Option<&AtomicU32>) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Method::Umwait => x86::umwait(flag),
            #[cfg(target_arch = "x86_64")]
            Method::Mwaitx => x86::mwaitx(flag),
            _ => futex(flag, word),
        }
    }
}

/// Sleeps by the selected method.
pub fn wait(flag: &AtomicU64, word: Option<&AtomicU32>) {
    Method::selected().wait(flag, word);
}

fn futex(flag: &AtomicU64, word: Option<&AtomicU32>) {
    static NOBODY: AtomicU32 = AtomicU32::new(0);
    let word = word.unwrap_or(&NOBODY);
    // read before the flag: what clears the flag changes the word afterwards
    let seen = word.load(Ordering::Acquire);
    if flag.load(Ordering::Acquire) == 0 {
        return;
    }
    let timeout = libc::timespec {
        tv_sec: 0,
        tv_nsec: FUTEX_WAIT_NS,
    };
    let wait = libc::FUTEX_WAIT;
    // SAFETY: the word and the time outlive the call; whatever it answers, the caller looks again
    let answer = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), wait, seen, &timeout) };
    if answer == 0 {
        count_woken();
    }
}

/// How long a nap of this method lasts when nothing ends it, in nanoseconds: for measurements.
pub fn time_out_ns(method: Method) -> u64 {
    let flag = AtomicU64::new(1);
    let began_ns = cpu::now_ns();
    method.wait(&flag, None);
    cpu::now_ns() - began_ns
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    use super::WAIT_TICKS;
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid, __cpuid_count, _rdtsc};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// CPUID leaf 7: WAITPKG.
    pub fn has_waitpkg() -> bool {
        __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ecx & (1 << 5) != 0
    }

    /// CPUID leaf 0x80000001: MONITORX and MWAITX.
    pub fn has_monitorx() -> bool {
        __cpuid(0x8000_0000).eax >= 0x8000_0001 && __cpuid(0x8000_0001).ecx & (1 << 29) != 0
    }

    /// The machine has to have WAITPKG.
    #[inline(never)]
    pub extern "C" fn umwait(flag: &AtomicU64) {
        // SAFETY: monitors memory that may be read
        unsafe { asm!("umonitor {}", in(reg) flag.as_ptr(), options(nostack, preserves_flags)) };
        if flag.load(Ordering::Acquire) == 0 {
            return;
        }
        // SAFETY: no memory is involved
        let until = unsafe { _rdtsc() } + u64::from(WAIT_TICKS);
        // SAFETY: sleeps until a write, an interrupt or that time. Control 0: state C0.2
        unsafe {
            asm!("umwait {:e}", in(reg) 0u32, in("eax") until as u32, in("edx") (until >> 32) as u32,
                options(nostack));
        }
    }

    /// The machine has to have MONITORX.
    #[inline(never)]
    pub extern "C" fn mwaitx(flag: &AtomicU64) {
        // SAFETY: monitors memory that may be read; no extensions, no hints
        unsafe {
            asm!("monitorx", in("rax") flag.as_ptr(), in("ecx") 0u32, in("edx") 0u32,
                options(nostack, preserves_flags));
        }
        if flag.load(Ordering::Acquire) == 0 {
            return;
        }
        // SAFETY: sleeps until a write, an interrupt, or (extension 2) for so many ticks; rbx, which
        // the compiler keeps for itself, is put back
        unsafe {
            asm!("xchg rbx, {ticks}", "mwaitx", "mov rbx, {ticks}",
                ticks = inout(reg) u64::from(WAIT_TICKS) => _, in("eax") 0u32, in("ecx") 2u32,
                options(nostack, preserves_flags));
        }
    }
}

static NAPS: AtomicU64 = AtomicU64::new(0);
static NAP_NS: AtomicU64 = AtomicU64::new(0);
static FORCED: AtomicU64 = AtomicU64::new(0);
static WOKEN: AtomicU64 = AtomicU64::new(0);

/// Totals of this process, over its threads: `struct sidelane_nap_totals`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Totals {
    /// Times a thread stepped aside.
    pub naps: u64,
    /// How long, summed over threads.
    pub nap_ns: u64,
    /// Naps that ended by the bound, with critical work still running beside.
    pub forced: u64,
    /// Times a thread that slept on a futex was woken, and not by a time-out.
    pub woken: u64,
}

/// Totals so far.
pub fn totals() -> Totals {
    Totals {
        naps: NAPS.load(Ordering::Relaxed),
        nap_ns: NAP_NS.load(Ordering::Relaxed),
        forced: FORCED.load(Ordering::Relaxed),
        woken: WOKEN.load(Ordering::Relaxed),
    }
}

pub(crate) fn count_nap(nap_ns: u64) {
    NAPS.fetch_add(1, Ordering::Relaxed);
    NAP_NS.fetch_add(nap_ns, Ordering::Relaxed);
}

pub(crate) fn count_forced() {
    FORCED.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn count_woken() {
    WOKEN.fetch_add(1, Ordering::Relaxed);
}

/// A forked child counts for itself.
pub(crate) fn forget() {
    for total in [&NAPS, &NAP_NS, &FORCED, &WOKEN] {
        total.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_nap_that_nobody_ends_times_out() {
        for method in Method::ALL.into_iter().filter(|method| method.supported()) {
            let least_ns = time_out_ns(method);
            assert!(least_ns < 500_000_000, "{method:?} {least_ns}");
        }
    }

    #[test]
    fn no_nap_once_the_flag_is_clear() {
        let (flag, word) = (AtomicU64::new(0), AtomicU32::new(0));
        for method in Method::ALL.into_iter().filter(|method| method.supported()) {
            let began = Instant::now();
            (0..100).for_each(|_| method.wait(&flag, Some(&word)));
            assert!(began.elapsed() < Duration::from_millis(300), "{method:?}");
        }
    }

    /// The code of a function, up to its first `ret`, as objdump reads it.
    #[cfg(target_arch = "x86_64")]
    fn disassembled(function: extern "C" fn(&AtomicU64)) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        // SAFETY: code of this program, followed by more of it
        let code = unsafe { std::slice::from_raw_parts(function as *const u8, 128) };
        std::fs::write(file.path(), code).unwrap();
        let output = std::process::Command::new("objdump")
            .args(["-D", "-b", "binary", "-m", "i386:x86-64", "-M", "intel"])
            .arg(file.path())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_instructions_are_encoded_as_the_manuals_say() {
        let umwait = disassembled(x86::umwait);
        assert!(
            umwait.contains("umonitor") && umwait.contains("umwait"),
            "{umwait}"
        );
        let mwaitx = disassembled(x86::mwaitx);
        let at = |word| mwaitx.find(word).unwrap_or(usize::MAX);
        assert!(at("monitorx") < at("mwaitx"), "{mwaitx}");
        assert!(at("xchg") < at("mwaitx"), "the timer is in rbx: {mwaitx}");
    }
}
