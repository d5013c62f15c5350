//! The loop on a real terminal.

use crate::keys::{After, key};
use crate::screen::draw;
use crate::state::{Sample, State};
use ratatui::crossterm::event::{self, Event};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a key waits at most.
const POLL: Duration = Duration::from_millis(50);

/// Why it ended.
#[derive(Debug, thiserror::Error)]
pub enum Error<E: std::error::Error> {
    /// The terminal cannot be used.
    #[error("cannot use the terminal: {0}; without one, 'sidelane stat' prints lines")]
    Terminal(#[from] io::Error),
    /// No more samples.
    #[error("{0}")]
    Samples(E),
}

/// Shows a sample each `interval` until a key or `stop` ends it. The terminal is left as it was found,
/// also after a panic.
///
/// # Errors
/// There is no terminal, or `next` fails.
pub fn run<E: std::error::Error>(
    interval: Duration,
    stop: &AtomicBool,
    mut next: impl FnMut() -> Result<Sample, E>,
) -> Result<(), Error<E>> {
    let mut terminal = ratatui::try_init()?;
    let mut state = State::default();
    let result = (|| {
        let mut due = Instant::now() + interval;
        while !stop.load(Ordering::Relaxed) {
            terminal.draw(|frame| draw(&state, frame))?;
            let wait = due.saturating_duration_since(Instant::now()).min(POLL);
            if event::poll(wait)?
                && let Event::Key(event) = event::read()?
                && key(&mut state, event) == After::Quit
            {
                break;
            }
            if Instant::now() >= due {
                due += interval;
                state.push(next().map_err(Error::Samples)?);
            }
        }
        Ok(())
    })();
    ratatui::restore();
    result
}
