//! The job board: memory in which each thread tells the scheduler of its jobs.
//!
//! The service gives it when it is asked to, at the first job that the program marks. It stands at an
//! address that is reserved once and never moved; without a service there are zeros that nobody reads.
//! Each thread claims a slot of its own.

use crate::region;
use crate::wire::{JOB_LATENCY_NS, JOB_PROBES, JOB_RING, JOB_SLOTS, JobSlot};
use std::cell::Cell;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

const SIZE: usize = JOB_SLOTS * size_of::<JobSlot>();
/// Stands in a slot while a thread makes it its own.
const CLAIMING: u32 = u32::MAX;

/// Reserved for good, or null.
static SLOTS: AtomicPtr<JobSlot> = AtomicPtr::new(null_mut());
/// Which board there is, by number; 0: none.
static SHOWN: AtomicU32 = AtomicU32::new(0);
/// How many there have been.
static BOARDS: AtomicU32 = AtomicU32::new(0);

/// What a thread knows of its slot.
#[derive(Clone, Copy)]
struct Own {
    /// Of which board; 0: it has not looked.
    board: u32,
    /// None: that board is full.
    slot: Option<usize>,
    tid: u32,
}

thread_local! {
    static OWN: Cell<Own> = const {
        Cell::new(Own {
            board: 0,
            slot: None,
            tid: 0,
        })
    };
}

/// This thread begins to work on a job that began then, with that deadline; 0: with none.
pub fn begin(began_ns: u64, deadline_ns: u64) {
    if let Some(slot) = own_slot(SHOWN.load(Ordering::Acquire)) {
        slot.deadline_ns.store(deadline_ns, Ordering::Relaxed);
        slot.began_ns.store(began_ns, Ordering::Relaxed);
    }
}

/// A job ends that began then, and took so long; this thread works on it no longer.
pub fn end(began_ns: u64, latency_ns: u64) {
    let Some(slot) = own_slot(SHOWN.load(Ordering::Acquire)) else {
        return;
    };
    let units = u32::try_from(latency_ns / JOB_LATENCY_NS).unwrap_or(u32::MAX);
    // no other thread writes here
    let ended = slot.ended.load(Ordering::Relaxed);
    slot.latencies[(ended % JOB_RING as u64) as usize].store(units, Ordering::Relaxed);
    slot.ended.store(ended.wrapping_add(1), Ordering::Release);
    if slot.began_ns.load(Ordering::Relaxed) == began_ns {
        slot.began_ns.store(0, Ordering::Relaxed);
    }
}

/// This thread naps from now on, or no longer: meanwhile its lane is to be held.
pub fn naps(naps: bool) {
    if let Some(slot) = own_slot(SHOWN.load(Ordering::Acquire)) {
        slot.naps.store(naps.into(), Ordering::Release);
    }
}

/// Puts the service's memory in place.
pub fn show(board: BorrowedFd<'_>) -> io::Result<()> {
    if SLOTS.load(Ordering::Acquire).is_null() {
        let reserved = region::map(null_mut(), SIZE, None, ACCESS)?;
        SLOTS.store(reserved.cast(), Ordering::Release);
    }
    let at = SLOTS.load(Ordering::Acquire).cast();
    region::replace(at, SIZE, board, ACCESS)?;
    // never 0, also after it has gone round
    let number = BOARDS.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    SHOWN.store(number.max(1), Ordering::Release);
    Ok(())
}

/// Takes the board away: a thread that is just writing there writes into zeros of the process's own.
pub fn hide() -> io::Result<()> {
    SHOWN.store(0, Ordering::Release);
    let at = SLOTS.load(Ordering::Acquire);
    if !at.is_null() {
        region::map(at.cast(), SIZE, None, ACCESS)?;
    }
    Ok(())
}

const ACCESS: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

fn slot(index: usize) -> Option<&'static JobSlot> {
    let slots = SLOTS.load(Ordering::Acquire);
    if slots.is_null() || index >= JOB_SLOTS {
        return None;
    }
    // SAFETY: reserved for JOB_SLOTS slots, for good
    Some(unsafe { &*slots.add(index) })
}

/// This thread's slot of the board of that number.
fn own_slot(shown: u32) -> Option<&'static JobSlot> {
    if shown == 0 {
        return None;
    }
    let mut own = OWN.get();
    if own.board != shown {
        own = keep_errno(|| claim(shown));
        OWN.set(own);
    }
    // it is another's if this board is about to go
    slot(own.slot?).filter(|slot| slot.tid.load(Ordering::Relaxed) == own.tid)
}

/// Looks for a slot that is free, or whose thread has ended.
fn claim(board: u32) -> Own {
    // SAFETY: no arguments; ids of threads are positive
    let (process, tid) = unsafe { (libc::getpid(), libc::gettid() as u32) };
    let mut probes = (0..JOB_PROBES).map(|probe| (tid as usize + probe) % JOB_SLOTS);
    let slot = probes.find(|&index| slot(index).is_some_and(|slot| take(slot, process, tid)));
    Own { board, slot, tid }
}

/// Makes a slot this thread's, if it is nobody else's.
fn take(slot: &JobSlot, process: libc::pid_t, tid: u32) -> bool {
    let holder = slot.tid.load(Ordering::Relaxed);
    // one of this id was an earlier thread
    if holder != 0 && holder != tid && (holder == CLAIMING || is_alive(process, holder)) {
        return false;
    }
    let taken = slot
        .tid
        .compare_exchange(holder, CLAIMING, Ordering::AcqRel, Ordering::Relaxed);
    if taken.is_err() {
        return false;
    }
    slot.began_ns.store(0, Ordering::Relaxed);
    slot.ended.store(0, Ordering::Relaxed);
    slot.naps.store(0, Ordering::Relaxed);
    slot.tid.store(tid, Ordering::Release);
    true
}

fn is_alive(process: libc::pid_t, tid: u32) -> bool {
    // SAFETY: signal 0 only asks
    let asked = unsafe { libc::syscall(libc::SYS_tgkill, process, tid, 0) };
    asked == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// Marks change nothing else of the program.
pub fn keep_errno<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: the address of this thread's errno
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above
    let before = unsafe { *errno };
    let result = work();
    // SAFETY: as above
    unsafe { *errno = before };
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free() -> JobSlot {
        // SAFETY: any bytes are a valid slot
        unsafe { std::mem::zeroed() }
    }

    #[test]
    fn a_slot_is_taken_once_and_again_when_its_thread_has_ended() {
        let slot = free();
        // SAFETY: no arguments
        let (process, own) = unsafe { (libc::getpid(), libc::gettid() as u32) };
        let other = std::thread::scope(|threads| {
            let other = || {
                // SAFETY: no arguments
                let tid = unsafe { libc::gettid() } as u32;
                assert!(take(&slot, process, tid));
                slot.ended.store(7, Ordering::Relaxed);
                assert!(!std::thread::scope(|s| s
                    .spawn(|| take(&slot, process, own))
                    .join()
                    .unwrap()));
                tid
            };
            threads.spawn(other).join().unwrap()
        });
        assert_eq!(slot.tid.load(Ordering::Relaxed), other);
        // the kernel lets go of a thread a moment after it was joined
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while !take(&slot, process, own) {
            assert!(std::time::Instant::now() < until);
            std::thread::yield_now();
        }
        assert_eq!(slot.tid.load(Ordering::Relaxed), own);
        assert_eq!(slot.ended.load(Ordering::Relaxed), 0, "it begins anew");
    }
}
