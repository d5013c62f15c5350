//! The memory in which the signal appears: reserved once, never moved, so that a thread that holds a
//! pointer into it keeps it. With no service it reads as zeros: no critical work anywhere.

use crate::wire::{LANES_MAX, LaneSignal};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// What the fast path reads.
#[repr(C, align(64))]
struct Fast {
    lines: AtomicPtr<LaneSignal>,
    /// CPU numbers below may be looked up; 0: the slow path has to.
    lanes: AtomicU32,
    words: AtomicPtr<AtomicU32>,
}

static FAST: Fast = Fast {
    lines: AtomicPtr::new(null_mut()),
    lanes: AtomicU32::new(0),
    words: AtomicPtr::new(null_mut()),
};

const LINES_SIZE: usize = LANES_MAX * size_of::<LaneSignal>();
const WORDS_SIZE: usize = LANES_MAX * size_of::<AtomicU32>();

/// The line of a CPU number, if the fast path may use it.
#[inline(always)]
pub fn fast_line(cpu: u32) -> Option<&'static LaneSignal> {
    if cpu >= FAST.lanes.load(Ordering::Relaxed) {
        return None;
    }
    // SAFETY: lanes is above 0 only once the lines are reserved, for LANES_MAX of them, for good
    Some(unsafe { &*FAST.lines.load(Ordering::Relaxed).add(cpu as usize) })
}

/// The line of a CPU number.
pub fn line(cpu: u32) -> Option<&'static LaneSignal> {
    let lines = FAST.lines.load(Ordering::Acquire);
    if lines.is_null() || cpu as usize >= LANES_MAX {
        return None;
    }
    // SAFETY: reserved for LANES_MAX lines, for good
    Some(unsafe { &*lines.add(cpu as usize) })
}

/// The futex word of a CPU number.
pub fn word(cpu: u32) -> Option<&'static AtomicU32> {
    let words = FAST.words.load(Ordering::Acquire);
    if words.is_null() || cpu as usize >= LANES_MAX {
        return None;
    }
    // SAFETY: reserved for LANES_MAX words, for good
    Some(unsafe { &*words.add(cpu as usize) })
}

/// Reserves the memory, once.
pub fn reserve() -> io::Result<()> {
    if FAST.lines.load(Ordering::Acquire).is_null() {
        let words = zeros(null_mut(), WORDS_SIZE)?;
        let lines = zeros(null_mut(), LINES_SIZE)?;
        FAST.words.store(words.cast(), Ordering::Release);
        FAST.lines.store(lines.cast(), Ordering::Release);
    }
    Ok(())
}

/// Lets the fast path look for itself, or not.
pub fn open_fast_path(open: bool) {
    let lanes = if open { LANES_MAX as u32 } else { 0 };
    FAST.lanes.store(lanes, Ordering::Release);
}

/// Puts the service's memory in place. Its descriptors are not needed any more then.
pub fn show(lines: BorrowedFd<'_>, words: BorrowedFd<'_>, lanes: u32) -> io::Result<()> {
    let lanes = lanes as usize;
    let at = FAST.words.load(Ordering::Acquire).cast();
    replace(at, lanes * size_of::<AtomicU32>(), words, READ)?;
    let at = FAST.lines.load(Ordering::Acquire).cast();
    replace(at, lanes * size_of::<LaneSignal>(), lines, READ)
}

/// Maps a file elsewhere, then moves it: what is there stays if the file cannot be mapped.
pub fn replace(
    at: *mut libc::c_void,
    size: usize,
    file: BorrowedFd<'_>,
    access: libc::c_int,
) -> io::Result<()> {
    let mapped = map(null_mut(), size, Some(file), access)?;
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: moves the new mapping over what was reserved here, and is reached by atomic operations only
    match unsafe { libc::mremap(mapped, size, size, flags, at) } {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Puts zeros in place: nobody naps any more.
pub fn hide() -> io::Result<()> {
    zeros(FAST.lines.load(Ordering::Acquire).cast(), LINES_SIZE)?;
    zeros(FAST.words.load(Ordering::Acquire).cast(), WORDS_SIZE)?;
    Ok(())
}

fn zeros(at: *mut libc::c_void, size: usize) -> io::Result<*mut libc::c_void> {
    map(at, size, None, READ)
}

const READ: libc::c_int = libc::PROT_READ;

/// Maps a file, or zeros; at an address if one is given, in place of what is there.
pub fn map(
    at: *mut libc::c_void,
    size: usize,
    file: Option<BorrowedFd<'_>>,
    access: libc::c_int,
) -> io::Result<*mut libc::c_void> {
    let kind = match file {
        Some(_) => libc::MAP_SHARED,
        None => libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
    };
    let fixed = if at.is_null() { 0 } else { libc::MAP_FIXED };
    let fd = file.map_or(-1, |file| file.as_raw_fd());
    // SAFETY: replaces nothing but what was reserved here, and is reached by atomic operations only
    let address = unsafe { libc::mmap(at, size, access, kind | fixed, fd, 0) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(address)
}
