//! The kernel's event for what BPF programs print, in its tracer.
//!
//! The kernel switches it on when a program that could print is loaded, though it never does. From then on it notes the name
//! of each task that wakes or is switched to, some 90 instructions a wake-up. Who does not trace gets it back as it was.

use std::fs;
use std::path::{Path, PathBuf};

/// The event, where the tracer is mounted: by itself, or as it used to be.
const FOLDERS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const SWITCH: &str = "events/bpf_trace/bpf_trace_printk/enable";

/// The event's switch, which was off and is again once this goes; none: it was on, or is not there.
pub(crate) struct Printed(Option<PathBuf>);

impl Printed {
    /// Before programs are loaded.
    pub(crate) fn before() -> Printed {
        Printed::below(&FOLDERS.map(Path::new))
    }

    fn below(folders: &[&Path]) -> Printed {
        let said = |folder: &&Path| {
            let switch = folder.join(SWITCH);
            let text = fs::read_to_string(&switch).ok()?;
            Some((switch, text))
        };
        let first = folders.iter().find_map(said);
        Printed(first.and_then(|(switch, text)| (text.trim() == "0").then_some(switch)))
    }
}

impl Drop for Printed {
    fn drop(&mut self) {
        if let Some(switch) = &self.0 {
            let _ = fs::write(switch, "0"); // where that is refused it costs what it costs
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the switch says afterwards, if it said that before and loading switches it on.
    fn after(before: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let switch = folder.path().join(SWITCH);
        fs::create_dir_all(switch.parent().unwrap()).unwrap();
        fs::write(&switch, before).unwrap();
        let printed = Printed::below(&[Path::new("/nowhere"), folder.path()]);
        fs::write(&switch, "1").unwrap();
        drop(printed);
        fs::read_to_string(switch).unwrap()
    }

    #[test]
    fn only_what_was_off_is_switched_off() {
        assert_eq!([after("0\n"), after("1\n"), after("")], ["0", "1", "1"]);
        drop(Printed::below(&[Path::new("/nowhere")]));
    }
}
