//! Recording scheduling events with the kernel's tracer.

use crate::error::{During, Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Room for events, KiB for each lane: some 80,000 events.
const BUFFER_KIB: u32 = 8192;
/// What is recorded.
const EVENTS: [&str; 4] = [
    "sched_switch",
    "sched_waking",
    "sched_wakeup",
    "sched_process_fork",
];

/// The tracer, recording; switched off and emptied when this value goes.
pub struct Recording {
    folder: PathBuf,
}

impl Recording {
    /// Begins to record below the tracing folder (`/sys/kernel/tracing`).
    pub fn begin(folder: &Path) -> Result<Recording> {
        if !folder.join("tracing_on").exists() {
            return Err(Error::Unsupported(format!(
                "{} is no tracing folder; mount it: mount -t tracefs none {0}",
                folder.display()
            )));
        }
        let recording = Recording {
            folder: folder.to_owned(),
        };
        recording.write("tracing_on", "0")?;
        recording.write("current_tracer", "nop")?;
        recording.write("trace", "")?;
        // One clock for all lanes, or wake-ups would seem to come before their cause.
        recording.write("trace_clock", "mono")?;
        recording.write("buffer_size_kb", &BUFFER_KIB.to_string())?;
        recording.switch_events("1")?;
        recording.write("tracing_on", "1")?;
        Ok(recording)
    }

    /// Ends recording and gives the text of the trace.
    pub fn end(self) -> Result<String> {
        self.write("tracing_on", "0")?;
        let path = self.folder.join("trace");
        let bytes = fs::read(&path).during(|| path.display().to_string())?;
        // Thread names may be anything; the rest is ASCII.
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn switch_events(&self, state: &str) -> Result<()> {
        EVENTS
            .iter()
            .try_for_each(|event| self.write(&format!("events/sched/{event}/enable"), state))
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, text).during(|| path.display().to_string())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = self.write("tracing_on", "0");
        let _ = self.switch_events("0");
        let _ = self.write("trace", "");
        // The smallest that a kernel accepts: gives the memory back.
        let _ = self.write("buffer_size_kb", "1");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_switches_on_reads_and_cleans_up() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for event in EVENTS {
            fs::create_dir_all(at(&format!("events/sched/{event}"))).unwrap();
        }
        assert!(Recording::begin(folder.path()).is_err());
        fs::write(at("tracing_on"), "1").unwrap();
        let recording = Recording::begin(folder.path()).unwrap();
        let read = |name: &str| fs::read_to_string(at(name)).unwrap();
        assert_eq!(
            (read("tracing_on"), read("trace_clock")),
            ("1".into(), "mono".into())
        );
        assert_eq!(read("events/sched/sched_waking/enable"), "1");
        fs::write(at("trace"), b"name \xff").unwrap();
        assert_eq!(recording.end().unwrap(), "name \u{fffd}");
        assert_eq!(
            (read("tracing_on"), read("trace")),
            ("0".into(), String::new())
        );
        assert_eq!(read("events/sched/sched_waking/enable"), "0");
    }
}
