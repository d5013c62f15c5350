//! Halt polling: for so long the kernel's KVM watches a virtual CPU that halted, before it gives the lane
//! away.

use crate::error::{During, Result};
use std::fs;
use std::path::{Path, PathBuf};

const PARAMETER: &str = "/sys/module/kvm/parameters/halt_poll_ns";
/// The kernel's default on x86, where it was switched off.
const USUAL_NS: u64 = 200_000;

/// The setting, as it was when this value goes.
pub(super) struct HaltPolling {
    file: PathBuf,
    before: String,
}

impl HaltPolling {
    pub(super) fn new() -> Result<HaltPolling> {
        HaltPolling::at(Path::new(PARAMETER))
    }

    fn at(file: &Path) -> Result<HaltPolling> {
        let before = fs::read_to_string(file).during(|| file.display().to_string())?;
        let file = file.to_owned();
        Ok(HaltPolling { file, before })
    }

    /// Switches it on, with the time that it had if it had any, or off.
    pub(super) fn set(&self, on: bool) -> Result<()> {
        let usual = USUAL_NS.to_string();
        let before = self.before.trim();
        let value = match (on, before) {
            (false, _) => "0",
            (true, "0") => usual.as_str(),
            (true, before) => before,
        };
        fs::write(&self.file, value).during(|| self.file.display().to_string())
    }
}

impl Drop for HaltPolling {
    fn drop(&mut self) {
        let _ = fs::write(&self.file, self.before.trim());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_restored() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let now = || fs::read_to_string(file.path()).unwrap();
        for (before, on) in [("0\n", "200000"), ("50000\n", "50000")] {
            fs::write(file.path(), before).unwrap();
            let polling = HaltPolling::at(file.path()).unwrap();
            polling.set(false).unwrap();
            assert_eq!(now(), "0");
            polling.set(true).unwrap();
            assert_eq!(now(), on);
            drop(polling);
            assert_eq!(now(), before.trim());
        }
        assert!(HaltPolling::at(Path::new("/nowhere")).is_err());
    }
}
