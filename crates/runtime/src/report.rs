//! How often threads of this process napped, and for how long.

use crate::{attach, nap};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Set to 1, the totals are printed on standard error when the process ends.
pub const VERBOSE_VARIABLE: &str = "SIDELANE_RUNTIME_VERBOSE";

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

/// Tells why a service that is there cannot be used, if that is wanted.
pub(crate) fn refused(error: &io::Error) {
    let absent = [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused];
    if wanted() && !absent.contains(&error.kind()) {
        print(&format!("sidelane-runtime: cannot attach: {error}\n"));
    }
}

fn wanted() -> bool {
    std::env::var(VERBOSE_VARIABLE).is_ok_and(|value| value == "1")
}

/// Not eprintln!: at the end the standard library may be gone, and a closed descriptor is no error.
fn print(text: &str) {
    // SAFETY: the text outlives the call
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}

/// Sees to it that the totals are printed when the process ends, if that is wanted.
pub(crate) fn at_exit() {
    static ONCE: AtomicBool = AtomicBool::new(false);
    extern "C" fn print_totals() {
        let Totals {
            naps,
            nap_ns,
            forced,
            woken,
        } = totals();
        let (ms, method) = (nap_ns as f64 / 1e6, nap::Method::selected().name());
        let status = match attach::status() {
            attach::Status::Attached => "attached",
            attach::Status::Detached => "no service",
        };
        print(&format!(
            "sidelane-runtime: {naps} naps, {ms:.1} ms, {forced} ended by the bound, {woken} wake-ups ({method}, {status})\n"
        ));
    }
    if wanted() && !ONCE.swap(true, Ordering::AcqRel) {
        // SAFETY: a function that lives as long as the library, which is never unloaded
        unsafe { libc::atexit(print_totals) };
    }
}
