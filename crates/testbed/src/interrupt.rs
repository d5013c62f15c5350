//! Asking the test bed to stop, from a signal handler or another thread.

use crate::error::{During, Result};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Stops whatever the test bed is doing. Clones share one state; once raised it stays raised.
#[derive(Clone, Debug)]
pub struct Interrupt {
    event: Arc<EventFd>,
}

impl Interrupt {
    /// A new one, not raised.
    pub fn new() -> Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let event = EventFd::from_value_and_flags(0, flags).during(|| "create an event".into())?;
        Ok(Interrupt {
            event: Arc::new(event),
        })
    }

    /// Asks to stop.
    pub fn raise(&self) {
        // Fails only when the counter is full, and then it is raised already.
        let _ = self.event.write(1);
    }

    /// Has somebody asked?
    pub fn raised(&self) -> bool {
        let mut poll = [nix::poll::PollFd::new(
            self.as_fd(),
            nix::poll::PollFlags::POLLIN,
        )];
        matches!(nix::poll::poll(&mut poll, 0u8), Ok(ready) if ready > 0)
    }

    /// Becomes readable when raised; nobody reads it.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
