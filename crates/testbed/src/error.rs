//! What can go wrong, each with its remedy, and asking the test bed to stop, from a signal handler or another thread.

use nix::sys::eventfd::{EfdFlags, EventFd};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// A failure of the test bed itself (never of the command run on it).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program that the host must have is missing.
    #[error("{program} is not installed; install it with: apt-get install {package}")]
    MissingProgram {
        /// The program looked for on PATH.
        program: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// This machine cannot run the test bed, or not with these settings.
    #[error("{0}")]
    Unsupported(String),
    /// The machine asked for does not make sense.
    #[error("{0}")]
    BadSpec(String),
    /// No kernel could be had.
    #[error("{0}")]
    Kernel(String),
    /// A system call or file operation failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done, with the file's name.
        what: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The emulated machine ended, hung or never came up.
    #[error("{reason}\n{console}")]
    Machine {
        /// What happened.
        reason: String,
        /// The last lines of its console and what QEMU said.
        console: String,
    },
    /// The command did not end in time.
    #[error("timed out: `{command}` did not end within {seconds} s")]
    TimedOut {
        /// The command's name.
        command: String,
        /// The time allowed, s.
        seconds: f64,
    },
    /// Somebody asked to stop (see [`Interrupt`]).
    #[error("interrupted")]
    Interrupted,
}

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Adds what was being done to an input/output error.
pub(crate) trait During<T> {
    /// `what` names the action and the file.
    fn during(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<std::io::Error>> During<T> for std::result::Result<T, E> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Io {
            what: what(),
            source: source.into(),
        })
    }
}

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
