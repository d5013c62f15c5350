//! The running scheduler's level cap.

use super::{Actuator, Found};
use crate::Result;
use sidelane_kernel::Error;
use sidelane_kernel::attached::has_only_batch;
use sidelane_sched::running::Tuning;

/// Sets the cap of the running Sidelane scheduler.
#[derive(Debug)]
pub struct SchedulerCap {
    found: u32,
    tuning: Tuning,
}

impl SchedulerCap {
    /// Finds it.
    ///
    /// # Errors
    /// None runs, it cannot be reached, or it has batch alone.
    pub fn open() -> Result<SchedulerCap> {
        let tuning = open()?;
        Ok(SchedulerCap {
            found: tuning.smt_level(),
            tuning,
        })
    }

    /// It may have been stopped and started meanwhile, and after hotplug it was.
    fn tuning(&mut self) -> Result<&Tuning> {
        if !self.tuning.is_current() {
            self.tuning = open()?;
        }
        Ok(&self.tuning)
    }

    /// Sets the cap to what it was. Nothing to do if the scheduler has gone.
    ///
    /// # Errors
    /// It runs and cannot be reached.
    pub fn restore(level: u32) -> Result<()> {
        match Tuning::open() {
            Ok(tuning) => {
                tuning.set_smt_level(level);
                Ok(())
            }
            Err(Error::NotRunning) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The settings of a scheduler that has a cap.
fn open() -> Result<Tuning> {
    let tuning = Tuning::open()?;
    match has_only_batch() {
        true => Err(Error::OnlyBatch("the SMT level").into()),
        false => Ok(tuning),
    }
}

impl Actuator for SchedulerCap {
    fn found(&self) -> Option<Found> {
        Some(Found::Scheduler { level: self.found })
    }

    fn level(&mut self) -> Result<usize> {
        Ok(self.tuning()?.smt_level() as usize)
    }

    fn set(&mut self, level: usize) -> Result<Vec<String>> {
        self.tuning()?
            .set_smt_level(u32::try_from(level).unwrap_or(u32::MAX));
        Ok(Vec::new())
    }
}
