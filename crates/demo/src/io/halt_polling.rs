//! Halt polling: for so long the kernel's KVM watches a virtual CPU that halted, before it gives the lane
//! away.

use crate::error::Result;
use crate::sys::KernelSetting;
use std::path::Path;

const PARAMETER: &str = "/sys/module/kvm/parameters/halt_poll_ns";
/// The kernel's default on x86, where it was switched off.
const USUAL_NS: u64 = 200_000;

/// The setting, as it was when this value goes.
pub(super) struct HaltPolling(KernelSetting);

impl HaltPolling {
    pub(super) fn new() -> Result<HaltPolling> {
        HaltPolling::at(Path::new(PARAMETER))
    }

    fn at(file: &Path) -> Result<HaltPolling> {
        KernelSetting::at(file).map(HaltPolling)
    }

    /// Switches it on, with the time that it had if it had any, or off.
    pub(super) fn set(&self, on: bool) -> Result<()> {
        let usual = USUAL_NS.to_string();
        self.0.set(match (on, self.0.before()) {
            (false, _) => "0",
            (true, "0") => &usual,
            (true, before) => before,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
