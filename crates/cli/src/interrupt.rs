//! Ctrl-C, SIGTERM and SIGHUP as a flag that long work looks at.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::register;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Installs the handler; the flag is set by the first signal.
pub fn flag() -> anyhow::Result<&'static AtomicBool> {
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed))?;
    Ok(&INTERRUPTED)
}

/// Signals of a service.
pub struct Signals {
    /// Ctrl-C, SIGTERM, and a terminal that closes.
    pub stop: Arc<AtomicBool>,
    /// SIGHUP from somebody else.
    pub hangup: Arc<AtomicBool>,
}

/// Installs handlers that tell a hangup from a wish to stop.
pub fn signals() -> anyhow::Result<Signals> {
    let signals = Signals {
        stop: Arc::default(),
        hangup: Arc::default(),
    };
    let closes = std::io::stderr().is_terminal();
    let hangup = if closes {
        &signals.stop
    } else {
        &signals.hangup
    };
    register(SIGHUP, Arc::clone(hangup))?;
    for signal in [SIGINT, SIGTERM] {
        register(signal, Arc::clone(&signals.stop))?;
    }
    Ok(signals)
}
