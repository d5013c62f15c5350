//! The check, and what happens when critical work runs beside.

use crate::wire::LaneSignal;
use crate::{attach, board, cpu, nap, region};
use std::cell::Cell;
use std::io;
use std::sync::atomic::Ordering;

/// A thread naps no longer than this at a stretch, so that batch never starves. Then it runs on for
/// [`GRACE_NS`]. The scheduler's own bound (`starvation_bound_ms`, `overdue_slice_ms`) is the same.
const NAP_MAX_NS: u64 = 1_000_000_000;
const GRACE_NS: u64 = 1_000_000;

/// Steps aside while critical work runs on another lane of this core.
///
/// Where no service runs, or nothing critical, it takes about a nanosecond. It returns at the
/// latest after a second, and changes neither `errno` nor anything else of the program.
#[inline(always)]
pub fn check() {
    if region::fast_line(cpu::current()).is_none_or(is_beside) {
        step_aside();
    }
}

/// Does critical work run on another lane of the core where this thread is now?
pub fn critical_beside() -> bool {
    attach::start();
    own_line().is_some_and(|(_, line)| is_beside(line))
}

#[inline(always)]
fn is_beside(line: &LaneSignal) -> bool {
    line.critical_beside.load(Ordering::Relaxed) != 0
}

/// The line of the lane where this thread is now.
fn own_line() -> Option<(u32, &'static LaneSignal)> {
    let cpu = cpu::ask()?;
    region::line(cpu).map(|line| (cpu, line))
}

/// CPU numbers of the other lanes of a core, as the service told them; empty without one.
pub fn siblings(cpu: u32) -> Vec<u32> {
    attach::start();
    let mut found = Vec::new();
    let mut next = region::line(cpu).map(|line| line.next_lane.load(Ordering::Relaxed));
    // a line of zeros names lane 0, which does not lead back to it
    while let Some(lane) = next.filter(|lane| *lane != cpu && found.len() < 64) {
        found.push(lane);
        next = region::line(lane).map(|line| line.next_lane.load(Ordering::Relaxed));
    }
    if next == Some(cpu) { found } else { Vec::new() }
}

thread_local! {
    /// It naps, or looks whether it has to: a check in a signal handler then does nothing.
    static BUSY: Cell<bool> = const { Cell::new(false) };
    /// Until then it runs on, whatever runs beside it.
    static GRACE_UNTIL_NS: Cell<u64> = const { Cell::new(0) };
}

/// The slow path of [`check`]: looks again, attaches if that was not done, and naps.
#[cold]
#[inline(never)]
pub fn step_aside() {
    if BUSY.replace(true) {
        return;
    }
    // SAFETY: the address of this thread's errno
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above
    let before = unsafe { *errno };
    attach::start();
    attach::want_naps();
    nap_while_beside();
    // SAFETY: as above
    unsafe { *errno = before };
    BUSY.set(false);
}

fn nap_while_beside() {
    if !own_line().is_some_and(|(_, line)| is_beside(line)) {
        return;
    }
    let began_ns = cpu::now_ns();
    if began_ns < GRACE_UNTIL_NS.get() {
        return;
    }
    let mut now_ns = began_ns;
    while let Some((cpu, line)) = own_line().filter(|(_, line)| is_beside(line)) {
        if now_ns - began_ns >= NAP_MAX_NS {
            GRACE_UNTIL_NS.set(now_ns + GRACE_NS);
            nap::count_forced();
            break;
        }
        board::naps(true);
        nap::wait(&line.critical_beside, region::word(cpu));
        now_ns = cpu::now_ns();
    }
    board::naps(false);
    nap::count_nap(now_ns.saturating_sub(began_ns));
}

/// A thread that is bound to its lane: its check is one load and a branch.
///
/// Whoever unbinds the thread while it is in use gets the signal of the lane where it was.
#[derive(Clone, Copy, Debug)]
pub struct BoundLane {
    cpu: u32,
    line: &'static LaneSignal,
}

impl BoundLane {
    /// Binds this thread to the lane where it is.
    ///
    /// # Errors
    /// The kernel refuses, or there is no memory.
    pub fn bind() -> io::Result<BoundLane> {
        attach::start();
        attach::want_naps();
        let cpu = cpu::ask().ok_or_else(io::Error::last_os_error)?;
        bind_to(cpu)?;
        let line = region::line(cpu).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(BoundLane { cpu, line })
    }

    /// Its CPU number.
    pub fn cpu(self) -> u32 {
        self.cpu
    }

    /// Steps aside while critical work runs on another lane of this core; as [`check`].
    #[inline(always)]
    pub fn check(self) {
        if is_beside(self.line) {
            step_aside();
        }
    }

    /// The word that is not 0 while critical work runs beside, for checks written elsewhere.
    pub fn flag(self) -> *const u64 {
        self.line.critical_beside.as_ptr()
    }
}

/// Binds this thread to a lane.
pub(crate) fn bind_to(cpu: u32) -> io::Result<()> {
    // SAFETY: a set of zeros is a valid one, and CPU_SET bounds the number
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if cpu as usize >= 8 * size_of::<libc::cpu_set_t>() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        libc::CPU_SET(cpu as usize, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
