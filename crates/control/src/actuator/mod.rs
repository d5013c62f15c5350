//! What sets the SMT level.

mod kernel;
mod pinned;
mod sysfs;

use crate::Result;
use crate::cpusets::FoundCpusets;
use serde::{Deserialize, Serialize};
use sidelane_kernel::Error;
use sidelane_kernel::attached::has_only_batch;
use sidelane_model::{Machine, Model, ThreadPerf};
use sidelane_sched::running::Tuning;
use std::path::Path;

pub use sysfs::Sysfs;
pub(crate) use sysfs::{check_harmless, cores_without};

/// What sets the SMT level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActuatorKind {
    /// The level cap of the running Sidelane scheduler: microseconds, and batch may still use idle lanes.
    Scheduler,
    /// The kernel: `smt/control`, or lanes taken offline one by one. Any Linux.
    Sysfs,
    /// Nothing: decisions are logged.
    DryRun,
}

impl ActuatorKind {
    /// The model of the scheduler that places tasks then: Sidelane's scheduler or the kernel's default one.
    pub fn model(self) -> Model {
        match self {
            ActuatorKind::Scheduler => Model::Balanced,
            ActuatorKind::Sysfs | ActuatorKind::DryRun => Model::LastLane,
        }
    }

    /// The machine, as the model sees it: the scheduler's cap leaves SMT on at level 1, too; a dry run tells what the
    /// kernel would be told.
    pub(crate) fn machine(
        self,
        cores: u32,
        thread_perf: ThreadPerf,
    ) -> sidelane_model::Result<Machine> {
        let machine = Machine::new(cores, thread_perf)?;
        Ok(match self {
            ActuatorKind::Scheduler => machine.with_smt_on(),
            ActuatorKind::Sysfs | ActuatorKind::DryRun => machine,
        })
    }
}

/// How things were before anything was changed: what is restored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "actuator")]
pub enum Found {
    /// The scheduler's cap.
    Scheduler {
        /// Lanes of a core.
        level: u32,
    },
    /// The kernel's state.
    Sysfs {
        /// `smt/control`, if the kernel has it.
        control: Option<String>,
        /// Lanes that were online and may be taken offline, by CPU number.
        lanes: Vec<u32>,
    },
    /// Cpusets of cgroups (`sidelane lanes`).
    Cpusets(FoundCpusets),
}

impl Found {
    /// Makes things as they were, on the machine below a root (`/` but in tests).
    ///
    /// # Errors
    /// The kernel refuses, or the scheduler runs and cannot be reached.
    pub fn restore(&self, root: &Path) -> Result<()> {
        match self {
            Found::Scheduler { level } => SchedulerCap::restore(*level),
            Found::Sysfs { control, lanes } => Sysfs::restore(root, control.as_deref(), lanes),
            Found::Cpusets(found) => found.restore(),
        }
    }
}

/// Sets the SMT level.
pub trait Actuator {
    /// How things were at the beginning; none if there is nothing to restore.
    fn found(&self) -> Option<Found>;

    /// The level in force: the most lanes of a core that may run.
    ///
    /// # Errors
    /// It cannot be told.
    fn level(&mut self) -> Result<usize>;

    /// Sets it. Returns what could not be done as it should, for whoever watches.
    ///
    /// # Errors
    /// It cannot be set.
    fn set(&mut self, level: usize) -> Result<Vec<String>>;
}

/// Decides, and changes nothing.
#[derive(Debug)]
pub struct DryRun {
    /// The level in force.
    pub level: usize,
}

impl Actuator for DryRun {
    fn found(&self) -> Option<Found> {
        None
    }

    fn level(&mut self) -> Result<usize> {
        Ok(self.level)
    }

    fn set(&mut self, _level: usize) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}

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
        let tuning = open_tuning()?;
        Ok(SchedulerCap {
            found: tuning.smt_level(),
            tuning,
        })
    }

    /// It may have been stopped and started meanwhile, and after hotplug it was.
    fn tuning(&mut self) -> Result<&Tuning> {
        if !self.tuning.is_current() {
            self.tuning = open_tuning()?;
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
fn open_tuning() -> Result<Tuning> {
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
