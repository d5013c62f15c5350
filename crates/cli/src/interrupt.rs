//! Ctrl-C, SIGTERM and SIGHUP as a flag that long work looks at.

use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Installs the handler; the flag is set by the first signal.
pub fn flag() -> anyhow::Result<&'static AtomicBool> {
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed))?;
    Ok(&INTERRUPTED)
}
