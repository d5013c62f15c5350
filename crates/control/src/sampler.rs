//! How busy each lane was since the last look, and the load of the machine that the model is about; and whether
//! `/proc/stat` and sysfs mean the same CPUs.

use crate::files::read_bytes;
use crate::{ActuatorKind, Error, Result, Settings};
use sidelane_collect::proc_stat::{self, LaneTicksByCpu};
use sidelane_model::{Load, Machine, Normalization, Options, load};
use sidelane_sched::stats::Reader;
use sidelane_topology::{CpuList, Topology};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
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

/// How often both are read while CPUs come and go.
const ATTEMPTS: u32 = 5;

/// Refuses numbers that are not the machine's: in a container `/proc/stat` or sysfs may show the container's own (lxcfs
/// mounts such files over the kernel's).
///
/// # Errors
/// They are not, or cannot be read.
pub fn check_numbers(root: &Path) -> Result<()> {
    let mut differs = None;
    for _ in 0..ATTEMPTS {
        let before = Topology::read(root)?.online().clone();
        let counted: CpuList = proc_stat::read(root)?.into_keys().collect();
        let foreign = |why| Error::ForeignNumbers {
            counted: counted.clone(),
            online: before.clone(),
            why,
        };
        if is_mounted_over(root)? {
            return Err(foreign("something is mounted over /proc/stat"));
        }
        if counted == before {
            return Ok(());
        }
        differs = Some(foreign("they differ"));
    }
    differs.map_or(Ok(()), Err)
}

/// Whether something is mounted over `/proc/stat`: the second word of a line of `/proc/mounts`.
fn is_mounted_over(root: &Path) -> Result<bool> {
    let mounts = read_bytes(&root.join("proc/mounts"))?.unwrap_or_default();
    let mut lines = mounts.split(|byte| *byte == b'\n');
    Ok(lines.any(|line| line.split(|byte| *byte == b' ').nth(1) == Some(b"/proc/stat")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn numbers_of_a_container_are_refused() {
        let tree = Tree::new(2, 2);
        let stat = |cpus: &[u32]| {
            let lines = cpus.iter().map(|cpu| format!("cpu{cpu} 1 0 0 1\n"));
            tree.file("proc/stat", &lines.collect::<String>());
        };
        stat(&[0, 1, 2, 3]);
        assert!(check_numbers(tree.root()).is_ok());
        tree.file("proc/mounts", "proc /proc proc rw 0 0\n");
        assert!(check_numbers(tree.root()).is_ok());
        stat(&[0, 1]);
        let error = check_numbers(tree.root()).unwrap_err().to_string();
        assert!(
            error.contains("CPUs 0-1") && error.contains("0-3 online"),
            "{error}"
        );
        stat(&[0, 1, 2, 3]);
        let mounts = "lxcfs /proc/stat fuse.lxcfs rw 0 0\n";
        tree.file("proc/mounts", mounts);
        let error = check_numbers(tree.root()).unwrap_err().to_string();
        assert!(error.contains("mounted over"), "{error}");
    }
}
