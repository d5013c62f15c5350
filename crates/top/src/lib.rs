//! A terminal's screen of a machine at work: cores as a map of lanes, tasks and cgroups to sort, and how
//! the tail of critical jobs goes.
//!
//! [`State`] holds what is shown, [`draw`] draws it, [`key`] changes it; none of them knows where samples
//! come from or does I/O. [`Screen`] is a real terminal with them.

mod rows;
mod screen;
mod state;

pub use rows::{Row, Sort, Table};
pub use screen::draw;
pub use state::{After, Sample, State, key};

#[cfg(test)]
mod tests;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a key waits at most.
const POLL: Duration = Duration::from_millis(50);

/// The terminal cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the terminal; 'sidelane record' and 'sidelane report' need none")]
pub struct Error(#[from] io::Error);

/// The screen on a real terminal, which is left as it was found when this goes, also after a panic.
pub struct Screen {
    terminal: DefaultTerminal,
    state: State,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// There is none.
    pub fn open() -> Result<Screen, Error> {
        Ok(Screen {
            terminal: ratatui::try_init()?,
            state: State::default(),
        })
    }

    /// Shows a sample from now on.
    pub fn push(&mut self, sample: Sample) {
        self.state.push(sample);
    }

    /// Does what keys say for so long. False: a key or `stop` ends it.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn wait(&mut self, length: Duration, stop: &AtomicBool) -> Result<bool, Error> {
        let end = Instant::now() + length;
        loop {
            self.terminal.draw(|frame| draw(&self.state, frame))?;
            let left = end.saturating_duration_since(Instant::now());
            if event::poll(left.min(POLL))?
                && let Event::Key(event) = event::read()?
                && key(&mut self.state, event) == After::Quit
            {
                return Ok(false);
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            if left.is_zero() {
                return Ok(true);
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}
