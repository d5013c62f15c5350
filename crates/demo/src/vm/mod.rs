//! A small virtual machine monitor, as a process: virtual CPUs of KVM that play ping-pong by interrupts, wait
//! for a device, or multiply matrices.
//!
//! A player that waits executes HLT, so that its thread blocks in the host's kernel as that of any idle
//! virtual CPU does. Its partner's doorbell interrupts it from within the kernel (an eventfd is the one's
//! port and the other's interrupt line): no thread of the monitor has a part in it. What virtual CPUs have
//! done they count in their memory, which is a file that others may read.

#[cfg(target_arch = "x86_64")]
mod guest;
#[cfg(target_arch = "x86_64")]
mod kvm;
#[cfg(target_arch = "x86_64")]
mod machine;
mod process;

use crate::error::{During, Error, Result};
pub use process::{Vm, check};
use std::fs::File;
use std::path::PathBuf;

/// What the virtual CPUs do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// Pairs compute in turn: so many turns of a loop of two instructions, then it is the partner's turn.
    PingPong {
        /// Turns.
        turns: u32,
    },
    /// Each computes so many turns of that loop, then waits for a device, which is its own timer.
    Device {
        /// Turns.
        turns: u32,
        /// How long the device takes, us; 1 s at most.
        wait_us: u32,
    },
    /// Matrices of 32 rows and columns are multiplied, without end.
    Multiply,
}

impl Duty {
    /// Turns and a device's time, as arguments have them.
    pub fn new(turns: Option<u32>, wait_us: Option<u32>) -> Duty {
        match (turns, wait_us) {
            (None, _) => Duty::Multiply,
            (Some(turns), None) => Duty::PingPong { turns },
            (Some(turns), Some(wait_us)) => Duty::Device { turns, wait_us },
        }
    }
}

/// A virtual machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmPlan {
    /// Virtual CPUs; an even number if they play.
    pub vcpus: u32,
    /// What they do.
    pub duty: Duty,
    /// The file that becomes its memory.
    pub memory: PathBuf,
}

impl VmPlan {
    fn validate(&self) -> Result<()> {
        let plays = matches!(self.duty, Duty::PingPong { .. });
        if !(1..=128).contains(&self.vcpus) || (plays && !self.vcpus.is_multiple_of(2)) {
            return Err(Error::BadPlan(format!(
                "{} virtual CPUs; give 1 to 128, an even number for ping-pong",
                self.vcpus
            )));
        }
        if matches!(self.duty, Duty::Device { wait_us, .. } if !(1..=1_000_000).contains(&wait_us))
        {
            return Err(Error::BadPlan("a device takes 1 us to 1 s".into()));
        }
        Ok(())
    }

    /// Runs it for ever, in this process.
    ///
    /// # Errors
    /// There is no KVM, or a virtual CPU stopped.
    #[cfg(target_arch = "x86_64")]
    pub fn run(&self) -> Result<()> {
        self.validate()?;
        let memory = self.memory_file()?;
        machine::VirtualMachine::new(self, &memory)?.run()
    }

    /// Virtual CPUs are of x86-64.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn run(&self) -> Result<()> {
        self.validate()?;
        self.memory_file()?;
        Err(Error::Unsupported(
            "the virtual machines of the demonstration are of x86-64".into(),
        ))
    }

    fn memory_file(&self) -> Result<File> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        options
            .open(&self.memory)
            .during(|| self.memory.display().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ping_pong_needs_pairs() {
        let valid = |vcpus, duty| {
            let plan = VmPlan {
                vcpus,
                duty,
                memory: "memory".into(),
            };
            plan.validate().is_ok()
        };
        let plays = Duty::PingPong { turns: 1 };
        assert!(valid(2, plays) && !valid(3, plays) && valid(3, Duty::Multiply));
        let device = |wait_us| Duty::Device { turns: 1, wait_us };
        assert!(valid(3, device(2000)) && !valid(3, device(0)) && !valid(3, device(2_000_000)));
        assert!(!valid(0, Duty::Multiply) && !valid(1000, plays));
    }
}
