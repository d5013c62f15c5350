//! Idle states while lanes are held: a lane that sleeps deeply takes longer to wake than a hold saves.

use sidelane_policy::Settings;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The kernel's PM QoS for all CPUs: what is written there ends when the file is closed, also if this program is killed.
const LATENCY: &str = "/dev/cpu_dma_latency";

/// So long after the last hold the bound stays in force.
const QUIET: Duration = Duration::from_secs(1);

/// Keeps CPUs out of idle states that take long to leave, while lanes are held.
pub(crate) struct IdleBound {
    exit_us: i32,
    path: PathBuf,
    held_ns: u64,
    held: Instant,
    bound: Option<File>,
}

impl IdleBound {
    /// As the settings want it, if they do.
    pub(crate) fn of(settings: &Settings) -> Option<IdleBound> {
        let exit_ns = settings.retention.idle_exit_ns;
        (settings.retain && exit_ns > 0).then(|| IdleBound {
            exit_us: (exit_ns / 1000) as i32,
            path: LATENCY.into(),
            held_ns: 0,
            held: Instant::now(),
            bound: None,
        })
    }

    /// So long lanes were held by now, in all: the bound is in force if they were within the last second ([`QUIET`]).
    ///
    /// # Errors
    /// Those of the file; the bound is not in force then.
    pub(crate) fn look(&mut self, held_ns: u64) -> io::Result<()> {
        if held_ns == self.held_ns {
            if self.held.elapsed() >= QUIET {
                self.bound = None;
            }
            return Ok(());
        }
        self.held_ns = held_ns;
        self.held = Instant::now();
        if self.bound.is_none() {
            let mut file = OpenOptions::new().write(true).open(&self.path)?;
            file.write_all(&self.exit_us.to_ne_bytes())?;
            self.bound = Some(file);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn it_is_in_force_while_lanes_are_held() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cpu_dma_latency");
        fs::write(&path, "").unwrap();
        let mut settings = Settings::default();
        assert!(IdleBound::of(&settings).is_none());
        settings.retain = true;
        let mut bound = IdleBound {
            path: path.clone(),
            ..IdleBound::of(&settings).unwrap()
        };
        bound.look(0).unwrap();
        assert!(bound.bound.is_none() && fs::read(&path).unwrap().is_empty());
        bound.look(5).unwrap();
        bound.look(7).unwrap();
        assert!(bound.bound.is_some());
        assert_eq!(fs::read(&path).unwrap(), 20i32.to_ne_bytes());
        bound.look(7).unwrap();
        assert!(bound.bound.is_some());
        bound.held = Instant::now().checked_sub(QUIET).unwrap();
        bound.look(7).unwrap();
        assert!(bound.bound.is_none());
        fs::remove_file(&path).unwrap();
        assert!(bound.look(8).is_err() && bound.bound.is_none());
    }
}
