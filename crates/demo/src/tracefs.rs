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

/// What it changes besides, in the order in which it is put back.
const SETTINGS: [&str; 4] = [
    "current_tracer",
    "trace_clock",
    "buffer_size_kb",
    "tracing_on",
];

/// The tracer, recording; emptied and as it was before when this value goes.
pub struct Recording {
    folder: PathBuf,
    /// Files of it and what they said; those that could not be read are left as they are.
    before: Vec<(&'static str, String)>,
}

/// What to write into a file of the tracer so that it says `text` again: of a choice, the chosen one; of a
/// buffer that is not yet in use, the size that it would have had.
fn chosen(text: &str) -> &str {
    let marked = |open, close| Some(text.split_once(open)?.1.split_once(close)?.0);
    let first = || text.split_whitespace().next().unwrap_or_default();
    marked("[", "]")
        .or_else(|| marked("expanded: ", ")"))
        .unwrap_or_else(first)
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
        let before = SETTINGS.iter().filter_map(|name| {
            let text = fs::read_to_string(folder.join(name)).ok()?;
            Some((*name, chosen(&text).to_owned()))
        });
        let recording = Recording {
            folder: folder.to_owned(),
            before: before.collect(),
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
        for (name, text) in &self.before {
            let _ = self.write(name, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_write_is_what_a_file_says() {
        for (text, written) in [
            ("1\n", "1"),
            ("local global [mono] x86-tsc\n", "mono"),
            ("7 (expanded: 1408)\n", "1408"),
            ("8192\n", "8192"),
            ("", ""),
        ] {
            assert_eq!(chosen(text), written);
        }
    }

    #[test]
    fn it_switches_on_reads_and_cleans_up() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for event in EVENTS {
            fs::create_dir_all(at(&format!("events/sched/{event}"))).unwrap();
        }
        assert!(Recording::begin(folder.path()).is_err());
        fs::write(at("tracing_on"), "1\n").unwrap();
        fs::write(at("trace_clock"), "local [global] counter\n").unwrap();
        fs::write(at("buffer_size_kb"), "7 (expanded: 1408)\n").unwrap();
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
            ("1".into(), String::new())
        );
        assert_eq!(
            (read("trace_clock"), read("buffer_size_kb")),
            ("global".into(), "1408".into())
        );
        assert_eq!(read("events/sched/sched_waking/enable"), "0");
    }
}
