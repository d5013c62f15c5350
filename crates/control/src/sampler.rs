//! How busy each lane was since the last look, and the load of the machine that the model is about.

use crate::{ActuatorKind, Result, Settings};
use sidelane_collect::proc_stat::{self, LaneTicksByCpu};
use sidelane_model::{Load, Machine, Normalization, Options, load};
use sidelane_sched::stats::Reader;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

/// Where it comes from.
#[derive(Debug)]
pub enum Sampler {
    /// `/proc/stat`.
    Kernel {
        root: PathBuf,
        ignore_nice: bool,
        before: LaneTicksByCpu,
    },
    /// The scheduler's counters, which tell batch from the rest: the level does not cap batch.
    Scheduler { before: Vec<u64>, at: Instant },
}

impl Sampler {
    /// Looks for the first time.
    pub fn new(settings: &Settings) -> Result<Sampler> {
        Ok(match settings.actuator {
            ActuatorKind::Scheduler => Sampler::Scheduler {
                before: Reader::open()?.foreground_ns()?,
                at: Instant::now(),
            },
            ActuatorKind::Sysfs | ActuatorKind::DryRun => Sampler::Kernel {
                root: settings.root.clone(),
                ignore_nice: settings.ignore_nice,
                before: proc_stat::read(&settings.root)?,
            },
        })
    }

    /// Shares of the time since the last look, 0 to 1, by CPU number; CPUs that came or went are not
    /// there.
    pub fn sample(&mut self) -> Result<BTreeMap<u32, f64>> {
        match self {
            Sampler::Kernel {
                root,
                ignore_nice,
                before,
            } => {
                let now = proc_stat::read(root)?;
                let share = |(cpu, ticks): (&u32, &proc_stat::LaneTicks)| {
                    Some((*cpu, ticks.busy_share(before.get(cpu)?, *ignore_nice)?))
                };
                let shares = now.iter().filter_map(share).collect();
                *before = now;
                Ok(shares)
            }
            Sampler::Scheduler { before, at } => {
                // opened anew: it may have been loaded again
                let now = Reader::open()?.foreground_ns()?;
                let elapsed_ns = at.elapsed().as_nanos() as f64;
                *at = Instant::now();
                let since = now.iter().zip(before.iter());
                // counters that fell are those of another scheduler
                let shares = since.map(|(now, before)| now.checked_sub(*before));
                let shares: Option<Vec<u64>> = shares.collect();
                *before = now;
                let share = |(ns, cpu): (u64, u32)| (cpu, (ns as f64 / elapsed_ns).min(1.0));
                Ok(shares
                    .unwrap_or_default()
                    .into_iter()
                    .zip(0..)
                    .map(share)
                    .collect())
            }
        }
    }
}

/// The load of a machine.
///
/// `cores`: the lanes of each core. `busy`: the share of time that a CPU was busy; CPUs of which
/// nothing is known are not there. `level`: how many lanes of each core may run. None if nothing is
/// known of any core.
///
/// # Errors
/// More lanes than the machine has.
pub fn normalized(
    machine: &Machine,
    cores: &[Vec<u32>],
    busy: &BTreeMap<u32, f64>,
    level: usize,
    (normalization, options): (Normalization, Options),
) -> Result<Option<Load>> {
    let known = |core: &Vec<u32>| -> Vec<f64> {
        let shares = core.iter().map(|cpu| busy.get(cpu).copied());
        shares.flatten().collect()
    };
    let cores: Vec<Vec<f64>> = cores.iter().map(known).collect();
    Ok(load(machine, &cores, level, normalization, options)?)
}
