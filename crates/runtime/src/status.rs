//! Whether a service keeps the signal, and what the library tells of that and of naps on standard error, if it is wanted.

use crate::nap;
use crate::nap::{Totals, totals};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set to 1, the totals are printed on standard error when the process ends.
pub const VERBOSE_VARIABLE: &str = "SIDELANE_RUNTIME_VERBOSE";

static ATTACHED: AtomicBool = AtomicBool::new(false);

/// Whether a service keeps the signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// No service: everything is a no-op.
    Detached,
    /// A service keeps it.
    Attached,
}

/// Whether a service keeps the signal now.
pub fn status() -> Status {
    match ATTACHED.load(Ordering::Acquire) {
        true => Status::Attached,
        false => Status::Detached,
    }
}

/// Notes whether one does.
pub(crate) fn set_attached(attached: bool) {
    ATTACHED.store(attached, Ordering::Release);
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
        let status = match status() {
            Status::Attached => "attached",
            Status::Detached => "no service",
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
