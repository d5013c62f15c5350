//! On which lane this thread runs now, and the clock of naps and jobs.
//!
//! The kernel keeps the number in the thread's rseq area, which the C library registers (glibc 2.35
//! or later): one load, and right also after the thread has moved.

use std::sync::atomic::{AtomicIsize, Ordering};

/// Where the rseq area lies, from the thread pointer on. 0 until it is looked up: the fast path does
/// not use what it reads there.
static AREA: AtomicIsize = AtomicIsize::new(0);

/// Offset of `cpu_id` in `struct rseq`. It is huge while no area is registered.
const CPU_ID: isize = 4;

/// Looks the area up. False: there is none, and only [`ask`] tells.
pub fn find_area() -> bool {
    // SAFETY: both names end; the symbols are an int and a ptrdiff_t where they exist (rseq(2))
    unsafe {
        let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr());
        let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr());
        if offset.is_null() || size.is_null() || *size.cast::<u32>() == 0 {
            return false;
        }
        AREA.store(*offset.cast::<isize>(), Ordering::Relaxed);
    }
    cfg!(any(target_arch = "x86_64", target_arch = "aarch64"))
}

/// The CPU number by the rseq area; meaningless unless [`find_area`] found one.
#[inline(always)]
pub fn current() -> u32 {
    let at = AREA.load(Ordering::Relaxed) + CPU_ID;
    let cpu: u32;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads this thread's control block, or its rseq area
    unsafe {
        std::arch::asm!("mov {cpu:e}, dword ptr fs:[{at}]", at = in(reg) at, cpu = lateout(reg) cpu,
            options(nostack, readonly, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above
    unsafe {
        std::arch::asm!("mrs {base}, tpidr_el0", "ldr {cpu:w}, [{base}, {at}]",
            at = in(reg) at, base = out(reg) _, cpu = lateout(reg) cpu,
            options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = at;
        cpu = u32::MAX;
    }
    cpu
}

/// The CPU number by the C library; slower, and always there.
pub fn ask() -> Option<u32> {
    // SAFETY: no arguments
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Nanoseconds of CLOCK_MONOTONIC; no system call on the usual machines.
pub fn now_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes the structure it is given; this clock is always there
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    #[test]
    fn both_ways_agree_on_a_bound_thread() {
        let cpu = super::ask().unwrap();
        super::super::check::bind_to(cpu).unwrap();
        if super::find_area() {
            assert_eq!(super::current(), cpu);
        }
        assert_eq!(super::ask(), Some(cpu));
    }
}
