//! The running scheduler's level cap.

use super::{Actuator, Found};
use crate::Result;
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
    /// None runs, or it cannot be reached.
    pub fn open() -> Result<SchedulerCap> {
        let tuning = Tuning::open()?;
        Ok(SchedulerCap {
            found: tuning.smt_level(),
            tuning,
        })
    }

    /// It may have been stopped and started meanwhile, and after hotplug it was.
    fn tuning(&mut self) -> Result<&Tuning> {
        if !self.tuning.is_current() {
            self.tuning = Tuning::open()?;
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
            Err(sidelane_kernel::Error::NotRunning) => Ok(()),
            Err(error) => Err(error.into()),
        }
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
