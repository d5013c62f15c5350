//! A virtual machine as a child process.

use super::{Duty, VmPlan};
use crate::error::{During, Error, Result};
use crate::sys::Guarded;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Where the guest's memory has the count of the first virtual CPU, and how far apart the others are.
const COUNTS: u64 = 0x1_0008;
const COUNT_STRIDE: u64 = 0x8000;
/// How long the first work may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running virtual machine; killed when this value goes.
pub struct Vm {
    process: Guarded,
    memory: PathBuf,
    /// The virtual CPUs whose counts are asked for.
    counted: Vec<u32>,
}

impl Vm {
    /// Starts one (the program at `sidelane`), and waits until it has done something.
    ///
    /// # Errors
    /// It did not begin.
    pub fn start(sidelane: &Path, plan: &VmPlan) -> Result<Vm> {
        plan.validate()?;
        let mut command = Command::new(sidelane);
        command
            .args(["demo", "serve-vm", "--vcpus", &plan.vcpus.to_string()])
            .arg(&plan.memory)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        // a round trip is one of the first of the pair
        let step = match plan.duty {
            Duty::PingPong { turns } => {
                command.args(["--turns", &turns.to_string()]);
                2
            }
            Duty::Device { turns, wait_us } => {
                command.args(["--turns", &turns.to_string()]);
                command.args(["--wait-us", &wait_us.to_string()]);
                1
            }
            Duty::Multiply => 1,
        };
        let mut vm = Vm {
            process: Guarded::spawn(&mut command, "a virtual machine")?,
            memory: plan.memory.clone(),
            counted: (0..plan.vcpus).step_by(step).collect(),
        };
        vm.await_work()?;
        Ok(vm)
    }

    /// The process, and its first virtual CPU.
    pub fn process(&self) -> &Guarded {
        &self.process
    }

    /// Round trips, answers of the device, or multiplications, of all virtual CPUs since it began.
    ///
    /// # Errors
    /// Its memory cannot be read.
    pub fn work_done(&self) -> Result<u64> {
        let during = || self.memory.display().to_string();
        let memory = File::open(&self.memory).during(during)?;
        let count = |id: &u32| {
            let mut bytes = [0; 8];
            memory.read_exact_at(&mut bytes, COUNTS + u64::from(*id) * COUNT_STRIDE)?;
            Ok(u64::from_le_bytes(bytes))
        };
        let counts: std::io::Result<Vec<u64>> = self.counted.iter().map(count).collect();
        Ok(counts.during(during)?.iter().sum())
    }

    fn await_work(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if self.process.ended_within(Duration::from_millis(20))? {
                return Err(failed("ended instead of running; it said why above"));
            }
            // not there before the memory is
            if self.work_done().is_ok_and(|done| done > 0) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(failed("did nothing for half a minute"));
            }
        }
    }
}

fn failed(reason: &str) -> Error {
    Error::Process {
        who: "a virtual machine",
        reason: reason.into(),
    }
}

/// Refuses machines without KVM.
///
/// # Errors
/// What is missing, and the remedy.
pub fn check() -> Result<()> {
    match Path::new("/dev/kvm").exists() {
        true => Ok(()),
        false => Err(Error::Unsupported(
            "/dev/kvm is missing: load the module kvm_amd or kvm_intel; in a virtual machine, nested \
             virtualization has to be allowed"
                .into(),
        )),
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::super::guest;
    use super::*;

    #[test]
    fn counts_are_where_the_guest_keeps_them() {
        assert_eq!(COUNTS, guest::PAGES + guest::COUNT);
        assert_eq!(COUNT_STRIDE, guest::PAGE_BYTES);
    }
}
