//! Whether a service keeps the signal.

use std::sync::atomic::{AtomicBool, Ordering};

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
