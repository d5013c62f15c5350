//! How often threads of this process napped, and for how long.

use std::sync::atomic::{AtomicU64, Ordering};

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
