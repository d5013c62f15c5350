//! Lanes of one core take turns by yielding, where QEMU can load the plug-in `turns.c`.

use crate::error::{During, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The plug-in, a shared object.
const PLUGIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/turns.so"));

/// The plug-in's file.
pub struct Turns {
    file: PathBuf,
}

impl Turns {
    /// Writes the plug-in into a folder that is removed with the machine.
    pub fn write(folder: &Path) -> Result<Turns> {
        let file = folder.join("turns.so");
        std::fs::write(&file, PLUGIN).during(|| format!("write {}", file.display()))?;
        Ok(Turns { file })
    }

    /// Whether this QEMU can load it: not before version 9.1, nor where it was built without
    /// plug-ins.
    pub fn loads_into(&self, qemu: &Path) -> bool {
        let mut command = Command::new(qemu);
        command.args(["-nodefaults", "-display", "none", "-machine", "none"]);
        command.arg("-plugin").arg(self.with_options("try=1"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let status = command.stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }

    /// What `-plugin` is to be given for turns of this length between so many lanes of a core.
    pub fn argument(&self, turn: Duration, lanes: usize) -> OsString {
        self.with_options(&format!("turn_ns={},lanes={lanes}", turn.as_nanos()))
    }

    fn with_options(&self, options: &str) -> OsString {
        let mut argument = OsString::from("file=");
        // A comma in the path would begin an option.
        argument.push(self.file.to_string_lossy().replace(',', ",,"));
        argument.push(format!(",{options}"));
        argument
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_follow_the_file() {
        let turns = Turns {
            file: "/tmp/a,b/turns.so".into(),
        };
        assert_eq!(
            turns.argument(Duration::from_micros(50), 4),
            "file=/tmp/a,,b/turns.so,turn_ns=50000,lanes=4"
        );
    }

    #[test]
    fn what_is_no_qemu_cannot_load_it() {
        let folder = tempfile::tempdir().unwrap();
        let turns = Turns::write(folder.path()).unwrap();
        assert!(!turns.loads_into(Path::new("/bin/false")));
        assert!(!turns.loads_into(Path::new("/no/such/program")));
    }
}
